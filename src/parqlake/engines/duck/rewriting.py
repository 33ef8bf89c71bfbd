"""Rewriting files for callers that work with DuckDB.

DuckDB has nothing to compute here, and could only do harm: it verifies no page checksums, so that a damaged page would
come out as a sound one, and its `COPY` forgets zones, wide types, field metadata and what may be NULL. So rows go from
reader to writer of PyArrow, and both engines make the same files.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pyarrow as pa

from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.arrow import rewrite_table
from parqlake.engines.arrow.clustering import rows_in_order
from parqlake.engines.arrow.rewrite_table import TableFiles
from parqlake.engines.arrow.rewriting import bytes_for_rows, rewrite_files
from parqlake.engines.duck.clustering import sorted_rows, sorts_rows

__all__ = ["rewrite_files", "rewrite_groups"]


def rewrite_groups(
    groups: Sequence[RewriteGroup],
    spec: WriteSpec,
    store: Store,
    *,
    order: RowOrder | None,
    memory_bytes: int,
) -> list[list[DataFile]]:
    """Rewrites one group of a table's files after the other; DuckDB sorts, where an order is asked for."""
    return rewrite_table.rewrite_groups(groups, spec, store, order=order, memory_bytes=memory_bytes, arrange=_arranged)


def _arranged(files: TableFiles, order: RowOrder, memory_bytes: int) -> Generator[pa.RecordBatch, None, None]:
    if sorts_rows(files.working, memory_bytes):
        return sorted_rows(files, order.columns, order.curve, memory_bytes)
    return rows_in_order(files, order.columns, order.curve, bytes_for_rows(memory_bytes))
