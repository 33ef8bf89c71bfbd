"""Partition values as text, and back: one spelling for each value, the same from every engine.

The text stands in folder names, in `DataFile.partition` and in the catalog. Dates and times are ISO 8601, those
with a zone in UTC with a `Z`, booleans `true` and `false`, decimals with all digits of their scale, strings as
they are. NULL is None, which no text is; the empty string stays the empty string.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InputError, UnsupportedTypeError

_BOOLEANS = {"true": True, "false": False}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def partition_text(scalar: pa.Scalar) -> str | None:
    """The one spelling of a partition value; None for NULL.

    Example:
        >>> partition_text(pa.scalar(True))
        'true'
    """
    if not scalar.is_valid:
        return None
    type_ = scalar.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return str(scalar.as_py())
    if pa.types.is_boolean(type_):
        return "true" if scalar.as_py() else "false"
    if pa.types.is_integer(type_):
        return str(scalar.as_py())
    if pa.types.is_decimal(type_):
        return format(scalar.as_py(), "f")
    if pa.types.is_date32(type_):
        return str(np.datetime64(scalar.value, "D"))
    if pa.types.is_timestamp(type_):
        text = _without_zeros(str(np.datetime64(scalar.value, type_.unit)))
        return text if type_.tz is None else text + "Z"
    if pa.types.is_time(type_):
        return _time_text(scalar.value, _DIGITS[type_.unit])
    raise UnsupportedTypeError(f"a value of type {type_} cannot be a partition; use a string, number, date or boolean")


def parse_partition_text(text: str | None, type_: pa.DataType) -> pa.Scalar:
    """The scalar of exactly the type that has this text; the inverse of `partition_text`."""
    if text is None:
        return pa.scalar(None, type_)
    try:
        return _parsed(text, type_)
    except (ValueError, KeyError, InvalidOperation, pa.ArrowException) as error:
        raise InputError(f"partition value {text!r} is no {type_}; give it as parqlake spells it") from error


def _parsed(text: str, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.scalar(text, type_)
    if pa.types.is_boolean(type_):
        return pa.scalar(_BOOLEANS[text], type_)
    if pa.types.is_integer(type_):
        return pa.scalar(int(text), type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(text), type_)
    if pa.types.is_date32(type_):
        return _from_ticks(np.datetime64(text, "D"), pa.int32(), type_)
    if pa.types.is_timestamp(type_):
        plain = text if type_.tz is None else text.removesuffix("Z")
        return _from_ticks(np.datetime64(plain, type_.unit), pa.int64(), type_)
    if pa.types.is_time(type_):
        storage = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.scalar(_time_ticks(text, _DIGITS[type_.unit]), storage).cast(type_)
    raise UnsupportedTypeError(f"a value of type {type_} cannot be a partition; use a string, number, date or boolean")


def _from_ticks(moment: np.datetime64[Any], storage: pa.DataType, type_: pa.DataType) -> pa.Scalar:
    # Through integers and not through datetime: Python ends at the year 9999 and at microseconds.
    return pa.scalar(int(moment.astype(np.int64)), storage).cast(type_)


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time_text(ticks: int, digits: int) -> str:
    seconds, fraction = divmod(ticks, 10**digits)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    return _without_zeros(f"{text}.{fraction:0{digits}}") if fraction else text


def _time_ticks(text: str, digits: int) -> int:
    whole, _, fraction = text.partition(".")
    hour, minute, second = (int(part) for part in whole.split(":"))
    return int(((hour * 60 + minute) * 60 + second) * 10**digits) + int(fraction.ljust(digits, "0") or 0)
