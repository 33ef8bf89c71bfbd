"""The rows that a predicate does not select: those for which it is FALSE or unknown."""

from __future__ import annotations

from parqlake.core.predicates.tree import (
    TRUE,
    And,
    Compare,
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


def untrue(predicate: Predicate) -> Predicate:
    """A predicate that is TRUE exactly where the bound one is FALSE or unknown.

    A leaf is not TRUE where it is FALSE, or where something in it is NULL; AND and OR exchange places.
    """
    match predicate:
        case And(items=items):
            return Or(tuple(untrue(item) for item in items))
        case Or(items=items):
            return And(tuple(untrue(item) for item in items))
        case Not(item=item):
            raise ValueError(f"a bound predicate holds no NOT: {item}")
        case Constant(value=value):
            return Constant(not value)
        case IsNull(expr=expr, negated=negated):
            return IsNull(expr, negated=not negated)
        case Compare(op=op, left=left, right=right):
            return _or_null(Compare(op.negated, left, right), left, right)
        case In(expr=expr, values=values, negated=negated):
            if any(value.value is None for value in values):
                known = tuple(value for value in values if value.value is not None)
                return TRUE if negated else _or_null(In(expr, known, negated=True), expr)
            return _or_null(In(expr, values, negated=not negated), expr)
        case IsNaN(expr=expr, negated=negated):
            return _or_null(IsNaN(expr, negated=not negated), expr)
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            return _or_null(Like(expr, pattern, negated=not negated, ignore_case=ignore_case), expr)


def _or_null(predicate: Predicate, *parts: Expr) -> Predicate:
    return Or((predicate, *(IsNull(part) for part in parts if not isinstance(part, Literal))))
