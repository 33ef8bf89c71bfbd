"""Statistics pages: min and max keys of one column over one segment, packed for fast comparison.

A page maps 64-bit order keys to narrow codes by subtracting the smallest (frame of reference). Code 0 is below
every key of the page and the greatest code above, so that unknown bounds and all-NULL row groups need no list
of exceptions. String keys first drop the page's common prefix and keep the next 8 bytes. All mappings are
monotone and compared non-strictly, so a page never rules out a row group that could match.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from parqlake.core.model import BoolArray, ColumnStatistics, IntArray, UintArray

MAX_KEY = 2**64 - 1
KEY_BYTES = 64
"""String keys, of data and of literals alike, are cut to this many bytes."""
MAX_BYTES = b"\xff" * (KEY_BYTES + 1)
"""Stands for an unknown upper bound of a string; greater than every key."""
PAGE_KEY_BYTES = 32
ROW_GROUPS_PER_PAGE = 16_384

Key = int | bytes
_HEADER = struct.Struct("<BBQQH")
_DTYPES = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_PAIRS = {width: f"<2{letter}" for width, letter in _FORMATS.items()}
_FIXED, _BYTES = 0, 1
_SMALL = 256
_UNKNOWN_NULLS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys of one column, both ends included; what a predicate asks of a statistics page."""

    column_id: int
    low: Key
    high: Key

    @property
    def low_bytes(self) -> bytes:
        """The low end as the catalog compares it."""
        return page_key(self.low)

    @property
    def high_bytes(self) -> bytes:
        """The high end as the catalog compares it."""
        return page_key(self.high)


@dataclass(frozen=True, slots=True)
class PackedPage:
    """A page as the catalog stores it."""

    column_id: int
    min_key: bytes
    max_key: bytes
    data: bytes
    nulls: bytes | None
    """None: no NULL in any row group."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page ready for comparison."""

    mins: npt.NDArray[Any]
    maxs: npt.NDArray[Any]
    base: int
    top: int
    prefix: bytes | None
    nulls: IntArray | None
    """NULLs of each row group, -1 if unknown; None: no NULL in any of them."""

    def overlaps(self, low: Key, high: Key) -> BoolArray:
        """Which row groups may hold a non-NULL value in [low, high]."""
        result: BoolArray = (self.mins <= self._code(high)) & (self.maxs >= self._code(low))
        return result

    def holds_any(self, keys: Sequence[Key]) -> BoolArray:
        """Which row groups may hold one of the keys."""
        codes = np.sort(np.array([self._code(key) for key in keys], dtype=self.mins.dtype))
        nearest = np.searchsorted(codes, self.mins)
        result: BoolArray = codes[np.minimum(nearest, len(codes) - 1)] <= self.maxs
        return result & (nearest < len(codes))

    @property
    def size_bytes(self) -> int:
        """Memory that the page takes in a cache."""
        return self.mins.nbytes + self.maxs.nbytes + (0 if self.nulls is None else self.nulls.nbytes)

    def bounds(self, index: int) -> tuple[Key | None, Key | None] | None:
        """Stored (low, high) of one row group, None where unknown; None if it holds only NULLs."""
        low, high = int(self.mins[index]), int(self.maxs[index])
        return None if low > high else (self._key(low), self._key(high))

    def statistics(self, column_id: int, part: BoolArray) -> ColumnStatistics:
        """The statistics of a part of the row groups, from which another page can be packed; bounds stay bounds."""
        mins, maxs = self._numbers(self.mins[part]), self._numbers(self.maxs[part])
        nulls = np.zeros(len(mins), dtype=np.int64) if self.nulls is None else self.nulls[part]
        if self.prefix is None:
            return ColumnStatistics(column_id, mins, maxs, nulls)
        lows, highs = mins.tolist(), maxs.tolist()
        pairs = [
            (MAX_BYTES, b"") if low > high else (_low_bytes(self.prefix, low), _high_bytes(self.prefix, high))
            for low, high in zip(lows, highs, strict=True)
        ]
        return ColumnStatistics(column_id, [low for low, _ in pairs], [high for _, high in pairs], nulls)

    def _numbers(self, codes: npt.NDArray[Any]) -> UintArray:
        """The numbers that codes stand for; the least and the greatest code stand for the unknown."""
        numbers = codes.astype(np.uint64) + np.uint64(self.base) - np.uint64(1)
        numbers[codes == 0] = 0
        numbers[codes == np.iinfo(codes.dtype).max] = MAX_KEY
        return numbers

    def _key(self, code: int) -> Key | None:
        if code in (0, int(np.iinfo(self.mins.dtype).max)):
            return None
        number = self.base + code - 1
        return number if self.prefix is None else self.prefix + struct.pack(">Q", number - 1).rstrip(b"\0")

    def _code(self, key: Key) -> Any:
        number = key if isinstance(key, int) else _number(key, self.prefix or b"")
        dtype = self.mins.dtype.type
        if number < self.base:
            return dtype(0)
        if number > self.top:
            return dtype(np.iinfo(dtype).max)
        return dtype(number - self.base + 1)


def page_key(key: Key) -> bytes:
    """A key as the catalog's own comparison (memcmp) sees it."""
    return struct.pack(">Q", key) if isinstance(key, int) else key[:PAGE_KEY_BYTES]


def pack_column(parts: Sequence[ColumnStatistics]) -> PackedPage:
    """Packs one column's statistics of several files, in order, into a page."""
    nulls = _pack_nulls([part.nulls for part in parts])
    column_id = parts[0].column_id
    if isinstance(parts[0].mins, list):
        low_keys: list[bytes] = [key for part in parts for key in part.mins]
        high_keys: list[bytes] = [key for part in parts for key in part.maxs]
        real = [key for keys in (low_keys, high_keys) for key in keys if key not in (b"", MAX_BYTES)]
        prefix = _common_prefix(min(real), max(real)) if real else b""
        lows = [_clipped(key, prefix) if key else 0 for key in low_keys]
        highs = [
            0 if low == MAX_BYTES and not high else _clipped(high, prefix)
            for low, high in zip(low_keys, high_keys, strict=True)
        ]
        data = _pack_numbers(lows, highs, _BYTES, prefix)
        pairs = [(low, high) for low, high in zip(low_keys, high_keys, strict=True) if low <= high]
        low_key = page_key(min((low for low, _ in pairs), default=MAX_BYTES))
        high_key = page_key(max((high for _, high in pairs), default=b""))
        return PackedPage(column_id, low_key, high_key, data, nulls)
    if len(parts) == 1 and len(parts[0].mins) == 1:  # a small append: one row group, twenty columns, a hundred a second
        low, high = int(parts[0].mins[0]), int(parts[0].maxs[0])
        if 0 < low <= high < MAX_KEY:
            base, top, width = _frame(low, high)
            data = _HEADER.pack(_FIXED, width, base, top, 0) + struct.pack(_PAIRS[width], 1, high - low + 1)
            return PackedPage(column_id, page_key(low), page_key(high), data, nulls)
    if sum(len(part.mins) for part in parts) <= _SMALL:  # a commit of a few files: numpy's calls would cost more
        mins: list[int] = [key for part in parts for key in part.mins.tolist()]  # type: ignore[union-attr]
        maxs: list[int] = [key for part in parts for key in part.maxs.tolist()]  # type: ignore[union-attr]
        usable_mins = [low for low, high in zip(mins, maxs, strict=True) if low <= high] or [MAX_KEY]
        usable_maxs = [high for low, high in zip(mins, maxs, strict=True) if low <= high] or [0]
        data = _pack_numbers(mins, maxs, _FIXED, b"")
        return PackedPage(column_id, page_key(min(usable_mins)), page_key(max(usable_maxs)), data, nulls)
    low_array: UintArray = np.concatenate([part.mins for part in parts])
    high_array: UintArray = np.concatenate([part.maxs for part in parts])
    usable = low_array <= high_array
    low_number = int(low_array[usable].min()) if usable.any() else MAX_KEY
    high_number = int(high_array[usable].max()) if usable.any() else 0
    data = _pack_array(low_array, high_array)
    return PackedPage(column_id, page_key(low_number), page_key(high_number), data, nulls)


def unpack(data: bytes, nulls: bytes | None) -> Page:
    """Makes a stored page ready for comparison."""
    kind, width, base, top, prefix_length = _HEADER.unpack_from(data)
    start = _HEADER.size + prefix_length
    prefix = data[_HEADER.size : start] if kind == _BYTES else None
    codes = np.frombuffer(data, dtype=_DTYPES[width], offset=start)
    half = len(codes) // 2
    return Page(codes[:half], codes[half:], base, top, prefix, _unpack_nulls(nulls))


def unknown_statistics(column_id: int, row_groups: int, *, as_bytes: bool) -> ColumnStatistics:
    """Statistics that rule nothing out."""
    nulls = np.full(row_groups, -1, dtype=np.int64)
    if as_bytes:
        return ColumnStatistics(column_id, [b""] * row_groups, [MAX_BYTES] * row_groups, nulls)
    mins = np.zeros(row_groups, dtype=np.uint64)
    return ColumnStatistics(column_id, mins, np.full(row_groups, MAX_KEY, dtype=np.uint64), nulls)


def _frame(base: int, top: int) -> tuple[int, int, int]:
    """The base and top of the codes, and how many bytes one takes, for real keys between base and top."""
    bits = (top - base + 2).bit_length()
    return base, top, 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


def _pack_numbers(mins: list[int], maxs: list[int], kind: int, prefix: bytes) -> bytes:
    both = mins + maxs
    real = [key for key in both if 0 < key < MAX_KEY] or [1]
    base, top, width = _frame(min(real), max(real))
    shift, greatest = 1 - base, 2 ** (8 * width) - 1
    codes = [0 if key == 0 else greatest if key == MAX_KEY else key + shift for key in both]
    packed = struct.pack(f"<{len(codes)}{_FORMATS[width]}", *codes)
    return _HEADER.pack(kind, width, base, top, len(prefix)) + prefix + packed


def _pack_array(mins: UintArray, maxs: UintArray) -> bytes:
    both = np.concatenate([mins, maxs])
    real = both[(both != 0) & (both != MAX_KEY)]
    base, top, width = _frame(int(real.min()), int(real.max())) if len(real) else _frame(1, 1)
    codes = both - np.uint64(base) + np.uint64(1)
    codes[both == 0] = 0
    codes[both == MAX_KEY] = 2 ** (8 * width) - 1
    return _HEADER.pack(_FIXED, width, base, top, 0) + codes.astype(_DTYPES[width]).tobytes()


def _common_prefix(first: bytes, last: bytes) -> bytes:
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def _number(key: bytes, prefix: bytes) -> int:
    """What follows the prefix as a number from 1 to MAX_KEY - 1, so that 0 and MAX_KEY stay free for the unknown."""
    if key.startswith(prefix):
        return min(int.from_bytes(key[len(prefix) : len(prefix) + 8].ljust(8, b"\0"), "big") + 1, MAX_KEY - 1)
    return -1 if key < prefix else MAX_KEY + 1


def _clipped(key: bytes, prefix: bytes) -> int:
    if key == MAX_BYTES:
        return MAX_KEY
    return min(max(_number(key, prefix), 0), MAX_KEY)


def _low_bytes(prefix: bytes, number: int) -> bytes:
    """The least key that the number can stand for."""
    return b"" if number == 0 else (prefix + struct.pack(">Q", number - 1).rstrip(b"\0"))[:KEY_BYTES]


def _high_bytes(prefix: bytes, number: int) -> bytes:
    """The greatest key that the number can stand for; the greatest but one takes in all that is above it."""
    if number == MAX_KEY:
        return MAX_BYTES
    after = b"\xff" * 8 if number == MAX_KEY - 1 else struct.pack(">Q", max(number - 1, 0))
    return (prefix + after).ljust(KEY_BYTES, b"\xff")[:KEY_BYTES]


def _pack_nulls(parts: Sequence[IntArray]) -> bytes | None:
    if not any(any(part.tolist()) if len(part) <= _SMALL else part.any() for part in parts):
        return None
    nulls = np.concatenate(parts)
    return np.where((nulls < 0) | (nulls >= _UNKNOWN_NULLS), _UNKNOWN_NULLS, nulls).astype("<u4").tobytes()


def _unpack_nulls(data: bytes | None) -> IntArray | None:
    if data is None:
        return None
    nulls = np.frombuffer(data, dtype="<u4").astype(np.int64)
    nulls[nulls == _UNKNOWN_NULLS] = -1
    return nulls
