"""Merging by clauses: rows with the same keys meet, and clauses say what becomes of them.

Each file is decided on first, from its keys and the few columns that conditions use; only if a row changes is it read
whole and written again. A byte or so is held for each row of the source, to know which of them matched, and a number
for each row of one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parqlake.core.merging.clauses import NO_CLAUSE, NUMBER, SOURCE, Action, MergeClauses, of_action
from parqlake.core.merging.conforming import working_schema
from parqlake.core.merging.deciding import decide, inserts, matching_pairs, updates
from parqlake.core.merging.model import MergeOutcome, MergeRule, MergeStrategy, MergeTarget, TargetFile
from parqlake.core.merging.validation import check_merge_options
from parqlake.core.predicates.tree import TRUE
from parqlake.engines.arrow.merge_files import BATCH_ROWS, Candidate, TargetReader
from parqlake.engines.arrow.merge_keys import Codes
from parqlake.engines.arrow.merge_matching import Match, PartedMatching, match_in_memory
from parqlake.engines.arrow.merge_output import InsertedRows, MergeOutput
from parqlake.engines.arrow.merge_rows import FileRewriter, rewriting
from parqlake.engines.arrow.merge_source import MergeSource, SourcePart
from parqlake.engines.arrow.merging import outcome, read_files
from parqlake.engines.arrow.spill import Piece, SpillFile

_SOURCE_SHARE = 4
_OUTPUT_SHARE = 8


def merge_by_clauses(
    source: pa.RecordBatchReader | pa.Table,
    target: MergeTarget,
    rule: MergeRule,
    *,
    memory_bytes: int,
    spill_folder: str | None = None,
    batch_rows: int = BATCH_ROWS,
) -> MergeOutcome:
    """Merges as the rule's clauses say: writes new files, and says which files they replace.

    Promises what `parqlake.engines.arrow.merging.merge` does.

    Args:
        source: the rows, of the columns that the clauses were bound to.
        target: its files, and how new ones are made.
        rule: with clauses.
        memory_bytes: how much to hold in memory; source rows beyond a quarter of it lie on local disk.
        spill_folder: where rows are put aside; by default the system's temporary folder.
        batch_rows: how many rows of a file are worked on at a time.

    Raises:
        ConstraintError: several rows of the source would change one of the target, or a row breaks a constraint.
        InputError: the call is wrong; nothing was written, or new files were deleted.
    """
    assert rule.clauses is not None
    check_merge_options(compression=target.spec.compression, memory_bytes=memory_bytes, batch_rows=batch_rows)
    merging = _ClauseMerge(
        target, rule, rule.clauses, memory_bytes=memory_bytes, spill_folder=spill_folder, batch_rows=batch_rows
    )
    return merging.run(source.to_batches() if isinstance(source, pa.Table) else source)


class _ClauseMerge:
    """One merge under way."""

    def __init__(
        self,
        target: MergeTarget,
        rule: MergeRule,
        clauses: MergeClauses,
        *,
        memory_bytes: int,
        spill_folder: str | None,
        batch_rows: int,
    ) -> None:
        self._target = target
        self._rule = rule
        self._clauses = clauses
        self._spill_folder = spill_folder
        self._schema = working_schema(target.spec.schema)
        # Who matches keys knows strategies alone; who reads files has to look into all if others may change too.
        self._matching = MergeRule(rule.keys, MergeStrategy.UPSERT, clauses=clauses)
        reading = replace(rule, where=TRUE) if rule.strategy.deletes else self._matching
        self._source = MergeSource(
            self._matching, clauses.row_schema, memory_bytes=memory_bytes // _SOURCE_SHARE, spill_folder=spill_folder
        )
        self._aside = SpillFile(clauses.row_schema, spill_folder)
        self._aside_pieces: list[Piece] = []
        self._reader = TargetReader(target, reading, self._schema, memory_bytes=memory_bytes, batch_rows=batch_rows)
        self._output = MergeOutput(target, memory_bytes=memory_bytes)
        self._inserted = InsertedRows(
            self._output, self._schema, memory_bytes=memory_bytes // _OUTPUT_SHARE, spill_folder=spill_folder
        )
        self._rewriter = FileRewriter(target, rewriting(rule), self._schema, self._output, self._inserted)
        self._both = clauses.about_table
        self._seen = np.zeros(0, dtype=np.bool_)
        self._removed: list[TargetFile] = []
        self._inserts = self._updates = self._deletes = 0

    def run(self, batches: Iterable[pa.RecordBatch]) -> MergeOutcome:
        try:
            self._read(batches)
            candidates = self._reader.candidates(self._source.bounds)
            if self._source.part_count == 1:
                part = self._source.part(0)
                for match in match_in_memory(part, candidates, self._reader, self._matching, []):
                    self._merge_file(match)
                self._insert(part)
            else:
                self._merge_in_parts(candidates)
            for piece in self._aside_pieces:
                self._insert_rows(self._aside.read(piece))
            self._inserted.close()
            changes = (self._inserts, self._updates, self._deletes)
            made = outcome(self._target, self._rule, self._output, self._removed, changes)
            return replace(made, read=read_files(candidates), key_bounds=self._source.bounds)
        except BaseException:
            self._inserted.abandon()
            self._output.abandon()
            raise
        finally:
            self._source.close()
            self._aside.close()

    def _read(self, batches: Iterable[pa.RecordBatch]) -> None:
        count = 0

        def numbered() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in batches:
                rows = self._clauses.source_rows(batch, count)
                count += batch.num_rows
                nulls = [rows.column(name).is_null() for name in self._rule.keys if rows.column(name).null_count]
                if nulls:  # these match nothing, and wait to be inserted
                    missing = np.logical_or.reduce([null.to_numpy(zero_copy_only=False) for null in nulls])
                    lacking = rows.filter(pa.array(missing))
                    self._aside_pieces += self._aside.write(pa.Table.from_batches([lacking]))
                    rows = rows.filter(pa.array(~missing))
                yield rows

        self._source.read(numbered())
        self._seen = np.zeros(count, dtype=np.bool_)

    def _merge_in_parts(self, candidates: list[Candidate]) -> None:
        matching = PartedMatching(self._source, self._matching, self._clauses.row_schema, self._spill_folder)
        try:
            matching.read_keys(candidates, self._reader)
            for number in range(self._source.part_count):
                matching.match(number, self._source.part(number))
            for match in matching.matches(candidates):
                self._merge_file(match)
        finally:
            matching.close()
        for number in range(self._source.part_count):
            self._insert(self._source.part(number))

    def _merge_file(self, match: Match) -> None:
        file = match.candidate.file
        if not match.count and not self._clauses.by_source:
            return
        codes = self._decided(match)
        updated = int(np.count_nonzero(of_action(self._both, codes, Action.UPDATE)))
        deleted = int(np.count_nonzero(of_action(self._both, codes, Action.DELETE)))
        if not updated and not deleted:
            return
        self._updates += updated
        self._deletes += deleted
        self._removed.append(file)
        if deleted < file.row_count:
            self._rewrite(match, codes)

    def _decided(self, match: Match) -> Codes:
        """The clause that takes each row of a file, counted through all that are about rows of the table."""
        found = [np.empty(0, dtype=np.int64)]
        start = 0
        for batch in self._reader.some_columns(match.candidate, self._clauses.deciding_columns):
            stop = start + batch.num_rows
            found.append(self._decide(batch, *match.replacements(start, stop)))
            start = stop
        return np.concatenate(found)

    def _decide(self, batch: pa.RecordBatch, places: Codes, rows: pa.Table) -> Codes:
        if not len(places):
            rows = self._clauses.row_schema.empty_table()
        codes, pairs = decide(self._clauses, batch, places, _source(rows), rows.select(self._rule.keys))
        self._seen[rows.column(NUMBER).to_numpy()[pairs]] = True
        return codes

    def _rewrite(self, match: Match, codes: Codes) -> None:
        file, start = match.candidate.file, 0
        new = self._output.replacement(file)
        try:
            for batch in self._reader.rows(match.candidate):
                stop = start + batch.num_rows
                changed = self._changed(batch, codes[start:stop], *match.replacements(start, stop))
                start = stop
                self._rewriter.put(file, new, changed)
            new.close()
        except BaseException:
            new.abandon()
            raise

    def _changed(self, batch: pa.RecordBatch, codes: Codes, places: Codes, rows: pa.Table) -> pa.RecordBatch | pa.Table:
        """The batch after its updates, without the rows that are deleted."""
        if (codes == NO_CLAUSE).all():
            return batch
        pieces = [batch]
        taken = np.arange(batch.num_rows)
        source = _source(rows if len(places) else self._clauses.row_schema.empty_table())
        pairs = matching_pairs(self._clauses, batch, places, source)
        for own, new in updates(self._clauses, batch, codes, places[pairs], source.take(pa.array(pairs))):
            taken[own] = sum(piece.num_rows for piece in pieces) + np.arange(len(own))
            pieces.append(new)
        stays = ~of_action(self._both, codes, Action.DELETE)
        return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(taken[stays]))

    def _insert(self, part: SourcePart) -> None:
        for batch in part.rows.to_batches(max_chunksize=BATCH_ROWS):
            self._insert_rows(batch)

    def _insert_rows(self, batch: pa.RecordBatch) -> None:
        """Inserts those of the rows that nothing matched and a clause takes."""
        new = np.flatnonzero(~self._seen[batch.column(NUMBER).to_numpy()])
        for rows in inserts(self._clauses, batch.column(SOURCE).take(pa.array(new))):
            self._inserted.write(rows)
            self._inserts += rows.num_rows


def _source(rows: pa.Table) -> pa.StructArray:
    """The source's own rows of a table of them."""
    chunks = rows.column(SOURCE).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.array([], rows.schema.field(SOURCE).type)])
