"""One value, in three spellings: for people, for pipes, for JSON. None of them can drive a terminal."""

from __future__ import annotations

import json
import re
from datetime import datetime
from math import isfinite
from typing import Any

from parqlake.cli.report import Kind

ABSENT = "–"
"""What people see where there is no value."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FOR_PIPES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\\\ud800-\udfff]")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
_FROM_PIPES = re.compile(r"\\(?:[tnr\\]|x[0-9a-f]{2}|u(?!d[89a-f])[0-9a-f]{4})")
_READ = {spelt: character for character, spelt in _NAMED.items()}
_SHOWN = {"\t": " ", "\n": "⏎"}


def for_people(value: Any, kind: Kind = Kind.TEXT) -> str:
    """The value in words: units, thousands, and no control character.

    Example:
        >>> for_people(1234567, Kind.COUNT), for_people(5 * 1024**2, Kind.BYTES), for_people(None)
        ('1,234,567', '5.0 MiB', '–')
    """
    if value is None:
        return ABSENT
    if kind is Kind.NAMES:
        return ", ".join(for_people(item) for item in value) or ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if kind is Kind.BYTES:
            from parqlake.core.maintenance.health import in_words

            return in_words(int(value))
        return f"{value:,}" if kind is Kind.COUNT else f"{100 * value:.0f} %" if kind is Kind.SHARE else str(value)
    if isinstance(value, datetime):
        text = value.replace(microsecond=0).isoformat()
        return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
    return printable(text_of(value))


def for_pipes(value: Any) -> str:
    r"""The whole value on one line, exact: tabs and line ends as `\t` and `\n`, and nothing for what is not there.

    Example:
        >>> for_pipes("a\tb"), for_pipes(None), for_pipes(True), for_pipes(("x", "y"))
        ('a\\tb', '', 'true', 'x,y')
    """
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(for_pipes(item) for item in value)
    return _FOR_PIPES.sub(lambda found: _NAMED.get(found.group()) or _escaped(found), text_of(value))


def from_pipes(text: str) -> str:
    r"""The text that `for_pipes` spelt so; a backslash that begins none of its escapes stays.

    Example:
        >>> from_pipes(for_pipes("a\tb\x1b")) == "a\tb\x1b", from_pipes(r"C:\dir")
        (True, 'C:\\dir')
    """
    return _FROM_PIPES.sub(lambda found: _READ.get(found.group()) or chr(int(found.group()[2:], 16)), text)


def for_json(value: Any) -> Any:
    """The value as JSON has it: times as ISO text, decimals and numbers that JSON lacks as text, bytes in hex."""
    if value is None or type(value) in (bool, int, str) or (type(value) is float and isfinite(value)):
        return value
    from parqlake.ui.plain import plain  # the same as in the explorer's JSON

    return plain(value)


def text_of(value: Any) -> str:
    """The value as text, whole and exact: what JSON has, without quotes around texts."""
    plain = for_json(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def printable(text: str) -> str:
    r"""The text without anything that would move a cursor or change colours; an escape is shown as `\x1b`."""
    return _CONTROLS.sub(lambda found: _SHOWN.get(found.group()) or _escaped(found), text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
