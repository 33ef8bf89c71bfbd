"""Rows by partition: a batch taken apart without looking at single rows in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.partitioning import partition_text

PartitionKey = tuple[str | None, ...]
"""The text of each partition column's value, None for NULL."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one partition that came together."""

    key: PartitionKey
    batches: list[pa.RecordBatch]


def group_rows(table: pa.Table, partition_by: Sequence[str]) -> Iterator[Group]:
    """Takes a table apart by partition; rows keep their order within each.

    Rows that already lie together are sliced and not copied. The group that holds the table's last row
    comes last.
    """
    codes, keys = _codes(table, partition_by)
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    run_codes = codes[starts]
    if len(starts) == len(keys):
        ends = np.append(starts[1:], len(codes))
        for start, end, code in zip(starts.tolist(), ends.tolist(), run_codes.tolist(), strict=True):
            yield Group(keys[code], table.slice(start, end - start).to_batches())
        return
    # Codes that fit 16 bits are sorted in linear time.
    small = codes.astype(np.uint16) if len(keys) <= 2**16 else codes
    order = np.argsort(small, kind="stable")
    (batch,) = table.combine_chunks().take(pa.array(order)).to_batches()
    ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
    last = int(codes[-1])
    for code in [*(code for code in range(len(keys)) if code != last), last]:
        start = int(ends[code - 1]) if code else 0
        yield Group(keys[code], [batch.slice(start, int(ends[code]) - start)])


def _codes(table: pa.Table, columns: Sequence[str]) -> tuple[npt.NDArray[np.int64], list[PartitionKey]]:
    """A number for each row, and the key for each number, counted from 0 in order of appearance."""
    codes, texts = _column_codes(table.column(columns[0]))
    keys: list[PartitionKey] = [(text,) for text in texts]
    for name in columns[1:]:
        more, texts = _column_codes(table.column(name))
        pairs, codes = _renumbered(codes * len(texts) + more)
        keys = [(*keys[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs]
    return codes, keys


def _column_codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    array: Any = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    texts = [partition_text(scalar) for scalar in array.dictionary]
    return array.indices.to_numpy(zero_copy_only=False).astype(np.int64), texts


def _renumbered(values: npt.NDArray[np.int64]) -> tuple[list[int], npt.NDArray[np.int64]]:
    encoded = pc.dictionary_encode(pa.array(values))
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
