"""A plan's rows as a stream of batches."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from parqlake.core.errors import DataCorruptionError, InvalidPredicateError, ParqlakeError, StoreError
from parqlake.core.evolution.projection import Projection, loosened
from parqlake.core.os_errors import store_error
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.predicates.evaluate import is_true
from parqlake.core.predicates.tree import Predicate
from parqlake.core.schema import check_columns_exist, without_ids
from parqlake.engines.arrow.direct_reader import opened, reads_directly
from parqlake.engines.arrow.filters import split_filter, whole_filter
from parqlake.engines.arrow.ranges import FetchFailed

_BATCH_ROWS = 131_072
_BATCH_READAHEAD = 4
_LOCAL_READAHEAD_BYTES = 8 * 1024 * 1024
_REMOTE_READAHEAD_BYTES = 64 * 1024 * 1024
_MAX_FILES_AHEAD = 16
_OF_THE_FILE = {None, errno.EINVAL, errno.EISDIR, errno.ENOTDIR}
"""Numbers of errors that a file is to blame for, such as an offset in it that leads nowhere."""


def plan_batches(plan: ReadPlan, store: Store) -> pa.RecordBatchReader:
    """The rows, filtered, projected and limited, in the order of the plan's files, as a stream.

    Memory is bounded by what is read ahead, a few batches of a few files. A file that is missing or
    damaged raises `DataCorruptionError` with its path, when the stream gets there. Rows of files that were written
    under an older schema are projected first and filtered then.
    """
    schema = without_ids(plan.schema)
    if plan.columns is not None:
        check_columns_exist(plan.columns, schema)
        schema = pa.schema([schema.field(name) for name in plan.columns])
    return pa.RecordBatchReader.from_batches(schema, _limited(_scan(plan, schema, store), plan.limit))


def _scan(plan: ReadPlan, schema: pa.Schema, store: Store) -> Iterator[pa.RecordBatch]:
    files = _needed(plan)
    if not files or plan.limit == 0:
        return

    def stored_as(file: PlannedFile) -> int | None:
        return file.schema_id if file.schema_id in plan.file_schemas else None

    for number, group in groupby(files, stored_as):
        run = _Run(tuple(group), number, plan, schema)
        steps = run.steps(at_once=False)
        if schema.names and reads_directly(run.files, steps.read, store):
            yield from _read_directly(run, steps, store)
        else:
            yield from _scan_alike(run, store)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring files that are stored alike."""

    files: tuple[PlannedFile, ...]
    stored_as: int | None
    """The id of the schema that they are projected from; None if they are as the plan's schema says."""
    plan: ReadPlan
    result: pa.Schema

    def steps(self, *, at_once: bool = True) -> _Steps:
        """What is asked of the files, and what is done to their batches.

        With `at_once` Arrow's dataset filters what it can by itself.
        """
        names = self.result.names
        written = self.plan.schema if self.stored_as is None else self.plan.file_schemas[self.stored_as]
        stored = loosened(written)
        # What the folders of imported files say, Arrow puts in by itself: see `planned_dataset`.
        plain = self.stored_as is None or Projection(written, self.plan.schema).reads_by_name
        if plain and stored == written:
            condition = split_filter(self.plan.predicate) if at_once else whole_filter(self.plan.predicate)
            columns = (*names, *sorted(condition.columns - set(names)))
            return _Steps(self.plan.schema, columns, condition.pushed, None, columns, condition.after)
        projection = Projection(stored, self.plan.schema)
        condition = whole_filter(self.plan.predicate)
        columns = (*names, *sorted(condition.columns - set(names)))
        return _Steps(stored, projection.stored_columns(columns), None, projection, columns, condition.after)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Read, project, filter."""

    stored: pa.Schema
    read: tuple[str, ...]
    pushed: Any
    projection: Projection | None
    columns: tuple[str, ...]
    after: Any


def _read_directly(run: _Run, steps: _Steps, store: Store) -> Iterator[pa.RecordBatch]:
    """One file after the other; what Arrow's dataset would have to make to fit is left to it."""
    columns = tuple(dict.fromkeys(steps.read))
    stored = without_ids(steps.stored)
    try:
        for piece in opened(run.files, columns, store):
            if not piece.fits(stored, columns):
                part = replace(piece.file, row_groups=tuple(piece.row_groups))
                yield from _scan_alike(replace(run, files=(part,)), store)
                continue
            for batch in _rows_of(piece, columns):
                rows = batch if steps.projection is None else steps.projection.apply(batch, steps.columns)
                if run.plan.predicate is not None:
                    rows = filtered(rows, run.plan.predicate)
                if rows.num_rows:
                    yield _relabelled(rows.select(run.result.names), run.result)
    except FetchFailed as failed:
        raise damaged(failed.reason, failed.file, on_the_way=failed.on_the_way) from failed.reason


def _rows_of(piece: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    batches = piece.batches(columns, _BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowException) as error:
            raise FetchFailed(piece.file, error) from error
        if batch is None:
            return
        yield batch


def filtered(rows: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
    """The rows for which the predicate is TRUE."""
    try:
        kept = is_true(rows, predicate)
    except pa.ArrowException as error:
        raise InvalidPredicateError(f"the predicate cannot be computed for these rows: {error}") from error
    return rows if kept.all() else rows.filter(pa.array(kept))


def _scan_alike(run: _Run, store: Store) -> Iterator[pa.RecordBatch]:
    from parqlake.engines.arrow.planned_dataset import plan_dataset  # pyarrow.dataset loads pandas: 0.5 s

    files, schema, steps = run.files, run.result, run.steps()
    last = None
    try:
        dataset = plan_dataset(ReadPlan(steps.stored, files), store)
        scanner = dataset.scanner(
            columns=list(dict.fromkeys(steps.read)),
            filter=steps.pushed,
            batch_size=_BATCH_ROWS,
            batch_readahead=_BATCH_READAHEAD,
            fragment_readahead=_files_ahead(files, store),
        )
        for last in scanner.scan_batches():
            batch = last.record_batch
            if steps.projection is not None:
                batch = steps.projection.apply(batch, steps.columns)
            if steps.after is not None and batch.num_rows:
                batch = batch.filter(steps.after).select(schema.names)
            if batch.num_rows:
                yield batch if batch.schema.equals(schema, check_metadata=True) else _relabelled(batch, schema)
    except ParqlakeError:
        raise
    except (OSError, pa.ArrowException) as error:
        read = None if last is None else last.fragment.path
        position = next((number for number, file in enumerate(files) if store.full_path(file.path) == read), 0)
        raise _explained(error, files[position:], run, steps, store) from error


def _needed(plan: ReadPlan) -> tuple[PlannedFile, ...]:
    """The files that a limit lets one stop at; known beforehand if nothing is filtered."""
    if plan.limit is None or plan.predicate is not None:
        return plan.files
    rows = 0
    for number, file in enumerate(plan.files):
        if rows >= plan.limit:
            return plan.files[:number]
        rows += file.row_count
    return plan.files


def _files_ahead(files: tuple[PlannedFile, ...], store: Store) -> int:
    """Small files are read many at a time, large ones two; far stores further ahead, to hide their delay."""
    mean = max(1, sum(file.read_bytes for file in files) // len(files))
    budget = _LOCAL_READAHEAD_BYTES if store.is_local else _REMOTE_READAHEAD_BYTES
    return max(2, min(_MAX_FILES_AHEAD, budget // mean))


def _relabelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _explained(error: Exception, files: tuple[PlannedFile, ...], run: _Run, steps: _Steps, store: Store) -> Exception:
    """Finds the file at fault by reading each alone, since Arrow does not always name it."""
    from parqlake.engines.arrow.planned_dataset import plan_dataset

    for file in files:
        try:
            alone = plan_dataset(ReadPlan(steps.stored, (file,)), store)
            columns = run.result.names if steps.projection is None else list(dict.fromkeys(steps.read))
            for _ in alone.to_batches(columns=columns, batch_readahead=1, fragment_readahead=1):
                pass
        except (OSError, pa.ArrowException) as found:
            return damaged(found, file)
    if run.plan.predicate is not None and isinstance(error, pa.ArrowException):
        return InvalidPredicateError(f"the predicate cannot be computed for these rows: {error}")
    if isinstance(error, OSError):
        return store_error(error, "read", files[0].path, writing=False)
    return DataCorruptionError(f'reading "{files[0].path}" or a later file failed: {error}')


def damaged(error: Exception, file: PlannedFile, *, on_the_way: bool = False) -> Exception:
    """What is raised for a file that cannot be read.

    Args:
        error: what was raised.
        file: the file.
        on_the_way: whether the way to the store is known to be at fault; what cannot come from a file counts as well.
    """
    what_to_do = "restore it from a copy, or go back to a version that does not need it"
    if isinstance(error, FileNotFoundError):
        return DataCorruptionError(f'data file "{file.path}" is missing from the store; {what_to_do}')
    if isinstance(error, PermissionError):
        return store_error(error, "read", file.path, writing=False)
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    number = getattr(error, "errno", None)  # what Arrow says of a file's content has none
    if on_the_way or isinstance(error, ConnectionError | TimeoutError) or number not in _OF_THE_FILE:
        return StoreError(f'cannot read "{file.path}": {reason}; check the way to the store, then run it again')
    return DataCorruptionError(f'data file "{file.path}" is damaged ({reason}); {what_to_do}')
