"""Making a table: what is checked before, and how it comes to be, at once or with the commit of a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import InvalidOptionError
from parqlake.core.evolution.constraints import checked_schema
from parqlake.core.model import Head, TableInfo
from parqlake.core.names import TableName
from parqlake.core.ports import CatalogWriter
from parqlake.core.schema import assign_field_ids, canonical_schema, check_partition_columns, check_sort_columns
from parqlake.table.clustering import CLUSTER_BY, check_cluster_columns
from parqlake.table.context import LakeContext, now
from parqlake.table.options import check_properties
from parqlake.table.sources import schema_of

_UNSEEN_FOR = timedelta(days=1)
"""How long a table that waits for its transaction is safe from vacuum; one that nobody published goes then."""


@dataclass(frozen=True, slots=True)
class Creation:
    """A table that can be made as it is described."""

    name: TableName
    uuid: str
    schema: pa.Schema
    """With field ids."""
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    properties: Mapping[str, str]

    def make(self, writer: CatalogWriter) -> TableInfo:
        """Adds the table under its name, empty; `TableExistsError` if the name is taken."""
        return self._made(writer, self.name)

    def make_unseen(self, writer: CatalogWriter) -> TableInfo:
        """Adds the table without a name, for a commit to give it one; until then nobody finds it.

        It is to the catalog what a dropped table is: a transaction that is never committed leaves nothing that anybody
        sees, and vacuum deletes it in time.
        """
        info = self._made(writer, replace(self.name, name=f"{self.name.name[:100]}-{self.uuid[-12:]}"))
        writer.drop_table(info.table_id, now() + _UNSEEN_FOR)
        return replace(info, name=self.name)

    def _made(self, writer: CatalogWriter, name: TableName) -> TableInfo:
        return writer.create_table(
            uuid=self.uuid,
            name=name,
            location=f"{self.name.namespace}/{self.name.name}-{self.uuid[-12:]}",
            schema=self.schema,
            partition_by=self.partition_by,
            sort_by=self.sort_by,
            properties=self.properties,
            created_at=now(),
        )


def described(
    context: LakeContext,
    name: TableName,
    schema: Any,
    *,
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    properties: Mapping[str, Any] | None = None,
    checks: Mapping[str, str] | None = None,
) -> Creation:
    """Checks what a new table is to be like; raises `InputError` for what cannot be. See `Lake.create_table`."""
    own = context.frame_engine(schema)
    canonical = canonical_schema(schema_of(schema) if own is None else own.frame_schema(schema))
    partitions = _names("partition_by", partition_by)
    sorting = _names("sort_by", sort_by)
    check_partition_columns(partitions, canonical)
    check_sort_columns(sorting, canonical)
    checked = check_properties(properties or {})
    if cluster_by is not None:
        clustering = check_cluster_columns(list(_names("cluster_by", cluster_by)), canonical, partitions)
        checked[CLUSTER_BY] = json.dumps(clustering)
    context.default_engine.check_schema(canonical)
    numbered = checked_schema(assign_field_ids(canonical), checks or {})
    return Creation(name, uuid_utils.uuid7().hex, numbered, partitions, sorting, checked)


def first_head(table_id: int) -> Head:
    """The head of a table that was just made."""
    return Head(table_id, version=0, schema_id=1, next_file=1, next_segment=1)


def _names(option: str, value: Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise InvalidOptionError(f"{option}={value!r} must be a list of column names")
    return names
