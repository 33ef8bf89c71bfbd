"""Why a condition rules nothing out, whatever the statistics say: in words, for `Scan.explain`."""

from __future__ import annotations

from parqlake.core.keys import is_prunable
from parqlake.core.predicates.describe import describe, describe_expression
from parqlake.core.predicates.tree import (
    And,
    Column,
    Compare,
    CompareOp,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    columns_of,
)


def why_never(predicate: Predicate) -> str | None:
    """Why no statistics could rule a file out by this bound condition; None if they could.

    Example:
        >>> why_never(IsNull(Column(("a",)), negated=False)) is None
        True
    """
    match predicate:
        case Or(items=items):
            for item in items:
                reason = why_never(item)
                if reason is not None:
                    return f"one side of the OR, {describe(item)}, rules nothing out: {reason}"
            return None
        case And(items=items):
            reasons = [why_never(item) for item in items]
            return None if None in reasons else reasons[0]
        case Not():
            return "bounds cannot rule out what a negation keeps; write the condition the other way round"
        case Compare(op=op, left=Column() as column, right=Literal()):
            if op is CompareOp.NE:
                return "nearly every range holds a value that differs"
            return _of_type(column)
        case Compare(left=Column(), right=Column()):
            return "it compares two columns, and statistics know each one alone"
        case Compare(left=left, right=right):
            return _inside(left if any(True for _ in columns_of(left)) else right)
        case In(expr=Column() as column, negated=negated):
            return "nearly every range holds another value" if negated else _of_type(column)
        case Like(expr=Column(), pattern=pattern, negated=negated, ignore_case=ignore_case):
            if negated:
                return "nearly every range holds another value"
            if ignore_case:
                return "statistics tell upper from lower case; use LIKE if the case is known"
            if pattern[:1] in ("%", "_"):
                return "the pattern begins with a wildcard, and bounds are ordered by the first letters"
            return None
        case IsNaN(expr=Column(), negated=negated):
            return "nearly every range holds a number" if negated else None
        case IsNull(expr=Column()):
            return None
        case In(expr=expr) | Like(expr=expr) | IsNull(expr=expr) | IsNaN(expr=expr):
            return _inside(expr)
    return None


def _of_type(column: Column) -> str | None:
    if column.type is not None and not is_prunable(column.type):
        return f"values of type {column.type} have no order that statistics keep"
    return None


def _inside(expr: Expr) -> str:
    return (
        f"the column stands inside {describe_expression(expr)}, of which there are no statistics; compare the column "
        "itself with a value"
    )
