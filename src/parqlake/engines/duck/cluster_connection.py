"""DuckDB for one sort: an instance of its own, with a limit on memory and a folder for what does not fit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import MissingExtraError

_MEGABYTE = 1024 * 1024
_LEAST_MEMORY = 32 * _MEGABYTE
_THREAD_BYTES = 128 * _MEGABYTE
"""What DuckDB wants for each thread; with less it runs out of memory rather than to disk."""


@contextmanager
def sort_connection(memory_bytes: int) -> Iterator[Any]:
    """A connection without a database; closed, and its temporary files deleted, at the end."""
    if find_spec("duckdb") is None:
        raise MissingExtraError("duckdb", "duckdb")
    import duckdb

    limit = max(memory_bytes, _LEAST_MEMORY)
    connection = duckdb.connect(
        config={
            "threads": max(1, min(os.cpu_count() or 1, limit // _THREAD_BYTES)),
            "memory_limit": f"{limit // _MEGABYTE}MiB",
            "preserve_insertion_order": "false",
            "temp_directory": str(Path(tempfile.gettempdir()) / f"parqlake-duckdb-{uuid_utils.uuid7()}"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


def carrier_type(type_: pa.DataType) -> pa.DataType | None:
    """The type that a column has inside DuckDB, with the same bits; None if DuckDB cannot hold its values exactly.

    Moments with a zone travel without it: DuckDB would count all of them in microseconds.
    """
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit)
    return type_ if is_exact(type_) else None


def is_exact(type_: pa.DataType) -> bool:
    """Whether values of the type come back from DuckDB as they went in."""
    t = pa.types
    if t.is_struct(type_):
        names = [child.name.casefold() for child in type_]  # DuckDB tells no upper from lower case
        return bool(names) and len(set(names)) == len(names) and all(map(is_exact, (child.type for child in type_)))
    if t.is_map(type_):
        return is_exact(type_.key_type) and is_exact(type_.item_type)
    if t.is_list(type_) or t.is_large_list(type_):
        return is_exact(type_.value_type)
    return bool(
        t.is_integer(type_)
        or t.is_float32(type_)
        or t.is_float64(type_)
        or t.is_boolean(type_)
        or t.is_decimal128(type_)
        or t.is_date32(type_)
        or (t.is_timestamp(type_) and type_.tz is None)
        or (t.is_time64(type_) and type_.unit == "us")
        or t.is_string(type_)
        or t.is_large_string(type_)
        or t.is_binary(type_)
        or t.is_large_binary(type_)
    )
