"""Normal form: no NOT, nothing nested that need not be, no constant where it decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from parqlake.core.predicates.fold import NULL, fold
from parqlake.core.predicates.literals import read_value
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
    Not,
    Or,
    Predicate,
)

_UNKNOWN = Constant(None)


def normalise(predicate: Predicate) -> Predicate:
    """Returns a predicate without NOT, flat and folded, that is TRUE for the same rows.

    Only that is kept: a filter keeps the rows for which its predicate is TRUE, so a row may change between FALSE and
    unknown (`x NOT IN (1, NULL)`, never TRUE, becomes unknown for every row). NOT is pushed into the leaves first,
    by the rules of three-valued logic, while both still matter.

    AND and OR of the result have at least two items, none of them a constant or of the same kind. Comparisons with
    NULL are unknown; `IN` holds at least two values, none of them NULL; equalities of one expression that are ORed,
    and inequalities that are ANDed, are one `IN`; `x IS NOT NULL` beside a condition on x that no NULL fulfils is left
    out.
    """
    return _simplified(_without_not(predicate, negate=False))


def _without_not(predicate: Predicate, *, negate: bool) -> Predicate:
    match predicate:
        case Not(item=item):
            return _without_not(item, negate=not negate)
        case And(items=items) | Or(items=items):
            pushed = tuple(_without_not(item, negate=negate) for item in items)
            return And(pushed) if isinstance(predicate, And) != negate else Or(pushed)
    return _negated_leaf(predicate) if negate else predicate


def _negated_leaf(leaf: Predicate) -> Predicate:
    match leaf:
        case Compare(op=op, left=left, right=right):
            return Compare(op.negated, left, right)
        case In(expr=expr, values=values, negated=negated):
            return In(expr, values, negated=not negated)
        case IsNull(expr=expr, negated=negated):
            return IsNull(expr, negated=not negated)
        case IsNaN(expr=expr, negated=negated):
            return IsNaN(expr, negated=not negated)
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            return Like(expr, pattern, negated=not negated, ignore_case=ignore_case)
        case Constant(value=value):
            return Constant(None if value is None else not value)
    raise AssertionError(f"not a leaf: {leaf!r}")


def _simplified(predicate: Predicate) -> Predicate:
    match predicate:
        case And(items=items):
            return _all_of(_simplified(item) for item in items)
        case Or(items=items):
            return _any_of(_simplified(item) for item in items)
    return _simplified_leaf(predicate)


def _all_of(items: Iterable[Predicate]) -> Predicate:
    kept: list[Predicate] = []
    unknown = False
    for item in items:
        match item:
            case Constant(value=False):
                return item
            case Constant(value=None):
                unknown = True
            case And(items=inner):
                kept.extend(inner)
            case Constant():
                pass
            case _:
                kept.append(item)
    if unknown:
        return _UNKNOWN
    kept = _without_needless_null_checks(_merged(kept, negated=True))
    return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else Constant(True)


def _any_of(items: Iterable[Predicate]) -> Predicate:
    kept: list[Predicate] = []
    unknown = False
    for item in items:
        match item:
            case Constant(value=True):
                return item
            case Constant(value=None):
                unknown = True
            case Or(items=inner):
                kept.extend(inner)
            case Constant():
                pass
            case _:
                kept.append(item)
    if not kept:
        return _UNKNOWN if unknown else Constant(False)
    kept = _merged(kept, negated=False)
    return Or(tuple(kept)) if len(kept) > 1 else kept[0]


def _merged(items: list[Predicate], *, negated: bool) -> list[Predicate]:
    """Joins `x = 1 OR x = 2`, or `x != 1 AND x != 2`, to one IN: engines are slow with thousands of comparisons."""
    lists: dict[Expr, dict[object, Literal]] = {}
    for item in items:
        expr, values = _listed(item, negated=negated)
        if expr is not None:
            lists.setdefault(expr, {}).update({(type(v.value), v): v for v in values})
    kept: list[Predicate] = []
    for item in items:
        expr, _ = _listed(item, negated=negated)
        if expr is None:
            kept.append(item)
        elif expr in lists:  # where its first comparison stood
            kept.append(_simplified_in(In(expr, tuple(lists.pop(expr).values()), negated)))
    return kept


def _listed(item: Predicate, *, negated: bool) -> tuple[Expr | None, tuple[Literal, ...]]:
    """The expression and the values of a comparison that may stand in a list; booleans are better off without."""
    match item:
        case Compare(op=op, left=expr, right=Literal() as value) if op is (CompareOp.NE if negated else CompareOp.EQ):
            values: tuple[Literal, ...] = (value,)
        case In(expr=expr, values=values, negated=found) if found == negated:
            pass
        case _:
            return None, ()
    if isinstance(expr, Literal) or any(isinstance(value.value, bool) for value in values):
        return None, ()
    return expr, values


def _without_needless_null_checks(items: list[Predicate]) -> list[Predicate]:
    """Drops `x IS NOT NULL` where another item, ANDed, is never TRUE for a NULL x, or says the same."""
    checks = [item for item in items if isinstance(item, IsNull) and item.negated]
    if not checks:
        return items
    rejected = {expr for item in items for expr in _null_rejecting(item)}
    kept: list[Predicate] = []
    for item in items:
        if isinstance(item, IsNull) and item.negated:
            if item.expr in rejected:
                continue
            rejected.add(item.expr)
        kept.append(item)
    return kept


def _null_rejecting(leaf: Predicate) -> tuple[Expr, ...]:
    match leaf:
        case Compare(left=left, right=right):
            return left, right
        case In(expr=expr) | IsNaN(expr=expr) | Like(expr=expr):
            return (expr,)
    return ()


def _simplified_leaf(leaf: Predicate) -> Predicate:
    match leaf:
        case Compare(op=op, left=left, right=right):
            left, right = fold(left), fold(right)
            return _UNKNOWN if NULL in (left, right) else Compare(op, left, right)
        case In():
            return _simplified_in(leaf)
        case IsNull(expr=expr, negated=negated):
            expr = fold(expr)
            return Constant((expr == NULL) != negated) if isinstance(expr, Literal) else IsNull(expr, negated)
        case IsNaN(expr=expr, negated=negated):
            expr = fold(expr)
            if not isinstance(expr, Literal):
                return IsNaN(expr, negated)
            value = read_value(expr.value)
            return _UNKNOWN if value is None else Constant((value != value) != negated)  # noqa: PLR0124 only NaN differs from itself
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            expr = fold(expr)
            return _UNKNOWN if expr == NULL else Like(expr, pattern, negated, ignore_case)
    return leaf


def _simplified_in(leaf: In) -> Predicate:
    expr = fold(leaf.expr)
    values = tuple(value for value in map(fold, leaf.values) if isinstance(value, Literal) and value != NULL)
    if not leaf.values:
        return Constant(leaf.negated)
    if expr == NULL or not values or (leaf.negated and len(values) < len(leaf.values)):
        return _UNKNOWN
    if len(values) == 1:
        return Compare(CompareOp.NE if leaf.negated else CompareOp.EQ, expr, values[0])
    return In(expr, values, leaf.negated)
