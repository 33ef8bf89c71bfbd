"""Which types a column may become: wider ones, that hold every value of the old one as it is."""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.keys import has_bytes_keys

_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_EXACT_IN_DOUBLE = 32
"""Integers of so many bits are exact as doubles."""
_DECIMAL_DIGITS = 38
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def wider_types(type_: pa.DataType) -> list[pa.DataType]:
    """The types that a column of this type may be widened to, the nearest first; decimals stand for all below them."""
    if pa.types.is_integer(type_):
        signed = [wide for bits, wide in _SIGNED.items() if bits > type_.bit_width]
        double = [pa.float64()] if type_.bit_width <= _EXACT_IN_DOUBLE else []
        if pa.types.is_signed_integer(type_):
            return [*signed, *double]
        return [*(wide for bits, wide in _UNSIGNED.items() if bits > type_.bit_width), *signed, *double]
    if pa.types.is_float32(type_):
        return [pa.float64()]
    if pa.types.is_decimal(type_) and type_.precision < _DECIMAL_DIGITS:
        return [pa.decimal128(_DECIMAL_DIGITS, type_.scale)]
    if pa.types.is_date(type_):
        return [pa.timestamp("us")]
    return []


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a column of the type `old` may become one of `new`."""
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return new in wider_types(old)


def shown_wider_types(type_: pa.DataType) -> str:
    """What a message offers instead of a type that is no wider one."""
    if pa.types.is_decimal(type_) and type_.precision < _DECIMAL_DIGITS:
        return f"decimal128(p, {type_.scale}) with p from {type_.precision + 1} to {_DECIMAL_DIGITS}"
    return ", ".join(str(wide) for wide in wider_types(type_)) or "nothing: there is no wider type"


def keeps_keys(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether the order keys of a value are the same in both types, so that old statistics stay true.

    Dates count days where timestamps count microseconds, and unsigned integers of 64 bits are not shifted.
    """
    if pa.types.is_integer(old) and pa.types.is_integer(new):
        return bool(pa.types.is_uint64(old) == pa.types.is_uint64(new))
    if has_bytes_keys(old) != has_bytes_keys(new):
        return False
    floats = pa.types.is_floating(old) and pa.types.is_floating(new)
    decimals = pa.types.is_decimal(old) and pa.types.is_decimal(new) and old.scale == new.scale
    return bool(old == new or floats or decimals)


def fits_in(data: pa.DataType, type_: pa.DataType) -> bool:
    """Whether every value of a plain type can be stored as another one without loss."""
    if data == type_ or pa.types.is_null(data) or widens(data, type_):
        return True
    if pa.types.is_decimal(type_):
        whole = type_.precision - type_.scale
        if pa.types.is_decimal(data):
            return bool(data.scale <= type_.scale and data.precision - data.scale <= whole)
        return bool(pa.types.is_integer(data) and _INTEGER_DIGITS[data.bit_width] <= whole)
    if pa.types.is_timestamp(data) and pa.types.is_timestamp(type_):
        return bool(data.unit == type_.unit and (data.tz is None) == (type_.tz is None))
    return bool(pa.types.is_string(type_) and becomes_text(data))


def becomes_text(type_: pa.DataType) -> bool:
    """Whether a column of the type can become a string, should nothing else fit."""
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_null(type_))


def common_type(column: pa.DataType, data: pa.DataType) -> pa.DataType | None:
    """The nearest type that the column may become and that holds the data too, the column's own if it can.

    None if only text would hold both.
    """
    if fits_in(data, column) and not (pa.types.is_string(column) and not pa.types.is_string(data)):
        return column
    if pa.types.is_decimal(column) and pa.types.is_decimal(data) and data.scale <= column.scale:
        digits = max(data.precision - data.scale, column.precision - column.scale) + column.scale
        return pa.decimal128(digits, column.scale) if digits <= _DECIMAL_DIGITS else None
    return next((wide for wide in wider_types(column) if fits_in(data, wide)), None)
