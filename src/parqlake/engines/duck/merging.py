"""Merging with DuckDB: it joins, within its limit of memory and beyond it on disk; PyArrow writes what comes out.

`COPY` is not used: DuckDB 2.0 marks columns as NOT NULL wherever it happens to know that they hold no NULL, forgets
time zones and wide types, and keeps rows in order in a single thread only. So one thread works on each file, and
several files are worked on at a time. DuckDB verifies no page checksums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.merging.conforming import conform, partition_constants, working_schema
from parqlake.core.merging.model import DEFAULT_MEMORY_BYTES, MergeOutcome, MergeRule, MergeTarget, TargetFile
from parqlake.core.merging.validation import check_merge_options, check_merge_schemas
from parqlake.engines.arrow.merge_clauses import merge_by_clauses
from parqlake.engines.arrow.merge_files import BATCH_ROWS, Candidate, TargetReader
from parqlake.engines.arrow.merge_output import InsertedRows, MergeOutput
from parqlake.engines.arrow.merge_rows import FileRewriter
from parqlake.engines.arrow.merge_source import KeyBounds, checked, warn_of_duplicates
from parqlake.engines.arrow.merging import outcome, read_files
from parqlake.engines.duck import merge_sql as sql
from parqlake.engines.duck.errors import mapped_error
from parqlake.engines.duck.feed import Feed
from parqlake.engines.duck.merge_connection import check_types, merge_connection

_OUTPUT_SHARE = 8
_THREAD_BYTES = 128 * 1024 * 1024
"""What DuckDB wants for each thread; with less it runs out of memory rather than to disk."""


def merge(
    source: pa.RecordBatchReader | pa.Table,
    target: MergeTarget,
    rule: MergeRule,
    *,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    spill_folder: str | None = None,
    batch_rows: int = BATCH_ROWS,
    threads: int | None = None,
    stacklevel: int = 1,
) -> MergeOutcome:
    """Merges the source into the target: writes new files, and says which files they replace.

    Promises what `parqlake.engines.arrow.merging.merge` does, with the same rows and counts; inserted rows of one
    call may lie in other files. `memory_bytes` bounds DuckDB; a batch for each thread comes on top.

    Raises:
        InputError: the call is wrong; nothing was written.
        UnsupportedTypeError: a column has a type that DuckDB does not know.
        DataCorruptionError: a file of the target is damaged; new files were deleted.
        StoreError: a file cannot be read or written, or memory and disk do not suffice; new files were deleted.
    """
    if rule.clauses is not None:  # PyArrow computes their expressions, as it does those of updates
        return merge_by_clauses(
            source, target, rule, memory_bytes=memory_bytes, spill_folder=spill_folder, batch_rows=batch_rows
        )
    check_merge_schemas(rule, source=source.schema, target=target.spec.schema)
    check_merge_options(compression=target.spec.compression, memory_bytes=memory_bytes, batch_rows=batch_rows)
    schema = working_schema(target.spec.schema)
    check_types(schema)
    count = max(1, min(threads or os.cpu_count() or 1, memory_bytes // _THREAD_BYTES))
    with merge_connection(target.store, memory_bytes=memory_bytes, threads=count, folder=spill_folder) as connection:
        merging = _Merge(
            target,
            rule,
            schema,
            connection,
            memory_bytes=memory_bytes,
            spill_folder=spill_folder,
            batch_rows=batch_rows,
            threads=count,
        )
        return merging.run(source, stacklevel + 1)


class _Merge:
    """One merge under way."""

    def __init__(
        self,
        target: MergeTarget,
        rule: MergeRule,
        schema: pa.Schema,
        connection: Any,
        *,
        memory_bytes: int,
        spill_folder: str | None,
        batch_rows: int,
        threads: int,
    ) -> None:
        self._target = target
        self._rule = rule
        self._schema = schema
        self._connection = connection
        self._batch_rows = batch_rows
        self._threads = threads
        self._reader = TargetReader(target, rule, schema, memory_bytes=memory_bytes)
        self._output = MergeOutput(target, memory_bytes=memory_bytes)
        self._inserted = InsertedRows(
            self._output, schema, memory_bytes=memory_bytes // _OUTPUT_SHARE, spill_folder=spill_folder
        )
        self._rewriter = FileRewriter(target, rule, schema, self._output, self._inserted)
        self._bounds = KeyBounds(rule)
        self._types: dict[str, str] = {}

    def run(self, source: pa.RecordBatchReader | pa.Table, stacklevel: int) -> MergeOutcome:
        import duckdb

        try:
            self._stage(source.to_batches() if isinstance(source, pa.Table) else source)
            candidates = self._reader.candidates(self._bounds.found)
            warn_of_duplicates(self._rule, self._choose(), stacklevel + 1)
            matched = self._match(candidates)
            removed = self._rewrite(candidates, matched)
            inserted = self._insert()
            self._inserted.close()
            strategy = self._rule.strategy
            updated = sum(matched.values()) if strategy.updates else 0
            before = sum(file.row_count for file in self._target.files)
            deleted = before - updated if strategy.deletes else 0
            made = outcome(self._target, self._rule, self._output, removed, (inserted, updated, deleted))
            return replace(made, read=read_files(candidates), key_bounds=self._bounds.found)
        except BaseException as error:
            self._inserted.abandon()
            self._output.abandon()
            if isinstance(error, duckdb.Error):
                raise mapped_error(error, self._target.spec.location or self._target.store.url) from error
            raise

    def _stage(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes the source in, each row with its number."""
        import duckdb

        numbered = pa.schema([*self._schema, pa.field(sql.POSITION, pa.int64())])
        feed = Feed(self._numbered(batches, numbered), numbered)
        self._connection.register(sql.INCOMING, feed.reader())
        try:
            self._connection.execute(f"CREATE TABLE {sql.STAGED} AS SELECT * FROM {sql.INCOMING}")  # noqa: S608
        except duckdb.Error:
            if feed.error is not None:
                raise feed.error from None
            raise
        finally:
            self._connection.unregister(sql.INCOMING)
        described = self._connection.execute(f"DESCRIBE {sql.STAGED}").fetchall()
        self._types = {row[0]: row[1] for row in described if row[0] != sql.POSITION}

    def _numbered(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in checked(batches, self._rule, self._schema):
            self._bounds.note(batch)
            numbers = pa.array(np.arange(start, start + batch.num_rows))
            start += batch.num_rows
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)

    def _choose(self) -> int:
        """Keeps one row for each key; returns how many were dropped."""
        run = self._connection.execute
        run(f"CREATE TABLE parqlake_winners AS {sql.winners(self._rule)}")
        (staged,) = run(f"SELECT count(*) FROM {sql.STAGED}").fetchone()  # noqa: S608
        (kept,) = run("SELECT count(*) FROM parqlake_winners").fetchone()
        if staged == kept:
            run(f"ALTER TABLE {sql.STAGED} RENAME TO {sql.SOURCE}")
        else:
            run(
                f"CREATE TABLE {sql.SOURCE} AS SELECT s.* FROM {sql.STAGED} s "  # noqa: S608
                f"SEMI JOIN parqlake_winners w USING ({sql.POSITION})"
            )
            run(f"DROP TABLE {sql.STAGED}")
        run("DROP TABLE parqlake_winners")
        return int(staged - kept)

    def _match(self, candidates: list[Candidate]) -> dict[int, int]:
        """Finds the source rows that each file needs; returns how many of its rows match."""
        run = self._connection.execute
        self._describe_files(candidates)
        empty = f"CREATE TABLE {sql.HITS} ({sql.file_column()} BIGINT, {sql.POSITION} BIGINT)"
        if not candidates:
            run(empty)
            return {}
        inside = frozenset.intersection(*(candidate.columns for candidate in candidates))
        constants = [name for name in self._target.spec.partition_by if name not in inside]
        paths = [self._url(candidate.file) for candidate in candidates]
        with _naming_damage(candidates, self._reader.key_batches):
            run(f"CREATE TABLE {sql.HITS} AS {sql.hits(paths, self._rule, constants, types=self._types)}")
        return {int(number): int(count) for number, count in run(sql.counts()).fetchall()}

    def _describe_files(self, candidates: list[Candidate]) -> None:
        """A table of what the files do not hold themselves: partition values, and NULL for columns added later."""
        arrays: list[pa.Array] = [pa.array(range(len(candidates)), pa.int64())]
        constants = [partition_constants(candidate.file.partition, self._schema) for candidate in candidates]
        for field in self._schema:
            values = [found.get(field.name, pa.scalar(None, field.type)) for found in constants]
            pieces = [pa.repeat(value, 1) for value in values] or [pa.nulls(0, field.type)]
            arrays.append(pa.concat_arrays(pieces))
        names = [sql.file_column(), *self._schema.names]
        self._connection.register(sql.INCOMING, pa.Table.from_arrays(arrays, names=names))
        self._connection.execute(f"CREATE TABLE {sql.FILES} AS SELECT * FROM {sql.INCOMING}")  # noqa: S608
        self._connection.unregister(sql.INCOMING)

    def _rewrite(self, candidates: list[Candidate], matched: dict[int, int]) -> list[TargetFile]:
        strategy = self._rule.strategy
        work = sorted(matched) if strategy.updates else []
        self._connection.execute("SET threads = 1")
        # Moved rows of several files would meet in one place: those files are worked on one after the other.
        with ThreadPoolExecutor(1 if self._rewriter.movable else self._threads) as pool:
            for done in [pool.submit(self._rewrite_file, number, candidates[number]) for number in work]:
                done.result()
        self._connection.execute(f"SET threads = {self._threads}")
        changed = {candidates[number].file.path for number in work}
        return [file for file in self._target.files if strategy.deletes or file.path in changed]

    def _rewrite_file(self, number: int, candidate: Candidate) -> None:
        query = sql.rewrite(number, self._url(candidate.file), self._rule, self._types, inside=candidate.columns)
        new = self._output.replacement(candidate.file)
        cursor = self._connection.cursor()
        try:
            with _naming_damage([candidate], self._reader.rows):
                for batch in cursor.sql(query).to_arrow_reader(self._batch_rows):
                    self._rewriter.put(candidate.file, new, conform(batch, self._schema))
            new.close()
        except BaseException:
            new.abandon()
            raise
        finally:
            cursor.close()

    def _insert(self) -> int:
        if not self._rule.strategy.inserts:
            return 0
        count = 0
        for batch in self._connection.sql(sql.inserts(self._schema.names)).to_arrow_reader(self._batch_rows):
            self._inserted.write(conform(batch, self._schema))
            count += batch.num_rows
        return count

    def _url(self, file: TargetFile) -> str:
        return self._target.store.full_url(file.path)


@contextmanager
def _naming_damage(
    candidates: Iterable[Candidate], read: Callable[[Candidate], Iterator[pa.RecordBatch]]
) -> Iterator[None]:
    """If DuckDB fails over these files, has PyArrow read them, which tells a damaged one, and names it.

    DuckDB's own error says neither which file it is, nor whether a file is to blame.
    """
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, pa.ArrowException):
        for candidate in candidates:
            for _ in read(candidate):
                pass
        raise
