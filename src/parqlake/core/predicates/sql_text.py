"""Names and typed constants as SQL text that DuckDB reads back exactly. Nothing in them can become SQL."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa

from parqlake.core.predicates.moments import DAY_NANOS, UNIT_NANOS, Moment
from parqlake.core.predicates.value_types import is_bytes, is_float, is_text

_SMALL = 2**31
_EPOCH = "DATE '1970-01-01'"
_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
_MAX_DIGITS = 38
_FIRST_NANO_DAY = -(2**63) // DAY_NANOS


def identifier(name: str) -> str:
    """The name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def string(text: str) -> str:
    """The text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def type_name(type_: pa.DataType) -> str:
    """What DuckDB calls the type."""
    t = pa.types
    if t.is_decimal(type_):
        return f"DECIMAL({min(type_.precision, _MAX_DIGITS)}, {type_.scale})"
    if t.is_timestamp(type_):
        nanos = "_NS" if type_.unit == "ns" else ""
        return f"TIMESTAMPTZ{nanos}" if type_.tz is not None else f"TIMESTAMP{nanos}"
    if t.is_time(type_):
        return "TIME_NS" if type_.unit == "ns" else "TIME"
    if t.is_date(type_):
        return "DATE"
    return "VARCHAR" if is_text(type_) else "BLOB" if is_bytes(type_) else _TYPES[type_]


def constant(scalar: pa.Scalar) -> str:
    """A constant of exactly the scalar's type and value."""
    type_ = scalar.type
    t = pa.types
    if not scalar.is_valid:
        return "NULL" if t.is_null(type_) else f"CAST(NULL AS {type_name(type_)})"
    if t.is_boolean(type_):
        return "TRUE" if scalar.as_py() else "FALSE"
    if t.is_integer(type_):
        number = scalar.as_py()
        plain = f"({number})" if number < 0 else str(number)
        return plain if abs(number) < _SMALL else f"CAST({number} AS {type_name(type_)})"
    if is_float(type_):
        return f"CAST('{_float_text(scalar.as_py())}' AS {type_name(type_)})"
    if t.is_decimal(type_):
        return f"CAST('{scalar.as_py():f}' AS {type_name(type_)})"
    if is_text(type_):
        return string(scalar.as_py())
    if is_bytes(type_):
        return f"unhex('{scalar.as_py().hex()}')"
    return _temporal(scalar, type_)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _temporal(scalar: pa.Scalar, type_: pa.DataType) -> str:
    t = pa.types
    if t.is_date(type_):
        days = scalar.value if t.is_date32(type_) else scalar.value * 10**6 // DAY_NANOS
        day = Moment(days * DAY_NANOS, is_date=True).python_value()
        return f"DATE '{day}'" if isinstance(day, date) else f"({_EPOCH} + CAST({days} AS INTEGER))"
    nanos = scalar.value * UNIT_NANOS[type_.unit]
    if t.is_time(type_):
        return f"{type_name(type_)} '{_clock(nanos)}'"
    day = Moment(nanos // DAY_NANOS * DAY_NANOS, is_date=True).python_value()
    zone = type_.tz is not None
    if nanos // DAY_NANOS == _FIRST_NANO_DAY and type_.unit == "ns" and not zone:
        return f"make_timestamp_ns(CAST({scalar.value} AS BIGINT))"  # DuckDB cannot read the text of this day
    if not isinstance(day, date):
        return f"{'make_timestamptz' if zone else 'make_timestamp'}(CAST({nanos // 1000} AS BIGINT))"
    return f"{type_name(type_)} '{day} {_clock(nanos % DAY_NANOS)}{'+00' if zone else ''}'"


def _clock(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not rest:
        return text
    return f"{text}.{rest // 1000:06}" if rest % 1000 == 0 else f"{text}.{rest:09}"
