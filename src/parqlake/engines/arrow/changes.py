"""Two bags of rows compared: what is only in the old one, what only in the new one, and which of these are pairs.

Rows are held in memory up to a limit; beyond it both sides are taken apart by a hash, on local disk, and compared part
by part. Rows that differ in what they are taken apart by are never equal, and never an update of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from parqlake.core.changes import DELETE, INSERT, UPDATE, UPDATE_BEFORE, ChangePlan, ChangeStep
from parqlake.core.ports import Store
from parqlake.engines.arrow.merge_source import split
from parqlake.engines.arrow.reader import plan_batches
from parqlake.engines.arrow.row_codes import Mask, occurrences, row_codes, row_hashes
from parqlake.engines.arrow.row_matching import equal_rows, partners_by_codes
from parqlake.engines.arrow.spill import Piece, SpillFile

_MAX_PARTS = 1024
_PIECES = 8
_ROOM = 6
"""Rows of one side may take so small a part of the memory: there are two sides, and comparing them takes as much."""
_OUTPUT_ROWS = 131_072


def change_batches(
    plan: ChangePlan, store: Store, *, memory_bytes: int, spill_folder: str | None = None
) -> pa.RecordBatchReader:
    """The changes that the plan asks for, as a stream; files are read as it gets to them."""
    schema = plan.result

    def batches() -> Iterator[pa.RecordBatch]:
        for step in plan.steps:
            for table in _step(plan, step, store, memory_bytes, spill_folder):
                yield from table.combine_chunks().to_batches(max_chunksize=_OUTPUT_ROWS)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _step(
    plan: ChangePlan, step: ChangeStep, store: Store, memory_bytes: int, spill_folder: str | None
) -> Iterator[pa.Table]:
    told = _Telling(plan, step.version)
    if step.is_one_sided:
        side, word = (step.after, INSERT) if step.after.files else (step.before, DELETE)
        for batch in plan_batches(side, store):
            yield told.rows(pa.Table.from_batches([batch]), word)
        return
    old = _Rows(plan, spill_folder)
    new = _Rows(plan, spill_folder)
    try:
        for rows, side in ((old, step.before), (new, step.after)):
            rows.read(plan_batches(side, store), memory_bytes // _ROOM)
        if not (old.is_aside or new.is_aside):
            yield from told.changes(old.all(), new.all())
            return
        count = min(_MAX_PARTS, _ROOM * (old.size_bytes + new.size_bytes) // memory_bytes + 2)
        for rows in (old, new):
            rows.take_apart(count)
        for number in range(count):
            yield from told.changes(old.part(number), new.part(number))
    finally:
        old.close()
        new.close()


class _Rows:
    """The rows of one side: in memory, or put aside and taken apart."""

    def __init__(self, plan: ChangePlan, spill_folder: str | None) -> None:
        """Reads nothing yet."""
        self._by = list(plan.keys or plan.schema.names)
        self._spill_folder = spill_folder
        self._schema: pa.Schema = plan.schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._raw: SpillFile | None = None
        self._parted: SpillFile | None = None
        self._raw_pieces: list[Piece] = []
        self._parts: list[list[Piece]] = []
        self.size_bytes = 0

    @property
    def is_aside(self) -> bool:
        """Whether rows are on disk."""
        return bool(self._raw_pieces)

    def read(self, batches: pa.RecordBatchReader, limit: int) -> None:
        """Reads all rows, and puts them aside in pieces once they are more than the limit."""
        self._schema = batches.schema
        for batch in batches:
            self._waiting.append(batch)
            self._waiting_bytes += batch.nbytes
            self.size_bytes += batch.nbytes
            if self._waiting_bytes > (limit // _PIECES if self.is_aside else limit):
                self._put_aside()

    def all(self) -> pa.Table:
        """The rows, if they are in memory."""
        rows, self._waiting = pa.Table.from_batches(self._waiting, schema=self._schema), []
        return rows

    def take_apart(self, count: int) -> None:
        """Makes so many parts."""
        self._put_aside()
        self._parted = SpillFile(self._schema, self._spill_folder)
        self._parts = [[] for _ in range(count)]
        for batch in self._pieces(self._raw, self._raw_pieces):
            table = pa.Table.from_batches([batch])
            numbers = (row_hashes(table.select(self._by)) % np.uint64(count)).astype(np.int64)
            for number, rows in split(table, numbers):
                self._parts[number] += self._parted.write(rows)
        if self._raw is not None:
            self._raw.close()

    def part(self, number: int) -> pa.Table:
        """The rows of one part."""
        return pa.Table.from_batches(self._pieces(self._parted, self._parts[number]), schema=self._schema)

    def close(self) -> None:
        """Deletes what was put aside."""
        for spilled in (self._raw, self._parted):
            if spilled is not None:
                spilled.close()

    def _put_aside(self) -> None:
        if not self._waiting:
            return
        if self._raw is None:
            self._raw = SpillFile(self._schema, self._spill_folder)
        self._raw_pieces += self._raw.write(pa.Table.from_batches(self._waiting))
        self._waiting, self._waiting_bytes = [], 0

    @staticmethod
    def _pieces(spilled: SpillFile | None, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            assert spilled is not None
            yield spilled.read(piece)


class _Telling:
    """Turns rows into changes, as the plan wants them told."""

    def __init__(self, plan: ChangePlan, version: int) -> None:
        """All changes are of this version."""
        self._plan = plan
        self._version = version

    def rows(self, rows: pa.Table, word: str) -> pa.Table:
        """Rows that all changed in the same way."""
        return self._told(rows, pa.repeat(word, rows.num_rows))

    def changes(self, old: pa.Table, new: pa.Table) -> Iterator[pa.Table]:
        """What became of the old rows and where the new ones come from, without those that are the same."""
        same_old, same_new = equal_rows(old, new)
        gone, come = old.filter(pa.array(~same_old)), new.filter(pa.array(~same_new))
        if self._plan.keys and gone.num_rows and come.num_rows:
            keys = list(self._plan.keys)
            of_gone, of_come = partners_by_codes(gone.select(keys), come.select(keys))
            yield from self._updates(gone, come, of_gone, of_come, keys)
            gone, come = gone.filter(pa.array(~of_gone)), come.filter(pa.array(~of_come))
        for rows, word in ((gone, DELETE), (come, INSERT)):
            if rows.num_rows:
                yield self.rows(rows, word)

    def _updates(
        self, gone: pa.Table, come: pa.Table, of_gone: Mask, of_come: Mask, keys: list[str]
    ) -> Iterator[pa.Table]:
        if not of_come.any():
            return
        after = come.filter(pa.array(of_come))
        if not self._plan.tells_before:
            yield self.rows(after, UPDATE)
            return
        before = gone.filter(pa.array(of_gone))
        both = pa.concat_tables([before, after])
        codes = row_codes(both.select(keys))
        half = len(codes) // 2
        ranks = np.concatenate([occurrences(codes[:half]), occurrences(codes[half:])])
        is_after = np.arange(len(codes)) >= half
        order = np.lexsort((is_after, ranks, codes))  # each row as it was, then as it is
        words = pa.array([UPDATE_BEFORE, UPDATE] * half)
        yield self._told(both.take(pa.array(order)), words)

    def _told(self, rows: pa.Table, words: pa.Array) -> pa.Table:
        columns = [rows.column(name) for name in self._plan.names]
        versions = pa.repeat(pa.scalar(self._version, pa.int64()), rows.num_rows)
        return pa.table([*columns, words, versions], schema=self._plan.result)
