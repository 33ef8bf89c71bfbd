"""A predicate is bound to a schema: its columns are found, its constants get the columns' types."""

from __future__ import annotations

import math

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.expressions import bound_expression, natural_literal
from parqlake.core.predicates.fit import describe, fit_comparison, fit_membership
from parqlake.core.predicates.normalise import normalise
from parqlake.core.predicates.resolve import resolve
from parqlake.core.predicates.tree import (
    And,
    Compare,
    CompareOp,
    Constant,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Or,
    Predicate,
    columns_of,
)
from parqlake.core.predicates.value_types import common_type, is_float, is_text, type_of

_ORDERING = (CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE)


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """The predicate for tables of this schema: normal form, columns resolved, constants of the columns' types.

    It is TRUE for the same rows as the predicate given (`fit` says what a constant of another type means). In the
    result there is no NOT; a column stands left of a constant; every constant beside a column carries a scalar of
    exactly the column's type, never NULL and never NaN; `LIKE` has a wildcard. Binding a bound predicate again gives
    it back.

    Raises:
        ColumnNotFoundError: a column is not there; the message names the closest.
        InvalidPredicateError: a column cannot be compared with what stands beside it.
    """
    try:
        for column in columns_of(predicate):  # first, since folding may leave out a part with a wrong name
            resolve(column, schema)
        return normalise(_bound(normalise(predicate), schema))
    except RecursionError:
        raise InvalidPredicateError(
            "the predicate is nested too deeply; write it flatter, for instance with IN"
        ) from None


def _bound(predicate: Predicate, schema: pa.Schema) -> Predicate:
    match predicate:
        case And(items=items):
            return And(tuple(_bound(item, schema) for item in items))
        case Or(items=items):
            return Or(tuple(_bound(item, schema) for item in items))
        case Compare(op=op, left=left, right=right):
            return _bound_comparison(op, left, right, schema)
        case In(expr=expr, values=values, negated=negated):
            if isinstance(expr, Literal):
                found = Or(tuple(_constant_comparison(CompareOp.EQ, expr, value) for value in values))
                return normalise(found) if not negated else Constant(normalise(found) == Constant(False))
            expr = bound_expression(expr, schema)
            return fit_membership(expr, type_of(expr), values, negated=negated)
        case IsNull(expr=expr, negated=negated):
            expr = bound_expression(expr, schema)
            type_of(expr)
            return IsNull(expr, negated)
        case IsNaN(expr=expr, negated=negated):
            expr = bound_expression(expr, schema)
            if is_float(type_of(expr)):
                return IsNaN(expr, negated)
            return IsNull(expr, negated=True) if negated else Constant(False)
        case Like():
            return _bound_like(predicate, schema)
    return predicate


def _bound_comparison(op: CompareOp, left: Expr, right: Expr, schema: pa.Schema) -> Predicate:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _constant_comparison(op, left, right)
    if isinstance(left, Literal):
        op, left, right = op.mirrored, right, left
    left = bound_expression(left, schema)
    if isinstance(right, Literal):
        return fit_comparison(op, left, type_of(left), right)
    right = bound_expression(right, schema)
    types = type_of(left), type_of(right)
    common = common_type(*types)
    if common is None or pa.types.is_nested(common) or (pa.types.is_boolean(common) and op in _ORDERING):
        raise InvalidPredicateError(_incomparable(op, left, right, *types))
    return Compare(op, left, right)


def _incomparable(op: CompareOp, left: Expr, right: Expr, *types: pa.DataType) -> str:
    text = f"{describe(left)} of type {types[0]} cannot be compared by {op} with {describe(right)} of type {types[1]}"
    if all(pa.types.is_temporal(type_) for type_ in types):
        return f"{text}; one has a time zone and the other has none, or they measure different things"
    return text


def _constant_comparison(op: CompareOp, left: Literal, right: Literal) -> Predicate:
    """Whether a comparison of two constants holds."""
    if isinstance(left.value, str) and not isinstance(right.value, str):  # the string is read as the other's type
        op, left, right = op.mirrored, right, left
    typed = natural_literal(left)
    match fit_comparison(op, typed, type_of(typed), right):
        case Compare(op=fitted, right=Literal(scalar=scalar)):
            return Constant(_holds(fitted, typed.scalar, scalar))
        case other:
            return normalise(other)


def _holds(op: CompareOp, left: pa.Scalar, right: pa.Scalar) -> bool:
    a, b = _sortable(left), _sortable(right)
    return {
        CompareOp.EQ: a == b,
        CompareOp.NE: a != b,
        CompareOp.LT: a < b,
        CompareOp.LE: a <= b,
        CompareOp.GT: a > b,
        CompareOp.GE: a >= b,
    }[op]


def _sortable(scalar: pa.Scalar) -> tuple[bool, object]:
    value = scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


def _bound_like(leaf: Like, schema: pa.Schema) -> Predicate:
    expr = bound_expression(leaf.expr, schema)
    type_ = type_of(expr)
    if not is_text(type_):
        raise InvalidPredicateError(f"{describe(expr)} is {type_}; LIKE takes strings only")
    if not leaf.ignore_case and not set(leaf.pattern) & set("%_"):
        op = CompareOp.NE if leaf.negated else CompareOp.EQ
        return _bound_comparison(op, leaf.expr, Literal(leaf.pattern), schema)
    return Like(expr, leaf.pattern, leaf.negated, leaf.ignore_case)
