"""Segments: row groups that were committed together, packed as one blob and one page of statistics a column.

A *piece* is what goes into a segment together: mostly one file, with what is known of each of its row groups. Pieces
come from new files, or out of stored segments when a file is restored or small segments are merged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parqlake.core.errors import InputError
from parqlake.core.model import ColumnStatistics, DataFile, IntArray, Segment
from parqlake.core.pages import (
    ROW_GROUPS_PER_PAGE,
    PackedPage,
    Page,
    pack_column,
    unknown_statistics,
)

_ARRAY = struct.Struct("<2sI")
_DTYPES = (("<u1", 2**8), ("<u2", 2**16), ("<u4", 2**32))
_SINGLE = ((b"u1", "<B", 2**8), (b"u2", "<H", 2**16), (b"u4", "<I", 2**32))


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of one file, or of several that come out of the same stored segment."""

    file_ids: Sequence[int]
    counts: Sequence[int]
    """Row groups of each file."""
    rows: IntArray
    sizes: IntArray
    offsets: IntArray
    statistics: Mapping[int, ColumnStatistics]
    """By column id; a column that is missing is unknown."""


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """A segment as the catalog stores it."""

    file_ids: list[int]
    row_groups: int
    contents: bytes
    pages: list[PackedPage]


def piece_of(file: DataFile, file_id: int) -> Piece:
    """Makes a piece of a new file; refuses a description that does not agree with itself."""
    count = len(file.row_group_rows)
    fits = len(file.row_group_bytes) == len(file.row_group_offsets) == count
    for column in file.statistics:
        fits = fits and len(column.mins) == len(column.maxs) == len(column.nulls) == count
    # A column that is short by one would shift the bounds of all files after it: row groups lost to readers.
    if not fits:
        raise InputError(f"file {file.path!r} has {count} row groups, but its sizes or statistics are not as many")
    return Piece(
        (file_id,),
        (count,),
        file.row_group_rows,
        file.row_group_bytes,
        file.row_group_offsets,
        {column.column_id: column for column in file.statistics},
    )


def group_pieces(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Splits pieces into segments of at most a page of row groups; a file never straddles two."""
    group: list[Piece] = []
    filled = 0
    for piece in pieces:
        if group and filled + len(piece.rows) > ROW_GROUPS_PER_PAGE:
            yield group
            group, filled = [], 0
        group.append(piece)
        filled += len(piece.rows)
    if group:
        yield group


def pack_segment(pieces: Sequence[Piece]) -> PackedSegment:
    """Packs the pieces, in order; where some have statistics of a column, the others get unknown ones."""
    file_ids = [file_id for piece in pieces for file_id in piece.file_ids]
    counts = [count for piece in pieces for count in piece.counts]
    columns: dict[int, ColumnStatistics] = {}
    for piece in pieces:
        columns.update(piece.statistics)
    contents = b"".join(
        _encode(array)
        for array in (
            np.array(file_ids, dtype=np.int64),
            np.array(counts, dtype=np.int64),
            _joined([piece.rows for piece in pieces]),
            _joined([piece.sizes for piece in pieces]),
            _joined([piece.offsets for piece in pieces]),
        )
    )
    pages = [_pack_page(column_id, example, pieces) for column_id, example in sorted(columns.items())]
    return PackedSegment(file_ids, sum(counts), contents, pages)


def decode_segment(segment_id: int, contents: bytes) -> Segment:
    """Makes a stored segment ready for use."""
    arrays = []
    position = 0
    for _ in range(5):
        code, length = _ARRAY.unpack_from(contents, position)
        position += _ARRAY.size
        dtype = np.dtype("<" + code.decode())
        stored = np.frombuffer(contents, dtype=dtype, count=length, offset=position)
        arrays.append(stored.astype(np.int64))
        position += length * dtype.itemsize
    return Segment(segment_id, *arrays)


def stored_piece(segment: Segment, pages: Mapping[int, Page], new_ids: Mapping[int, int] | None = None) -> Piece:
    """What a stored segment holds, to be packed again: all of it, or some files under the new ids given."""
    if new_ids is None:
        new_ids = {file_id: file_id for file_id in segment.file_ids.tolist()}
    chosen = np.isin(segment.file_ids, list(new_ids))
    part = np.repeat(chosen, segment.row_group_counts)
    return Piece(
        [new_ids[file_id] for file_id in segment.file_ids[chosen].tolist()],
        segment.row_group_counts[chosen].tolist(),
        segment.rows[part],
        segment.sizes[part],
        segment.offsets[part],
        {column_id: page.statistics(column_id, part) for column_id, page in pages.items()},
    )


def _pack_page(column_id: int, example: ColumnStatistics, pieces: Sequence[Piece]) -> PackedPage:
    if len(pieces) == 1:
        return pack_column((example,))
    kind = type(example.mins)
    found = [piece.statistics.get(column_id) for piece in pieces]
    return pack_column(
        [
            part
            if part is not None and type(part.mins) is kind
            else unknown_statistics(column_id, len(piece.rows), as_bytes=kind is list)
            for part, piece in zip(found, pieces, strict=True)
        ]
    )


def _joined(arrays: Sequence[IntArray]) -> IntArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _encode(array: IntArray) -> bytes:
    if len(array) == 1:  # a small append: numpy's calls would cost more than the rest
        value = int(array[0])
        code, form = next(((name, form) for name, form, end in _SINGLE if 0 <= value < end), (b"i8", "<q"))
        return _ARRAY.pack(code, 1) + struct.pack(form, value)
    low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
    dtype = next((name for name, end in _DTYPES if low >= 0 and high < end), "<i8")
    return _ARRAY.pack(dtype[1:].encode(), len(array)) + array.astype(dtype).tobytes()
