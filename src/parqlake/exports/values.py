"""Bounds as values of their types: low ones never above, high ones never below what the file holds."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parqlake.core.keys import key_value
from parqlake.core.pages import Key

_LAST = "\U0010ffff"


def low_value(key: Key | None, type_: pa.DataType) -> Any:
    """A value that none in the file is below; None if there is none to be had."""
    value = _value(key, type_)
    return -0.0 if isinstance(value, float) and value == 0 else value


def high_value(key: Key | None, type_: pa.DataType) -> Any:
    """A value that none in the file is above; None if there is none to be had. Texts are cut short and raised."""
    value = _value(key, type_)
    return raised(value) if isinstance(value, str) else value


def raised(text: str) -> str | None:
    """A text above all that begin with this one; None if there is none."""
    for place in range(len(text) - 1, -1, -1):
        following = ord(text[place]) + 1
        if following == 0xD800:  # no character, up to 0xE000
            following = 0xE000
        if following <= ord(_LAST):
            return text[:place] + chr(following)
    return None


def _value(key: Key | None, type_: pa.DataType) -> bool | int | float | str | date | datetime | time | Decimal | None:
    if key is None or pa.types.is_binary(type_):
        return None
    try:
        value: Any = key_value(key, type_)
    except (ValueError, OverflowError, pa.ArrowException):  # beyond what Python can say
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value
