"""Arrow columns as NumPy arrays whose order is the order of the values.

Unlike `core.keys`, which makes one bound at a time for the catalog, this turns whole columns over, without a step in
Python for each row, and keeps strings and long decimals whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import UnsupportedTypeError
from parqlake.core.keys import has_bytes_keys

KeyArray = npt.NDArray[Any]

_INT64_DIGITS = 18


def is_orderable(type_: pa.DataType) -> bool:
    """Whether rows can be clustered by a column of this type: numbers, text, bytes, dates, times, booleans."""
    if pa.types.is_dictionary(type_):
        return is_orderable(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return is_orderable(type_.storage_type)
    return has_bytes_keys(type_) or bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_temporal(type_)
        or pa.types.is_null(type_)
    )


def check_orderable(name: str, type_: pa.DataType) -> None:
    """Raises `UnsupportedTypeError` for a column that has no order to cluster by."""
    if not is_orderable(type_) or pa.types.is_interval(type_):
        raise UnsupportedTypeError(
            f'column "{name}" is of type {type_}, which has no order to cluster by; '
            "choose columns of numbers, text, bytes, dates, times or booleans"
        )


def plain(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """The column as one array without dictionary, extension or view; refuses types that have no order."""
    if not is_orderable(column.type) or pa.types.is_interval(column.type):
        raise UnsupportedTypeError(
            f'column "{name}" is of type {column.type}, which has no order to cluster by; '
            "choose columns of numbers, text, bytes, dates, times or booleans"
        )
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_string_view(column.type):  # Arrow filters and takes no views yet
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.large_binary())
    return column


def order_keys(values: pa.Array, width: int = 0) -> KeyArray:
    """Keys of the values of a plain array without NULLs, in the same order as the values.

    Args:
        values: from `plain`, NULLs dropped.
        width: for bytes, how many of them count.

    Example:
        >>> order_keys(pa.array([2.5, float("nan"), -1.0])).argsort().tolist()
        [2, 0, 1]
    """
    type_ = values.type
    if not len(values):
        return np.zeros(0, dtype=_key_type(type_, width))
    if has_bytes_keys(type_):
        return _fixed_bytes(values, width)
    if pa.types.is_decimal(type_):
        return _decimal_keys(values)
    if pa.types.is_boolean(type_):
        return np.asarray(pc.cast(values, pa.uint8()).to_numpy())
    if pa.types.is_floating(type_):
        return np.asarray(values.to_numpy().astype(np.float64))
    if pa.types.is_integer(type_):
        return np.asarray(values.to_numpy())
    storage = pa.int32() if type_.bit_width == 32 else pa.int64()
    return np.asarray(values.view(storage).to_numpy())


def _key_type(type_: pa.DataType, width: int) -> str:
    if has_bytes_keys(type_):
        return f"S{max(width, 1)}"
    if pa.types.is_decimal(type_) and type_.precision > _INT64_DIGITS:
        return f"S{max(type_.bit_width, 128) // 8}"
    if pa.types.is_floating(type_):
        return "f8"
    return "u8" if pa.types.is_uint64(type_) else "i8"


def _decimal_keys(values: pa.Array) -> KeyArray:
    type_ = values.type
    if type_.bit_width < 128:
        values = values.cast(pa.decimal128(type_.precision, type_.scale))
    words = values.type.bit_width // 64
    raw = np.frombuffer(values.buffers()[1], dtype="<u8")
    raw = raw[values.offset * words : (values.offset + len(values)) * words].reshape(-1, words)
    if type_.precision <= _INT64_DIGITS:
        return raw[:, 0].astype(np.int64)
    big = raw[:, ::-1].copy()
    big[:, 0] ^= np.uint64(1 << 63)  # two's complement, most significant first: bytes then compare like numbers
    return np.ascontiguousarray(big.astype(">u8")).view(f"S{8 * words}").reshape(-1)


def _fixed_bytes(values: pa.Array, width: int) -> KeyArray:
    """The first `width` bytes of each value, padded with zeros, compared like bytes."""
    width = max(width, 1)
    type_ = values.type
    if pa.types.is_fixed_size_binary(type_):
        size = type_.byte_width
        if not size:
            return np.zeros(len(values), dtype="S1")
        raw = np.frombuffer(values.buffers()[1], dtype=np.uint8)
        table = raw[values.offset * size : (values.offset + len(values)) * size].reshape(-1, size)[:, :width]
        return np.ascontiguousarray(table).view(f"S{table.shape[1]}").reshape(-1)
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    starts, lengths = ends[:-1], np.minimum(np.diff(ends), width)
    out = np.zeros((len(values), width), dtype=np.uint8)
    if data is None or data.size == 0:
        return out.view(f"S{width}").reshape(-1)
    raw = np.frombuffer(data, dtype=np.uint8)
    last = len(raw) - 1
    for place in range(width):
        # A byte at a time over all rows: less memory than all positions at once, and mostly sequential.
        inside = lengths > place
        if not inside.any():
            break
        out[:, place] = np.where(inside, raw[np.minimum(starts + place, last)], 0)
    return out.view(f"S{width}").reshape(-1)
