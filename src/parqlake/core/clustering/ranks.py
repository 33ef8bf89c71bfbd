"""Ranks: every column's values on one scale of equal frequency, learned from a sample.

Curves that interleave bits want columns of the same spread. Raw values have none: skew, different ranges and
different types would leave one column deciding everything. A rank is the share of the sample below a value, scaled to
`bits` bits; so any column fills the scale evenly, whatever its type and skew.

Engines that move rows themselves (DuckDB, Spark) do the same with `ColumnRanks`: `rank = ranks[number of boundaries
that are <= value]`, with NaN above every number and text compared as UTF-8 bytes; NULL has `null_rank`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.clustering.curves import Codes, Curve, curve_codes
from parqlake.core.clustering.order_keys import KeyArray, order_keys, plain
from parqlake.core.errors import InvalidOptionError, column_not_found
from parqlake.core.keys import has_bytes_keys

MAX_COLUMNS = 8
MAX_BITS = 16
BOUNDARY_BITS = 12
CODE_BITS = 64
_MAX_TEXT_BYTES = 64
_TABLE_ENTRIES = 16
"""A table may have so many entries for each row of the sample: some megabytes at most, and quickly made."""


@dataclass(frozen=True, slots=True)
class ColumnRanks:
    """How the values of one column become ranks.

    Values up to the first boundary (not included) have `ranks[0]`, those from boundary i on have `ranks[i + 1]`.
    """

    name: str
    boundaries: pa.Array
    """Ascending, all different; text is cut to the bytes that tell boundaries apart."""
    ranks: npt.NDArray[np.uint32]
    """Ascending; one more than there are boundaries."""
    null_rank: int
    """Above all others: NULLs come last."""
    shares: npt.NDArray[np.float64]
    """Share of the sample's rows in each entry of `ranks`, and last the share of NULLs."""
    keys: KeyArray
    """The boundaries' order keys."""
    table: npt.NDArray[np.uint32] | None = None
    """For whole numbers that lie close together, the number of boundaries that are <= each, from the last one below
    all boundaries to the highest boundary: looked up much faster than searched."""

    def steps(self, column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """For each value the number of boundaries that are <= it; for NULLs one more than all of them."""
        values = plain(column, self.name)
        if pa.types.is_null(self.boundaries.type):  # the sample held only NULLs
            return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.int64)
        if len(values) and not values.type.equals(self.boundaries.type):
            values = values.cast(self.boundaries.type)
        if not values.null_count:
            return self._search(values)
        result = np.full(len(values), len(self.keys) + 1, dtype=np.int64)
        result[values.is_valid().to_numpy(zero_copy_only=False)] = self._search(values.drop_null())
        return result

    def rank(self, column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
        """The rank of each value."""
        return np.append(self.ranks, np.uint32(self.null_rank))[self.steps(column)]

    def _search(self, values: pa.Array) -> npt.NDArray[np.int64]:
        if self.table is not None:
            lowest = int(self.keys[0]) - 1
            near = np.clip(order_keys(values), lowest, lowest + len(self.table) - 1).astype(np.int64)
            return np.asarray(self.table[near - lowest], dtype=np.int64)
        width = self.keys.dtype.itemsize if has_bytes_keys(values.type) else 0
        return np.searchsorted(self.keys, order_keys(values, width), side="right")


@dataclass(frozen=True, slots=True)
class RankModel:
    """Ranks of several columns, learned from one sample.

    Example:
        >>> model = RankModel.fit(pa.table({"a": [1, 2, 3, None], "b": ["x", "y", "y", "z"]}), ["a", "b"], bits=4)
        >>> [ranks.tolist() for ranks in model.ranks(pa.table({"a": [0, 3, None], "b": ["y", "a", "zz"]}))]
        [[0, 8, 12], [4, 0, 12]]
    """

    columns: tuple[ColumnRanks, ...]
    bits: int

    @classmethod
    def fit(
        cls, sample: pa.Table, columns: Sequence[str], *, bits: int | None = None, boundary_bits: int | None = None
    ) -> RankModel:
        """Learns the ranks of the columns from a random sample of rows.

        Args:
            sample: some rows; ten for each boundary place it well enough, so 40,000 serve any dataset.
            columns: 1 to 8 names.
            bits: bits of a rank; by default as many as fit into a code of 64, at most 16.
            boundary_bits: a column has fewer than 2 ** boundary_bits boundaries; by default 12, and for a single
                column, which has to tell all files apart alone, as many as `bits`.
        """
        if not 1 <= len(columns) <= MAX_COLUMNS:
            raise InvalidOptionError(
                f"{len(columns)} columns to cluster by; give 1 to {MAX_COLUMNS}, the curve cannot tell more apart"
            )
        if bits is None:
            bits = min(MAX_BITS, CODE_BITS // len(columns))
        if not 2 <= bits <= 32 or bits * len(columns) > CODE_BITS:
            raise InvalidOptionError(
                f"{bits} bits for each of {len(columns)} columns; a code has {CODE_BITS}, a rank at least 2"
            )
        if boundary_bits is None:
            boundary_bits = bits if len(columns) == 1 else BOUNDARY_BITS
        if boundary_bits < 1:
            raise InvalidOptionError(f"boundary_bits is {boundary_bits}; give at least 1")
        steps = 1 << min(bits, boundary_bits)
        for name in columns:
            if name not in sample.schema.names:
                raise column_not_found(name, sample.schema.names)
        return cls(tuple(_fit_column(name, sample.column(name), bits, steps) for name in columns), bits)

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    def ranks(self, batch: pa.Table | pa.RecordBatch) -> list[npt.NDArray[Any]]:
        """The ranks of the rows, column by column: uint16 up to 16 bits, else uint32."""
        type_ = np.uint16 if self.bits <= 16 else np.uint32
        return [column.rank(batch.column(column.name)).astype(type_, copy=False) for column in self.columns]

    def codes(self, batch: pa.Table | pa.RecordBatch, curve: Curve = Curve.HILBERT) -> Codes:
        """The places of the rows on the curve. Sort rows by (code, columns): with one column this is a plain sort."""
        return curve_codes(self.ranks(batch), self.bits, curve)


def _fit_column(name: str, column: pa.ChunkedArray, bits: int, steps: int) -> ColumnRanks:
    values = plain(column, name)
    total = len(values)
    present = values.drop_null() if not pa.types.is_null(values.type) else values.slice(0, 0)
    null_share = (total - len(present)) / total if total else 0.0
    keys = order_keys(present, min(_widest(present), _MAX_TEXT_BYTES) if has_bytes_keys(present.type) else 0)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    picks = _quantiles(ordered, steps)
    boundaries = present.take(pa.array(order[picks]))
    if has_bytes_keys(boundaries.type):
        low = present.take(pa.array(order[:1]))
        boundaries = _cut_text(low, boundaries)
    width = _widest(boundaries) if has_bytes_keys(boundaries.type) else 0
    bound_keys = order_keys(boundaries, width)
    if has_bytes_keys(boundaries.type):
        ordered = order_keys(present, width)[order]
    # The share of all rows, NULLs included, that lie below each boundary: where the boundary's rank begins.
    below = np.searchsorted(ordered, bound_keys, side="left") / max(total, 1)
    top = (1 << bits) - 1
    starts = np.minimum((np.append(0.0, below) * (1 << bits)).astype(np.uint32), max(top - 1, 0))
    null_rank = max(int((1 - null_share) * (1 << bits)), int(starts[-1]) + 1)
    shares = np.diff(np.concatenate(([0.0], below, [1 - null_share, 1.0])))
    table = _table(bound_keys, most=_TABLE_ENTRIES * total)
    return ColumnRanks(name, boundaries, starts, min(null_rank, top), shares, bound_keys, table)


def _table(keys: KeyArray, *, most: int) -> npt.NDArray[np.uint32] | None:
    """A table of all numbers from just below the boundaries to the last one; None if that is no number, or too far."""
    if keys.dtype.kind not in "iu" or not len(keys):
        return None
    lowest, highest = int(keys[0]) - 1, int(keys[-1])
    if highest - lowest >= most or lowest < np.iinfo(keys.dtype).min or highest > np.iinfo(np.int64).max:
        return None
    numbers = np.arange(lowest, highest + 1).astype(keys.dtype)
    return np.asarray(np.searchsorted(keys, numbers, side="right"), dtype=np.uint32)


def _quantiles(ordered: KeyArray, count: int) -> npt.NDArray[np.int64]:
    """Places in the ordered keys of the first of each value that begins a new rank; at most `count - 1` of them."""
    if not len(ordered):
        return np.zeros(0, dtype=np.int64)
    firsts = np.flatnonzero(_differs(ordered)) + 1
    if len(firsts) < count:
        return firsts
    # Too many different values: those at even steps, each moved up to the next place where a value begins.
    steps = (np.arange(1, count) * len(ordered)) // count
    found = np.searchsorted(firsts, steps)
    return firsts[np.unique(found[found < len(firsts)])]


def _differs(ordered: KeyArray) -> npt.NDArray[np.bool_]:
    different: npt.NDArray[np.bool_] = ordered[1:] != ordered[:-1]
    if ordered.dtype.kind == "f":  # NaN is one value here
        different &= ~(np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
    return different


def _widest(values: pa.Array) -> int:
    if pa.types.is_fixed_size_binary(values.type):
        return int(values.type.byte_width)
    return int(pc.max(pc.binary_length(values)).as_py() or 1)


def _cut_text(lowest: pa.Array, boundaries: pa.Array) -> pa.Array:
    """Boundaries cut to the bytes that tell each from the one before; still in order, and none above its value."""
    if pa.types.is_fixed_size_binary(boundaries.type) or not len(boundaries):
        return boundaries
    raw = [value.as_py() for value in pa.concat_arrays([lowest, boundaries]).cast(pa.large_binary())]
    is_text = pa.types.is_unicode(boundaries.type) or pa.types.is_large_unicode(boundaries.type)
    cut: list[bytes] = []
    for before, value in itertools.pairwise(raw):
        end = _common(before, value) + 1
        # Not inside a character, and not after a zero byte, which keys of fixed width cannot tell from nothing.
        while end < len(value) and ((is_text and value[end] & 0xC0 == 0x80) or value[end - 1] == 0):
            end += 1
        cut.append(value[:end])
    return pa.array(cut, pa.large_binary()).cast(boundaries.type)


def _common(one: bytes, other: bytes) -> int:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))
