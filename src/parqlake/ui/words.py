"""Numbers, sizes and times as people say them. Pure."""

from __future__ import annotations

from datetime import datetime

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = (
    (31_557_600, "year"),
    (2_629_800, "month"),
    (604_800, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)


def size(count: float) -> str:
    """Bytes in the unit that suits them.

    Example:
        >>> size(512), size(1_240_000_000)
        ('512 B', '1.2 GB')
    """
    for unit in _UNITS:
        if abs(count) < 999.5 or unit == _UNITS[-1]:
            return f"{count:,.0f} {unit}" if unit == "B" or abs(count) >= 99.95 else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError("the last unit takes every size")


def number(count: float) -> str:
    """A whole number with its thousands parted.

    Example:
        >>> number(1234567)
        '1,234,567'
    """
    return f"{count:,.0f}"


def short(count: float) -> str:
    """A whole number in a few characters.

    Example:
        >>> short(950), short(12_400), short(1_000_000)
        ('950', '12.4k', '1M')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(count) >= limit:
            scale = 1e3 if unit == "k" else limit
            return f"{count / scale:,.1f}".removesuffix(".0") + unit
    return f"{count:,.0f}"


def percent(part: float, whole: float) -> str:
    """A share, never rounded to all or nothing when it is neither.

    Example:
        >>> percent(1, 3), percent(1, 100_000), percent(99_999, 100_000), percent(0, 0)
        ('33 %', '<0.1 %', '>99.9 %', '–')
    """
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "<0.1 %"
    if 99.9 < share < 100:
        return ">99.9 %"
    return f"{share:.0f} %" if share in (0, 100) or 10 <= share < 99.5 else f"{share:.1f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count and what it counts.

    Example:
        >>> plural(1, "file"), plural(1200, "file")
        ('1 file', '1,200 files')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """How long something took.

    Example:
        >>> span(0.042), span(3.25), span(95), span(7300)
        ('42 ms', '3.2 s', '1 min 35 s', '2 h 1 min')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago a moment was, in the greatest unit that fits.

    Example:
        >>> from datetime import UTC, timedelta
        >>> noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
        >>> ago(noon - timedelta(minutes=3), noon), ago(noon, noon), ago(noon + timedelta(days=2), noon)
        ('3 minutes ago', 'just now', 'in 2 days')
    """
    seconds = (now - moment).total_seconds()
    whole = abs(int(seconds))
    if whole < 5:
        return "just now"
    length, unit = next((length, unit) for length, unit in _SPANS if whole >= length)
    text = plural(whole // length, unit)
    return f"{text} ago" if seconds > 0 else f"in {text}"
