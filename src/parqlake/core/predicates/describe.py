"""Predicates in words for people: short, readable, and not meant to be parsed."""

from __future__ import annotations

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

_SHOWN_VALUES = 5
_SHOWN_LENGTH = 60


def describe(predicate: Predicate) -> str:
    """The predicate as a person would write it; long lists and strings are cut."""
    match predicate:
        case And(items=items):
            return " and ".join(_grouped(item) for item in items)
        case Or(items=items):
            return " or ".join(_grouped(item) for item in items)
        case Not(item=item):
            return f"not {_grouped(item)}"
        case Constant(value=value):
            return "null" if value is None else str(value).lower()
        case Compare(op=op, left=left, right=right):
            return f"{_expression(left)} {op} {_expression(right)}"
        case In(expr=expr, values=values, negated=negated):
            shown = ", ".join(_expression(value) for value in values[:_SHOWN_VALUES])
            more = f", … {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
            return f"{_expression(expr)}{' not' if negated else ''} in ({shown}{more})"
        case IsNull(expr=expr, negated=negated):
            return f"{_expression(expr)} is {'not ' if negated else ''}null"
        case IsNaN(expr=expr, negated=negated):
            return f"{'not ' if negated else ''}isnan({_expression(expr)})"
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            word = "ilike" if ignore_case else "like"
            return f"{_expression(expr)}{' not' if negated else ''} {word} {_value(pattern)}"


def describe_expression(expr: Expr) -> str:
    """The value as a person would write it."""
    return _expression(expr)


def _grouped(predicate: Predicate) -> str:
    text = describe(predicate)
    return f"({text})" if isinstance(predicate, And | Or) else text


def _expression(expr: Expr) -> str:
    match expr:
        case Column(path=path):
            return ".".join(part if part.isidentifier() else f'"{part}"' for part in path)
        case Literal(value=value, scalar=scalar):
            return _value(value if scalar is None else scalar)
        case Arithmetic(op=op, left=left, right=right):
            return f"({_expression(left)} {op} {_expression(right)})"
        case Function(name=name, args=args):
            return f"{name}({', '.join(_expression(arg) for arg in args)})"
        case Case(whens=whens, otherwise=otherwise):
            parts = [f"when {describe(condition)} then {_expression(value)}" for condition, value in whens]
            return f"case {' '.join(parts)} else {_expression(otherwise)} end"


def _value(value: object) -> str:
    text = str(value)
    if len(text) > _SHOWN_LENGTH:
        text = text[: _SHOWN_LENGTH - 1] + "…"
    numeric = isinstance(value, bool | int | float) or str(getattr(value, "type", "")).startswith(
        ("int", "uint", "float", "double", "half", "decimal", "bool")
    )
    return text.lower() if numeric else f"'{text}'"
