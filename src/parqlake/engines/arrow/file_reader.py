"""A plan's rows with little memory: file after file, a few rows at a time, in the thread of whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.evolution.projection import Projection
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.schema import without_ids
from parqlake.engines.arrow.reader import damaged, filtered, plan_batches

_BATCH_ROWS = 8 * 1024
_FEWEST_ROWS = 1024
_BATCH_BYTES = 4 * 1024 * 1024


def small_batches(plan: ReadPlan, store: Store) -> pa.RecordBatchReader:
    """All columns of the planned rows, filtered, in the order of the plan's files, as a stream.

    Gives what `plan_batches` gives. That decodes whole row groups of several files ahead, which is faster for one
    reader; here nothing is read ahead and no thread is started, which is better for several readers at a time. Files
    that are not stored as the table says (imported ones, say) are left to it.
    """
    if plan.columns is not None or plan.limit is not None:
        return plan_batches(plan, store)
    schema = without_ids(plan.schema)
    batches = (batch for file in plan.files for batch in _of_file(replace(plan, files=(file,)), schema, store))
    return pa.RecordBatchReader.from_batches(schema, batches)


def _of_file(plan: ReadPlan, schema: pa.Schema, store: Store) -> Iterator[pa.RecordBatch]:
    (file,) = plan.files
    written = plan.file_schemas.get(file.schema_id)
    with _opened(file, store) as parquet:
        if not _alike(parquet.schema_arrow, without_ids(plan.schema if written is None else written)):
            yield from plan_batches(plan, store)
            return
        projection = None if written is None else Projection(written, plan.schema)
        for batch in _batches(parquet, file):
            rows = batch if projection is None else projection.apply(batch)
            kept = rows if plan.predicate is None else filtered(rows, plan.predicate)
            if kept.num_rows:
                yield pa.RecordBatch.from_arrays(kept.columns, schema=schema)


def _opened(file: PlannedFile, store: Store) -> Any:
    try:
        return pq.ParquetFile(
            store.full_path(file.path),
            filesystem=store.arrow_filesystem(),
            page_checksum_verification=True,
            pre_buffer=not store.is_local,
        )
    except (OSError, pa.ArrowException) as error:
        raise damaged(error, file) from error


def _batches(parquet: Any, file: PlannedFile) -> Iterator[pa.RecordBatch]:
    footer = parquet.metadata
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    fitting = _BATCH_BYTES * footer.num_rows // max(1, size)
    groups = None if file.row_groups is None else list(file.row_groups)
    try:
        yield from parquet.iter_batches(
            batch_size=max(_FEWEST_ROWS, min(_BATCH_ROWS, fitting)), row_groups=groups, use_threads=False
        )
    except (OSError, pa.ArrowException) as error:
        raise damaged(error, file) from error


def _alike(own: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a file holds exactly the columns wanted, in their order, of their types."""
    return bool(own.names == wanted.names and own.types == wanted.types)
