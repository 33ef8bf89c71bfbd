"""A plan's rows as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from parqlake.core.errors import DataCorruptionError, InvalidPredicateError, ParqlakeError
from parqlake.core.os_errors import store_error
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.schema import check_columns_exist, without_ids
from parqlake.engines.arrow.filters import split_filter
from parqlake.engines.arrow.planned_dataset import plan_dataset

_BATCH_ROWS = 131_072
_BATCH_READAHEAD = 4
_LOCAL_READAHEAD_BYTES = 8 * 1024 * 1024
_REMOTE_READAHEAD_BYTES = 64 * 1024 * 1024
_MAX_FILES_AHEAD = 16


def plan_batches(plan: ReadPlan, store: Store) -> pa.RecordBatchReader:
    """The rows, filtered, projected and limited, in the order of the plan's files, as a stream.

    Memory is bounded by what is read ahead, a few batches of a few files. A file that is missing or
    damaged raises `DataCorruptionError` with its path, when the stream gets there.
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
    scanned = ReadPlan(schema=plan.schema, files=files)
    position = 0
    try:
        dataset = plan_dataset(scanned, store)
        condition = split_filter(plan.predicate)
        scanner = dataset.scanner(
            columns=[*schema.names, *sorted(condition.columns - set(schema.names))],
            filter=condition.pushed,
            batch_size=_BATCH_ROWS,
            batch_readahead=_BATCH_READAHEAD,
            fragment_readahead=_files_ahead(files, store),
        )
        places = {path: number for number, path in enumerate(dataset.files)}
        for tagged in scanner.scan_batches():
            position = places.get(tagged.fragment.path, position)
            batch = tagged.record_batch
            if condition.after is not None and batch.num_rows:
                batch = batch.filter(condition.after).select(schema.names)
            if batch.num_rows:
                yield batch if batch.schema.equals(schema, check_metadata=True) else _relabelled(batch, schema)
    except ParqlakeError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise _explained(error, files[position:], plan, schema, store) from error


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


def _explained(
    error: Exception, files: tuple[PlannedFile, ...], plan: ReadPlan, schema: pa.Schema, store: Store
) -> Exception:
    """Finds the file at fault by reading each alone, since Arrow does not always name it."""
    for file in files:
        try:
            alone = plan_dataset(ReadPlan(schema=plan.schema, files=(file,)), store)
            for _ in alone.to_batches(columns=schema.names, batch_readahead=1, fragment_readahead=1):
                pass
        except (OSError, pa.ArrowException) as found:
            return _damaged(found, file)
    if plan.predicate is not None and isinstance(error, pa.ArrowException):
        return InvalidPredicateError(f"the predicate cannot be computed for these rows: {error}")
    if isinstance(error, OSError):
        return store_error(error, "read", files[0].path, writing=False)
    return DataCorruptionError(f'reading "{files[0].path}" or a later file failed: {error}')


def _damaged(error: Exception, file: PlannedFile) -> Exception:
    what_to_do = "restore it from a copy, or go back to a version that does not need it"
    if isinstance(error, FileNotFoundError):
        return DataCorruptionError(f'data file "{file.path}" is missing from the store; {what_to_do}')
    if isinstance(error, PermissionError):
        return store_error(error, "read", file.path, writing=False)
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return DataCorruptionError(f'data file "{file.path}" is damaged ({reason}); {what_to_do}')
