"""The row groups of one version as arrays: what a page needs to count, sample and draw files, however many there are.

A version never changes, so that its footprint is made once and kept. Nothing here makes an object for each file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from parqlake.core.model import BoolArray, FileEntry, IntArray, Segment, Snapshot
from parqlake.core.pages import Key, Page
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.core.pruning import RowGroups, may_be_true, prunable_columns
from parqlake.table.planning import PageLookup

_AT_ONCE = 1_000
"""Entries that are asked for at a time: a catalog finds so many by their ids."""

Bounds = tuple[Key | None, Key | None] | None
"""The least and the greatest key of a column in a file, None where unknown; None if it holds only NULLs."""


@dataclass(frozen=True, slots=True)
class Lit:
    """What a predicate leaves of a version, by statistics alone.

    Attributes:
        files: for each file of the footprint, whether a row of it may match.
        row_groups: how many row groups may hold a match.
        rows: their rows.
        size_bytes: their compressed bytes.
    """

    files: BoolArray
    row_groups: int
    rows: int
    size_bytes: int

    @property
    def file_count(self) -> int:
        """How many files may hold a match."""
        return int(np.count_nonzero(self.files))


class Footprint:
    """The files of one version, by their row groups."""

    def __init__(self, reader: CatalogReader, snapshot: Snapshot) -> None:
        """Reads the segments of the version, and which of their files it holds if that is not all of them."""
        self.snapshot = snapshot
        table_id, version = snapshot.table_id, snapshot.version
        self._segment_ids = reader.segment_ids(table_id, version)
        self._segments: list[Segment] = reader.segments(table_id, self._segment_ids)
        none = np.empty(0, dtype=np.int64)
        owners: IntArray = np.concatenate([none, *(np.repeat(s.file_ids, s.row_group_counts) for s in self._segments)])
        self._sizes: IntArray = np.concatenate([none, *(s.sizes for s in self._segments)])
        self._rows: IntArray = np.concatenate([none, *(s.rows for s in self._segments)])
        self.visible: BoolArray = np.ones(len(owners), dtype=np.bool_)
        if len(owners) != snapshot.row_group_count:  # some belong to files that other versions hold
            self.visible = np.isin(owners, np.array(reader.file_ids(table_id, version), dtype=np.int64))
        self._groups: IntArray = np.flatnonzero(self.visible)
        self.file_ids, self._owners = np.unique(owners[self._groups], return_inverse=True)
        order = np.argsort(self._owners, kind="stable")
        self._of_files = self._groups[order]
        self._starts = np.searchsorted(self._owners[order], np.arange(len(self.file_ids) + 1))
        self._firsts = np.cumsum([0, *(s.row_group_count for s in self._segments)])
        self.file_bytes: IntArray = self._summed(self._sizes)
        """Compressed bytes of each file's row groups: about its size, without the footer."""
        self.file_rows: IntArray = self._summed(self._rows)

    def __len__(self) -> int:
        return len(self.file_ids)

    @property
    def row_group_count(self) -> int:
        """Row groups of the version."""
        return len(self._groups)

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all row groups."""
        return int(self.file_bytes.sum())

    @property
    def row_count(self) -> int:
        """Rows of the version."""
        return int(self.file_rows.sum())

    def sample(self, most: int) -> IntArray:
        """Places of at most so many files, spread evenly from the oldest to the newest."""
        return np.unique(np.linspace(0, max(0, len(self) - 1), min(most, len(self))).astype(np.int64))

    def entries(self, reader: CatalogReader, places: Sequence[int] | IntArray) -> dict[int, FileEntry]:
        """What the catalog says of the files at these places, by place."""
        wanted = [int(place) for place in places]
        by_id = {int(self.file_ids[place]): place for place in wanted}
        found: dict[int, FileEntry] = {}
        ids = sorted(by_id)
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            for entry in reader.files(self.snapshot.table_id, self.snapshot.version, some):
                found[by_id[entry.file_id]] = entry
        return {place: found[place] for place in wanted if place in found}

    def lit(self, reader: CatalogReader, predicate: Predicate) -> Lit:
        """What the predicate, bound to the version's columns, leaves."""
        if predicate == TRUE:
            everything = np.ones(len(self), dtype=np.bool_)
            return Lit(everything, self.row_group_count, self.row_count, self.size_bytes)
        pages = {column: self.pages(reader, column) for column in prunable_columns(predicate)}
        masks = [
            may_be_true(predicate, RowGroups(segment.rows, PageLookup(pages, segment.segment_id)))
            for segment in self._segments
        ]
        mask: BoolArray = np.concatenate([np.empty(0, dtype=np.bool_), *masks]) & self.visible
        hit = mask[self._groups]
        files = np.bincount(self._owners[hit], minlength=len(self)).astype(np.bool_)
        return Lit(files, int(hit.sum()), int(self._rows[mask].sum()), int(self._sizes[mask].sum()))

    def pages(self, reader: CatalogReader, column_id: int) -> dict[int, Page]:
        """The statistics of a column, by segment; a missing one means unknown."""
        return reader.pages(self.snapshot.table_id, column_id, self._segment_ids)

    def bounds(self, pages: Mapping[int, Page], places: Sequence[int] | IntArray) -> list[Bounds]:
        """The range of a column, of these pages, in each of the files at these places."""
        return [self._bounds(pages, self._of_files[self._starts[p] : self._starts[p + 1]]) for p in places]

    def whole_bounds(self, pages: Mapping[int, Page]) -> tuple[Bounds, int | None]:
        """The range of a column in the whole version, and how many NULLs it holds, None if unknown."""
        parts: list[Bounds] = []
        nulls: int | None = 0
        for place, segment in enumerate(self._segments):
            seen = self.visible[self._firsts[place] : self._firsts[place + 1]]
            if not seen.any():
                continue
            page = pages.get(segment.segment_id)
            if page is None:
                return (None, None), None
            counts = np.zeros(1, dtype=np.int64) if page.nulls is None else page.nulls[seen]
            nulls = None if nulls is None or (counts < 0).any() else nulls + int(counts.sum())
            parts.append(_range(page, np.flatnonzero(seen)))
        return _widest(parts), nulls

    def _bounds(self, pages: Mapping[int, Page], groups: IntArray) -> Bounds:
        parts: list[Bounds] = []
        places = np.searchsorted(self._firsts, groups, side="right") - 1
        for place in dict.fromkeys(places.tolist()):
            page = pages.get(self._segments[place].segment_id)
            if page is None:
                return None, None
            parts.append(_range(page, groups[places == place] - self._firsts[place]))
        return _widest(parts)

    def _summed(self, values: IntArray) -> IntArray:
        sums: npt.NDArray[Any] = np.bincount(self._owners, values[self._groups], minlength=len(self.file_ids))
        return sums.astype(np.int64)


def _range(page: Page, groups: IntArray) -> Bounds:
    """The range of some row groups of a page."""
    valued = groups[page.mins[groups] <= page.maxs[groups]]
    if not len(valued):
        return None
    low = page.bounds(int(valued[np.argmin(page.mins[valued])]))
    high = page.bounds(int(valued[np.argmax(page.maxs[valued])]))
    return (low or (None, None))[0], (high or (None, None))[1]


def _widest(parts: Sequence[Bounds]) -> Bounds:
    """The range that takes all of these in."""
    valued = [part for part in parts if part is not None]
    if not valued:
        return None
    lows, highs = [low for low, _ in valued], [high for _, high in valued]
    low = None if None in lows else min(lows)  # type: ignore[type-var]
    high = None if None in highs else max(highs)  # type: ignore[type-var]
    return low, high
