"""Bound predicates become SQL text."""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.predicates.sql_text import constant, identifier, string, type_name
from parqlake.core.predicates.tree import (
    And,
    Arithmetic,
    Case,
    Column,
    Compare,
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
from parqlake.core.predicates.value_types import common_type, operand_types, type_of

_TRUTHS = {True: "TRUE", False: "FALSE", None: "CAST(NULL AS BOOLEAN)"}


def to_sql(predicate: Predicate) -> str:
    """The bound predicate as a condition for DuckDB, TRUE for the same rows.

    Names are quoted and constants written with their types; whatever they hold, they cannot become SQL. The text stands
    by itself, but put it in parentheses before joining it with AND or NOT.
    """
    match predicate:
        case And(items=items):
            return " AND ".join(_inner(item) for item in items) or "TRUE"
        case Or(items=items):
            return " OR ".join(_inner(item) for item in items) or "FALSE"
        case Constant(value=value):
            return _TRUTHS[value]
        case Compare(op=op, left=left, right=right):
            type_ = common_type(type_of(left), type_of(right))
            assert type_ is not None, "binding compares only what can be compared"
            return f"{_as(left, type_)} {'<>' if op == '!=' else op} {_as(right, type_)}"
        case In(expr=expr, values=values, negated=negated):
            listed = ", ".join(expression_to_sql(value) for value in values)
            return f"{expression_to_sql(expr)} {'NOT IN' if negated else 'IN'} ({listed})"
        case IsNull(expr=expr, negated=negated):
            return f"{expression_to_sql(expr)} {'IS NOT NULL' if negated else 'IS NULL'}"
        case IsNaN(expr=expr, negated=negated):
            return f"{'NOT ' if negated else ''}isnan({expression_to_sql(expr)})"
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            operator = f"{'NOT ' if negated else ''}{'ILIKE' if ignore_case else 'LIKE'}"
            return f"{expression_to_sql(expr)} {operator} {string(pattern)}"
        case Not(item=item):
            raise ValueError(f"a bound predicate holds no NOT: {item}")


def expression_to_sql(expr: Expr) -> str:
    """The bound expression as SQL for DuckDB, of the type that `type_of` says."""
    match expr:
        case Column(path=path):
            text = identifier(path[0])
            for name in path[1:]:
                text = f"struct_extract({text}, {string(name)})"
            return text
        case Literal(scalar=scalar):
            return constant(scalar)
        case Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, left, right)
        case Function(name=name, args=args):
            return _function(name, args, type_of(expr))
        case Case(whens=whens, otherwise=otherwise):
            type_ = type_of(expr)
            parts = [f"WHEN {to_sql(condition)} THEN {_as(value, type_)}" for condition, value in whens]
            return f"CASE {' '.join(parts)} ELSE {_as(otherwise, type_)} END"


def _inner(predicate: Predicate) -> str:
    text = to_sql(predicate)
    return f"({text})" if isinstance(predicate, And | Or) else text


def _arithmetic(op: str, left: Expr, right: Expr) -> str:
    types = operand_types(op, type_of(left), type_of(right))
    a, b = _as(left, types[0]), _as(right, types[1])
    if op in ("/", "%") and not isinstance(right, Literal):  # folding leaves no constant of zero here
        b = f"nullif({b}, 0)"
    if op == "%":  # by -1 nothing is left, but DuckDB overflows for the least integer
        constant_divisor = isinstance(right, Literal) and right.value != -1
        b = b if constant_divisor else f"CASE WHEN {b} = -1 THEN 1 ELSE {b} END"
    return f"({a} {op} {b})"


def _function(name: str, args: tuple[Expr, ...], type_: pa.DataType) -> str:
    match name:
        case "lower" | "upper" | "length" | "starts_with":
            return f"{name}({', '.join(expression_to_sql(arg) for arg in args)})"
        case "abs":
            return f"abs({_as(args[0], type_)})"
        case "concat":
            return f"({' || '.join(_as(arg, type_) for arg in args)})"
        case "coalesce":
            return f"coalesce({', '.join(_as(arg, type_) for arg in args)})"
    raise ValueError(f"no function {name}")


def _as(expr: Expr, type_: pa.DataType) -> str:
    """The expression's value in another type."""
    if isinstance(expr, Literal) and expr.scalar is not None and not expr.scalar.is_valid:
        return f"CAST(NULL AS {type_name(type_)})"
    text = expression_to_sql(expr)
    return text if type_of(expr) == type_ else f"CAST({text} AS {type_name(type_)})"
