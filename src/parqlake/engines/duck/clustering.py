"""Clustering with DuckDB: it sorts the ranges of codes, one after the other, within its limit of memory.

The codes are those that PyArrow uses, from the same functions, so that both engines lay rows out alike. PyArrow reads,
because DuckDB verifies no page checksums, and writes, because DuckDB's files forget zones, wide types and what may be
NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.clustering import Curve
from parqlake.core.errors import StoreError
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow import clustering as arrow_clustering
from parqlake.engines.arrow.cluster_codes import CodePlan, plan_codes
from parqlake.engines.arrow.cluster_sample import check_columns
from parqlake.engines.arrow.clustering import new_mark, put_in_ranges
from parqlake.engines.arrow.rewrite_output import OutputFiles
from parqlake.engines.arrow.rewrite_source import BATCH_ROWS, SourceFiles
from parqlake.engines.arrow.rewriting import DEFAULT_MEMORY_BYTES, bytes_for_rows, check_options, planned_rows
from parqlake.engines.duck.cluster_connection import carrier_type, sort_connection
from parqlake.engines.duck.errors import mapped_error
from parqlake.engines.duck.feed import Feed

_SOURCE = "parqlake_rows"
_BATCH_SHARE = 16
_RANGES_IN_MEMORY = 3
"""DuckDB 2.0 holds a block of every sorted run: with little memory it fails at data of its limit's size rather than
go to disk. Measured with rows of 40 bytes to 20 kB, half of the limit is always sorted."""
_LEAST_BYTES = 256 * 1024 * 1024
"""With less, what DuckDB takes beside its limit leaves too little for the rest."""


def cluster_files(
    store: Store,
    sources: Sequence[str],
    new_path: Callable[[], str],
    *,
    columns: Sequence[str],
    schema: pa.Schema,
    rows: Sequence[int],
    compression: str,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    curve: Curve = Curve.HILBERT,
    metadata: Mapping[bytes, bytes] | None = None,
) -> list[FileInfo]:
    """Writes all rows of the sources to new files, ordered along the curve over the columns; deletes nothing else.

    Promises what `parqlake.engines.arrow.clustering.cluster_files` does, with the same arguments and errors. What
    DuckDB cannot do is left to PyArrow: to keep to less than 256 MB, a schema with a type whose values it does not hold
    exactly, and a range of equal rows that is too long for it.
    """
    cluster = arrow_clustering.cluster_files if memory_bytes < _LEAST_BYTES else cluster_with_duckdb
    return cluster(
        store,
        sources,
        new_path,
        columns=columns,
        schema=schema,
        rows=rows,
        compression=compression,
        memory_bytes=memory_bytes,
        curve=curve,
        metadata=metadata,
    )


def cluster_with_duckdb(
    store: Store,
    sources: Sequence[str],
    new_path: Callable[[], str],
    *,
    columns: Sequence[str],
    schema: pa.Schema,
    rows: Sequence[int],
    compression: str,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    curve: Curve = Curve.HILBERT,
    metadata: Mapping[bytes, bytes] | None = None,
) -> list[FileInfo]:
    """Does what `cluster_files` does, however little memory there is; half of it is DuckDB's, at least 32 MB."""
    check_options(schema=schema, compression=compression, memory_bytes=memory_bytes)
    check_columns(columns, schema)
    half = bytes_for_rows(memory_bytes // 2)
    found = SourceFiles(store, sources, schema, memory_bytes=half)
    carriers = [carrier_type(field.type) for field in found.working]
    if not found.rows or None in carriers:
        return arrow_clustering.cluster_files(
            store,
            sources,
            new_path,
            columns=columns,
            schema=schema,
            rows=rows,
            compression=compression,
            memory_bytes=memory_bytes,
            curve=curve,
            metadata=metadata,
        )
    output = OutputFiles(
        store,
        new_path,
        schema=schema,
        rows=planned_rows(rows, found.rows),
        compression=compression,
        memory_bytes=half,
        metadata=new_mark(columns, curve, len(rows)) | dict(metadata or {}),
        taken=sources,
    )
    return output.write_all(sorted_rows(found, columns, curve, memory_bytes))


def sorts_rows(working: pa.Schema, memory_bytes: int) -> bool:
    """Whether DuckDB can sort such rows within the memory, and keep every value as it is."""
    return memory_bytes >= _LEAST_BYTES and all(carrier_type(field.type) is not None for field in working)


def sorted_rows(
    sources: SourceFiles, columns: Sequence[str], curve: Curve | None, memory_bytes: int
) -> Generator[pa.RecordBatch, None, None]:
    """All rows in order: range after range, each sorted by DuckDB."""
    half = max(1, memory_bytes // 2)
    # The sample is that of PyArrow, so that the codes are, too.
    sampling = bytes_for_rows(memory_bytes)
    plan = plan_codes(sources, columns, curve, max(1, half // _RANGES_IN_MEMORY), memory_bytes=sampling)
    step = max(1, min(BATCH_ROWS, half // _BATCH_SHARE // sources.row_bytes))
    places = [sources.working.get_field_index(name) for name in columns]
    with closing(put_in_ranges(sources, plan, columns, half)) as filled, sort_connection(half) as connection:
        sorter = _Sorter(filled.plan, places, len(sources.working), step)
        ordered = filled.ranges.in_order(lambda rows: sorter.sort(connection, rows), sort_bytes=half // 2)
        for batch in ordered:
            yield filled.texts.texts(batch)


class _Sorter:
    """Sorts rows in DuckDB. Columns have numbers for names there, since DuckDB tells no upper from lower case."""

    def __init__(self, plan: CodePlan, columns: Sequence[int], width: int, step: int) -> None:
        fields = [pa.field(f"c{n}", carrier_type(field.type)) for n, field in enumerate(plan.schema)]
        order = ([len(fields) - 1] if plan.order.has_code else []) + list(columns)
        order.append(len(fields))  # equal rows stay in their order, as with PyArrow
        self._carried = pa.schema(fields)
        self._carrier = self._carried.append(pa.field(f"c{len(fields)}", pa.int64()))
        self._working = pa.schema(list(plan.schema)[:width])
        self._step = step
        self._query = (
            f"SELECT {', '.join(field.name for field in fields[:width])} FROM {_SOURCE} "  # noqa: S608
            f"ORDER BY {', '.join(f'c{place} ASC NULLS LAST' for place in order)}"
        )

    def sort(self, connection: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows in order, `step` at a time."""
        import duckdb

        feed = Feed(pa.RecordBatchReader.from_batches(self._carrier, self._numbered(batches)), self._carrier)
        connection.register(_SOURCE, feed.reader())
        count = 0
        try:
            for batch in connection.sql(self._query).to_arrow_reader(self._step):
                count += batch.num_rows
                yield _seen_as(batch, self._working)
        except (duckdb.Error, pa.ArrowException) as error:
            if feed.error is not None:
                raise feed.error from None
            raise mapped_error(error, "the temporary folder") from error
        finally:
            with suppress(duckdb.Error):
                connection.unregister(_SOURCE)
        if count != feed.rows:
            raise StoreError(f'DuckDB sorted {count} of {feed.rows} rows; run it again, or use engine="pyarrow"')

    def _numbered(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as DuckDB holds them, and their numbers."""
        start = 0
        for batch in batches:
            numbers = pa.array(np.arange(start, start + batch.num_rows), pa.int64())
            start += batch.num_rows
            columns = [*_seen_as(batch, self._carried).columns, numbers]
            yield pa.RecordBatch.from_arrays(columns, schema=self._carrier)


def _seen_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the schema's types: moments by their bits, others by their values."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if column.type == field.type:
            columns.append(column)
        elif pa.types.is_timestamp(field.type):
            columns.append(column.view(field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
