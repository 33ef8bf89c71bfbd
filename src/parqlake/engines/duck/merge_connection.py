"""DuckDB for one merge: an instance of its own, with a limit on memory and a folder for what does not fit."""

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

from parqlake.core.errors import MissingExtraError, UnsupportedTypeError
from parqlake.core.names import check_column_names
from parqlake.core.ports import Store
from parqlake.engines.duck.merge_sql import POSITION, file_column

_MEGABYTE = 1024 * 1024
_LEAST_MEMORY = 64 * _MEGABYTE


@contextmanager
def merge_connection(store: Store, *, memory_bytes: int, threads: int | None, folder: str | None) -> Iterator[Any]:
    """A connection that can read the store's files; closed, and its temporary files deleted, at the end."""
    if find_spec("duckdb") is None:
        raise MissingExtraError("duckdb", "duckdb")
    import duckdb

    place = Path(folder or tempfile.gettempdir()) / f"parqlake-duckdb-{uuid_utils.uuid7()}"
    connection = duckdb.connect(
        config={
            "threads": threads or os.cpu_count() or 1,
            "memory_limit": f"{max(memory_bytes, _LEAST_MEMORY) // _MEGABYTE}MiB",
            "temp_directory": str(place),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    try:
        if not store.is_local:
            connection.register_filesystem(store.filesystem)
        connection.execute("SET TimeZone = 'UTC'")
        # The files are always probed and the source's rows hashed: so rows stay in order, and memory bounded.
        # And what statistics say is not believed: Parquet leaves NaN out of them.
        connection.execute("SET disabled_optimizers = 'build_side_probe_side,statistics_propagation'")
        yield connection
    finally:
        connection.close()


def check_types(schema: pa.Schema) -> None:
    """Raises `UnsupportedTypeError`, naming the column, for what DuckDB cannot hold."""
    check_column_names(schema.names)
    for field in schema:
        if field.name.casefold() in (POSITION, file_column()):
            raise UnsupportedTypeError(f'column "{field.name}": the merge keeps this name for itself; rename it')
        found = _unsupported(field.type)
        if found is not None:
            raise UnsupportedTypeError(
                f'column "{field.name}": DuckDB cannot hold {found}; merge with engine="pyarrow", or cast the column'
            )


def _unsupported(type_: pa.DataType) -> pa.DataType | None:
    t = pa.types
    if t.is_float16(type_) or t.is_decimal256(type_) or t.is_duration(type_) or t.is_null(type_) or t.is_union(type_):
        return type_
    for index in range(type_.num_fields):
        found = _unsupported(type_.field(index).type)
        if found is not None:
            return found
    return None
