"""Points in time and times of day, exact to the nanosecond, and how people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

DAY_NANOS = 86_400 * 10**9
UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds in a tick of each unit that Arrow knows."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal() - _EPOCH_DAY
_FIRST_DAY = date.min.toordinal() - _EPOCH_DAY
_INT64 = range(-(2**63), 2**63)
_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_OFFSET = r"(Z|z|[+-]\d{2}(?::?\d{2})?)"
_MOMENT = re.compile(rf"\s*(\d{{4}}-\d{{2}}-\d{{2}})(?:[Tt ]\s*{_CLOCK}\s*{_OFFSET}?)?\s*", re.ASCII)
_TIME = re.compile(rf"\s*{_CLOCK}\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a timestamp, as nanoseconds since 1970; `aware` if it names an instant, not a clock's reading."""

    nanos: int
    aware: bool = False
    is_date: bool = False

    def python_value(self) -> Any:
        """A date or datetime where that loses nothing, else an Arrow scalar."""
        days, rest = divmod(self.nanos, DAY_NANOS)
        in_range = _FIRST_DAY <= days <= _LAST_DAY
        if self.is_date:
            return date.fromordinal(_EPOCH_DAY + days) if in_range else pa.scalar(days, pa.date32())
        zone = "UTC" if self.aware else None
        if in_range and rest % 1000 == 0:
            moment = datetime.fromordinal(_EPOCH_DAY + days) + timedelta(microseconds=rest // 1000)
            return moment.replace(tzinfo=UTC) if self.aware else moment
        if self.nanos in _INT64:
            return pa.scalar(self.nanos, pa.timestamp("ns", zone))
        return pa.scalar(self.nanos // 1000, pa.timestamp("us", zone))


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time of day, as nanoseconds since midnight."""

    nanos: int

    def python_value(self) -> Any:
        """A time where that loses nothing, else an Arrow scalar."""
        if self.nanos % 1000:
            return pa.scalar(self.nanos, pa.time64("ns"))
        seconds, micros = divmod(self.nanos // 1000, 10**6)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)


def moment_of(value: date | datetime) -> Moment:
    """The moment of a Python date or datetime."""
    if not isinstance(value, datetime):
        return Moment((value.toordinal() - _EPOCH_DAY) * DAY_NANOS, is_date=True)
    offset = value.utcoffset()
    days = value.toordinal() - _EPOCH_DAY
    seconds = days * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    micros = seconds * 10**6 + value.microsecond - (0 if offset is None else offset // timedelta(microseconds=1))
    return Moment(micros * 1000, aware=offset is not None)


def time_of_day(value: time) -> TimeOfDay:
    """The nanoseconds since midnight of a Python time."""
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return TimeOfDay((seconds * 10**6 + value.microsecond) * 1000)


def parse_moment(text: str) -> Moment:
    """Reads `2026-01-31`, or `2026-01-31T12:00:00.123456789Z` with T or a space, fraction and offset optional.

    Raises:
        ValueError: the text is no such date or timestamp.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not written as 2026-01-31 or 2026-01-31 12:00:00.123+00:00")
    days = date.fromisoformat(found[1]).toordinal() - _EPOCH_DAY
    if found[2] is None:
        return Moment(days * DAY_NANOS, is_date=True)
    nanos = days * DAY_NANOS + _clock_nanos(*found.group(2, 3, 4, 5))
    offset = found[6]
    if offset is None:
        return Moment(nanos)
    return Moment(nanos - _offset_seconds(offset) * 10**9, aware=True)


def parse_time(text: str) -> TimeOfDay:
    """Reads `12:30` or `12:30:59.123456789`.

    Raises:
        ValueError: the text is no such time.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not written as 12:30 or 12:30:59.123456")
    return TimeOfDay(_clock_nanos(*found.groups()))


def _clock_nanos(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    moment = time(int(hour), int(minute), int(second or 0))  # refuses 25:00 and the like
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def _offset_seconds(text: str) -> int:
    if text in ("Z", "z"):
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text!r} is not an offset from UTC such as +01:00")
    seconds = hours * 3600 + minutes * 60
    return -seconds if text[0] == "-" else seconds
