"""Keys: which rows of two tables have the same one, for keys of every plain type and of several columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
_SHIFT = np.uint64(29)


def key_arrays(rows: pa.RecordBatch | pa.Table, keys: Sequence[str]) -> list[pa.Array]:
    """The key columns in a form in which equal keys are equal bits: one NaN, one zero, strings as bytes."""
    return [normal(contiguous(rows.column(name))) for name in keys]


class KeyIndex:
    """Numbers the distinct keys of some rows, and finds those numbers for the keys of others.

    Arrow builds its hash table anew for each look-up, so that looking up at least as many rows as the index
    has keys at a time makes building cheap.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Takes key columns from `key_arrays`, without NULLs."""
        first = pc.dictionary_encode(columns[0])
        self._sets: list[pa.Array] = [first.dictionary]
        self._pairs: list[pa.Array] = []
        codes = _numbers(first.indices)
        for column in columns[1:]:
            encoded = pc.dictionary_encode(column)
            self._sets.append(encoded.dictionary)
            pairs = pc.dictionary_encode(pa.array(codes * len(encoded.dictionary) + _numbers(encoded.indices)))
            self._pairs.append(pairs.dictionary)
            codes = _numbers(pairs.indices)
        self.codes = codes
        """The number of each row's key, from 0 in order of appearance."""
        self.count = len(self._pairs[-1] if self._pairs else self._sets[0])
        """Distinct keys."""

    def find(self, columns: Sequence[pa.Array]) -> Codes:
        """The number of each row's key, -1 where the index does not have it."""
        codes = _found(columns[0], self._sets[0])
        for column, values, pairs in zip(columns[1:], self._sets[1:], self._pairs, strict=True):
            more = _found(column, values)
            both = np.where((codes >= 0) & (more >= 0), codes * len(values) + more, -1)
            codes = _found(pa.array(both), pairs)
        return codes


def key_hashes(columns: Sequence[pa.Array]) -> Hashes:
    """A hash of each row's key, the same for equal keys in one process; for taking rows apart."""
    result: Hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        for word in _words(column):
            result = (result ^ word) * _MULTIPLIER
            result ^= result >> _SHIFT
    return result


def normal(column: pa.Array) -> pa.Array:
    """The column in a form in which equal values are equal bits; NULLs stay."""
    t, type_ = pa.types, column.type
    if t.is_string_view(type_) or t.is_binary_view(type_):
        column = column.cast(pa.large_string() if t.is_string_view(type_) else pa.large_binary())
        type_ = column.type
    if t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_fixed_size_binary(type_):
        return column.cast(pa.large_binary())
    if t.is_floating(type_):
        column = column.cast(pa.float32()) if t.is_float16(type_) else column
        zero = pa.scalar(0.0, column.type)  # -0.0 + 0.0 is 0.0
        nan = pa.scalar(float("nan"), column.type)
        return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
    return column


def contiguous(column: Any) -> pa.Array:
    """The column of a table or batch as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _numbers(indices: pa.Array) -> Codes:
    return np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def _found(column: pa.Array, values: pa.Array) -> Codes:
    return _numbers(pc.fill_null(pc.index_in(column, value_set=values), -1))


def _words(column: pa.Array) -> list[Hashes]:
    """The values as 64-bit words: their bits, or a hash of their bytes."""
    t, type_ = pa.types, column.type
    if t.is_integer(type_):
        return [column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64)]
    if t.is_floating(type_):
        return [column.to_numpy(zero_copy_only=False).astype(np.float64).view(np.uint64)]
    if t.is_boolean(type_):
        return [column.to_numpy(zero_copy_only=False).astype(np.uint64)]
    if t.is_temporal(type_):
        integers = column.view(pa.int32() if type_.bit_width == 32 else pa.int64())
        return [integers.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)]
    encoded = pc.dictionary_encode(column)
    hashes = np.array([hash(value) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    return [hashes[_numbers(encoded.indices)].view(np.uint64)]
