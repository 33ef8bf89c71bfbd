"""Which columns can be clustered by, and a sample of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.clustering.order_keys import check_orderable
from parqlake.core.errors import InvalidOptionError, column_not_found

SAMPLE_ROWS = 50_000
_TEXT_LENGTH = 64
"""Ranks look no further into a text."""
_SAMPLE_SHARE = 32


class Sampled(Protocol):
    """Rows of which some can be looked at, by their numbers."""

    working: pa.Schema
    rows: int

    def rows_at(self, positions: npt.NDArray[np.int64], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows at these places, ascending."""


def check_columns(columns: Sequence[str], schema: pa.Schema) -> None:
    """Raises for columns that are missing, given twice, or have no order."""
    if not columns:
        raise InvalidOptionError("no columns to cluster by; give at least one")
    for name in columns:
        if name not in schema.names:
            raise column_not_found(name, schema.names)
        check_orderable(name, schema.field(name).type)
    if len(set(columns)) != len(columns):
        raise InvalidOptionError(f"columns to cluster by are given twice: {', '.join(columns)}; give each once")


def draw_sample(sources: Sampled, columns: Sequence[str], *, memory_bytes: int) -> pa.Table:
    """Random rows of the columns, the same at each call; texts are cut."""
    widest = 8 + _TEXT_LENGTH * len(columns)
    count = min(sources.rows, max(1024, min(SAMPLE_ROWS, memory_bytes // _SAMPLE_SHARE // widest)))
    positions = np.sort(np.random.default_rng(0).choice(sources.rows, count, replace=False, shuffle=False))
    schema = pa.schema([sources.working.field(name) for name in columns])
    batches = [cut_text(batch) for batch in sources.rows_at(positions.astype(np.int64), columns)]
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema).combine_chunks()


def cut_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with long texts cut: their beginnings say where they belong."""
    t = pa.types
    columns = []
    for column in batch.columns:
        if t.is_string(column.type) or t.is_large_string(column.type):
            columns.append(pc.utf8_slice_codeunits(column, 0, _TEXT_LENGTH))
        elif t.is_binary(column.type) or t.is_large_binary(column.type):
            columns.append(pc.binary_slice(column, 0, _TEXT_LENGTH))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
