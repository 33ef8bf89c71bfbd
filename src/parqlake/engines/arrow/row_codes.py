"""Whole rows compared: equal rows get equal numbers, whatever their types. NULL equals NULL, and NaN equals NaN."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.engines.arrow.merge_keys import Codes, Hashes, contiguous, key_hashes, normal

Mask = npt.NDArray[np.bool_]
_WORD = 8


def row_codes(rows: pa.Table) -> Codes:
    """A number for each row, from 0; two rows have the same one if and only if all their values are equal."""
    return _joined(_comparable_table(rows), rows.num_rows)


def row_hashes(rows: pa.Table) -> Hashes:
    """A hash of each row, the same for equal rows in one process; for taking rows apart.

    Of lists and maps only the length counts.
    """
    words = [_hashes(plain) for column in rows.columns for plain in _plain(contiguous(column))]
    return key_hashes(words) if words else np.zeros(rows.num_rows, dtype=np.uint64)


def occurrences(codes: Codes) -> Codes:
    """For each place, how many places before it have the same number."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(np.append(starts, len(ordered)))
    result = np.empty(len(codes), dtype=np.int64)
    result[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return result


def _joined(columns: Iterator[pa.Array], count: int) -> Codes:
    codes: Codes = np.zeros(count, dtype=np.int64)
    size = 1
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        more = _numbers(encoded.indices)
        if size == 1:
            codes, size = more, len(encoded.dictionary)
            continue
        if len(encoded.dictionary) <= 1:
            continue
        pairs = pc.dictionary_encode(pa.array(codes * len(encoded.dictionary) + more))
        codes, size = _numbers(pairs.indices), len(pairs.dictionary)
    return codes


def _comparable_table(rows: pa.Table) -> Iterator[pa.Array]:
    for column in rows.columns:
        yield from _comparable(contiguous(column))


def _comparable(column: pa.Array) -> Iterator[pa.Array]:
    """The column as one or more plain ones in which equal values are equal bits."""
    t, type_ = pa.types, column.type
    if t.is_struct(type_):
        yield column.is_valid()
        for child in column.flatten():
            yield from _comparable(child)
    elif t.is_nested(type_):
        yield _list_bytes(_as_list(column))
    elif not t.is_null(type_):
        yield normal(column)


def _list_bytes(column: pa.Array) -> pa.Array:
    """Each list as the bytes of its values' numbers."""
    lengths = _lengths(column)
    values = column.flatten()
    codes = _joined(_comparable(values), len(values)).tobytes()
    ends = (np.cumsum(lengths) * _WORD).tolist()
    starts = [0, *ends[:-1]]
    valid = column.is_valid().to_pylist()
    pieces = [codes[start:end] if there else None for start, end, there in zip(starts, ends, valid, strict=True)]
    return pa.array(pieces, pa.large_binary())


def _plain(column: pa.Array) -> Iterator[pa.Array]:
    """Columns to make a hash of."""
    t, type_ = pa.types, column.type
    if t.is_struct(type_):
        yield column.is_valid()
        for child in column.flatten():
            yield from _plain(child)
    elif t.is_nested(type_):
        yield pa.array(_lengths(_as_list(column)))
    elif not t.is_null(type_):
        yield normal(column)


def _hashes(column: pa.Array) -> pa.Array:
    """A hash of each value, and 0 for each NULL."""
    result: Hashes = np.zeros(len(column), dtype=np.uint64)
    if column.null_count < len(column):
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        result[valid] = key_hashes([column.drop_null()])
    return pa.array(result.view(np.int64))


def _as_list(column: pa.Array) -> pa.Array:
    """A map as the list of its entries; lists as they are."""
    if not pa.types.is_map(column.type):
        return column
    return column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))


def _lengths(column: pa.Array) -> Codes:
    return _numbers(pc.fill_null(pc.list_value_length(column), 0))


def _numbers(indices: pa.Array) -> Codes:
    return np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def paired(before: Codes, after: Codes) -> tuple[Mask, Mask]:
    """Which places of two lists of numbers have a partner in the other list, each partner used once."""
    size = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    common = np.minimum(np.bincount(before, minlength=size), np.bincount(after, minlength=size))
    return occurrences(before) < common[before], occurrences(after) < common[after]
