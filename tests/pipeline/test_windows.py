"""Windows and watermarks: no row is asked for twice without need, and none is passed over."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InvalidOptionError
from parqlake.pipeline.windows import (
    EPOCH,
    LAST_NUMBER,
    Watermark,
    Window,
    backfill_windows,
    cursor,
    moved,
    next_window,
    point,
)

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_the_first_window_begins_at_the_start_and_later_ones_look_back() -> None:
    asked = cursor("updated_at", lookback="2h")
    assert next_window(asked, None, now=NOON, by_keys=True) == Window(EPOCH, NOON)
    known = Watermark(NOON - timedelta(hours=5), NOON - timedelta(hours=1))
    assert next_window(asked, known, now=NOON, by_keys=True) == Window(NOON - timedelta(hours=7), NOON)
    late = cursor("updated_at", lookback="2h", start=NOON - timedelta(hours=6))
    assert next_window(late, known, now=NOON, by_keys=True).since == NOON - timedelta(hours=6)


def test_appends_do_not_take_the_last_row_again() -> None:
    known = Watermark(7, 9)
    assert next_window(cursor("n", start=0), known, now=NOON, by_keys=False) == Window(7, LAST_NUMBER, with_since=False)
    assert next_window(cursor("n", start=0), known, now=NOON, by_keys=True).with_since
    assert next_window(cursor("n", start=0), Watermark(None, 9), now=NOON, by_keys=False) == Window(0, LAST_NUMBER)


def test_a_watermark_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no number"):
        next_window(cursor("n", start=0), Watermark(NOON, NOON), now=NOON, by_keys=True)


def test_a_watermark_survives_the_catalog() -> None:
    for known in (Watermark(NOON, NOON), Watermark(None, 7), Watermark(3, 7)):
        assert Watermark.from_dict(known.to_dict()) == known


def test_a_backfill_moves_the_watermark_only_where_it_leaves_no_gap() -> None:
    def past(since: int, until: int) -> Window:
        return Window(since, until, with_until=False)

    known = Watermark(18, 20)
    assert moved(None, past(0, 10), 7, start=0) == Watermark(7, 10)
    assert moved(None, past(5, 10), 7, start=0) is None  # what is before it has not been asked for
    assert moved(known, past(20, 30), 25, start=0) == Watermark(25, 30)
    assert moved(known, past(0, 10), 7, start=0) == known
    assert moved(known, past(30, 40), 35, start=0) == known
    assert moved(known, past(20, 30), None, start=0) == Watermark(18, 30)


def test_an_ordinary_run_covers_what_it_saw_and_not_what_may_still_come() -> None:
    numbers, moments = cursor("n", start=0), cursor("at")
    known = moved(None, next_window(numbers, None, now=NOON, by_keys=True), 100, start=0)
    assert known == Watermark(100, 100)
    assert moved(known, backfill_windows(500, 600, 100)[0], 599, start=0) == known
    assert moved(known, next_window(numbers, known, now=NOON, by_keys=True), None, start=0) == known
    seen = NOON - timedelta(days=5)
    known = moved(None, next_window(moments, None, now=NOON, by_keys=True), seen, start=EPOCH)
    (day,) = backfill_windows(NOON - timedelta(days=3), NOON - timedelta(days=2), "1d")
    assert moved(known, day, NOON - timedelta(days=2.5), start=EPOCH) == Watermark(seen, seen)
    (january,) = backfill_windows("2026-01-01", "2026-02-01", "31d")
    assert moved(None, january, NOON, start=EPOCH) is None
    assert moved(None, next_window(moments, None, now=NOON, by_keys=True), None, start=EPOCH) == Watermark(None, EPOCH)


def test_a_command_line_can_go_back_by_numbers() -> None:
    assert backfill_windows("0", "25", "10") == backfill_windows(0, 25, 10)
    assert [str(window) for window in backfill_windows("20260101", "20260103", "2d")] == [
        "[2026-01-01T00:00:00+00:00, 2026-01-03T00:00:00+00:00)"
    ]


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=12), st.integers(0, 9), st.sets(st.integers(0, 12)))
def test_no_row_below_the_watermark_was_passed_over(runs: list[int | None], limit: int, rows: set[int]) -> None:
    """Ordinary runs (None) that see rows up to a limit, which rises, and backfills of two numbers, in any order."""
    asked, known = cursor("n", start=0), None
    taken: set[int] = set()
    for back in runs:
        there = {n for n in rows if n <= limit}
        ordinary = next_window(asked, known, now=NOON, by_keys=True)
        window = ordinary if back is None else Window(back, back + 2, with_until=False)
        inside = {n for n in (there if back is None else rows) if window.since <= n < window.until}  # type: ignore[operator]
        taken |= inside
        known = moved(known, window, max(inside, default=None), start=0)
        if known is not None and known.value is not None:
            assert {n for n in rows if n <= known.value} <= taken  # type: ignore[operator]
        limit += 1


@given(st.integers(-1000, 1000), st.integers(1, 2000), st.integers(1, 100))
def test_backfill_windows_cover_the_range_once(first: int, length: int, size: int) -> None:
    windows = backfill_windows(first, first + length, size)
    taken = [n for window in windows for n in range(int(window.since), int(window.until))]  # type: ignore[arg-type]
    assert taken == list(range(first, first + length))
    assert not any(window.with_until for window in windows)


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 20))
def test_windows_one_after_the_other_move_the_watermark_to_what_was_seen(seen: list[int], size: int) -> None:
    known = None
    for window in backfill_windows(0, 51, size):
        inside = [n for n in seen if window.since <= n < window.until]  # type: ignore[operator]
        known = moved(known, window, max(inside, default=None), start=0)
    assert known == Watermark(max(seen, default=None), 51)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2026-01-02", "2026-01-01", "1d"), "ends before"),
        (("2026-01-01", "2026-01-02", "0s"), "longer than nothing"),
        (("2026-01-01", 5, "1d"), "mixes"),
        (("soon", "2026-01-02", "1d"), "no moment"),
        ((0, 10**9, 1), "more than"),
        (("1970-01-01", "2026-01-02", "3 days"), "no age"),
    ],
)
def test_backfills_that_make_no_sense_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        backfill_windows(*arguments)


def test_moments_are_utc_unless_they_say_otherwise() -> None:
    assert point("2026-11-16T13:00:00+01:00", "x") == NOON
    assert point(date(2026, 11, 16), "x") == point("2026-11-16", "x") == NOON - timedelta(hours=12)
    for wrong in (True, 1.5, None):
        with pytest.raises(InvalidOptionError, match="neither"):
            point(wrong, "x")


def test_cursors_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="names no column"):
        cursor("")
    with pytest.raises(InvalidOptionError, match="whole number"):
        cursor("n", start=0, lookback="2h")
    with pytest.raises(InvalidOptionError, match="no age"):
        cursor("at", lookback="soon")
