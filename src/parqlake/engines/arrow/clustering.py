"""Clustering with PyArrow: rows laid out along a curve over several columns, in files that do not overlap.

Three passes with bounded memory: a sample tells the ranks of the columns and where ranges of codes begin; all rows go
to their ranges, on local disk; the ranges are sorted, one after the other, and written as one stream that is cut at the
rows planned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import uuid_utils

from parqlake.core.clustering import Curve, clustering_mark
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow.cluster_codes import CodePlan, plan_codes
from parqlake.engines.arrow.cluster_ranges import CodeRanges, range_bytes
from parqlake.engines.arrow.cluster_sample import check_columns
from parqlake.engines.arrow.cluster_texts import TextCodes, TooManyTextsError
from parqlake.engines.arrow.read_ahead import read_ahead
from parqlake.engines.arrow.rewrite_ahead import rows_ahead
from parqlake.engines.arrow.rewrite_output import OutputFiles
from parqlake.engines.arrow.rewrite_source import SourceFiles
from parqlake.engines.arrow.rewriting import DEFAULT_MEMORY_BYTES, bytes_for_rows, check_options, planned_rows

_AHEAD_SHARE = 16
"""The share of memory that rows take which are made ahead: a batch or two."""


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

    Rows are sorted by (code, columns), NULLs last, across all new files: their ranges of codes meet but do not
    overlap. One column is a plain sort. The footers carry a mark of the columns, the curve and this call.
    The new files are durable when the call returns; if it raises, none of them is left.

    Args:
        store: where all files lie.
        sources: paths relative to the store's root.
        new_path: gives the path of the next new file, relative to the store's root.
        columns: 1 to 8 columns to cluster by.
        schema: of the new files, as in `rewrite_files`.
        rows: rows of each new file; together as many as the sources hold.
        compression: snappy, zstd, gzip, lz4, brotli or none.
        memory_bytes: how much memory to use, as in `rewrite_files`; what does not fit goes to the system's temporary
            folder.
        curve: Hilbert or Morton.
        metadata: entries for the new files' footers, beside those of the schema; may hold another mark.

    Returns:
        The new files, in order.

    Raises:
        ColumnNotFoundError: there is no such column.
        UnsupportedTypeError: a column has no order.
        Everything that `rewrite_files` raises.
    """
    check_options(schema=schema, compression=compression, memory_bytes=memory_bytes)
    check_columns(columns, schema)
    memory_bytes = bytes_for_rows(memory_bytes)
    found = SourceFiles(store, sources, schema, memory_bytes=memory_bytes)
    output = OutputFiles(
        store,
        new_path,
        schema=schema,
        rows=planned_rows(rows, found.rows),
        compression=compression,
        memory_bytes=memory_bytes,
        metadata=new_mark(columns, curve, len(rows)) | dict(metadata or {}),
        taken=sources,
    )
    return output.write_all(rows_in_order(found, columns, curve, memory_bytes))


def new_mark(columns: Sequence[str], curve: Curve, files: int) -> dict[bytes, bytes]:
    """The footer entry of files that are laid out together, unlike that of any other call."""
    return clustering_mark(columns, curve, run=str(uuid_utils.uuid7()), files=files)


def rows_in_order(
    sources: SourceFiles, columns: Sequence[str], curve: Curve | None, memory_bytes: int
) -> Generator[pa.RecordBatch, None, None]:
    """All rows of the sources along the curve over the columns, or plainly sorted by them if there is none."""
    if not sources.rows:
        return
    plan = plan_codes(sources, columns, curve, range_bytes(memory_bytes), memory_bytes=memory_bytes)
    with closing(put_in_ranges(sources, plan, columns, memory_bytes)) as filled:
        ordered = filled.ranges.in_order()
        if sources.can_read_ahead:  # rows are sorted while others are encoded
            ordered = read_ahead(ordered, max_bytes=memory_bytes // _AHEAD_SHARE)
        with closing(ordered):
            for batch in ordered:
                yield filled.texts.texts(batch)


@dataclass(frozen=True, slots=True)
class Filled:
    """All rows in their ranges, with numbers for texts of few values."""

    ranges: CodeRanges
    plan: CodePlan
    texts: TextCodes

    def close(self) -> None:
        """Deletes what was put aside."""
        self.ranges.close()


def put_in_ranges(sources: SourceFiles, plan: CodePlan, columns: Sequence[str], memory_bytes: int) -> Filled:
    """Puts all rows of the sources into their ranges; others are read meanwhile where there is memory for it."""
    try:
        return _put_in_ranges(sources, plan, columns, memory_bytes)
    except TooManyTextsError:  # the first file was not like the others
        return _put_in_ranges(sources, plan, sources.working.names, memory_bytes)


def _put_in_ranges(sources: SourceFiles, plan: CodePlan, plain: Sequence[str], memory_bytes: int) -> Filled:
    with closing(rows_ahead(sources, memory_bytes=memory_bytes, plain=plain)) as rows:
        first = next(rows)
        assert isinstance(first, pa.RecordBatch)  # without a rule nothing is copied
        texts = TextCodes(first.schema)
        plan = plan.carrying(texts.schema)
        ranges = CodeRanges(plan.schema, len(plan.cuts) + 1, plan.order, memory_bytes=memory_bytes)
        coded = plan.coded(map(texts.numbered, chain([first], rows)))
        if sources.can_read_ahead:
            coded = read_ahead(coded, max_bytes=memory_bytes // _AHEAD_SHARE, size=lambda pair: int(pair[0].nbytes))
        try:
            with closing(coded):
                for batch, parts in coded:
                    ranges.push(batch, parts)
        except BaseException:
            ranges.close()
            raise
    return Filled(ranges, plan, texts)
