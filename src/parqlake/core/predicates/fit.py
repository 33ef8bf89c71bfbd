"""Constants are fitted to columns: every comparison gets a scalar of exactly the column's type.

Where the type cannot hold the constant, the comparison is rewritten so that it is TRUE for the same rows: `x > 5.5` on
integers becomes `x >= 6`, `x = 5.5` is never TRUE, `x < 300` on an int8 is TRUE for all but NULL.

What a constant means beside a column of another kind:

* numbers are compared by their exact value, so an integer beside a double is not rounded; but
* a Decimal (a number with a point in SQL text) beside a float means the nearest float: `x = 0.1` finds 0.1; and
* a float beside a decimal means its shortest text: 0.1 is 0.1, not 0.1000000000000000055…;
* a date beside a timestamp means midnight; strings beside dates, timestamps and times are read as ISO 8601;
* a timestamp without offset beside a column with a time zone means UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.builders import all_of, any_of
from parqlake.core.predicates.literals import Value, literal, read_value, shown
from parqlake.core.predicates.moments import (
    DAY_NANOS,
    UNIT_NANOS,
    Moment,
    TimeOfDay,
    parse_moment,
    parse_time,
)
from parqlake.core.predicates.tree import (
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    In,
    IsNaN,
    IsNull,
    Literal,
    Predicate,
)
from parqlake.core.predicates.value_types import is_bytes, is_float, is_text

_NEVER = Constant(False)
_DOWNWARD = (CompareOp.LT, CompareOp.LE)
_UPWARD = (CompareOp.GT, CompareOp.GE)
_BEYOND_EVERYTHING = 500
"""A power of ten beyond the range, and with a minus below the precision, of every type."""


def fit_comparison(op: CompareOp, expr: Expr, type_: pa.DataType, constant: Literal) -> Predicate:
    """`expr op constant`, with the constant as a scalar of the type, TRUE for the same rows.

    Raises:
        InvalidPredicateError: such a constant cannot be compared with the type.
    """
    value = read_value(constant.value)
    t = pa.types
    if t.is_boolean(type_) and isinstance(value, bool):
        return _fit_boolean(op, expr, value)
    if is_float(type_) and _is_number(value):
        return _fit_float(op, expr, type_, value)
    if (is_text(type_) and isinstance(value, str)) or (is_bytes(type_) and isinstance(value, bytes)):
        return Compare(op, expr, _bound(_text_scalar(value, type_)))
    position = _position(value, expr, type_)
    if position is None:
        raise _mismatch(value, expr, type_)
    return _fit_integer(op, expr, type_, position)


def fit_membership(expr: Expr, type_: pa.DataType, values: Iterable[Literal], *, negated: bool) -> Predicate:
    """`expr [NOT] IN (values)`, the values fitted, those that can never be equal left out."""
    found: dict[pa.Scalar, Literal] = {}
    special: list[Predicate] = []
    for value in values:
        match fit_comparison(CompareOp.EQ, expr, type_, value):
            case Compare(right=Literal(scalar=scalar) as bound):
                found[scalar] = bound
            case Constant():
                pass
            case other:
                special = [other]
    if pa.types.is_boolean(type_):
        return _truths(expr, [truth for truth in (False, True) if (pa.scalar(truth) in found) != negated])
    if negated:
        items = [_negated_equality(item) for item in special]
        items += [In(expr, tuple(found.values()), negated=True)] if found else []
        return all_of(items) if items else IsNull(expr, negated=True)
    items = [In(expr, tuple(found.values()))] if found else []
    return any_of(items + special) if items or special else _NEVER


def scalar_of(constant: Literal, type_: pa.DataType, *, place: Expr) -> pa.Scalar:
    """The constant as a scalar of the type, exactly; NULL stays NULL.

    Raises:
        InvalidPredicateError: the type cannot hold it; the message names the place that it was meant for.
    """
    if read_value(constant.value) is None:
        return pa.scalar(None, type_)
    match fit_comparison(CompareOp.EQ, place, type_, constant):
        case Compare(right=Literal(scalar=scalar)):
            return scalar
        case IsNaN():
            return pa.scalar(math.nan, type_)
    raise InvalidPredicateError(f"{describe(place)} is {type_} and cannot hold {shown(constant.value)} exactly")


def describe(expr: Expr) -> str:
    """What an error message calls an expression."""
    return f'column "{expr.name}"' if isinstance(expr, Column) else "the computed value"


def _fit_boolean(op: CompareOp, expr: Expr, value: bool) -> Predicate:
    return _truths(expr, [truth for truth in (False, True) if _holds(op, truth, value)])


def _truths(expr: Expr, wanted: list[bool]) -> Predicate:
    if len(wanted) == 1:
        return Compare(CompareOp.EQ, expr, _bound(pa.scalar(wanted[0])))
    return IsNull(expr, negated=True) if wanted else _NEVER


def _fit_integer(op: CompareOp, expr: Expr, type_: pa.DataType, position: Fraction | float) -> Predicate:
    """Compares on the grid of whole numbers that the type's values lie on."""
    low, high = _grid_range(type_)
    if isinstance(position, float):
        below = position < low
    else:
        floor = position.numerator // position.denominator
        if position.denominator != 1:
            if op in (CompareOp.EQ, CompareOp.NE):
                return _for_values(expr, holds=op is CompareOp.NE)
            op, floor = (CompareOp.LE, floor) if op in _DOWNWARD else (CompareOp.GE, floor + 1)
        if low <= floor <= high:
            return Compare(op, expr, _bound(_grid_scalar(floor, type_)))
        below = floor < low
    return _for_values(expr, holds=op is CompareOp.NE or op in (_UPWARD if below else _DOWNWARD))


def _fit_float(op: CompareOp, expr: Expr, type_: pa.DataType, value: int | Decimal | float) -> Predicate:
    if isinstance(value, float) and math.isnan(value):
        return _fit_nan(op, expr)
    nearest = _nearest(value, type_)
    meant = isinstance(value, Decimal) and math.isfinite(nearest)
    if meant or value in (math.inf, -math.inf) or _exact(value) == _exact(nearest):
        return Compare(op, expr, _bound(pa.scalar(nearest + 0.0, type_)))  # -0.0 + 0.0 is 0.0
    if op in (CompareOp.EQ, CompareOp.NE):
        return _for_values(expr, holds=op is CompareOp.NE)
    towards = math.inf if op in _UPWARD else -math.inf
    outward = _exact(nearest) > _exact(value) if op in _UPWARD else _exact(nearest) < _exact(value)
    end = nearest if outward else _neighbour(nearest, towards, type_)
    return Compare(CompareOp.GE if op in _UPWARD else CompareOp.LE, expr, _bound(pa.scalar(end + 0.0, type_)))


def _fit_nan(op: CompareOp, expr: Expr) -> Predicate:
    """NaN equals itself and is greater than every number."""
    match op:
        case CompareOp.EQ | CompareOp.GE:
            return IsNaN(expr)
        case CompareOp.NE | CompareOp.LT:
            return IsNaN(expr, negated=True)
        case CompareOp.LE:
            return IsNull(expr, negated=True)
    return _NEVER


def _nearest(value: int | Decimal | float, type_: pa.DataType) -> float:
    try:
        double = float(value)
    except OverflowError:
        double = math.inf if value > 0 else -math.inf
    if pa.types.is_float64(type_):
        return double
    with np.errstate(over="ignore"):
        return float(np.float32(double))


def _neighbour(value: float, towards: float, type_: pa.DataType) -> float:
    if pa.types.is_float64(type_):
        return math.nextafter(value, towards)
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(value), np.float32(towards)))


def _exact(value: int | Decimal | float) -> Fraction | float:
    """The number as a fraction; infinities as they are. Decimals beyond everything are cut to what they mean."""
    if isinstance(value, float) and math.isinf(value):
        return value
    if isinstance(value, Decimal) and value and abs(value.adjusted()) > _BEYOND_EVERYTHING:
        size = _BEYOND_EVERYTHING if value.adjusted() > 0 else -_BEYOND_EVERYTHING
        return Fraction(10) ** size * (1 if value > 0 else -1)
    return Fraction(value)


def _position(value: Value, expr: Expr, type_: pa.DataType) -> Fraction | float | None:
    """Where the value lies on the type's grid of whole numbers; NaN counts as above it. None if it has no place."""
    t = pa.types
    if _is_number(value) and (t.is_integer(type_) or t.is_decimal(type_)):
        if isinstance(value, float):
            if math.isnan(value):
                return math.inf
            value = Decimal(repr(value)) if t.is_decimal(type_) and math.isfinite(value) else value
        exact = _exact(value)
        return exact * 10**type_.scale if t.is_decimal(type_) and isinstance(exact, Fraction) else exact
    if t.is_date(type_) or t.is_timestamp(type_):
        moment = _moment(value, expr, type_)
        tick = DAY_NANOS if t.is_date(type_) else UNIT_NANOS[type_.unit]
        return None if moment is None else Fraction(moment.nanos, tick)
    if t.is_time(type_):
        time = _parsed(parse_time, value, expr, type_) if isinstance(value, str) else value
        return Fraction(time.nanos, UNIT_NANOS[type_.unit]) if isinstance(time, TimeOfDay) else None
    return None


def _moment(value: Value, expr: Expr, type_: pa.DataType) -> Moment | None:
    moment = _parsed(parse_moment, value, expr, type_) if isinstance(value, str) else value
    if not isinstance(moment, Moment):
        return None
    if moment.aware and getattr(type_, "tz", None) is None:
        raise InvalidPredicateError(
            f"{describe(expr)} is {type_}, which has no time zone, but {shown(moment.python_value())} has one; "
            "give the time without an offset, as the column's clock shows it"
        )
    return moment


def _parsed(parse: Any, text: str, expr: Expr, type_: pa.DataType) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidPredicateError(f"{describe(expr)} is {type_}: {error}") from None


def _grid_range(type_: pa.DataType) -> tuple[int, int]:
    t = pa.types
    if t.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if t.is_date(type_):
        return -(2**31), 2**31 - 1
    if t.is_time(type_):
        return 0, DAY_NANOS // UNIT_NANOS[type_.unit] - 1
    bits = type_.bit_width
    return (0, 2**bits - 1) if t.is_unsigned_integer(type_) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _grid_scalar(number: int, type_: pa.DataType) -> pa.Scalar:
    t = pa.types
    if t.is_decimal(type_):
        digits = tuple(int(digit) for digit in str(abs(number)))
        return pa.scalar(Decimal((int(number < 0), digits, -type_.scale)), type_)
    if t.is_date(type_):
        return pa.scalar(number, pa.date32()).cast(type_)
    return pa.scalar(number, type_)


def _text_scalar(value: str | bytes, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(value, type_)
    except UnicodeEncodeError:
        raise InvalidPredicateError(f"{shown(value)} holds half a surrogate pair, which no string can") from None


def _bound(scalar: pa.Scalar) -> Literal:
    return Literal(literal(scalar).value, scalar)


def _for_values(expr: Expr, *, holds: bool) -> Predicate:
    """A condition that holds, or does not, for everything but NULL."""
    return IsNull(expr, negated=True) if holds else _NEVER


def _negated_equality(item: Predicate) -> Predicate:
    assert isinstance(item, IsNaN), "an equality becomes a comparison, a constant, or a test for NaN"
    return IsNaN(item.expr, negated=True)


def _holds(op: CompareOp, left: bool, right: bool) -> bool:
    return {
        CompareOp.EQ: left == right,
        CompareOp.NE: left != right,
        CompareOp.LT: left < right,
        CompareOp.LE: left <= right,
        CompareOp.GT: left > right,
        CompareOp.GE: left >= right,
    }[op]


def _is_number(value: Value) -> TypeGuard[int | Decimal | float]:
    return isinstance(value, int | Decimal | float) and not isinstance(value, bool)


def _mismatch(value: Value, expr: Expr, type_: pa.DataType) -> InvalidPredicateError:
    if isinstance(value, Moment | TimeOfDay):
        value = value.python_value()
    t = pa.types
    if t.is_nested(type_):
        hint = "only IS NULL is possible here" + ("; name one of its fields" if t.is_struct(type_) else "")
    elif isinstance(value, str):
        hint = "write the constant without quotes" if not is_bytes(type_) else "write bytes, in SQL x'00FF'"
    elif isinstance(value, bytes):
        hint = "write a string"
    elif isinstance(value, bool):
        hint = "a condition by itself, such as a column without a comparison, must be boolean"
    elif is_text(type_):
        hint = "write the constant in quotes"
    else:
        hint = f"compare it with {_example(type_)}"
    return InvalidPredicateError(f"{describe(expr)} is {type_} and cannot be compared with {shown(value)}; {hint}")


def _example(type_: pa.DataType) -> str:
    t = pa.types
    if t.is_date(type_):
        return "a date such as date '2026-01-31'"
    if t.is_timestamp(type_):
        return "a timestamp such as '2026-01-31 12:00:00'"
    if t.is_time(type_):
        return "a time such as '12:00:00'"
    if t.is_boolean(type_):
        return "true or false"
    return "a number" if t.is_integer(type_) or t.is_decimal(type_) or is_float(type_) else "IS NULL only"
