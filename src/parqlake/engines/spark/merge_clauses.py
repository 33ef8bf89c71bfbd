"""Clauses of a merge on Spark: where keys meet, it is decided what becomes of the rows, and only that travels on.

Rows of the target come with the columns that clauses ask for; what goes on to its files are the new values of columns
that change, and the numbers of rows that are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parqlake.core.merging.clauses import SOURCE, Action, MergeClauses, of_action
from parqlake.core.merging.deciding import decide, inserts, updates
from parqlake.engines.arrow.merge_keys import Codes, key_arrays
from parqlake.engines.arrow.merge_source import SourcePart, split
from parqlake.engines.spark.merge_matching import (
    FILE,
    PLACES,
    Kind,
    MatchPlan,
    MatchTask,
    SourceOfPart,
    missing_keys,
    or_error,
)
from parqlake.engines.spark.packing import Pack, Packer, packed, unpacked

_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class ClauseTask:
    """Decides on the rows of one part; packs come sorted by kind and place."""

    plan: MatchPlan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives changes and new rows on their way, and what the driver must know."""
        yield from packed(or_error(lambda: self._decided(unpacked(batches))))

    def _decided(self, packs: Iterator[Pack]) -> Iterator[Pack]:
        plan, clauses = self.plan, self.plan.rule.clauses
        assert clauses is not None
        source = SourceOfPart(plan, plan.rule)
        rows, keys = Packer(plan.source_schema), Packer(plan.key_schema)
        changes: _Changes | None = None
        number = 0
        for pack in packs:
            number = pack.dest
            if pack.kind == Kind.SOURCE:
                own = rows.unpack(pack.rows)
                missing = missing_keys(own, plan.rule.keys)
                if missing.any():  # these match nothing
                    yield from self._inserts(number, own.filter(pa.array(missing)), clauses)
                    own = own.filter(pa.array(~missing))
                source.push(own)
            elif pack.kind == Kind.KEYS:
                changes = changes or _Changes(plan, clauses, source.part())
                yield from changes.look_up(keys.unpack(pack.rows))
            else:
                yield Pack(pack.place, pack.kind, 0, pack.count, pack.rows)
        if changes is None:
            yield from self._inserts(number, source.part().rows, clauses)
        else:
            yield from changes.rest()
            yield from self._inserts(number, changes.part.rows.filter(pa.array(~changes.seen)), clauses)

    def _inserts(self, part: int, rows: pa.Table, clauses: MergeClauses) -> Iterator[Pack]:
        task, packer = MatchTask(self.plan, self.plan.rule), Packer(self.plan.schema)
        for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
            for new in inserts(clauses, batch.column(SOURCE)):
                yield from task.inserts(part, pa.Table.from_batches([new]), packer)


class _Changes:
    """What becomes of rows of the target, gathered until it is worth a pack."""

    def __init__(self, plan: MatchPlan, clauses: MergeClauses, part: SourcePart) -> None:
        self._plan = plan
        self._clauses = clauses
        self.part = part
        self.seen = np.zeros(part.rows.num_rows, dtype=np.bool_)
        """Which source rows have matched one."""
        self._packer = Packer(plan.hit_schema)
        self._updated: list[pa.Table] = []
        self._deleted: list[tuple[Codes, Codes]] = []
        self._count = 0

    def look_up(self, keys: pa.Table) -> Iterator[Pack]:
        for start in range(0, keys.num_rows, _ROWS_AT_ONCE):
            yield from self._look_up(keys.slice(start, _ROWS_AT_ONCE).combine_chunks())

    def _look_up(self, keys: pa.Table) -> Iterator[Pack]:
        plan, clauses = self._plan, self._clauses
        places, numbers = self.part.pairs(self.part.find(key_arrays(keys, plan.rule.keys)))
        matches = self.part.rows.take(pa.array(numbers)).combine_chunks()
        source = _one_chunk(matches.column(SOURCE))
        (rows,) = keys.select(plan.key_columns).to_batches()
        codes, pairs = decide(clauses, rows, places, source, matches.select(plan.rule.keys))
        self.seen[numbers[pairs]] = True
        files, own_places = (keys.column(name).to_numpy() for name in (FILE, PLACES))
        for own, new in updates(clauses, rows, codes, places[pairs], source.take(pa.array(pairs))):
            table = pa.Table.from_batches([new]).select(clauses.changed_columns)
            table = table.append_column(FILE, pa.array(files[own]))
            self._updated.append(table.append_column(PLACES, pa.array(own_places[own])))
            self._count += len(own)
        gone = of_action(clauses.about_table, codes, Action.DELETE)
        if gone.any():
            self._deleted.append((files[gone], own_places[gone]))
            self._count += int(np.count_nonzero(gone))
        if self._count >= _ROWS_AT_ONCE:
            yield from self.rest()

    def rest(self) -> Iterator[Pack]:
        """What waits, for each file and span of its rows."""
        if self._updated:
            table = pa.concat_tables(self._updated).combine_chunks()
            for file, span, own in self._spans(table.column(FILE).to_numpy(), table.column(PLACES).to_numpy()):
                rows = table.take(pa.array(own))
                places = _one_chunk(rows.column(PLACES))
                lists = pa.ListArray.from_arrays(pa.array(np.arange(len(own) + 1), pa.int32()), places)
                columns = [*rows.select(self._clauses.changed_columns).columns, lists]
                for count, data in self._packer.pieces(pa.Table.from_arrays(columns, schema=self._plan.hit_schema)):
                    yield Pack(file, Kind.HITS, span, count, data)
        if self._deleted:
            files, places = (np.concatenate(column) for column in zip(*self._deleted, strict=True))
            for file, span, own in self._spans(files, places):
                yield Pack(file, Kind.DELETES, span, len(own), places[own].astype(np.int64).tobytes())
        self._updated, self._deleted, self._count = [], [], 0

    def _spans(self, files: Codes, places: Codes) -> Iterator[tuple[int, int, Codes]]:
        spans = places // self._plan.span_rows
        several = int(spans.max()) + 1
        numbers = pa.table({"row": np.arange(len(files))})
        for number, own in split(numbers, files * several + spans):
            yield number // several, number % several, own.column("row").to_numpy()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
