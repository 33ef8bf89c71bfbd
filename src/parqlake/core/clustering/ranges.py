"""Ranges of codes: where one output ends and the next begins.

A layout is written in two steps with bounded memory. First every row goes to the range that its code lies in; then
the ranges, one after the other, are sorted by (code, columns) and written. A writer that goes on from one range to the
next cuts files at exactly the planned rows, whatever a range holds. One that writes ranges apart, as Spark's tasks do,
splits a range that came out too long: its rows are sorted, so that the pieces do not overlap either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parqlake.core.errors import InvalidOptionError


def cut_codes(
    codes: npt.NDArray[Any], parts: int, *, weights: npt.NDArray[Any] | None = None
) -> npt.NDArray[np.uint64]:
    """Cut points that make about `parts` ranges of equal weight; cut i is the first code of range i + 1.

    A code with more weight than a range gets one of its own, so that it makes no other range too heavy. Fewer codes
    than parts give fewer ranges.

    Args:
        codes: codes of a sample of rows, or all codes that occur.
        parts: how many ranges to make.
        weights: rows of each code, for instance of a histogram of all rows; by default each counts once.

    Example:
        >>> cut_codes(np.arange(100), 4).tolist()
        [25, 50, 75]
    """
    if parts < 1:
        raise InvalidOptionError(f"{parts} ranges; give at least 1")
    if parts == 1 or not len(codes):
        return np.zeros(0, dtype=np.uint64)
    values, places = np.unique(np.asarray(codes, dtype=np.uint64), return_inverse=True)
    mass = np.bincount(places, weights=weights).astype(np.float64)
    ends = np.cumsum(mass)
    starts, share = ends - mass, ends[-1] / parts
    heavy = mass >= share
    marks = np.arange(1, parts) * share
    # The value that a mark falls into begins a range, unless the mark lies nearer to its end.
    hit = np.minimum(np.searchsorted(ends, marks, side="right"), len(values) - 1)
    nearer_end = (ends[hit] - marks < marks - starts[hit]) & ~heavy[hit]
    cuts = np.concatenate((hit + nearer_end, np.flatnonzero(heavy), np.flatnonzero(heavy) + 1))
    cuts = np.unique(cuts[(cuts > 0) & (cuts < len(values))])
    result: npt.NDArray[np.uint64] = values[cuts]
    return result


def part_of(codes: npt.NDArray[Any], cuts: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The number of the range that each code lies in.

    Example:
        >>> part_of(np.array([0, 24, 25, 99]), np.array([25, 50, 75], dtype=np.uint64)).tolist()
        [0, 0, 1, 3]
    """
    return np.searchsorted(cuts, np.asarray(codes, dtype=np.uint64), side="right")
