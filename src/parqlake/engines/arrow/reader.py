"""A plan's rows as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from parqlake.core.errors import DataCorruptionError, InvalidPredicateError, ParqlakeError
from parqlake.core.evolution.projection import Projection, loosened
from parqlake.core.os_errors import store_error
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.schema import check_columns_exist, without_ids
from parqlake.engines.arrow.filters import split_filter, whole_filter
from parqlake.engines.arrow.planned_dataset import plan_dataset

_BATCH_ROWS = 131_072
_BATCH_READAHEAD = 4
_LOCAL_READAHEAD_BYTES = 8 * 1024 * 1024
_REMOTE_READAHEAD_BYTES = 64 * 1024 * 1024
_MAX_FILES_AHEAD = 16


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
        yield from _scan_alike(_Run(tuple(group), number, plan, schema), store)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring files that are stored alike."""

    files: tuple[PlannedFile, ...]
    stored_as: int | None
    """The id of the schema that they are projected from; None if they are as the plan's schema says."""
    plan: ReadPlan
    result: pa.Schema

    def steps(self) -> _Steps:
        """What is asked of the dataset, and what is done to its batches."""
        names = self.result.names
        written = self.plan.schema if self.stored_as is None else self.plan.file_schemas[self.stored_as]
        stored = loosened(written)
        # What the folders of imported files say, Arrow puts in by itself: see `planned_dataset`.
        plain = self.stored_as is None or Projection(written, self.plan.schema).reads_by_name
        if plain and stored == written:
            condition = split_filter(self.plan.predicate)
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


def _scan_alike(run: _Run, store: Store) -> Iterator[pa.RecordBatch]:
    files, schema, steps = run.files, run.result, run.steps()
    position = 0
    try:
        dataset = plan_dataset(ReadPlan(steps.stored, files), store)
        scanner = dataset.scanner(
            columns=list(dict.fromkeys(steps.read)),
            filter=steps.pushed,
            batch_size=_BATCH_ROWS,
            batch_readahead=_BATCH_READAHEAD,
            fragment_readahead=_files_ahead(files, store),
        )
        places = {path: number for number, path in enumerate(dataset.files)}
        for tagged in scanner.scan_batches():
            position = places.get(tagged.fragment.path, position)
            batch = tagged.record_batch
            if steps.projection is not None:
                batch = steps.projection.apply(batch, steps.columns)
            if steps.after is not None and batch.num_rows:
                batch = batch.filter(steps.after).select(schema.names)
            if batch.num_rows:
                yield batch if batch.schema.equals(schema, check_metadata=True) else _relabelled(batch, schema)
    except ParqlakeError:
        raise
    except (OSError, pa.ArrowException) as error:
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


def damaged(error: Exception, file: PlannedFile) -> Exception:
    """What is raised for a file that cannot be read."""
    what_to_do = "restore it from a copy, or go back to a version that does not need it"
    if isinstance(error, FileNotFoundError):
        return DataCorruptionError(f'data file "{file.path}" is missing from the store; {what_to_do}')
    if isinstance(error, PermissionError):
        return store_error(error, "read", file.path, writing=False)
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return DataCorruptionError(f'data file "{file.path}" is damaged ({reason}); {what_to_do}')
