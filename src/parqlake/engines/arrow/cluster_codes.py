"""What clustering learns before it moves a row: the codes of rows, and where ranges of codes begin."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.clustering import Curve, RankModel, cut_codes, part_of
from parqlake.engines.arrow.cluster_sample import draw_sample
from parqlake.engines.arrow.cluster_sorting import CODE, RowOrder
from parqlake.engines.arrow.rewrite_source import SourceFiles

_MAX_RANGES = 512
"""More would be put aside in pieces too small to be worth it; longer ranges are sorted in runs."""

Coded = tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]
"""Rows, and the range of each if there are several."""


@dataclass(frozen=True, slots=True)
class CodePlan:
    """How rows get their codes and their ranges."""

    model: RankModel | None
    """None if one column in one range needs no code."""
    curve: Curve
    cuts: npt.NDArray[np.uint64]
    schema: pa.Schema
    """Of rows under way; the last column is the code, where several columns make one."""
    order: RowOrder

    def carrying(self, rows: pa.Schema) -> CodePlan:
        """The same for rows of other types; not of the columns that make the code."""
        fields = [*rows, self.schema.field(len(self.schema) - 1)] if self.order.has_code else list(rows)
        return replace(self, schema=pa.schema(fields))

    def coded(self, batches: Iterable[pa.RecordBatch]) -> Generator[Coded, None, None]:
        """The rows, with their codes as last column where needed, and the range of each if there are several."""
        for batch in batches:
            if self.model is None:
                yield batch, None
                continue
            codes = self.model.codes(batch, self.curve)
            parts = part_of(codes, self.cuts) if len(self.cuts) else None
            if self.order.has_code:
                arrays = [*batch.columns, pa.array(codes, pa.uint64())]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema), parts
            else:
                yield batch, parts


def plan_codes(
    sources: SourceFiles, columns: Sequence[str], curve: Curve | None, range_bytes: int, *, memory_bytes: int
) -> CodePlan:
    """Learns the ranks of the columns from a sample, and cuts the codes into ranges of about so many bytes.

    Without a curve rows are sorted by one column after the other: ranges of the first one are enough.
    """
    count = min(_MAX_RANGES, -(-sources.rows * sources.row_bytes // range_bytes))
    has_code = len(columns) > 1 and curve is not None  # the order of one column is that of its code, and finer
    schema = pa.schema([*sources.working, pa.field(CODE, pa.uint64())]) if has_code else sources.working
    order = RowOrder([sources.working.get_field_index(name) for name in columns], has_code=has_code)
    along = Curve.HILBERT if curve is None else curve  # all the same for a single column
    if count == 1 and not has_code:
        return CodePlan(None, along, np.zeros(0, dtype=np.uint64), schema, order)
    ranked = columns if has_code else columns[:1]
    sample = draw_sample(sources, ranked, memory_bytes=memory_bytes)
    model = RankModel.fit(sample, ranked)
    return CodePlan(model, along, cut_codes(model.codes(sample, along), count), schema, order)
