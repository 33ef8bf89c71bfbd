"""`pyarrow.compute` expressions become a predicate tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates import builders
from parqlake.core.predicates.arrow_tokens import Token, read_tokens
from parqlake.core.predicates.builders import Node, as_expression, as_predicate
from parqlake.core.predicates.literals import literal, shown
from parqlake.core.predicates.tree import (
    And,
    Arithmetic,
    Column,
    CompareOp,
    Function,
    In,
    IsNaN,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
)

_COMPARISONS = {
    "equal": CompareOp.EQ,
    "not_equal": CompareOp.NE,
    "less": CompareOp.LT,
    "less_equal": CompareOp.LE,
    "greater": CompareOp.GT,
    "greater_equal": CompareOp.GE,
}
_ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
_FUNCTIONS = {"utf8_lower": "lower", "utf8_upper": "upper", "utf8_length": "length", "abs": "abs"}
_HINT = "write the condition as SQL text instead, for instance \"amount > 10 and region = 'eu'\""


@dataclass(slots=True)
class _Call:
    name: str
    args: list[Node] = field(default_factory=list)
    options: pa.Scalar | None = None

    def option(self, name: str) -> Any:
        return None if self.options is None else self.options[name]


def from_arrow(expression: Any) -> Predicate:
    """Reads a `pyarrow.compute` expression; the predicate selects the same rows.

    But for NaN, which pyarrow compares as IEEE 754 says and which is greater than every number here, and for NOT of
    `pc.and_` and `pc.or_` with NULLs: they are read as `&` and `|`, which know more than NULL.

    Raises:
        InvalidPredicateError: the expression calls a function beyond the small language that every engine computes
            alike, names columns by position, or is no condition.
    """
    try:
        tokens, batch = read_tokens(expression)
        return as_predicate(_tree(tokens, batch))
    except pa.ArrowNotImplementedError as error:
        raise InvalidPredicateError(
            f"cannot read {shown(expression)}: {error}; name columns, as in pc.field('amount'), or {_HINT}"
        ) from None
    except (pa.ArrowException, InvalidPredicateError) as error:
        raise InvalidPredicateError(f"cannot read {shown(expression)}: {error}; {_HINT}") from None
    except RecursionError:
        raise InvalidPredicateError(f"the expression is nested too deeply; use isin(…), or {_HINT}") from None


def _tree(tokens: list[Token], batch: pa.RecordBatch) -> Node:
    """Reads the tokens with a stack of open calls, however deep they are nested."""
    root = _Call("")
    stack = [root]
    queue = iter(tokens)
    for kind, text in queue:
        match kind:
            case "call":
                stack.append(_Call(text))
            case "end":
                call = stack.pop()
                stack[-1].args.append(_called(call))
            case "options":
                stack[-1].options = batch.column(int(text))[0]
            case "literal":
                stack[-1].args.append(literal(batch.column(int(text))[0]))
            case "field_ref":
                stack[-1].args.append(Column((text,)))
            case "nested_field_ref":
                stack[-1].args.append(_nested_column([next(queue) for _ in range(int(text))]))
            case _:
                raise InvalidPredicateError(f"the part {kind!r} is not understood")
    (node,) = root.args
    return node


def _nested_column(parts: list[Token]) -> Column:
    if any(kind != "field_ref" for kind, _ in parts):
        raise InvalidPredicateError("a column is named by something else than names")
    return Column(tuple(name for _, name in parts))


def _called(call: _Call) -> Node:
    name = call.name.removesuffix("_checked").removesuffix("_kleene").removesuffix("_")
    args = call.args
    if name in _COMPARISONS:
        return builders.comparison(_COMPARISONS[name], args[0], args[1])
    if name in _ARITHMETIC:
        return Arithmetic(_ARITHMETIC[name], as_expression(args[0]), as_expression(args[1]))
    if name in _FUNCTIONS:
        return Function(_FUNCTIONS[name], (as_expression(args[0]),))
    reader = _READERS.get(name)
    if reader is None:
        raise InvalidPredicateError(f"the function {call.name} is not understood")
    return reader(call)


def _and(call: _Call) -> Node:
    return builders.all_of(as_predicate(arg) for arg in call.args)


def _or(call: _Call) -> Node:
    return builders.any_of(as_predicate(arg) for arg in call.args)


def _invert(call: _Call) -> Node:
    return Not(as_predicate(call.args[0]))


def _is_null(call: _Call) -> Node:
    found = builders.is_null(call.args[0])
    nan_is_null = call.option("nan_is_null")
    if nan_is_null is not None and nan_is_null.as_py():
        return Or((found, IsNaN(as_expression(call.args[0]))))
    return found


def _is_valid(call: _Call) -> Node:
    return Not(builders.is_null(call.args[0]))


def _is_nan(call: _Call) -> Node:
    return IsNaN(as_expression(call.args[0]))


def _is_in(call: _Call) -> Node:
    """`is_in`, which is TRUE or FALSE for NULL too, unlike SQL's IN, unless its options say otherwise."""
    expr = as_expression(call.args[0])
    values = [literal(value) for value in call.option("value_set").values]
    known = In(expr, tuple(value for value in values if value.value is not None))
    has_null = len(known.values) < len(values)
    match call.option("null_matching_behavior").as_py():
        case 0 if has_null:
            return Or((known, IsNull(expr)))
        case 0 | 1:
            return And((known, IsNull(expr, negated=True)))
        case 2:
            return known
        case 3:
            return In(expr, tuple(values))
    raise InvalidPredicateError("is_in treats NULLs in a way that is not understood")


def _cast(call: _Call) -> Node:
    target = call.option("to_type").type
    (arg,) = call.args
    if not isinstance(arg, Literal):
        raise InvalidPredicateError(f"a column is cast to {target}; only constants can be cast")
    value = arg.value if isinstance(arg.value, pa.Scalar) else pa.scalar(arg.value)
    return literal(value.cast(target))


def _starts_with(call: _Call) -> Node:
    prefix = call.option("pattern").as_py()
    if call.option("ignore_case").as_py():
        if set(prefix) & set("%_"):
            raise InvalidPredicateError("starts_with(ignore_case=True) with % or _ in the prefix is not understood")
        return builders.like(call.args[0], prefix + "%", ignore_case=True)
    return builders.starts_with(call.args[0], Literal(prefix))


def _match_like(call: _Call) -> Node:
    ignore_case = bool(call.option("ignore_case").as_py())
    return builders.like(call.args[0], call.option("pattern").as_py(), escape="\\", ignore_case=ignore_case)


def _negate(call: _Call) -> Node:
    return Arithmetic("-", Literal(0), as_expression(call.args[0]))


def _divide(call: _Call) -> Node:
    """Division by a float: pyarrow cuts off the fraction when it divides integers, and SQL does not."""
    left, right = (as_expression(arg) for arg in call.args)
    if isinstance(right, Literal) and isinstance(right.value, float) and right.value:
        return Arithmetic("/", left, right)
    raise InvalidPredicateError("pyarrow's divide cuts off the fraction for integers; divide by a float constant")


def _coalesce(call: _Call) -> Node:
    return Function("coalesce", tuple(as_expression(arg) for arg in call.args))


_READERS: dict[str, Callable[[_Call], Node]] = {
    "and": _and,
    "or": _or,
    "invert": _invert,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
    "is_in": _is_in,
    "cast": _cast,
    "starts_with": _starts_with,
    "match_like": _match_like,
    "negate": _negate,
    "divide": _divide,
    "coalesce": _coalesce,
}
