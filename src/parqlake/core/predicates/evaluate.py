"""Bound predicates and expressions, computed for rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.predicates.to_arrow import expression_to_arrow, to_arrow
from parqlake.core.predicates.tree import TRUE, Expr, Predicate


def is_true(batch: pa.RecordBatch, predicate: Predicate) -> npt.NDArray[np.bool_]:
    """For each row whether the predicate is TRUE, rather than FALSE or unknown."""
    if predicate == TRUE or not batch.num_rows:
        return np.ones(batch.num_rows, dtype=np.bool_)
    found = pc.fill_null(_projected(pa.Table.from_batches([batch]), to_arrow(predicate)), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def value_of(batch: pa.RecordBatch, expr: Expr) -> pa.Array:
    """The expression's value for each row; an `ArrowException` where it cannot be computed."""
    return _projected(pa.Table.from_batches([batch]), expression_to_arrow(expr))


def _projected(table: pa.Table, expression: Any) -> pa.Array:
    try:
        from pyarrow import _acero as acero  # what the public module is made of, without datasets and pandas: 0.5 s
    except ImportError:
        from pyarrow import acero
    nodes = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["found"])),
    ]
    found = acero.Declaration.from_sequence(nodes).to_table(use_threads=False).column(0)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
