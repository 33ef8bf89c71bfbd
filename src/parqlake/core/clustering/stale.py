"""Which files of a partition are worth laying out again: what is new, and what lies badly, and no more than that.

A run leaves files that do not overlap along the curve. Files that came since then are laid out together with those
files of earlier runs that they overlap, as long as these are not much more; else among themselves, as a run of their
own. So rows are rewritten a few times over a table's life and not once for each append, and where more than
`MAX_RUNS` runs lie over one another, these are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parqlake.core.clustering.layout import Layout
from parqlake.core.clustering.overlap import overlap_depth, overlaps

MAX_RUNS = 4
"""So many runs may lie over one another before they are put together."""
_WORTH = 4
"""Settled files are laid out again with new ones if they have at most so many times their bytes."""
_SORTED_DEPTH = 1.25
_PAIRS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class LaidFile:
    """A file as the choice sees it."""

    size_bytes: int
    run: int | None
    """What laid it out by the columns and the curve that are asked for; None if nothing did."""
    row_groups: int
    inner_depth: float
    """The overlap depth of its own row groups."""


def stale_files(files: Sequence[LaidFile], layout: Layout, *, small_bytes: int) -> frozenset[int]:
    """The places of the files of one partition that are to be laid out again; none if that would hardly help.

    Args:
        files: all files of the partition.
        layout: the bounds of the clustering columns of the same files.
        small_bytes: settled files of no more than so many bytes are always laid out again with new ones.
    """
    runs = [file.run for file in files]
    new = [place for place, file in enumerate(files) if file.run is None]
    if len(layout.columns) == 1:  # what the bounds show is all there is to know
        alone = [count == 1 for block in _lying_over(layout, new) for count in block.sum(axis=1).tolist()]
        well = [files[place].inner_depth <= _SORTED_DEPTH for place in new]
        new = [place for place, apart, inside in zip(new, alone, well, strict=True) if not (apart and inside)]
    if not new:
        return _crowded(runs, layout)
    met: set[int] = set()
    for block in _lying_over(layout, new):
        met.update(np.flatnonzero(block.any(axis=0)).tolist())
    settled = sorted(met.difference(new))
    new_bytes = sum(files[place].size_bytes for place in new)
    settled_bytes = sum(files[place].size_bytes for place in settled)
    many = len({runs[place] for place in settled}) >= MAX_RUNS
    if many or settled_bytes <= max(_WORTH * new_bytes, small_bytes):
        new += settled
    if len(new) == 1 and files[new[0]].row_groups == 1:
        return frozenset()  # nothing in it could be skipped, however its rows lie
    return frozenset(new)


def _crowded(runs: Sequence[int | None], layout: Layout) -> frozenset[int]:
    """All files if more runs than that lie over one another, by what their bounds show."""
    known = {run for run in runs if run is not None}
    if len(known) <= MAX_RUNS:
        return frozenset()
    own = max(overlap_depth(part_of_layout(layout, [n for n, other in enumerate(runs) if other == r])) for r in known)
    return frozenset(range(len(runs))) if overlap_depth(layout) > own + MAX_RUNS else frozenset()


def _lying_over(layout: Layout, places: Sequence[int]) -> Iterator[npt.NDArray[np.bool_]]:
    """For the files at the places, which files they lie over; some of them at a time."""
    step = max(1, _PAIRS_AT_ONCE // max(len(layout), 1))
    for start in range(0, len(places), step):
        yield overlaps(layout, np.array(places[start : start + step], dtype=np.int64))


def part_of_layout(layout: Layout, places: Sequence[int]) -> Layout:
    """The layout of some of the files."""
    chosen = np.array(places, dtype=np.int64)
    return Layout(layout.rows[chosen], tuple(bounds.take(chosen) for bounds in layout.columns))
