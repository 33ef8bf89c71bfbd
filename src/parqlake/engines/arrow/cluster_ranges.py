"""Rows sorted within bounded memory: put aside by ranges of codes, then sorted range by range."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.engines.arrow.cluster_sorting import RowOrder, SortedRun, merge_runs
from parqlake.engines.arrow.rewrite_output import give_back
from parqlake.engines.arrow.spill import Piece, SpillFile

Sort = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

RANGES_IN_MEMORY = 6
"""A range is read, joined and taken apart in order, beside a row group that is being written."""
_HELD_SHARE = 8
_TOLERANCE = 1.6
_STEP_SHARE = 32
_LEAST_BLOCK = 32
_MAX_RANGE_BYTES = 1024 * 1024 * 1024
"""Arrow's offsets of text end at twice this."""


class CodeRanges:
    """Takes rows with the number of their range; gives all back in order, range after range."""

    def __init__(
        self, schema: pa.Schema, count: int, order: RowOrder, *, memory_bytes: int, folder: str | None = None
    ) -> None:
        """Puts nothing on disk yet; without need nothing ever is."""
        self._schema = schema
        self._order = order
        self._memory_bytes = memory_bytes
        self._range_bytes = range_bytes(memory_bytes)
        self._spill = SpillFile(schema, folder)
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        self._held_bytes = 0
        self._pieces: list[list[Piece]] = [[] for _ in range(count)]
        self._bytes = [0] * count
        self._rows = [0] * count

    @property
    def spilled_bytes(self) -> int:
        """Bytes put aside on disk so far."""
        return self._spill.size_bytes

    def push(self, batch: pa.RecordBatch, parts: npt.NDArray[np.int64] | None) -> None:
        """Takes rows and, if there is more than one range, the range of each."""
        if not batch.num_rows:
            return
        if parts is None:
            self._hold(0, batch)
        else:
            by_part = np.argsort(parts, kind="stable")
            taken = batch.take(pa.array(by_part))
            ends = np.cumsum(np.bincount(parts, minlength=len(self._held))).tolist()
            start = 0
            for number, end in enumerate(ends):
                if end > start:
                    self._hold(number, taken.slice(start, end - start))
                start = end
        if self._held_bytes > self._memory_bytes // _HELD_SHARE:
            self._put_aside()

    def in_order(self, sort: Sort | None = None, *, sort_bytes: int = 0) -> Generator[pa.RecordBatch, None, None]:
        """All rows in order, batch by batch; can be asked once.

        Args:
            sort: puts the rows of a range in order; by default that is done here.
            sort_bytes: how much `sort` can take; longer ranges are sorted here, in runs.
        """
        if self.spilled_bytes:
            self._put_aside()  # what is held would take room from the ranges
        limit = sort_bytes if sort is not None else self._range_bytes * _TOLERANCE
        for number, size in enumerate(self._bytes):
            if size > limit:
                yield from merge_runs(list(self._runs(number)), self._order)
            elif size and sort is not None:
                yield from sort(self._batches(number))
            elif size:
                yield from self._sorted(list(self._batches(number)), self._step(number))

    def close(self) -> None:
        """Deletes what was put aside."""
        self._held = []
        self._spill.close()

    def _hold(self, number: int, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        self._held[number].append(batch)
        self._held_bytes += size
        self._bytes[number] += size
        self._rows[number] += batch.num_rows

    def _put_aside(self) -> None:
        for number, batches in enumerate(self._held):
            if batches:
                self._pieces[number] += self._spill.write(pa.Table.from_batches(batches))
                self._held[number] = []
        self._held_bytes = 0
        give_back()

    def _batches(self, number: int) -> Iterator[pa.RecordBatch]:
        yield from map(self._spill.read, self._pieces[number])
        yield from self._held[number]
        self._held[number] = []

    def _sorted(self, batches: list[pa.RecordBatch], step: int) -> Iterator[pa.RecordBatch]:
        joined = pa.concat_batches(batches)
        batches.clear()
        give_back()
        return self._order.sort(joined, step)

    def _runs(self, number: int) -> Iterator[SortedRun]:
        """Sorted runs of a range that does not fit into memory: many equal rows, or a sample that fell badly."""
        size, rows = self._bytes[number], self._rows[number]
        count = -(-size // self._range_bytes)
        block = max(_LEAST_BLOCK, rows * (self._memory_bytes // 8) // count // size)
        waiting: list[pa.RecordBatch] = []
        waiting_bytes = 0
        for batch in self._batches(number):
            if waiting and waiting_bytes + batch.nbytes > self._range_bytes:
                yield self._run(waiting, block)
                waiting_bytes = 0
            waiting.append(batch)
            waiting_bytes += batch.nbytes
        if waiting:
            yield self._run(waiting, block)

    def _run(self, batches: list[pa.RecordBatch], block: int) -> SortedRun:
        pieces: list[Piece] = []
        for rows in self._sorted(batches, block):
            pieces += self._spill.write(pa.Table.from_batches([rows]))
        return SortedRun(self._spill, pieces, self._order)

    def _step(self, number: int) -> int:
        """Rows of a sorted batch: few enough that it is small beside the range."""
        width = max(1, self._bytes[number] // self._rows[number])
        return max(1, self._memory_bytes // _STEP_SHARE // width)


def range_bytes(memory_bytes: int) -> int:
    """How large a range should be in memory."""
    return max(1, min(memory_bytes // RANGES_IN_MEMORY, _MAX_RANGE_BYTES))
