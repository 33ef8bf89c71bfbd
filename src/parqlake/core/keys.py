"""Order keys: every value of every prunable type as a number or bytes whose order is the value's order.

Integers, booleans, dates and times are shifted to unsigned; doubles become their sign-flipped bits, with -0.0 made
0.0 and NaN above every number; timestamps count microseconds, rounded outward; decimals are their unscaled integers,
those beyond 64 bits clamped to the ends, so that widening a precision keeps old keys true; strings and binary are
their bytes. All of it is monotone, so that bounds stay bounds.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

from parqlake.core.pages import KEY_BYTES, MAX_KEY, Key

_OFFSET = 2**63
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
NAN_KEY = 0xFFF8_0000_0000_0000


class Round(Enum):
    """Which way a value that has no key of its own goes."""

    DOWN = "down"
    UP = "up"


def is_prunable(type_: pa.DataType) -> bool:
    """Whether values of the type have order keys."""
    return has_bytes_keys(type_) or bool(
        pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_date(type_)
        or pa.types.is_time(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_decimal(type_)
    )


def has_bytes_keys(type_: pa.DataType) -> bool:
    """Whether keys of the type are bytes rather than numbers."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def is_exact(type_: pa.DataType) -> bool:
    """Whether different values have different keys (but for the two ends, where keys are clamped)."""
    if has_bytes_keys(type_):
        return False
    return not (pa.types.is_timestamp(type_) and type_.unit == "ns") and not (
        pa.types.is_time(type_) and type_.unit == "ns"
    )


def integer_key(value: int) -> int:
    """The key of a signed integer."""
    return min(max(value, _INT64_MIN), _INT64_MAX) + _OFFSET


def double_key(value: float) -> int:
    """The key of a double; NaN is the greatest."""
    if math.isnan(value):
        return NAN_KEY
    bits: int = struct.unpack("<Q", struct.pack("<d", value if value != 0 else 0.0))[0]
    return bits ^ MAX_KEY if bits >> 63 else bits | _OFFSET


def scalar_key(scalar: pa.Scalar, round_: Round) -> Key:
    """The key of a non-NULL scalar of a prunable type."""
    type_ = scalar.type
    if has_bytes_keys(type_):
        value = scalar.as_py()
        return (value.encode() if isinstance(value, str) else bytes(value))[:KEY_BYTES]
    if pa.types.is_floating(type_):
        return double_key(scalar.as_py())
    if pa.types.is_decimal(type_):
        return raw_key(scaled_integer(scalar.as_py(), type_.scale), type_, round_)
    if pa.types.is_boolean(type_):
        return integer_key(int(scalar.as_py()))
    if pa.types.is_integer(type_):
        return raw_key(scalar.as_py(), type_, round_)
    return raw_key(scalar.value, type_, round_)


def raw_key(value: Any, type_: pa.DataType, round_: Round) -> Key:
    """The key of a value as Parquet and Arrow store it: ticks, days, unscaled decimals, bytes."""
    if has_bytes_keys(type_):
        return bytes(value)[:KEY_BYTES]
    if pa.types.is_floating(type_):
        return double_key(float(value))
    if pa.types.is_unsigned_integer(type_):
        number = int(value) % 2**type_.bit_width
        return number if type_.bit_width == 64 else integer_key(number)
    number = int(value)
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return integer_key(_micros(number, type_.unit, round_))
    if pa.types.is_date64(type_):
        return integer_key(number // 86_400_000)
    return integer_key(number)


def scaled_integer(value: Decimal, scale: int) -> int:
    """The unscaled integer of a decimal that fits the scale."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    shift = int(exponent) + scale
    number = number * 10**shift if shift >= 0 else number // 10**-shift
    return int(-number if sign else number)


def key_value(key: Key | None, type_: pa.DataType) -> Any:
    """A readable bound for a key: exact for most types, cut for strings; None if unknown."""
    if key is None:
        return None
    if isinstance(key, bytes):
        return key.decode("utf-8", "ignore") if pa.types.is_string(type_) else key
    if pa.types.is_floating(type_):
        bits = key ^ _OFFSET if key >> 63 else key ^ MAX_KEY
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if pa.types.is_uint64(type_):
        return key
    number = key - _OFFSET
    if pa.types.is_boolean(type_):
        return bool(number)
    if pa.types.is_decimal(type_):
        return Decimal(number).scaleb(-type_.scale)
    if pa.types.is_timestamp(type_):
        return pa.scalar(number, pa.timestamp("us", type_.tz)).as_py()
    if pa.types.is_time(type_):
        return pa.scalar(number, pa.time64("us")).as_py()
    if pa.types.is_date(type_):
        return pa.scalar(number, pa.date32()).as_py()
    return number


def _micros(number: int, unit: str, round_: Round) -> int:
    match unit:
        case "s":
            return number * 1_000_000
        case "ms":
            return number * 1000
        case "ns":
            return _divide(number, 1000, round_)
    return number


def _divide(number: int, by: int, round_: Round) -> int:
    return number // by if round_ is Round.DOWN else -(-number // by)
