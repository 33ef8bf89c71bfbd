"""Bound predicates become `pyarrow.compute` expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.predicates.tree import (
    And,
    Arithmetic,
    Case,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    Function,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)
from parqlake.core.predicates.value_types import common_type, is_float, operand_types, type_of

_ARITHMETIC = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": pc.divide}


def to_arrow(predicate: Predicate) -> Any:
    """The bound predicate as a `pyarrow.compute.Expression`, for filters.

    It is TRUE for the rows for which the predicate is; for others it is FALSE or NULL, which a filter treats alike.
    NaN equals itself and is greater than every number, which is not so in pyarrow's own comparisons.
    """
    match predicate:
        case And(items=items):
            return _joined(operator.and_, [to_arrow(item) for item in items], empty=True)
        case Or(items=items):
            return _joined(operator.or_, [to_arrow(item) for item in items], empty=False)
        case Constant(value=value):
            return pc.scalar(pa.scalar(value, pa.bool_()))
        case Compare(op=op, left=left, right=right):
            return _comparison(op, left, right)
        case In(expr=expr, values=values, negated=negated):
            return _membership(expr, values, negated=negated)
        case IsNull(expr=expr, negated=negated):
            value = expression_to_arrow(expr)
            return value.is_valid() if negated else value.is_null()
        case IsNaN(expr=expr, negated=negated):
            nan = pc.is_nan(expression_to_arrow(expr))
            return ~nan if negated else nan
        case Like():
            return _like(predicate)
        case Not(item=item):
            raise ValueError(f"a bound predicate holds no NOT: {item}")


def expression_to_arrow(expr: Expr) -> Any:
    """The bound expression as a `pyarrow.compute.Expression` of the type that `type_of` says."""
    match expr:
        case Column(path=path):
            return pc.field(*path)
        case Literal(scalar=scalar):
            return pc.scalar(scalar)
        case Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, left, right)
        case Function(name=name, args=args):
            return _function(name, args, type_of(expr))
        case Case():
            return _case(expr, type_of(expr))


def _joined(join: Callable[[Any, Any], Any], items: list[Any], *, empty: bool) -> Any:
    """AND or OR as a balanced tree: pyarrow walks expressions by recursion, and a chain of thousands is too deep."""
    if not items:
        return pc.scalar(empty)
    while len(items) > 1:
        pairs = [items[i : i + 2] for i in range(0, len(items), 2)]
        items = [reduce(join, pair) for pair in pairs]
    return items[0]


def _comparison(op: CompareOp, left: Expr, right: Expr) -> Any:
    type_ = common_type(type_of(left), type_of(right))
    assert type_ is not None, "binding compares only what can be compared"
    a, b = _as(left, type_), _as(right, type_)
    plain = _compared(op, a, b)
    if not is_float(type_):
        return plain
    if isinstance(right, Literal):  # never NaN, see bind
        return plain | pc.is_nan(a) if op in (CompareOp.GT, CompareOp.GE) else plain
    return _float_comparison(op, a, b)


def _float_comparison(op: CompareOp, a: Any, b: Any) -> Any:
    """Comparison of two floats that may both be NaN, the greatest value; unknown if one is NULL."""
    if op in (CompareOp.GT, CompareOp.GE):
        return _float_comparison(op.mirrored, b, a)
    plain, nan_a, nan_b = _compared(op, a, b), pc.is_nan(a), pc.is_nan(b)
    match op:
        case CompareOp.EQ:
            return plain | (nan_a & nan_b)
        case CompareOp.NE:
            return plain & ~(nan_a & nan_b)
        case CompareOp.LT:
            return plain | (nan_b & ~nan_a)
    return plain | (nan_b & a.is_valid())


def _compared(op: CompareOp, a: Any, b: Any) -> Any:
    match op:
        case CompareOp.EQ:
            return a == b
        case CompareOp.NE:
            return a != b
        case CompareOp.LT:
            return a < b
        case CompareOp.LE:
            return a <= b
        case CompareOp.GT:
            return a > b
    return a >= b


def _membership(expr: Expr, values: tuple[Literal, ...], *, negated: bool) -> Any:
    subject = expression_to_arrow(expr)
    found = subject.isin(_array([value.scalar for value in values], type_of(expr)))
    return subject.is_valid() & ~found if negated else found


def _array(scalars: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_):  # by ticks, since Python's own times are coarser
        return pa.array([scalar.value for scalar in scalars], type_)
    values = [scalar.as_py() for scalar in scalars]
    if is_float(type_) and 0.0 in values:
        values += [0.0, -0.0]  # pyarrow's is_in tells the two zeros apart
    return pa.array(values, type_)


def _like(leaf: Like) -> Any:
    subject = expression_to_arrow(leaf.expr)
    pattern = leaf.pattern.replace("\\", "\\\\")  # the escape character of match_like, none of ours
    if leaf.ignore_case:  # lower case on both sides, as DuckDB has it; match_like's own folds more
        subject, pattern = pc.utf8_lower(subject), pc.utf8_lower(pattern).as_py()
    found = pc.match_like(subject, pattern)
    return ~found if leaf.negated else found


def _arithmetic(op: str, left: Expr, right: Expr) -> Any:
    types = operand_types(op, type_of(left), type_of(right))
    a, b = _operand(op, left, types[0]), _operand(op, right, types[1])
    if op == "%":
        return _remainder(a, b)
    if op == "/":
        b = _without_zero(b, types[1])
    return _ARITHMETIC[op](a, b)


def _operand(op: str, expr: Expr, type_: pa.DataType) -> Any:
    """An operand; a cast that changes nothing keeps pyarrow from computing `(x * 0.1) * 0.1` as `x * (0.1 * 0.1)`."""
    value = _as(expr, type_)
    return value.cast(type_) if op in ("+", "*") and isinstance(expr, Arithmetic) and expr.op == op else value


def _remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of a. Division by -1 may overflow and leaves what division by 1 leaves: nothing."""
    divisor = _without_zero(b, pa.int64())
    divisor = pc.if_else(divisor == -1, pc.scalar(pa.scalar(1, pa.int64())), divisor)
    return pc.subtract(a, pc.multiply(pc.divide(a, divisor), divisor))


def _without_zero(divisor: Any, type_: pa.DataType) -> Any:
    return pc.if_else(divisor == pc.scalar(pa.scalar(0, type_)), pc.scalar(pa.scalar(None, type_)), divisor)


def _function(name: str, args: tuple[Expr, ...], type_: pa.DataType) -> Any:
    match name:
        case "lower":
            return pc.utf8_lower(expression_to_arrow(args[0]))
        case "upper":
            return pc.utf8_upper(expression_to_arrow(args[0]))
        case "length":
            return pc.utf8_length(expression_to_arrow(args[0])).cast(pa.int64())
        case "abs":
            return pc.abs_checked(_as(args[0], type_))
        case "starts_with":
            text, prefix = args
            assert isinstance(prefix, Literal) and prefix.scalar is not None, "binding takes constant prefixes only"
            return pc.starts_with(expression_to_arrow(text), prefix.scalar.as_py())
        case "concat":
            return pc.binary_join_element_wise(*(_as(arg, type_) for arg in args), "", null_handling="emit_null")
        case "coalesce":
            return pc.coalesce(*(_as(arg, type_) for arg in args))
    raise ValueError(f"no function {name}")


def _case(case: Case, type_: pa.DataType) -> Any:
    found = _as(case.otherwise, type_)
    for condition, value in reversed(case.whens):
        found = pc.if_else(pc.coalesce(to_arrow(condition), pc.scalar(False)), _as(value, type_), found)
    return found


def _as(expr: Expr, type_: pa.DataType) -> Any:
    """The expression's value in another type; only to floats may digits be lost."""
    own = type_of(expr)
    if own == type_:
        return expression_to_arrow(expr)
    if isinstance(expr, Literal):
        assert expr.scalar is not None
        if not expr.scalar.is_valid:
            return pc.scalar(pa.scalar(None, type_))
        value = expr.scalar.as_py()
        return pc.scalar(pa.scalar(float(value), type_) if is_float(type_) else expr.scalar.cast(type_))
    if is_float(type_) and pa.types.is_decimal(own):  # pyarrow's direct cast is often off in the last bit
        return expression_to_arrow(expr).cast(pa.string()).cast(type_)
    return expression_to_arrow(expr).cast(type_, safe=not is_float(type_))
