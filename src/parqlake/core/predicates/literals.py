"""Constants: every Python, numpy, pandas or Arrow value that may stand in a predicate, brought to one exact form."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.moments import (
    DAY_NANOS,
    UNIT_NANOS,
    Moment,
    TimeOfDay,
    moment_of,
    time_of_day,
)
from parqlake.core.predicates.tree import Literal

Value = bool | int | Decimal | float | str | bytes | Moment | TimeOfDay | None
"""What a constant means, whatever it was written as."""

_NUMPY_NANOS = {"W": 7 * DAY_NANOS, "D": DAY_NANOS, "h": 3600 * 10**9, "m": 60 * 10**9, **UNIT_NANOS}
_SHOWN = 80


def literal(value: Any) -> Literal:
    """Makes a constant in the form that all spellings share: numpy, pandas and Arrow values become Python's own.

    Timestamps and times finer than microseconds stay Arrow scalars, since Python has nothing as fine.
    """
    known = read_value(value)
    return Literal(known.python_value() if isinstance(known, Moment | TimeOfDay) else known)


def is_null(value: Any) -> bool:
    """Whether the value is a NULL of some kind: None, NaT, NA, or an Arrow null."""
    if value is None:
        return True
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    # pandas is no dependency of this room, so its two NULLs are known by name
    return type(value).__name__ in ("NaTType", "NAType")


def read_value(value: Any) -> Value:
    """What a constant means, exactly; None for every kind of NULL.

    Raises:
        InvalidPredicateError: values of this type cannot be compared with a column.
    """
    if is_null(value):
        return None
    if isinstance(value, pa.Scalar):
        return _from_arrow(value)
    if isinstance(value, np.generic) and not isinstance(value, float | str | bytes):
        return _from_numpy(value)
    match value:
        case bool():
            return value
        case int():
            return int(value)
        case float():
            return math.nan if math.isnan(value) else float(value)
        case Decimal():
            return value if value.is_finite() else _non_finite(value)
        case str():
            return str.__str__(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime() if hasattr(value, "asm8"):  # a pandas Timestamp, which is finer than a datetime
            return Moment(_numpy_moment(value.asm8).nanos, aware=value.tzinfo is not None)
        case date():
            return moment_of(value)
        case time() if value.tzinfo is not None:
            raise InvalidPredicateError(f"the time {value!r} has a time zone; columns hold times of day without one")
        case time():
            return time_of_day(value)
    raise _unusable(value)


def shown(value: Any) -> str:
    """A value as an error message shows it: short, and never a page of text."""
    text = str(value) if isinstance(value, pa.Scalar) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _non_finite(value: Decimal) -> float:
    return math.nan if value.is_nan() else math.inf if value > 0 else -math.inf


def _from_numpy(value: np.generic) -> Value:
    if isinstance(value, np.datetime64):
        return _numpy_moment(value)
    if isinstance(value, np.bool_ | np.integer | np.floating):
        plain = value.item()
        return read_value(float(value) if isinstance(plain, np.generic) else plain)
    raise _unusable(value)


def _numpy_moment(value: np.datetime64) -> Moment:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    if unit not in _NUMPY_NANOS:
        raise InvalidPredicateError(
            f"{value!r} counts in a unit that columns do not have; use astype('datetime64[ns]') or coarser"
        )
    return Moment(int(value.astype(np.int64)) * count * _NUMPY_NANOS[unit], is_date=unit in ("W", "D"))


def _from_arrow(value: pa.Scalar) -> Value:
    type_ = value.type
    t = pa.types
    if t.is_timestamp(type_):
        return Moment(value.value * UNIT_NANOS[type_.unit], aware=type_.tz is not None)
    if t.is_date32(type_):
        return Moment(value.value * DAY_NANOS, is_date=True)
    if t.is_date64(type_):
        return Moment(value.value * 10**6, is_date=True)
    if t.is_time(type_):
        nanos = value.value * UNIT_NANOS[type_.unit]
        if not 0 <= nanos < DAY_NANOS:
            raise InvalidPredicateError(f"{value.value} {type_.unit} is no time of day: it must lie between 0 and 24 h")
        return TimeOfDay(nanos)
    if t.is_dictionary(type_) or isinstance(type_, pa.BaseExtensionType):
        return read_value(value.as_py())
    if t.is_nested(type_) or t.is_duration(type_) or t.is_interval(type_):
        raise _unusable(value)
    return read_value(value.as_py())


def _unusable(value: Any) -> InvalidPredicateError:
    type_ = f"an Arrow {value.type}" if isinstance(value, pa.Scalar) else f"a {type(value).__name__}"
    return InvalidPredicateError(
        f"{shown(value)} is {type_}, which cannot be compared with a column; "
        "use a number, string, bytes, bool, date, datetime, time or None"
    )
