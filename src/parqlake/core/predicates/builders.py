"""How trees are put together, alike for every spelling of a predicate."""

from __future__ import annotations

from collections.abc import Iterable

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.normalise import normalise
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
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)
from parqlake.core.predicates.untrue import untrue

Node = Predicate | Expr
"""What a part of a predicate may turn out to be: a truth value, or a value to compare."""


def as_predicate(node: Node) -> Predicate:
    """The node as a condition: a column or function by itself must be boolean, and is compared with TRUE."""
    match node:
        case Literal(value=None):
            return Constant(None)
        case Literal(value=bool(value)):
            return Constant(value)
        case Column() | Function() | Case():
            return Compare(CompareOp.EQ, node, Literal(True))
        case Literal() | Arithmetic():
            raise InvalidPredicateError("a value by itself is no condition; compare it with something")
    return node


def as_expression(node: Node) -> Expr:
    """The node as a value; conditions are refused."""
    if isinstance(node, Expr):
        return node
    raise InvalidPredicateError("a condition stands where a value is needed; join conditions with AND and OR")


def as_value(node: Node) -> Expr:
    """The node as a value; a condition becomes TRUE, FALSE or NULL."""
    if isinstance(node, Expr):
        return node
    return Case(((node, Literal(True)), (Not(node), Literal(False))), Literal(None))


def all_of(items: Iterable[Predicate]) -> Predicate:
    """The conditions ANDed, without nesting."""
    flat = [part for item in items for part in (item.items if isinstance(item, And) else (item,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(items: Iterable[Predicate]) -> Predicate:
    """The conditions ORed, without nesting."""
    flat = [part for item in items for part in (item.items if isinstance(item, Or) else (item,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def comparison(op: CompareOp, left: Node, right: Node) -> Predicate:
    """`left op right`. A condition may be compared with TRUE, FALSE or NULL."""
    if isinstance(left, Expr) and isinstance(right, Expr):
        return Compare(op, left, right)
    condition, other = (right, left) if isinstance(left, Expr) else (left, right)
    if op in (CompareOp.EQ, CompareOp.NE) and isinstance(condition, Predicate) and isinstance(other, Literal):
        if other.value is None:
            return Constant(None)
        if isinstance(other.value, bool):
            return condition if other.value == (op is CompareOp.EQ) else Not(condition)
    raise InvalidPredicateError("a condition can only be compared (= or !=) with TRUE or FALSE")


def between(value: Node, low: Node, high: Node) -> Predicate:
    """`value BETWEEN low AND high`, both ends included."""
    expr = as_expression(value)
    ends = ((CompareOp.GE, low), (CompareOp.LE, high))
    return And(tuple(Compare(op, expr, as_expression(end)) for op, end in ends))


def membership(value: Node, options: Iterable[Node]) -> Predicate:
    """`value IN (options)`; options that are no constants become comparisons."""
    expr = as_expression(value)
    constants: list[Literal] = []
    others: list[Predicate] = []
    for option in options:
        if isinstance(option, Literal):
            constants.append(option)
        else:
            others.append(Compare(CompareOp.EQ, expr, as_expression(option)))
    if not others:
        return In(expr, tuple(constants))
    return any_of(([In(expr, tuple(constants))] if constants else []) + others)


def is_null(node: Node) -> Predicate:
    """`node IS NULL`; of a condition, whether it is unknown."""
    if isinstance(node, Expr):
        return IsNull(node)
    return all_of((_is_not(node, value=True), _is_not(node, value=False)))


def is_truth(node: Node, *, value: bool) -> Predicate:
    """`node IS TRUE` or `node IS FALSE`; never unknown."""
    return Not(_is_not(as_predicate(node), value=value))


def _is_not(predicate: Predicate, *, value: bool) -> Predicate:
    return untrue(normalise(predicate if value else Not(predicate)))


def like(value: Node, pattern: str, *, escape: str | None = None, ignore_case: bool = False) -> Predicate:
    """`value LIKE pattern`, with an escape character if one is given.

    The tree's LIKE has none, so a pattern that looks for % or _ themselves becomes `=` or `starts_with`, or is
    refused where neither will do.
    """
    expr = as_expression(value)
    marks = _unescaped(pattern, escape)
    text = "".join(char for char, _ in marks)
    if not any(char in "%_" and not wild for char, wild in marks):
        return Like(expr, text, ignore_case=ignore_case)
    wild = [index for index, (_, is_wild) in enumerate(marks) if is_wild]
    if not ignore_case and not wild:
        return Compare(CompareOp.EQ, expr, Literal(text))
    if not ignore_case and wild == [len(marks) - 1] and marks[-1][0] == "%":
        return starts_with(expr, Literal(text[:-1]))
    raise InvalidPredicateError(
        f"the pattern {pattern!r} looks for % or _ itself, which is only possible for a whole value (=) or a prefix "
        "(starts_with)"
    )


def starts_with(value: Node, prefix: Node) -> Predicate:
    """`starts_with(value, prefix)`: LIKE where the prefix is a constant without % and _, since that can be pruned."""
    expr = as_expression(value)
    match prefix:
        case Literal(value=None):
            return Constant(None)
        case Literal(value=str(start)) if not set(start) & set("%_"):
            return Like(expr, start + "%")
        case Literal(value=str()):
            return Compare(CompareOp.EQ, Function("starts_with", (expr, prefix)), Literal(True))
    raise InvalidPredicateError("the prefix of starts_with is not a string constant")


def _unescaped(pattern: str, escape: str | None) -> list[tuple[str, bool]]:
    """The pattern's characters, and whether each is a wildcard."""
    marks: list[tuple[str, bool]] = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            following = next(chars, None)
            if following is None:
                raise InvalidPredicateError(f"the pattern {pattern!r} ends with the escape character {escape!r}")
            marks.append((following, False))
        else:
            marks.append((char, char in "%_"))
    return marks
