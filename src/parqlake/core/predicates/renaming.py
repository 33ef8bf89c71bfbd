"""Trees with other columns in the places of theirs: what is said of one table, said of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

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

_N = TypeVar("_N", Predicate, Expr)


def renamed(node: _N, change: Callable[[Column], Column]) -> _N:
    """The tree with each column replaced by what `change` makes of it."""
    return cast("_N", _renamed(node, change))


def _renamed(node: Predicate | Expr, change: Callable[[Column], Column]) -> Predicate | Expr:
    match node:
        case Column():
            return change(node)
        case Literal() | Constant():
            return node
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            return replace(node, left=renamed(left, change), right=renamed(right, change))
        case Function(args=args):
            return replace(node, args=tuple(renamed(arg, change) for arg in args))
        case Case(whens=whens, otherwise=otherwise):
            changed = tuple((renamed(condition, change), renamed(value, change)) for condition, value in whens)
            return Case(changed, renamed(otherwise, change))
        case And(items=items) | Or(items=items):
            return replace(node, items=tuple(renamed(item, change) for item in items))
        case Not(item=item):
            return Not(renamed(item, change))
        case In(expr=expr) | IsNull(expr=expr) | IsNaN(expr=expr) | Like(expr=expr):
            return replace(node, expr=renamed(expr, change))
