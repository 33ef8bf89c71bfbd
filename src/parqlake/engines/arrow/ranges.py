"""Byte ranges of files on far stores: fetched many at a time, one request each, and read as if they were the file."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parqlake.core.ports import PlannedFile, Store

_HOLE_BYTES = 256 * 1024
"""What lies between two ranges is fetched with them up to this: a request more would take longer."""
_PART_BYTES = 16 * 1024 * 1024
"""Longer ranges are fetched in parts, side by side."""
_BEYOND_THE_END = 416
"""What servers answer if the range begins where the file has ended already."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `start` to `end` of a file."""

    file: PlannedFile
    start: int
    end: int


class FetchFailed(Exception):  # noqa: N818 (a carrier: the reader raises the error of the tree)
    """Bytes of a file could not be had."""

    def __init__(self, file: PlannedFile, reason: Exception, *, on_the_way: bool = False) -> None:
        """Says which file, what was raised, and whether the way to the store is at fault, and not the file."""
        super().__init__(str(reason))
        self.file = file
        self.reason = reason
        self.on_the_way = on_the_way


def joined(file: PlannedFile, spans: Sequence[tuple[int, int]]) -> list[Range]:
    """Spans of a file as the ranges to ask for: near ones together, long ones in parts."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= _HOLE_BYTES:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return [
        Range(file, part, min(part + _PART_BYTES, end))
        for start, end in merged
        for part in range(start, end, _PART_BYTES)
    ]


def fetch(ranges: Sequence[Range], store: Store) -> list[bytes]:
    """The bytes of the ranges, one request each, side by side where the file system can.

    Neither sizes nor listings are asked for.

    Raises:
        FetchFailed: one of them is not there whole.
    """
    if not ranges:
        return []
    paths = [store.full_path(wanted.file.path) for wanted in ranges]
    try:
        found = store.filesystem.cat_ranges(
            paths, [wanted.start for wanted in ranges], [wanted.end for wanted in ranges], on_error="return"
        )
    except Exception as error:  # each store's client has errors of its own
        raise FetchFailed(ranges[0].file, error, on_the_way=True) from error
    for wanted, data in zip(ranges, found, strict=True):
        if isinstance(data, Exception):
            if _status(data) == _BEYOND_THE_END:
                short = EOFError(f"there is nothing from {wanted.start} on: the file is too short")
                raise FetchFailed(wanted.file, short) from data
            raise FetchFailed(wanted.file, data, on_the_way=True) from data
        if len(data) != wanted.end - wanted.start:
            wrong = f"{len(data)} bytes from {wanted.start}, and not {wanted.end - wanted.start}: the file is too short"
            raise FetchFailed(wanted.file, EOFError(wrong))
    return list(found)


def _status(error: BaseException) -> int | None:
    """What the server answered, as far as the store's client tells; each has its own place for it."""
    seen: BaseException | None = error
    while seen is not None:
        answer = getattr(seen, "response", None)
        told = answer.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(answer, dict) else None
        for status in (told, *(getattr(seen, name, None) for name in ("status", "status_code", "code"))):
            if isinstance(status, int):
                return status
        seen = seen.__cause__
    return None


class FetchedFile:
    """Reads like the open file whose ranges it holds; what it does not hold, it fetches by a request of its own."""

    closed = False

    def __init__(self, file: PlannedFile, store: Store, held: Sequence[tuple[Range, bytes]]) -> None:
        """Holds bytes that were fetched already."""
        self._file = file
        self._store = store
        parts = sorted(held, key=lambda part: part[0].start)
        self._starts = [wanted.start for wanted, _ in parts]
        self._parts = [memoryview(data) for _, data in parts]
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size_bytes}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The place."""
        return self._position

    def read(self, size: int = -1) -> Any:
        """The bytes at the place."""
        left = max(0, self._file.size_bytes - self._position)
        size = left if size < 0 else min(size, left)
        data = self._found(self._position, size)
        self._position += size
        return data

    def close(self) -> None:
        """Lets the bytes go."""
        self.closed = True
        self._parts = []
        self._starts = []

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Nothing to do."""

    def _found(self, start: int, size: int) -> Any:
        if not size:
            return b""
        number = bisect_right(self._starts, start) - 1
        pieces: list[memoryview] = []
        position, end = start, start + size
        while number >= 0 and position < end and number < len(self._parts):
            if pieces and self._starts[number] != position:  # between the parts lies a hole
                break
            offset = position - self._starts[number]
            piece = self._parts[number][offset : offset + end - position]
            if not len(piece):
                break
            pieces.append(piece)
            position += len(piece)
            number += 1
        if position < end:
            return fetch([Range(self._file, start, end)], self._store)[0]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
