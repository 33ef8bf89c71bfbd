"""Which rows a predicate makes TRUE, worked out row by row in plain Python: slow, simple, and independent.

It shares nothing with the code that reads, binds or prunes but the tree's own classes, and so can serve as an oracle
for all of it. Numbers are compared exactly, times by their nanoseconds, NaN is the greatest value and equals itself,
and NULL makes a comparison unknown.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from parqlake.core.predicates.tree import (
    And,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)

_NANOS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DAY_NANOS = 86_400 * 10**9
_ORDER = {
    CompareOp.EQ: lambda a, b: a == b,
    CompareOp.NE: lambda a, b: a != b,
    CompareOp.LT: lambda a, b: a < b,
    CompareOp.LE: lambda a, b: a <= b,
    CompareOp.GT: lambda a, b: a > b,
    CompareOp.GE: lambda a, b: a >= b,
}


def truths(predicate: Predicate, table: pa.Table) -> list[bool | None]:
    """TRUE, FALSE or unknown (None) for each row. The predicate need not be bound; it holds no arithmetic."""
    columns = {name: [_value(scalar) for scalar in table.column(name)] for name in table.column_names}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [_truth(predicate, row) for row in rows]


def selected(predicate: Predicate, table: pa.Table) -> pa.Table:
    """The rows for which the predicate is TRUE."""
    return table.filter(pa.array([truth is True for truth in truths(predicate, table)], pa.bool_()))


def _truth(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    match predicate:
        case And(items=items):
            found = [_truth(item, row) for item in items]
            return False if False in found else None if None in found else True
        case Or(items=items):
            found = [_truth(item, row) for item in items]
            return True if True in found else None if None in found else False
        case Not(item=item):
            inner = _truth(item, row)
            return None if inner is None else not inner
        case Constant(value=value):
            return value
        case Compare(op=op, left=left, right=right):
            return _compared(op, _read(left, row), _read(right, row))
        case In(expr=expr, values=values, negated=negated):
            value = _read(expr, row)
            found = [_compared(CompareOp.EQ, value, _read(other, row)) for other in values]
            member = True if True in found else None if None in found else False
            return member if member is None else member != negated
        case IsNull(expr=expr, negated=negated):
            return (_read(expr, row) is None) != negated
        case IsNaN(expr=expr, negated=negated):
            value = _read(expr, row)
            return None if value is None else (isinstance(value, float) and math.isnan(value)) != negated
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            value = _read(expr, row)
            return None if value is None else _like(value, pattern, ignore_case=ignore_case) != negated


def _read(expr: Expr, row: dict[str, Any]) -> Any:
    match expr:
        case Column(path=path):
            value: Any = row
            for part in path:
                value = None if value is None else value[part]
            return value
        case Literal(value=pa.Scalar() as scalar):
            return _value(scalar)
        case Literal(value=value):
            return value
    raise ValueError(f"no part of the oracle's language: {expr!r}")


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    type_ = scalar.type
    t = pa.types
    if t.is_timestamp(type_) or t.is_time(type_):
        return Fraction(scalar.value * _NANOS[type_.unit])
    if t.is_date32(type_):
        return Fraction(scalar.value * _DAY_NANOS)
    if t.is_decimal(type_):
        return Fraction(scalar.as_py())
    if t.is_struct(type_):
        return {type_.field(i).name: _value(scalar[i]) for i in range(type_.num_fields)}
    return scalar.as_py() if not t.is_nested(type_) else repr(scalar)


def _compared(op: CompareOp, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    return bool(_ORDER[op](_sortable(left), _sortable(right)))


def _sortable(value: Any) -> tuple[bool, Any]:
    if isinstance(value, float) and math.isnan(value):
        return (True, 0)
    return (False, Fraction(value) if isinstance(value, Decimal) else value)


def _like(value: str, pattern: str, *, ignore_case: bool) -> bool:
    if ignore_case:
        value, pattern = value.lower(), pattern.lower()
    parts = [".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern]
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None
