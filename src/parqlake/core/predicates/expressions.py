"""Expressions are bound: columns looked up, constants typed, and every calculation known to be possible."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.fit import scalar_of
from parqlake.core.predicates.fold import fold
from parqlake.core.predicates.literals import Value, read_value, shown
from parqlake.core.predicates.moments import Moment, TimeOfDay
from parqlake.core.predicates.resolve import resolve
from parqlake.core.predicates.tree import Arithmetic, Case, Column, Expr, Function, Literal
from parqlake.core.predicates.value_types import decimal_type, type_of

_MAX_DIGITS = 76


def bind_expression(expr: Expr, schema: pa.Schema, *, target: pa.Field | None = None) -> Expr:
    """The expression with columns resolved and constants typed; checked so far that it can be computed.

    Args:
        expr: what `parse_expression` made.
        schema: of the table.
        target: the column that takes the value, if any; a constant is then made a scalar of exactly its type.

    Raises:
        ColumnNotFoundError: a column is not there.
        InvalidPredicateError: the types do not go together, or the target cannot hold the constant.
    """
    folded = fold(expr)
    if target is not None and isinstance(folded, Literal):
        return Literal(folded.value, scalar_of(folded, target.type, place=Column((target.name,))))
    bound = bound_expression(folded, schema)
    type_of(bound)
    return bound


def bound_expression(expr: Expr, schema: pa.Schema) -> Expr:
    """The folded expression with columns resolved and constants typed."""
    match expr:
        case Column():
            return resolve(expr, schema)
        case Literal():
            return natural_literal(expr)
        case Arithmetic(op=op, left=left, right=right):
            left, right = bound_expression(left, schema), bound_expression(right, schema)
            return Arithmetic(op, _beside(left, right), _beside(right, left))
        case Function(name="coalesce", args=args):
            return Function("coalesce", _alike([bound_expression(arg, schema) for arg in args]))
        case Function(name="starts_with", args=(_, prefix)) if not isinstance(prefix, Literal):
            raise InvalidPredicateError("the prefix of starts_with is not a constant")
        case Function(name=name, args=args):
            return Function(name, tuple(bound_expression(arg, schema) for arg in args))
        case Case():
            return _bound_case(expr, schema)


def _bound_case(case: Case, schema: pa.Schema) -> Expr:
    from parqlake.core.predicates.bind import bind  # which binds expressions itself

    values = [bound_expression(value, schema) for value in (*(value for _, value in case.whens), case.otherwise)]
    *values, otherwise = _alike(values)
    conditions = [bind(condition, schema) for condition, _ in case.whens]
    return Case(tuple(zip(conditions, values, strict=True)), otherwise)


def natural_literal(constant: Literal) -> Literal:
    """The constant as a scalar of the type that it has by itself."""
    value = read_value(constant.value)
    return Literal(constant.value, _natural_scalar(value, constant))


def _beside(expr: Expr, other: Expr) -> Expr:
    """An integer constant beside a decimal becomes a decimal of as few digits as it needs."""
    if isinstance(expr, Literal) and type(expr.value) is int and pa.types.is_decimal(type_of(other)):
        return Literal(expr.value, _decimal_scalar(Decimal(expr.value), expr))
    return expr


def _alike(args: list[Expr]) -> tuple[Expr, ...]:
    """Strings among the arguments are read as the dates, timestamps or times that stand beside them."""
    temporal = next((type_of(arg) for arg in args if pa.types.is_temporal(type_of(arg))), None)
    if temporal is None:
        return tuple(args)
    return tuple(
        Literal(arg.value, scalar_of(arg, temporal, place=Function("coalesce", tuple(args))))
        if isinstance(arg, Literal) and isinstance(arg.value, str)
        else arg
        for arg in args
    )


def _natural_scalar(value: Value, constant: Literal) -> pa.Scalar:
    match value:
        case None:
            return pa.scalar(None)
        case bool():
            return pa.scalar(value)
        case int() if -(2**63) <= value < 2**63:
            return pa.scalar(value, pa.int64())
        case int() | Decimal():
            return _decimal_scalar(Decimal(value), constant)
        case Moment() | TimeOfDay():
            plain = value.python_value()
            if isinstance(plain, pa.Scalar):
                return plain
            if isinstance(plain, datetime):
                return pa.scalar(plain, pa.timestamp("us", None if plain.tzinfo is None else "UTC"))
            return pa.scalar(plain, pa.date32() if isinstance(plain, date) else pa.time64("us"))
        case str():
            return scalar_of(constant, pa.string(), place=constant)
    return pa.scalar(value)


def _decimal_scalar(value: Decimal, constant: Literal) -> pa.Scalar:
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale, 1)
    if precision > _MAX_DIGITS:
        raise InvalidPredicateError(
            f"{shown(constant.value)} has more than {_MAX_DIGITS} digits; write it as a float, with an exponent"
        )
    return pa.scalar(value, decimal_type(precision, scale))
