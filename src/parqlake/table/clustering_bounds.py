"""Bounds of columns by file and by row group, from the catalog's statistics: no footer is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.clustering import ColumnBounds, Layout, overlap_depth
from parqlake.core.model import FileEntry
from parqlake.core.pages import MAX_BYTES, MAX_KEY, Page
from parqlake.core.ports import CatalogReader
from parqlake.core.schema import leaves
from parqlake.table.target import Target

_Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Column:
    """One column over all row groups: order keys, made small for text."""

    name: str
    lows: _Keys
    highs: _Keys
    """Below `lows` where a row group holds only NULLs."""


class Bounds:
    """The bounds of some columns, for any of the files that were asked for."""

    def __init__(self, reader: CatalogReader, target: Target, columns: Sequence[str]) -> None:
        """Reads the statistics of the columns, top-level ones, at the version of the target."""
        table_id, version = target.info.table_id, target.head.version
        segment_ids = reader.segment_ids(table_id, version) if version else []
        segments = reader.segments(table_id, segment_ids)
        owners = [np.repeat(segment.file_ids, segment.row_group_counts) for segment in segments]
        self._owners = np.concatenate([np.empty(0, dtype=np.int64), *owners])
        self._rows = np.concatenate([np.empty(0, dtype=np.int64), *(segment.rows for segment in segments)])
        order = np.argsort(self._owners, kind="stable")
        self._order = order
        self._sorted = self._owners[order]
        fields = {leaf.path[0]: leaf for leaf in leaves(target.schema) if len(leaf.path) == 1}
        self._columns = []
        for name in columns:
            pages = reader.pages(table_id, fields[name].field_id, segment_ids)
            counts = [segment.row_group_count for segment in segments]
            found = [pages.get(number) for number in segment_ids]
            self._columns.append(_column(name, fields[name].field_id, found, counts))

    def of_files(self, entries: Sequence[FileEntry]) -> Layout:
        """The layout of the files, one piece for each."""
        spans = [self._span(entry) for entry in entries]
        rows = np.array([entry.row_count for entry in entries], dtype=np.int64)
        return Layout(rows, tuple(_joined(column, spans) for column in self._columns))

    def inner_depth(self, entry: FileEntry) -> float:
        """The overlap depth of the row groups of one file."""
        span = self._span(entry)
        if len(span) < 2:
            return 1.0
        pieces = [span[number : number + 1] for number in range(len(span))]
        return overlap_depth(Layout(self._rows[span], tuple(_joined(column, pieces) for column in self._columns)))

    def _span(self, entry: FileEntry) -> npt.NDArray[np.int64]:
        """The numbers of the file's row groups."""
        first, last = np.searchsorted(self._sorted, [entry.file_id, entry.file_id + 1])
        return self._order[first:last]


def _column(name: str, column_id: int, pages: Sequence[Page | None], counts: Sequence[int]) -> _Column:
    lows: list[Any] = []
    highs: list[Any] = []
    for page, count in zip(pages, counts, strict=True):
        if page is None:  # nothing is known: the column came later, perhaps
            lows += [None] * count
            highs += [None] * count
            continue
        if page.prefix is None:
            found = page.statistics(column_id, np.ones(count, dtype=np.bool_))
            lows += np.asarray(found.mins).tolist()
            highs += np.asarray(found.maxs).tolist()
        else:  # cut text at both ends alike, or files that meet in one value would seem to overlap
            pairs = [page.bounds(index) or (MAX_BYTES, b"") for index in range(count)]
            lows += [low for low, _ in pairs]
            highs += [high for _, high in pairs]
    if any(isinstance(key, bytes) for key in (*lows, *highs)):
        return _Column(name, *_ranked(lows, highs))
    small, great = ([end if key is None else key for key in keys] for keys, end in ((lows, 0), (highs, MAX_KEY)))
    return _Column(name, np.array(small, dtype=np.uint64), np.array(great, dtype=np.uint64))


def _ranked(lows: Sequence[bytes | None], highs: Sequence[bytes | None]) -> tuple[_Keys, _Keys]:
    """Keys of text as numbers in the same order."""
    known = {key: number for number, key in enumerate(sorted({k for k in (*lows, *highs) if k is not None}), start=1)}
    low = np.array([0 if key is None else known[key] for key in lows], dtype=np.uint64)
    high = np.array([MAX_KEY if key is None else known[key] for key in highs], dtype=np.uint64)
    return low, high


def _joined(column: _Column, spans: Sequence[npt.NDArray[np.int64]]) -> ColumnBounds:
    lows: list[int | None] = []
    highs: list[int | None] = []
    for span in spans:
        low, high = column.lows[span], column.highs[span]
        valued = low <= high
        lows.append(int(low[valued].min()) if valued.any() else None)
        highs.append(int(high[valued].max()) if valued.any() else None)
    only_nulls = np.array([low is None for low in lows], dtype=np.bool_)
    # A NULL beside values does not count: no read by value meets it.
    return ColumnBounds(column.name, pa.array(lows, pa.uint64()), pa.array(highs, pa.uint64()), only_nulls, only_nulls)
