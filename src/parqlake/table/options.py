"""How a write makes its files: the call's options, over the table's properties, over the defaults."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypedDict

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.evolution.write_modes import SchemaMode, schema_mode
from parqlake.core.model import TableInfo
from parqlake.core.ports import FileVisitor, WriteSpec
from parqlake.table.progress import ProgressChoice

CODECS = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
DEFAULT_TARGET_MB = 128.0
DEFAULT_ROW_GROUP_ROWS = 1024 * 1024
TABLE_ID_KEY = "parqlake.table_id"
TRANSACTION_KEY = "parqlake.transaction_id"
OPERATION_KEY = "parqlake.operation"
TABLE_NAME_KEY = "parqlake.table"
LAYOUT_KEY = "parqlake.layout"
SCHEMA_KEY = "parqlake.schema"
IMPORTED_FROM = "imported_from"
"""A property: where files of the table were that others wrote."""
_MIB = 1024 * 1024


class WriteOptions(TypedDict, total=False):
    """How the files of one write are made; what is left out comes from the table's properties.

    `schema_mode` says what happens to data whose columns are not the table's: `"strict"` refuses them, `"merge"` adds
    new columns and fills missing ones, `"promote"` also widens columns, and makes text of what nothing else holds.
    `progress` is called with a `Progress` as the work goes on.
    """

    target_mb_per_file: float | None
    max_rows_per_file: int | None
    row_group_size: int | None
    compression: str | None
    file_visitor: FileVisitor | None
    schema_mode: str | None
    progress: ProgressChoice


def write_spec(
    info: TableInfo, schema: pa.Schema, options: WriteOptions, *, txn_id: str = "", evolves: bool = False
) -> WriteSpec:
    """Makes the spec of one write, and raises for values that make no sense.

    `evolves` is for those who follow `schema_mode`; for others only `"strict"` makes sense.
    """
    own = info.properties
    unknown = set(options) - set(WriteOptions.__annotations__)
    if unknown:
        name = sorted(unknown)[0]
        known = ", ".join(WriteOptions.__annotations__)
        raise InvalidOptionError(
            f'no option "{name}";{suggestion(name, WriteOptions.__annotations__)} options: {known}'
        )
    mode = schema_mode(options.get("schema_mode"))
    if mode is not SchemaMode.STRICT and not evolves:
        raise InvalidOptionError(
            f'schema_mode="{mode}" is for append, overwrite and lake.write; here the columns must be those of the '
            "table: change them first, for instance with add_column"
        )
    target = _number("target_mb_per_file", options.get("target_mb_per_file"), own, DEFAULT_TARGET_MB)
    max_rows = _whole("max_rows_per_file", options.get("max_rows_per_file"), own, None)
    row_group_rows = _whole("row_group_size", options.get("row_group_size"), own, DEFAULT_ROW_GROUP_ROWS)
    codec = options.get("compression")
    if codec is None:
        codec = own.get("compression", "zstd")
    if not isinstance(codec, str) or codec.lower() not in CODECS:
        raise InvalidOptionError(f"compression={codec!r} is unknown; use one of {', '.join(CODECS)}")
    assert row_group_rows is not None
    return WriteSpec(
        location=info.location,
        schema=schema,
        partition_by=info.partition_by,
        sort_by=info.sort_by,
        target_file_bytes=max(1, int(target * _MIB)),
        max_rows_per_file=max_rows,
        row_group_rows=row_group_rows if max_rows is None else min(row_group_rows, max_rows),
        compression=codec.lower(),
        footer=_footer(info, schema, txn_id),
        file_visitor=options.get("file_visitor"),
    )


def _footer(info: TableInfo, schema: pa.Schema, txn_id: str) -> dict[str, str]:
    """What each file says of itself, so that a lost catalog can be made again from the files."""
    layout: dict[str, Any] = {"partition_by": info.partition_by, "sort_by": info.sort_by}
    if IMPORTED_FROM in info.properties:  # whose files say nothing: the table cannot be made of its own alone
        layout["imported"] = True
    return {
        TABLE_ID_KEY: info.uuid,
        TABLE_NAME_KEY: str(info.name),
        TRANSACTION_KEY: txn_id,
        LAYOUT_KEY: json.dumps(layout, separators=(",", ":")),
        SCHEMA_KEY: _packed(schema.serialize().to_pybytes()),
    }


@lru_cache(maxsize=64)
def _packed(schema: bytes) -> str:
    """As text, and short: each file carries it."""
    return base64.b64encode(zlib.compress(schema)).decode()


def check_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Returns the properties as text, and raises for known ones with values that make no sense."""
    if not isinstance(properties, Mapping):
        raise InvalidOptionError(
            f"properties={properties!r} is no mapping; give for instance {{'compression': 'zstd'}}"
        )
    wrong = [key for key in properties if not isinstance(key, str) or not key or len(key) > 255]
    if wrong:
        raise InvalidOptionError(f"property name {wrong[0]!r} cannot be used; use a short string")
    text = {key: str(value) for key, value in properties.items()}
    _number("target_mb_per_file", None, text, DEFAULT_TARGET_MB)
    _whole("max_rows_per_file", None, text, None)
    _whole("row_group_size", None, text, None)
    if text.get("compression", "zstd").lower() not in CODECS:
        raise InvalidOptionError(f"compression={text['compression']!r} is unknown; use one of {', '.join(CODECS)}")
    from parqlake.table.policy import check_policy

    check_policy(text)
    return text


def _number(name: str, given: Any, properties: Mapping[str, str], default: float) -> float:
    value = given if given is not None else properties.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not 0 < number < float("inf"):
        raise InvalidOptionError(f"{name}={value!r} must be > 0")
    return number


def _whole(name: str, given: Any, properties: Mapping[str, str], default: int | None) -> int | None:
    value = given if given is not None else properties.get(name, default)
    if value is None:
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if isinstance(value, bool) or number <= 0 or (isinstance(value, float) and value != number):
        raise InvalidOptionError(f"{name}={value!r} must be > 0 and a whole number")
    return number
