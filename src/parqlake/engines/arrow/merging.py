"""Merging with PyArrow alone: files without a match are never touched, the others are written again in streams."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parqlake.core.merging.conforming import working_schema
from parqlake.core.merging.model import (
    DEFAULT_MEMORY_BYTES,
    MergeCounts,
    MergeOutcome,
    MergeRule,
    MergeTarget,
    TargetFile,
)
from parqlake.core.merging.validation import check_merge_options, check_merge_schemas
from parqlake.engines.arrow.merge_files import BATCH_ROWS, Candidate, TargetReader
from parqlake.engines.arrow.merge_keys import Codes
from parqlake.engines.arrow.merge_matching import Match, PartedMatching, match_in_memory
from parqlake.engines.arrow.merge_output import InsertedRows, MergedFile, MergeOutput
from parqlake.engines.arrow.merge_rows import FileRewriter
from parqlake.engines.arrow.merge_source import MergeSource, SourcePart, warn_of_duplicates

_SOURCE_SHARE = 4
_OUTPUT_SHARE = 8
_MAX_FILES = 4
"""Written at a time; rows that change are few, so that reading and writing of one file overlap little."""


def merge(
    source: pa.RecordBatchReader | pa.Table,
    target: MergeTarget,
    rule: MergeRule,
    *,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    spill_folder: str | None = None,
    batch_rows: int = BATCH_ROWS,
    stacklevel: int = 1,
) -> MergeOutcome:
    """Merges the source into the target: writes new files, and says which files they replace.

    Deletes and publishes nothing: until the caller does, all at once, the target is what it was. Source rows are
    held in memory up to a quarter of `memory_bytes`, beyond that in parts on local disk. Of the target the keys of
    a few files and some batches are held.

    Args:
        source: the rows, of the target's columns in any order.
        target: its files, and how new ones are made. If there are no files, its schema is the source's.
        rule: from `merge_rule`.
        memory_bytes: how much to hold in memory.
        spill_folder: where rows are put aside; by default the system's temporary folder.
        batch_rows: how many rows of a file are worked on at a time.
        stacklevel: whom a warning of duplicate keys points at: 1 is the caller.

    Raises:
        InputError: the call is wrong; nothing was written.
        DataCorruptionError: a file of the target is damaged; new files were deleted.
        StoreError: a file cannot be read or written; new files were deleted.
    """
    if rule.clauses is not None:
        from parqlake.engines.arrow.merge_clauses import merge_by_clauses  # which ends as all merges do, here

        return merge_by_clauses(
            source, target, rule, memory_bytes=memory_bytes, spill_folder=spill_folder, batch_rows=batch_rows
        )
    check_merge_schemas(rule, source=source.schema, target=target.spec.schema)
    check_merge_options(compression=target.spec.compression, memory_bytes=memory_bytes, batch_rows=batch_rows)
    merging = _Merge(target, rule, memory_bytes=memory_bytes, spill_folder=spill_folder, batch_rows=batch_rows)
    return merging.run(source, stacklevel + 1)


class _Merge:
    """One merge under way."""

    def __init__(
        self, target: MergeTarget, rule: MergeRule, *, memory_bytes: int, spill_folder: str | None, batch_rows: int
    ) -> None:
        self._target = target
        self._rule = rule
        self._spill_folder = spill_folder
        self._schema = working_schema(target.spec.schema)
        self._source = MergeSource(
            rule, self._schema, memory_bytes=memory_bytes // _SOURCE_SHARE, spill_folder=spill_folder
        )
        self._reader = TargetReader(target, rule, self._schema, memory_bytes=memory_bytes, batch_rows=batch_rows)
        self._output = MergeOutput(target, memory_bytes=memory_bytes)
        self._inserted = InsertedRows(
            self._output, self._schema, memory_bytes=memory_bytes // _OUTPUT_SHARE, spill_folder=spill_folder
        )
        self._rewriter = FileRewriter(target, rule, self._schema, self._output, self._inserted)
        self._removed: list[TargetFile] = []
        self._inserts = self._updates = self._deletes = 0

    def run(self, source: pa.RecordBatchReader | pa.Table, stacklevel: int) -> MergeOutcome:
        try:
            self._source.read(source.to_batches() if isinstance(source, pa.Table) else source)
            candidates = self._reader.candidates(self._source.bounds)
            self._drop_others(candidates)
            if self._source.part_count == 1:
                self._merge_in_memory(candidates, stacklevel + 1)
            else:
                self._merge_in_parts(candidates, stacklevel + 1)
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

    def _drop_others(self, candidates: list[Candidate]) -> None:
        """Files that cannot match hold nothing but rows to delete, if rows are deleted at all."""
        if not self._rule.strategy.deletes or self._rule.where is not None:
            return
        kept = {candidate.file.path for candidate in candidates}
        for file in self._target.files:
            if file.path not in kept:
                self._removed.append(file)
                self._deletes += file.row_count

    def _merge_in_memory(self, candidates: list[Candidate], stacklevel: int) -> None:
        part = self._source.part(0)
        warn_of_duplicates(self._rule, self._source.duplicates, stacklevel + 1)
        seen: list[Codes] = [np.empty(0, dtype=np.int64)]
        # Moved rows of several files would meet in one place: those files are written one after the other.
        files = 1 if self._rewriter.movable else min(_MAX_FILES, os.cpu_count() or 1)
        self._rewrite(match_in_memory(part, candidates, self._reader, self._rule, seen), at_a_time=files)
        self._insert(part, np.concatenate(seen))

    def _merge_in_parts(self, candidates: list[Candidate], stacklevel: int) -> None:
        matching = PartedMatching(self._source, self._rule, self._schema, self._spill_folder)
        try:
            matching.read_keys(candidates, self._reader)
            for number in range(self._source.part_count):
                self._match_part(number, matching)
            warn_of_duplicates(self._rule, self._source.duplicates, stacklevel + 1)
            self._rewrite(matching.matches(candidates))
        finally:
            matching.close()

    def _match_part(self, number: int, matching: PartedMatching) -> None:
        part = self._source.part(number)
        self._insert(part, matching.match(number, part))

    def _insert(self, part: SourcePart, seen: Codes) -> None:
        if not self._rule.strategy.inserts:
            return
        new = np.ones(part.rows.num_rows, dtype=bool)
        new[seen] = False
        self._inserts += int(np.count_nonzero(new))
        if new.all():
            self._inserted.write(part.rows)
        elif new.any():
            self._inserted.write(part.rows.filter(pa.array(new)))

    def _rewrite(self, matches: Iterator[Match], *, at_a_time: int = 1) -> None:
        """Writes files with a match again, some at a time; notes those that are replaced or dropped."""
        strategy = self._rule.strategy
        pending: deque[Future[None]] = deque()
        with ThreadPoolExecutor(at_a_time) as pool:
            for match in matches:
                file = match.candidate.file
                gone = 0
                if strategy.deletes:
                    stay = match.count if match.kept is None else int(np.count_nonzero(match.kept))
                    gone = file.row_count - stay
                    self._deletes += gone
                if match.kept is not None and not gone and not match.count:
                    continue
                if (strategy.updates and match.count) or (match.kept is not None and gone < file.row_count):
                    self._updates += match.count
                    self._removed.append(file)
                    while len(pending) >= at_a_time:
                        pending.popleft().result()
                    rows = self._reader.rows(match.candidate)
                    pending.append(pool.submit(self._rewriter.rewrite, file, rows, match.replacements, match.kept))
                elif strategy.deletes:
                    self._removed.append(file)
            for left in pending:
                left.result()


def read_files(candidates: list[Candidate]) -> tuple[TargetFile, ...]:
    """The files that were looked into."""
    return tuple(candidate.file for candidate in candidates)


def outcome(
    target: MergeTarget, rule: MergeRule, output: MergeOutput, removed: list[TargetFile], changes: tuple[int, int, int]
) -> MergeOutcome:
    """What the caller is told: the files, durable by now, and the counts."""
    gone = len(removed) == len(target.files) and not output.added
    if target.keep_schema and gone and (target.files or rule.strategy.inserts):
        first = removed[0] if removed else None
        empty = MergedFile(output, first.folder if first else target.spec.location, first.partition if first else {})
        empty.close(even_if_empty=True)
    inserted, updated, deleted = changes
    before = sum(file.row_count for file in target.files)
    counts = MergeCounts(inserted, updated, deleted, before + inserted - deleted)
    return MergeOutcome(tuple(removed), output.finish(), counts)
