"""The source of a merge: checked, one row for each key, in parts that fit in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import ConstraintError
from parqlake.core.fitting import fit
from parqlake.core.merging.bounds import Bounds, KeyBounds, bounded
from parqlake.core.merging.clauses import MergeClauses
from parqlake.core.merging.conforming import conform
from parqlake.core.merging.model import DuplicateKeysWarning, MergeRule
from parqlake.core.merging.validation import check_not_null
from parqlake.engines.arrow.merge_keys import Codes, KeyIndex, key_arrays, key_hashes
from parqlake.engines.arrow.spill import Piece, SpillFile

__all__ = ["Bounds", "KeyBounds", "MergeSource", "SourcePart", "bounded", "checked", "split", "warn_of_duplicates"]

_PIECES = 8
_MAX_PARTS = 1024
_PAIRS_FOR_A_ROW, _FEW_ROWS = 64, 65_536
"""How many matches rows may have on average, where they are more than a few."""


class SourcePart:
    """Source rows that are matched together: one row for each key, in the order of the source."""

    def __init__(self, rows: pa.Table, rule: MergeRule) -> None:
        """Takes rows of the working schema, without NULL keys, and drops all but one of each key."""
        self._index = KeyIndex(key_arrays(rows, rule.keys))
        self.duplicates = rows.num_rows - self._index.count
        """Rows that were dropped."""
        self._places: Codes | None = None
        if self.duplicates:
            winners = _winners(rows, rule, self._index)
            order = np.argsort(winners)
            self._places = np.empty(len(order), dtype=np.int64)
            self._places[order] = np.arange(len(order))
            rows = rows.take(pa.array(winners[order]))
        self.rows = rows.combine_chunks()

    def find(self, columns: list[pa.Array]) -> Codes:
        """The row of `rows` that has the key, -1 where none has."""
        codes = self._index.find(columns)
        return codes if self._places is None else np.where(codes < 0, -1, self._places[codes])

    def pairs(self, found: Codes) -> tuple[Codes, Codes]:
        """For what `find` returned: which of the rows looked up have a match, and the row of `rows` that it is."""
        places = np.flatnonzero(found >= 0)
        return places, found[places]


class EveryRowPart(SourcePart):
    """Source rows that are matched together, all of them: of rows with the same key each is a match."""

    def __init__(self, rows: pa.Table, rule: MergeRule) -> None:
        """Takes rows without NULL keys, and puts those with the same key side by side."""
        self._index = KeyIndex(key_arrays(rows, rule.keys))
        self.duplicates = 0
        codes = self._index.codes
        self.rows = rows.take(pa.array(np.argsort(codes, kind="stable"))).combine_chunks()
        self._ends = np.cumsum(np.bincount(codes, minlength=self._index.count))

    def find(self, columns: list[pa.Array]) -> Codes:
        """The number of each row's key, -1 where no row has it."""
        return self._index.find(columns)

    def pairs(self, found: Codes) -> tuple[Codes, Codes]:
        """Each row looked up, as often as it has matches, and the rows of `rows` that they are."""
        places = np.flatnonzero(found >= 0)
        ends = self._ends[found[places]]
        counts = np.diff(self._ends, prepend=0)[found[places]]
        total = int(counts.sum())
        if total > _PAIRS_FOR_A_ROW * max(len(found), _FEW_ROWS):
            raise ConstraintError(
                f"{total} pairs of a row of the table and one of the source have the same key; "
                "leave one source row for each key, then merge again"
            )
        first = np.repeat(ends - np.cumsum(counts), counts)
        return np.repeat(places, counts), first + np.arange(total)


def source_part(rows: pa.Table, rule: MergeRule) -> SourcePart:
    """Source rows as the rule wants them matched: one for each key, or all for clauses to decide on."""
    return SourcePart(rows, rule) if rule.clauses is None else EveryRowPart(rows, rule)


class MergeSource:
    """All rows of a source, read once: in memory, or in parts by the hash of the key on local disk."""

    def __init__(
        self, rule: MergeRule, schema: pa.Schema, *, memory_bytes: int, spill_folder: str | None = None
    ) -> None:
        """Reads nothing yet; `schema` is the working one."""
        self._rule = rule
        self._schema = schema
        self._memory_bytes = max(1, memory_bytes)
        self._raw = SpillFile(schema, spill_folder)
        self._parted = SpillFile(schema, spill_folder)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._total_bytes = 0
        self._raw_pieces: list[Piece] = []
        self._part_pieces: list[list[Piece]] = []
        self._bounds = KeyBounds(rule)
        self.duplicates = 0
        """Rows dropped so far because another row has their key."""

    @property
    def part_count(self) -> int:
        """How many parts there are."""
        return len(self._part_pieces) or 1

    @property
    def bounds(self) -> Bounds:
        """See `KeyBounds`."""
        return self._bounds.found

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Reads and checks all rows; raises before anything is written."""
        for batch in checked(batches, self._rule, self._schema):
            self._bounds.note(batch)
            self._waiting.append(batch)
            self._waiting_bytes += batch.nbytes
            self._total_bytes += batch.nbytes
            limit = self._memory_bytes // _PIECES if self._raw_pieces else self._memory_bytes
            if self._waiting_bytes > limit:
                self._put_aside()
        if self._raw_pieces:
            self._put_aside()
            self._take_apart()

    def part_numbers(self, columns: list[pa.Array]) -> Codes:
        """The part in which each row's key would be."""
        return (key_hashes(columns) % np.uint64(self.part_count)).astype(np.int64)

    def part(self, number: int) -> SourcePart:
        """The rows of one part."""
        if not self._part_pieces:
            table = pa.Table.from_batches(self._waiting, schema=self._schema)
            self._waiting = []
            part = self._made(table)
        else:
            part = self._joined(self._part_pieces[number])
        self.duplicates += part.duplicates
        return part

    def close(self) -> None:
        """Deletes what was put aside."""
        self._raw.close()
        self._parted.close()

    def _made(self, rows: pa.Table) -> SourcePart:
        return source_part(rows, self._rule)

    def _joined(self, pieces: list[Piece]) -> SourcePart:
        """Drops duplicates while it reads, so that a key that occurs a million times takes the room of one."""
        rows = self._schema.empty_table()
        duplicates = 0
        waiting: list[pa.RecordBatch] = []
        waiting_bytes = 0
        for number, piece in enumerate(pieces, start=1):
            waiting.append(self._parted.read(piece))
            waiting_bytes += waiting[-1].nbytes
            if waiting_bytes > self._memory_bytes // 2 or number == len(pieces):
                part = self._made(pa.concat_tables([rows, pa.Table.from_batches(waiting)]))
                rows, duplicates = part.rows, duplicates + part.duplicates
                waiting, waiting_bytes = [], 0
        part = self._made(rows)
        part.duplicates = duplicates
        return part

    def _put_aside(self) -> None:
        if self._waiting:
            self._raw_pieces += self._raw.write(pa.Table.from_batches(self._waiting))
        self._waiting = []
        self._waiting_bytes = 0

    def _take_apart(self) -> None:
        count = min(_MAX_PARTS, 2 * self._total_bytes // self._memory_bytes + 1)
        self._part_pieces = [[] for _ in range(count)]
        for piece in self._raw_pieces:
            table = pa.Table.from_batches([self._raw.read(piece)])
            numbers = self.part_numbers(key_arrays(table, self._rule.keys))
            for number, rows in split(table, numbers):
                self._part_pieces[number] += self._parted.write(rows)
        self._raw.close()


def checked(batches: Iterable[pa.RecordBatch], rule: MergeRule, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The source's batches in the working schema; raises for NULL keys and for values that do not fit."""
    for batch in batches:
        if not batch.num_rows:
            continue
        for name in rule.keys:
            check_not_null("source", name, batch.column(batch.schema.get_field_index(name)).null_count)
        yield conform(batch, schema)


def checked_for_clauses(batches: Iterable[pa.RecordBatch], clauses: MergeClauses) -> Iterator[pa.RecordBatch]:
    """The source's batches as they are matched; raises for values that do not fit."""
    for batch in batches:
        if batch.num_rows:
            yield clauses.source_rows(fit(batch, clauses.source), 0)


def warn_of_duplicates(rule: MergeRule, duplicates: int, stacklevel: int) -> None:
    """Warns if source rows were dropped by a rule that the caller did not choose."""
    if duplicates and rule.warns:
        warnings.warn(
            f"the source holds {duplicates} more rows than keys ({', '.join(rule.keys)}); of rows with the same key "
            'the last one was taken: use strategy="deduplicate" or dedup_order_by to say that this is meant',
            DuplicateKeysWarning,
            stacklevel=stacklevel + 1,
        )


def split(table: pa.Table, numbers: Codes) -> Iterator[tuple[int, pa.Table]]:
    """Takes a table apart by a number for each row; rows keep their order."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    rows = table.take(pa.array(order))
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = np.append(starts[1:], len(ordered))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(ordered[start]), rows.slice(start, end - start)


def _winners(rows: pa.Table, rule: MergeRule, index: KeyIndex) -> Codes:
    """The row to take for each key: the highest by the columns of the rule, the last of equals."""
    winners = np.empty(index.count, dtype=np.int64)
    order = _ordered(rows, rule.dedup_order_by) if rule.dedup_order_by else np.arange(rows.num_rows)
    winners[index.codes[order]] = order  # of several values for one place the last stays
    return winners


def _ordered(rows: pa.Table, columns: tuple[str, ...]) -> Codes:
    """Rows from low to high; NULL is the lowest, NaN the highest, equals stay in order."""
    arrays: dict[str, Any] = {}
    sort_keys: list[tuple[str, str, str]] = []
    for number, name in enumerate(columns):
        (column,) = key_arrays(rows, [name])
        if pa.types.is_floating(column.type):
            arrays[f"nan{number}"] = pc.fill_null(pc.is_nan(column), False).cast(pa.int8())
            sort_keys.append((f"nan{number}", "ascending", "at_start"))
        arrays[f"value{number}"] = column
        sort_keys.append((f"value{number}", "ascending", "at_start"))
    arrays["row"] = pa.array(np.arange(rows.num_rows))
    sort_keys.append(("row", "ascending", "at_start"))
    order = pc.sort_indices(pa.table(arrays), sort_keys=sort_keys)
    return np.asarray(order.to_numpy(zero_copy_only=False)).astype(np.int64)
