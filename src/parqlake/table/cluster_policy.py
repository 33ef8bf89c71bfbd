"""The columns that a table is clustered by: a property, which follows its columns when the schema changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import Head, TableInfo
from parqlake.core.ports import CatalogWriter
from parqlake.core.schema import field_id

CLUSTER_BY = "cluster_by"
"""The property that holds a table's clustering columns, as a JSON list."""


def cluster_by(info: TableInfo) -> list[str]:
    """The table's own clustering columns; none if it has no such property.

    Raises:
        InvalidOptionError: the property is no list of columns.
    """
    names = _names(info.properties)
    if names is None:
        raise InvalidOptionError(
            f"the property {CLUSTER_BY}={info.properties[CLUSTER_BY]!r} of {info.name} is no JSON list of columns; set "
            "it to one, for instance '[\"id\"]'"
        )
    return names


def known_cluster_by(info: TableInfo) -> tuple[str, ...]:
    """The same, and none if the property is no list of columns."""
    return tuple(_names(info.properties) or ())


def follow_schema(writer: CatalogWriter, before: Head, schema: pa.Schema) -> None:
    """Lets the property name the same columns under a new schema, in the transaction that commits it.

    A column that the new schema does not have, after a restore for instance, is left out; without any, the property
    is taken away.
    """
    info = writer.table_by_id(before.table_id)
    names = None if info is None else _names(info.properties)
    if info is None or not names:
        return
    kept = _followed(names, writer.schema(before.table_id, before.schema_id), schema)
    if kept == names:
        return
    properties = {key: value for key, value in info.properties.items() if key != CLUSTER_BY}
    writer.set_properties(before.table_id, properties | ({CLUSTER_BY: json.dumps(kept)} if kept else {}))


def _names(properties: Mapping[str, str]) -> list[str] | None:
    """The columns; None if the property is there and is no list of them."""
    if CLUSTER_BY not in properties:
        return []
    try:
        names = json.loads(properties[CLUSTER_BY])
    except ValueError:
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _followed(names: Sequence[str], before: pa.Schema, after: pa.Schema) -> list[str]:
    """What the columns are called now: by their ids, or by their names if an id is new, as after a widening."""
    ids = {field.name: field_id(field) for field in before}
    called = {field_id(field): field.name for field in after}
    found = [called.get(ids.get(name, 0), name) for name in names]
    return list(dict.fromkeys(name for name in found if name in after.names))
