"""Equal rows of two tables, found fast: by hashes first, and then by their values, so that the answer is exact.

Most rows of files that were rewritten are equal, and numbering all of them by all columns is slow. So rows with the
same hash are put side by side and compared. A pair that proves to be equal may always be taken out of both tables: what
is left, be it by a collision, is numbered.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.engines.arrow.merge_keys import Codes, Hashes, contiguous, normal
from parqlake.engines.arrow.row_codes import Mask, paired, row_codes, row_hashes


def equal_rows(old: pa.Table, new: pa.Table) -> tuple[Mask, Mask]:
    """Which rows of two tables have an equal one in the other, each used once; NULLs are equal, and NaNs."""
    is_same_old: Mask = np.zeros(old.num_rows, dtype=bool)
    is_same_new: Mask = np.zeros(new.num_rows, dtype=bool)
    places, partners = _side_by_side(row_hashes(old), row_hashes(new))
    equal: Mask = np.ones(len(places), dtype=bool)
    for number in range(old.num_columns):
        equal &= _equal_values(contiguous(old.column(number)), contiguous(new.column(number)), places, partners)
    is_same_old[places[equal]] = True
    is_same_new[partners[equal]] = True
    left, right = np.flatnonzero(~is_same_old), np.flatnonzero(~is_same_new)
    if len(left) and len(right):
        found = partners_by_codes(old.take(pa.array(left)), new.take(pa.array(right)))
        is_same_old[left[found[0]]] = True
        is_same_new[right[found[1]]] = True
    return is_same_old, is_same_new


def partners_by_codes(old: pa.Table, new: pa.Table) -> tuple[Mask, Mask]:
    """The same by numbering all rows: for few rows, or few columns."""
    codes = row_codes(pa.concat_tables([old, new]))
    return paired(codes[: old.num_rows], codes[old.num_rows :])


def _side_by_side(old: Hashes, new: Hashes) -> tuple[Codes, Codes]:
    """Places of two lists that hold the same hash: the first with the first, and so on."""
    order_old, order_new = np.argsort(old, kind="stable"), np.argsort(new, kind="stable")
    sorted_old, sorted_new = old[order_old], new[order_new]
    rank = np.arange(len(old)) - np.searchsorted(sorted_old, sorted_old)
    candidates = np.searchsorted(sorted_new, sorted_old) + rank
    found = np.flatnonzero(candidates < len(new))
    found = found[sorted_new[candidates[found]] == sorted_old[found]]
    places, partners = order_old[found], order_new[candidates[found]]
    in_order = np.argsort(places)
    return places[in_order], partners[in_order]


def _equal_values(old: pa.Array, new: pa.Array, places: Codes, partners: Codes) -> Mask:
    one = old if len(places) == len(old) else old.take(pa.array(places))
    other = new.take(pa.array(partners))
    if pa.types.is_null(one.type):
        return np.ones(len(one), dtype=bool)
    if pa.types.is_nested(one.type):
        codes = row_codes(pa.table([pa.concat_arrays([one, other])], names=["values"]))
        return np.asarray(codes[: len(one)] == codes[len(one) :])
    one, other = (_bits(normal(column)) for column in (one, other))
    equal = pc.fill_null(pc.equal(one, other), False)
    if one.null_count and other.null_count:
        equal = pc.or_(equal, pc.and_(one.is_null(), other.is_null()))
    return np.asarray(equal.to_numpy(zero_copy_only=False))


def _bits(column: pa.Array) -> pa.Array:
    """Floats as the integers that their bits are, since a NaN does not even equal itself."""
    if not pa.types.is_floating(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
