"""How clustered a dataset is, out of the bounds of its files, and whether laying it out anew would help.

The measure is the *spread*: for each column, the share of all rows in files that a lookup of one value has to read,
averaged over the values that occur. Rows in random order have 1 (every file may hold every value), n sorted files have
1/n. With d columns no layout has all of them at 1/n; a good curve has about n ** (-1/d) in each. How near data can
come to that depends on the data (few different values, columns that go together), so the spread is compared not with
a formula but with that of a sample laid out along the curve into as many files. Two numbers decide: the mean over the
columns, which a plain sort by the first of several columns fails, and the box, the share that a lookup by all columns
at once reads.

`overlap_depth` needs no sample: it counts how many files lie over one another. For one column it is decisive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.clustering.curves import Curve
from parqlake.core.clustering.layout import ColumnBounds, Layout
from parqlake.core.clustering.order_keys import order_keys, plain
from parqlake.core.clustering.ranks import RankModel
from parqlake.core.keys import has_bytes_keys

_DEPTH_SAMPLE = 512
# Measured over 11 distributions, 1 to 4 columns, 2 to 200 files. Layouts of our own, judged by a fresh sample of 20,000
# rows, have up to 1.17 times the achievable mean and along Hilbert's curve 1.28 times the box (1.5 in one case of two
# files, where a mark decides); rows in random order have at least 1.42 times the box.
_MEAN_TOLERANCE = 1.25
_BOX_TOLERANCE = 1.4
_SORTED_DEPTH = 1.25
_SHUFFLED_SHARE = 0.9
_MANY_FILES = 8


@dataclass(frozen=True, slots=True)
class Spread:
    """How much of the data lookups have to read."""

    shares: tuple[float, ...]
    """For each column, the share of all rows that a lookup by this column reads."""
    box: float
    """The share that a lookup by all columns reads."""

    @property
    def mean(self) -> float:
        """The mean of the columns' shares."""
        return sum(self.shares) / len(self.shares)


def current(layout: Layout, model: RankModel) -> Spread:
    """The spread of the files as they are.

    Example:
        >>> tables = [pa.table({"a": range(i, i + 100)}) for i in range(0, 400, 100)]
        >>> model = RankModel.fit(pa.concat_tables(tables), ["a"])
        >>> [round(share, 2) for share in current(Layout.from_tables(tables, ["a"]), model).shares]
        [0.25]
    """
    lows, highs = [], []
    for bounds, ranks in zip(layout.columns, model.columns, strict=True):
        last = len(ranks.shares) - 1
        unknown = np.asarray(bounds.mins.is_null()) & ~bounds.only_nulls
        low, high = ranks.steps(bounds.mins), ranks.steps(bounds.maxs)
        high = np.where(bounds.has_nulls, last, high)
        lows.append(np.where(unknown, 0, low))
        highs.append(np.where(unknown, last, high))
    return _spread(lows, highs, layout.rows, model)


def achievable(sample: pa.Table, model: RankModel, files: int, curve: Curve = Curve.HILBERT) -> Spread:
    """The spread that a rewrite into so many files would have, found by laying out the sample.

    Example:
        >>> sample = pa.table({"a": np.arange(1000) % 7, "b": np.arange(1000)})
        >>> achievable(sample, RankModel.fit(sample, ["a", "b"]), 16).mean < 0.5
        True
    """
    files = max(1, min(files, sample.num_rows))
    order = np.argsort(model.codes(sample, curve), kind="stable")
    starts = (np.arange(files) * len(order)) // files
    lows, highs = [], []
    for ranks in model.columns:
        steps = ranks.steps(sample.column(ranks.name))[order]
        lows.append(np.minimum.reduceat(steps, starts))
        highs.append(np.maximum.reduceat(steps, starts))
    return _spread(lows, highs, np.diff(np.append(starts, len(order))), model)


def is_clustered(layout: Layout, sample: pa.Table | None = None, curve: Curve = Curve.HILBERT) -> bool | None:
    """Whether laying the rows out anew would hardly help; None if what is given cannot tell.

    A single piece, that is one row group, cannot tell: look at the rows or at the file's mark. Without a sample, one
    column that is sorted and files that all lie over one another are told from the bounds alone; else it is None.

    Args:
        layout: the files' bounds of the clustering columns, or those of the row groups of a single file.
        sample: a random sample of the rows with these columns; some thousand rows, and at least 20 for each file.
        curve: the curve that a rewrite would use.

    Example:
        >>> tables = [pa.table({"a": range(i, i + 100)}) for i in range(0, 400, 100)]
        >>> is_clustered(Layout.from_tables(tables, ["a"]))
        True
        >>> shuffled = [pa.table({"a": range(i, 400, 4)}) for i in range(4)]
        >>> is_clustered(Layout.from_tables(shuffled, ["a"]), pa.concat_tables(shuffled))
        False
    """
    count = len(layout)
    if count < 2:
        return None
    depth = overlap_depth(layout)
    if len(layout.columns) == 1 and depth <= _SORTED_DEPTH:
        return True
    if count >= _MANY_FILES and depth >= _SHUFFLED_SHARE * count:
        return False
    if sample is None or not sample.num_rows:
        return None
    model = RankModel.fit(sample, [bounds.name for bounds in layout.columns])
    now, best = current(layout, model), achievable(sample, model, count, curve)
    return now.mean <= _MEAN_TOLERANCE * best.mean and now.box <= _BOX_TOLERANCE * best.box


def _spread(
    lows: list[npt.NDArray[np.int64]],
    highs: list[npt.NDArray[np.int64]],
    rows: npt.NDArray[np.int64],
    model: RankModel,
) -> Spread:
    weights = rows / rows.sum()
    box = np.ones(len(rows))
    shares = []
    for low, high, ranks in zip(lows, highs, model.columns, strict=True):
        below = np.append(0.0, np.cumsum(ranks.shares))
        share = below[high + 1] - below[low]
        shares.append(float(weights @ share))
        box *= share
    return Spread(tuple(shares), float(weights @ box))


def overlap_depth(layout: Layout) -> float:
    """How many files, on average, a file lies over, itself included: 1 if none overlap, their number if all do.

    Two files overlap if their bounds do in every column. To touch at one value is not to overlap.

    Example:
        >>> overlap_depth(Layout.from_tables([pa.table({"a": [1, 5]}), pa.table({"a": [5, 9]})], ["a"]))
        1.0
        >>> overlap_depth(Layout.from_tables([pa.table({"a": [1, 6]}), pa.table({"a": [5, 9]})], ["a"]))
        2.0
    """
    count = len(layout)
    if count < 2:
        return float(count)
    picked = np.unique(np.linspace(0, count - 1, min(count, _DEPTH_SAMPLE)).astype(np.int64))
    return float(overlaps(layout, picked).sum(axis=1).mean())


def overlaps(layout: Layout, picked: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each of the picked files, which files it lies over, itself included.

    Example:
        >>> layout = Layout.from_tables([pa.table({"a": [1, 6]}), pa.table({"a": [5, 9]}), pa.table({"a": [9]})], ["a"])
        >>> overlaps(layout, np.array([0])).tolist()
        [[True, True, False]]
    """
    all_share = np.ones((len(picked), len(layout)), dtype=np.bool_)
    any_inside = np.zeros_like(all_share)
    for bounds in layout.columns:
        low, high = _endpoints(bounds)
        a_low, a_high = low[picked, None], high[picked, None]
        inside = (a_low < high) & (low < a_high)
        point = (a_low == a_high) | (low == high)
        all_share &= inside | (point & (a_low <= high) & (low <= a_high))
        any_inside |= inside
    over = all_share & any_inside
    over[np.arange(len(picked)), picked] = True
    return over


def _endpoints(bounds: ColumnBounds) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The bounds as small numbers in the order of the values; NULLs are above all."""
    count = len(bounds.mins)
    ends = plain(pa.concat_arrays([bounds.mins, bounds.maxs]), bounds.name)
    valid = np.asarray(ends.is_valid())
    present = ends.drop_null()
    width = 64 if has_bytes_keys(ends.type) else 0
    _, dense = np.unique(order_keys(present, width), return_inverse=True)
    above = int(dense.max(initial=0)) + 1
    places = np.full(2 * count, -1, dtype=np.int64)
    places[valid] = dense
    low, high = places[:count], places[count:]
    high = np.where(bounds.has_nulls | (high < 0), above, high)
    return np.where(bounds.only_nulls, above, low), high
