"""Typed constants of SQL text: `date '2026-01-31'`, `'nan'::double`, `cast('1.10' as decimal)`."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.moments import Moment, parse_moment, parse_time

MAX_DIGITS = 1000
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}
_INTEGERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT", "UINT128"}
_TIMESTAMPS = {"TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATETIME"}
_AWARE_TIMESTAMPS = {"TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPTZ_NS"}
_TEXTS = {"TEXT", "VARCHAR", "CHAR"}
_BINARIES = {"VARBINARY", "BINARY", "BLOB", "BYTEA"}


def number(text: str) -> int | Decimal | float:
    """The number as written: an int, an exact Decimal, or with an exponent a float.

    Raises:
        InvalidPredicateError: the text is no number, too long, or beyond every double.
    """
    if len(text) > MAX_DIGITS:
        raise InvalidPredicateError(
            f"the number {text[:20]}… has {len(text)} digits; at most {MAX_DIGITS} are possible"
        )
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if not _FLOAT.fullmatch(text):
        raise InvalidPredicateError(f"{text!r} is not a number")
    value = float(text)
    if math.isinf(value):
        raise InvalidPredicateError(f"{text} is greater than every double; write 'inf'::double if that is meant")
    return value


def converted(value: Any, target: str, *, scale: int | None = None) -> Any:
    """The constant as one of SQL's types, where that loses nothing.

    Args:
        value: what was read so far: None, a bool, int, Decimal, float or str.
        target: the type's name, in capitals, as sqlglot spells it.
        scale: digits after the point, of a decimal type that says so.

    Raises:
        InvalidPredicateError: the value is not of that type, or the type cannot stand in a predicate.
    """
    if value is None:
        return None
    try:
        result = _converted(value, target)
        if scale is not None and isinstance(result, Decimal) and -int(result.normalize().as_tuple().exponent) > scale:
            raise ValueError(f"it has more than {scale} digits after the point")
        return result
    except ValueError as error:
        raise InvalidPredicateError(f"{value!r} is not a {target}: {error}") from None


def _converted(value: Any, target: str) -> Any:
    if target in _INTEGERS:
        return _integer(value)
    if target in ("DECIMAL", "DOUBLE", "FLOAT"):
        return _real(value, target)
    if target == "BOOLEAN" and isinstance(value, bool):
        return value
    if isinstance(value, str):
        if target in _TEXTS:
            return value
        if target in _BINARIES:
            return _binary(value)
        if target == "TIME":
            return parse_time(value).python_value()
        if target == "DATE" or target in _TIMESTAMPS or target in _AWARE_TIMESTAMPS:
            return _moment(value, target).python_value()
    raise ValueError("such a conversion of a constant is not understood")


def _integer(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()) and len(value) <= MAX_DIGITS:
        return int(value)
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool) and value == math.floor(value):
        return int(value)
    raise ValueError("it is not a whole number")


def _real(value: Any, target: str) -> Decimal | float:
    if isinstance(value, str):
        text = value.strip()
        special = _SPECIAL_FLOATS.get(text.lower())
        if special is not None and target != "DECIMAL":
            return special
        if len(text) > MAX_DIGITS or not (_DECIMAL if target == "DECIMAL" else _FLOAT).fullmatch(text):
            raise ValueError("it is not a number")
        value = Decimal(text) if target == "DECIMAL" else float(text)
    if isinstance(value, bool):
        raise ValueError("it is not a number")
    if target == "DECIMAL":
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(value, int) and value.bit_length() > 1023:
        raise ValueError("it is greater than every double")
    if target == "DOUBLE":
        return float(value)
    with np.errstate(over="ignore"):
        return float(np.float32(float(value)))


def _moment(text: str, target: str) -> Moment:
    moment = parse_moment(text)
    if target == "DATE":
        if not moment.is_date:
            raise ValueError("a date has no time of day; write timestamp '…' instead")
        return moment
    if target in _AWARE_TIMESTAMPS:
        return Moment(moment.nanos, aware=True)
    if moment.aware:
        raise ValueError("it has a time zone; write timestamptz '…' instead")
    return Moment(moment.nanos)


def _binary(text: str) -> bytes:
    r"""Reads a blob as DuckDB writes it: ASCII, with every other byte as `\xFF`."""
    parts = re.split(r"\\x([0-9A-Fa-f]{2})", text)
    plain = "".join(parts[::2])
    if not plain.isascii() or "\\" in plain:
        raise ValueError(r"a blob is written in ASCII with other bytes as \xFF, or as x'FF'")
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode() for i, part in enumerate(parts))
