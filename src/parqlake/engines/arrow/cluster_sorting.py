"""Rows in the order of the curve: those that fit into memory, and sorted runs of those that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.clustering.order_keys import plain
from parqlake.engines.arrow.spill import Piece, SpillFile

CODE = "parqlake.code"
"""The name of the code while it stands beside the rows, always as the last column."""


class RowOrder:
    """The order of rows: by code, where there is one, then by the columns; NaN above numbers, NULLs last."""

    def __init__(self, columns: Sequence[int], *, has_code: bool) -> None:
        """Takes the places of the clustering columns, and whether the last column is a code."""
        self._columns = columns
        self.has_code = has_code

    def keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What rows are ordered by."""
        arrays = [batch.column(batch.num_columns - 1)] if self.has_code else []
        for place in self._columns:
            key = _sortable(plain(batch.column(place), batch.schema.names[place]))
            if not pa.types.is_null(key.type):
                arrays.append(key)
        if not arrays:  # columns of NULLs alone
            arrays.append(pa.nulls(batch.num_rows, pa.int8()))
        return pa.RecordBatch.from_arrays(arrays, [f"key{number}" for number in range(len(arrays))])

    def sorted_places(self, keys: pa.RecordBatch) -> npt.NDArray[np.uint64]:
        """Where the rows are, in order; equal rows stay as they are."""
        by = [(name, "ascending") for name in keys.schema.names]  # NULLs go last
        return np.asarray(pc.sort_indices(keys, sort_keys=by))

    def sort(self, batch: pa.RecordBatch, step: int) -> Iterator[pa.RecordBatch]:
        """The rows in order, `step` at a time."""
        places = pa.array(self.sorted_places(self.keys(batch)))
        for start in range(0, batch.num_rows, step):
            yield batch.take(places.slice(start, step))


class SortedRun:
    """Rows in order that were put aside, block by block; merged with others."""

    def __init__(self, spill: SpillFile, pieces: Sequence[Piece], order: RowOrder) -> None:
        """Reads the first and the last block for the ends."""
        self._spill = spill
        self._pieces = list(pieces)
        self._next = 0
        first, last = spill.read(self._pieces[0]), spill.read(self._pieces[-1])
        self.ends = pa.concat_batches([order.keys(first.slice(0, 1)), order.keys(last.slice(last.num_rows - 1))])

    @property
    def has_more(self) -> bool:
        """Whether blocks are left."""
        return self._next < len(self._pieces)

    def block(self) -> pa.RecordBatch:
        """The next block."""
        self._next += 1
        return self._spill.read(self._pieces[self._next - 1])


def merge_runs(runs: Sequence[SortedRun], order: RowOrder) -> Iterator[pa.RecordBatch]:
    """The rows of all runs in order, with one block of each in memory.

    Blocks are sorted together, and everything up to the first end of a block that has a successor is certain.
    """
    in_a_row = _without_overlap(runs, order)
    if in_a_row is not None:
        for run in in_a_row:
            while run.has_more:
                yield run.block()
        return
    rest: list[pa.RecordBatch | None] = [None] * len(runs)
    while True:
        for number, run in enumerate(runs):
            if rest[number] is None and run.has_more:
                rest[number] = run.block()
        heads = [(number, batch) for number, batch in enumerate(rest) if batch is not None]
        if not heads:
            return
        joined = pa.concat_batches([batch for _, batch in heads])
        places = order.sorted_places(order.keys(joined))
        ends = np.cumsum([batch.num_rows for _, batch in heads])
        rank = np.empty(len(places), dtype=np.int64)
        rank[places] = np.arange(len(places))
        open_ends = [rank[end - 1] for (number, _), end in zip(heads, ends, strict=True) if runs[number].has_more]
        certain = int(min(open_ends)) + 1 if open_ends else len(places)
        yield joined.take(pa.array(places[:certain]))
        for (number, batch), end in zip(heads, ends, strict=True):
            own = rank[end - batch.num_rows : end]  # ascending, since blocks are sorted and the sort is stable
            used = int(np.searchsorted(own, certain))
            rest[number] = batch.slice(used) if used < batch.num_rows else None


def _without_overlap(runs: Sequence[SortedRun], order: RowOrder) -> list[SortedRun] | None:
    """The runs one after the other if none lies over another, as those of equal rows do; else None."""
    ends = pa.concat_batches([run.ends for run in runs])
    places = order.sorted_places(ends)
    rank = np.zeros(len(places), dtype=np.int64)
    for before, place in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        same = ends.slice(before, 1).equals(ends.slice(place, 1))
        rank[place] = rank[before] + (0 if same else 1)
    lows, highs = rank[0::2], rank[1::2]
    in_order = np.lexsort((highs, lows))
    if (highs[in_order][:-1] <= lows[in_order][1:]).all():
        return [runs[number] for number in in_order]
    return None


def _sortable(keys: pa.Array) -> pa.Array:
    """Types that Arrow sorts wrongly or not at all, as others in the same order."""
    if pa.types.is_float16(keys.type):
        return keys.cast(pa.float32())
    if pa.types.is_decimal(keys.type) and keys.type.bit_width < 128:
        return keys.cast(pa.decimal128(keys.type.precision, keys.type.scale))
    return keys
