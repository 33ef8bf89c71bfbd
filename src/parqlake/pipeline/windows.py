"""Cursors, watermarks and windows: which rows a run asks for, and how far that brings the pipeline.

A watermark is the highest cursor value that was committed, and the end of what was asked for from the cursor's start
on. Nothing here reads or writes: runs and tests put in what they know and get a value back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.retention import parse_age

Point = datetime | int
"""A place on a cursor: a moment, aware and in UTC, or a whole number."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_NUMBER = 2**63 - 1
MOST_WINDOWS = 100_000
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How a step asks for what is new: by a column that rises. Made by `cursor`."""

    column: str
    lookback: timedelta | int
    start: Point

    @property
    def counts(self) -> bool:
        """Whether the cursor is a number rather than a moment."""
        return isinstance(self.start, int)


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a step has come."""

    value: Point | None
    """The highest cursor value that was committed."""
    covered: Point
    """Everything from the cursor's start up to here was asked for, and will not be by itself again."""

    def to_dict(self) -> dict[str, Any]:
        """As it is kept in the catalog."""
        return {"value": written(self.value), "covered": written(self.covered)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Watermark:
        """From how it is kept."""
        covered = point(value["covered"], "covered")
        return cls(None if value["value"] is None else point(value["value"], "value"), covered)


@dataclass(frozen=True, slots=True)
class Window:
    """What a run asks for: cursor values from `since` to `until`."""

    since: Point
    until: Point
    with_since: bool = True
    """Whether rows exactly at `since` belong to it."""
    with_until: bool = True

    def __str__(self) -> str:
        left, right = "[" if self.with_since else "(", "]" if self.with_until else ")"
        return f"{left}{written(self.since)}, {written(self.until)}{right}"


def cursor(column: str, *, lookback: str | timedelta | int = 0, start: Any = None) -> Cursor:
    """Says that a step takes rows whose `column` is beyond what was taken before.

    The step's function gets `since` and `until`; rows outside of them, and rows without a value, are left out whatever
    it returns. The next run begins at the highest value that was committed, less `lookback`, so that rows which come
    late are seen again: for modes that go by keys only.

    Args:
        column: a timestamp, a date or a whole number that never falls for a row that changes.
        lookback: how far to look back, `"2h"` for instance; a whole number for a number.
        start: where the first run begins: a moment (the beginning of 1970 if left out) or a whole number.

    Example:
        >>> cursor("updated_at", lookback="2h").lookback
        datetime.timedelta(seconds=7200)
    """
    if not isinstance(column, str) or not column:
        raise InvalidOptionError(f"cursor({column!r}) names no column; write for instance cursor('updated_at')")
    begin = EPOCH if start is None else point(start, "start")
    if isinstance(begin, int):
        if not isinstance(lookback, int) or isinstance(lookback, bool) or lookback < 0:
            raise InvalidOptionError(f"lookback={lookback!r} of a number must be a whole number that is not negative")
        return Cursor(column, lookback, begin)
    return Cursor(column, parse_age(lookback, "lookback"), begin)


def next_window(asked: Cursor, known: Watermark | None, *, now: datetime, by_keys: bool) -> Window:
    """What a run asks for after what is known; `by_keys` if rows that are seen twice do no harm."""
    until: Point = LAST_NUMBER if asked.counts else now
    if known is None:
        return Window(asked.start, until)
    value = known.value if known.value is not None else asked.start
    if isinstance(value, int) != asked.counts:
        raise InvalidOptionError(
            f'the watermark of column "{asked.column}" is {written(value)}, which is no '
            f"{'number' if asked.counts else 'moment'}; give the step another name to begin anew"
        )
    since: Any = value
    if known.value is not None:
        since = max(since - asked.lookback, asked.start)
    return Window(since, until, with_since=by_keys or known.value is None)


def moved(known: Watermark | None, window: Window, seen: Point | None, *, start: Point) -> Watermark | None:
    """The watermark after a window was committed in which `seen` was the highest value; None if there is none yet.

    A window that leaves a gap behind what was covered, as a backfill may, does not move it: what is in the gap would
    never be asked for. The window of an ordinary run ends at the present, beyond all rows; what it covers is what it
    saw, since rows may still come in between. That of a backfill covers what it was asked to.

    Args:
        known: before the window.
        window: what was asked for.
        seen: the highest value that was committed.
        start: where the cursor begins, which is what is covered at first.
    """
    before = known or Watermark(None, start)
    if _after(window.since, before.covered):
        return known
    values: list[Any] = [value for value in (before.value, seen) if value is not None]
    reached = seen if window.with_until else window.until
    further = reached is not None and _after(reached, before.covered)
    return Watermark(max(values, default=None), reached if further and reached is not None else before.covered)


def backfill_windows(first: Any, last: Any, size: Any) -> list[Window]:
    """Cuts the range from `first` up to, not including, `last` into windows of one size; the last may be shorter.

    Text that is all digits, as a command line gives it, is a number where the size is one.

    Example:
        >>> [str(window) for window in backfill_windows(0, 25, 10)]
        ['[0, 10)', '[10, 20)', '[20, 25)']
    """
    counts = bool(_NUMBER.fullmatch(str(size)))
    begin: Any = _numbered(first) if counts else point(first, "backfill")
    end: Any = _numbered(last) if counts else point(last, "backfill")
    if isinstance(begin, int) != isinstance(end, int):
        raise InvalidOptionError(f"backfill=({first!r}, {last!r}, …) mixes a moment and a number")
    step = _step(size) if isinstance(begin, int) else parse_age(size, "backfill")
    if not step:
        raise InvalidOptionError(f"a backfill goes by windows that are longer than nothing, not by {size!r}")
    if not end > begin:
        raise InvalidOptionError(f"backfill=({first!r}, {last!r}, …) ends before it begins")
    if (end - begin) / step > MOST_WINDOWS:
        raise InvalidOptionError(f"backfill by {size!r} makes more than {MOST_WINDOWS:,} windows; make them longer")
    windows = []
    while begin < end:
        until = min(begin + step, end)
        windows.append(Window(begin, until, with_until=False))
        begin = until
    return windows


def _numbered(place: Any) -> Any:
    return int(place) if isinstance(place, str) and _NUMBER.fullmatch(place) else point(place, "backfill")


def _step(size: Any) -> int:
    if not isinstance(size, int | str) or isinstance(size, bool) or not str(size).isdigit():
        raise InvalidOptionError(f"backfill=(…, {size!r}): windows of a number are a whole number long")
    return int(size)


def point(value: Any, option: str) -> Point:
    """A moment or a whole number; text is read as ISO 8601, and what has no time zone is UTC.

    Example:
        >>> point("2026-01-31", "start")
        datetime.datetime(2026, 1, 31, 0, 0, tzinfo=datetime.timezone.utc)
    """
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidOptionError(
                f'{option}={value!r} is no moment; write it like "2026-01-31" or "2026-01-31T12:00:00Z"'
            ) from None
    if isinstance(found, datetime):
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if isinstance(found, date):
        return datetime.combine(found, time(), UTC)
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    raise InvalidOptionError(f"{option}={value!r} is neither a moment nor a whole number")


def written(value: Point | None) -> str | int | None:
    """As JSON and people read it."""
    return value.isoformat() if isinstance(value, datetime) else value


def _after(one: Point, other: Point) -> bool:
    if isinstance(one, int) != isinstance(other, int):
        raise InvalidOptionError(f"{written(one)} and {written(other)} are a moment and a number; use one kind")
    return one > other  # type: ignore[operator]
