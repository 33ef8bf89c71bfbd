"""Descriptions of the files that DuckDB wrote, from what it returns and from their footers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.errors import StoreError
from parqlake.core.model import DataFile
from parqlake.core.os_errors import store_error
from parqlake.core.partitioning import partition_text
from parqlake.core.ports import Store, WriteSpec, WrittenFile
from parqlake.core.schema import leaves
from parqlake.core.statistics import describe_file
from parqlake.engines.duck.copy_statement import identifier

_TAIL_BYTES = 8
"""After the footer: its length, and the magic bytes."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A row that `COPY … RETURN_STATS` gives back."""

    filename: str
    row_count: int
    size_bytes: int
    footer_bytes: int
    column_statistics: Mapping[str, Mapping[str, str]]
    partition_keys: Mapping[str, str | None] | None


def describe(copied: CopiedFile, spec: WriteSpec, store: Store) -> tuple[WrittenFile, DataFile]:
    """Describes one file, whose name is relative to the location; reads its footer and nothing else of it."""
    path = copied.filename
    metadata = _read_footer(copied, f"{spec.location}/{path}", store)
    partition = {name: _partition_value(name, copied, metadata, spec.schema) for name in spec.partition_by}
    nans = _nan_flags(copied, metadata, spec.schema)
    far = not store.is_local
    file = describe_file(
        path, copied.size_bytes, metadata, spec.schema, partition=partition, nans=nans, keep_footer=far
    )
    return WrittenFile(path, metadata, copied.size_bytes), file


def _read_footer(copied: CopiedFile, stored_path: str, store: Store) -> Any:
    length = copied.footer_bytes + _TAIL_BYTES
    try:
        with store.arrow_filesystem().open_input_file(store.full_path(stored_path)) as file:
            tail = file.read_at(length, copied.size_bytes - length)
    except OSError as error:
        raise store_error(error, "read the footer of", stored_path, writing=False) from error
    if len(tail) != length:
        raise StoreError(f'"{stored_path}" is shorter than DuckDB wrote it; check the store, then run it again')
    return pq.read_metadata(pa.BufferReader(tail))


def _nan_flags(copied: CopiedFile, metadata: Any, schema: pa.Schema) -> set[tuple[int, int]]:
    """DuckDB tells of NaNs by file, so all row groups of the file count as having them."""
    flagged = set()
    for index, leaf in enumerate(leaves(schema)):
        if pa.types.is_floating(leaf.type):
            name = ".".join(identifier(part) for part in leaf.path)
            if copied.column_statistics.get(name, {}).get("has_nan") != "false":
                flagged.add(index)
    return {(group, index) for group in range(metadata.num_row_groups) for index in flagged}


def _partition_value(name: str, copied: CopiedFile, metadata: Any, schema: pa.Schema) -> str | None:
    """The value as text: for strings as DuckDB returns it, else from the footer, where it is min and max."""
    type_ = schema.field(name).type
    text = (copied.partition_keys or {}).get(name)
    if text is None or pa.types.is_string(type_):
        return text
    index = next(index for index, leaf in enumerate(leaves(schema)) if leaf.path == (name,))
    statistics = metadata.row_group(0).column(index).statistics
    return partition_text(_scalar(statistics, type_))


def _scalar(statistics: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(type_) or pa.types.is_boolean(type_):
        return pa.scalar(statistics.min, type_)
    raw = int(statistics.min_raw)
    if pa.types.is_integer(type_):
        return pa.scalar(raw % 2**type_.bit_width if pa.types.is_unsigned_integer(type_) else raw, type_)
    storage = pa.int32() if type_.bit_width == 32 else pa.int64()
    return pa.scalar(raw, storage).cast(type_)
