"""Whether a folder's rows already lie along the curve: from marks, then from statistics, then from a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parqlake.core.clustering import Layout, is_clustered, is_one_run
from parqlake.core.merging.conforming import conform, working_schema
from parqlake.datasets.place import Place
from parqlake.datasets.survey import SurveyedFile

_SAMPLE_ROWS = 20_000
_SAMPLE_ROWS_PER_FILE = 20
_BATCH_ROWS = 8192
_BUFFER_BYTES = 1024 * 1024


def is_laid_out(place: Place, files: Sequence[SurveyedFile], columns: Sequence[str], schema: pa.Schema) -> bool:
    """Whether to lay the rows of a folder out anew by the columns would hardly help.

    Args:
        place: the dataset.
        files: all data files of the folder.
        columns: the clustering columns, all of which some file holds.
        schema: what the files have in common.
    """
    if not columns or not any(file.info.num_rows for file in files):
        return True
    footers = [file.footer for file in files]
    if is_one_run([footer.metadata for footer in footers], columns):
        return True
    layout = Layout.from_footers(footers, columns)
    wanted = working_schema(pa.schema([schema.field(name).with_nullable(True) for name in columns]))
    if len(layout) == 1:  # one row group: only the rows themselves can tell
        return len(columns) == 1 and _is_sorted(place, files, wanted)
    found = is_clustered(layout)
    if found is None:
        found = is_clustered(layout, _sample(place, files, wanted))
    return bool(found)


def _is_sorted(place: Place, files: Sequence[SurveyedFile], schema: pa.Schema) -> bool:
    """Whether the one column is in ascending order, NULLs last."""
    column = pa.Table.from_batches(list(_batches(place, files, schema)), schema=schema).column(0)
    values = column.slice(0, len(column) - column.null_count)
    if values.null_count:
        return False
    if len(values) < 2:
        return True
    try:
        return bool(pc.all(pc.less_equal(values.slice(0, len(values) - 1), values.slice(1))).as_py())
    except pa.ArrowNotImplementedError:
        return False


def _sample(place: Place, files: Sequence[SurveyedFile], schema: pa.Schema) -> pa.Table:
    """Some thousand rows from everywhere, always the same ones; one batch is in memory at a time."""
    total = sum(file.info.num_rows for file in files)
    wanted = min(total, max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_FILE * len(files)))
    positions = np.unique(np.random.default_rng(0).integers(0, total, wanted))
    start, taken = 0, []
    for batch in _batches(place, files, schema):
        first, last = np.searchsorted(positions, [start, start + batch.num_rows])
        if last > first:
            taken.append(batch.take(pa.array(positions[first:last] - start)))
        start += batch.num_rows
    return pa.Table.from_batches(taken, schema=schema)


def _batches(place: Place, files: Sequence[SurveyedFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    filesystem = place.arrow_filesystem()
    for file in files:
        names = [name for name in schema.names if name in file.schema.names]
        if not names:
            yield pa.RecordBatch.from_arrays(
                [pa.nulls(file.info.num_rows, field.type) for field in schema], schema=schema
            )
            continue
        # Piece by piece and in one thread: a file may be one row group, larger than the memory that there is.
        with pq.ParquetFile(
            place.full_path(file.path), filesystem=filesystem, pre_buffer=False, buffer_size=_BUFFER_BYTES
        ) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=names, use_threads=False):
                yield conform(batch, schema)
