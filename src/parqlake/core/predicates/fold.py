"""Arithmetic on constants, done once instead of once a row."""

from __future__ import annotations

import math
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

from parqlake.core.predicates.literals import is_null, literal, read_value
from parqlake.core.predicates.tree import Arithmetic, Case, Column, Constant, Expr, Function, Literal

NULL = Literal(None)
_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, Overflow])
_Number = int | Decimal | float


def fold(expr: Expr) -> Expr:
    """Replaces arithmetic on constants by its result, and what is NULL for certain by NULL.

    Integers and decimals are exact; `/` gives a float, as it does for columns; division by zero gives NULL.
    """
    match expr:
        case Column():
            return expr
        case Literal(value=value, scalar=scalar):
            return NULL if is_null(value) else literal(value) if scalar is None else expr
        case Arithmetic(op=op, left=left, right=right):
            left, right = fold(left), fold(right)
            if NULL in (left, right):
                return NULL
            if op in ("/", "%") and isinstance(right, Literal) and _is_zero(right):
                return NULL
            result = _computed(op, left, right)
            return Arithmetic(op, left, right) if result is None else result
        case Function(name="coalesce", args=args):
            kept = tuple(arg for arg in map(fold, args) if arg != NULL)
            if not kept:
                return NULL
            return kept[0] if len(kept) == 1 or isinstance(kept[0], Literal) else Function("coalesce", kept)
        case Function(name=name, args=args):
            folded = tuple(map(fold, args))
            return NULL if NULL in folded else Function(name, folded)
        case Case():
            return _folded_case(expr)


def _folded_case(case: Case) -> Expr:
    """Leaves out branches that are never taken, and all that come after one that always is."""
    whens = []
    otherwise = fold(case.otherwise)
    for condition, value in case.whens:
        if isinstance(condition, Constant):
            if condition.value:
                otherwise = fold(value)
                break
            continue
        whens.append((condition, fold(value)))
    if all(value == otherwise for _, value in whens):
        return otherwise
    return Case(tuple(whens), otherwise)


def _computed(op: str, left: Expr, right: Expr) -> Literal | None:
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return None
    a, b = read_value(left.value), read_value(right.value)
    if not _is_number(a) or not _is_number(b):
        return None
    assert isinstance(a, _Number) and isinstance(b, _Number)
    if op == "%":
        return Literal(_remainder(a, b)) if isinstance(a, int) and isinstance(b, int) else None
    if op == "/" or isinstance(a, float) or isinstance(b, float):
        return _as_doubles(op, a, b)
    if isinstance(a, int) and isinstance(b, int):
        return Literal(a + b if op == "+" else a - b if op == "-" else a * b)
    x, y = Decimal(a), Decimal(b)
    operation = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply}[op]
    try:
        return Literal(operation(x, y))
    except ArithmeticError:  # more digits than anything can hold; binding says what is wrong
        return None


def _as_doubles(op: str, a: _Number, b: _Number) -> Literal | None:
    try:
        x, y = float(a), float(b)
    except OverflowError:  # an integer beyond every double; binding says what is wrong
        return None
    match op:
        case "+":
            return Literal(x + y)
        case "-":
            return Literal(x - y)
        case "*":
            return Literal(x * y)
    return Literal(x / y) if y else NULL  # a Decimal may be too small for a double


def _is_zero(constant: Literal) -> bool:
    value = read_value(constant.value)
    return _is_number(value) and value == 0


def _remainder(a: int, b: int) -> int:
    """The remainder with the sign of the left side, as in SQL; Python's has the sign of the right."""
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _is_number(value: object) -> bool:
    return isinstance(value, _Number) and not isinstance(value, bool) and not _is_nan(value)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
