"""Row-group statistics out of a Parquet writer's own metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.footers import pack_footer
from parqlake.core.keys import Round, has_bytes_keys, is_prunable, raw_key, scaled_integer
from parqlake.core.model import ColumnStatistics, DataFile, IntArray
from parqlake.core.pages import MAX_BYTES, MAX_KEY, Key, unknown_statistics
from parqlake.core.schema import leaves

NanFlags = Collection[tuple[int, int]]
"""Pairs of (row group, leaf index) in which a NaN was seen; Parquet leaves NaN out of min and max."""


def describe_file(
    path: str,
    size_bytes: int,
    metadata: Any,
    schema: pa.Schema,
    *,
    partition: Mapping[str, Any],
    nans: NanFlags | None = frozenset(),
    types: Sequence[pa.DataType] | None = None,
    keep_footer: bool = False,
) -> DataFile:
    """Makes the catalog's record of a file from its Parquet metadata, without reading the file.

    Args:
        path: where the file lies, relative to the table's location.
        size_bytes: its size.
        metadata: a `pyarrow.parquet.FileMetaData`.
        schema: the schema with field ids; its leaves are the file's columns, in order.
        partition: the partition values, as text.
        nans: where NaNs are; None if nobody looked, which makes upper bounds of floats unknown.
        types: of the leaves as the file has them, if its own schema spells them in a way that hides the values.
        keep_footer: whether the record has the metadata itself, for files on a store that is not local.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    file_types = [leaf.type for leaf in leaves(metadata.schema.to_arrow_schema())] if types is None else types
    layout = row_group_layout(metadata)
    return DataFile(
        path=path,
        size_bytes=size_bytes,
        row_count=metadata.num_rows,
        row_group_rows=layout[0],
        row_group_bytes=layout[1],
        row_group_offsets=layout[2],
        partition=dict(partition),
        statistics=tuple(
            _column(groups, index, leaf.field_id, file_types[index], nans) for index, leaf in enumerate(leaves(schema))
        ),
        footer=pack_footer(metadata) if keep_footer else None,
    )


def row_group_layout(metadata: Any) -> tuple[IntArray, IntArray, IntArray]:
    """Rows, compressed bytes and offset of each row group."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows = np.array([group.num_rows for group in groups], dtype=np.int64)
    sizes = np.array([_compressed_size(group) for group in groups], dtype=np.int64)
    return rows, sizes, np.array([_offset(group) for group in groups], dtype=np.int64)


def _column(
    groups: list[Any], index: int, column_id: int, type_: pa.DataType, nans: NanFlags | None
) -> ColumnStatistics:
    as_bytes = has_bytes_keys(type_)
    result = unknown_statistics(column_id, len(groups), as_bytes=as_bytes)
    mins: Any = result.mins
    maxs: Any = result.maxs
    known = is_prunable(type_) and not pa.types.is_float16(type_)  # whose bounds come as bytes
    floating = pa.types.is_floating(type_)
    for number, group in enumerate(groups):
        statistics = group.column(index).statistics
        if statistics is None:
            continue
        if statistics.has_null_count:
            result.nulls[number] = statistics.null_count
        low: Key | None = None
        high: Key | None = None
        if known and statistics.has_min_max:
            low, high = _bound(statistics, "min", type_, Round.DOWN), _bound(statistics, "max", type_, Round.UP)
        elif known and statistics.has_null_count and statistics.null_count == group.column(index).num_values:
            low, high = (MAX_BYTES, b"") if as_bytes else (MAX_KEY, 0)
        if low is None or high is None:
            continue
        if floating and (nans is None or (number, index) in nans):
            high = MAX_KEY
        mins[number] = low
        maxs[number] = high
    return result


def _bound(statistics: Any, end: str, type_: pa.DataType, round_: Round) -> Key:
    if pa.types.is_decimal(type_):
        return raw_key(scaled_integer(getattr(statistics, end), type_.scale), type_, round_)
    raw = getattr(statistics, f"{end}_raw")
    return raw_key(raw.encode() if isinstance(raw, str) else raw, type_, round_)


def _compressed_size(group: Any) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


def _offset(group: Any) -> int:
    if not group.num_columns:
        return 0
    first = group.column(0)
    dictionary = first.dictionary_page_offset
    return int(first.data_page_offset if dictionary is None else min(dictionary, first.data_page_offset))
