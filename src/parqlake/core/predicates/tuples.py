"""Lists of tuples become a predicate tree: `[("date", ">=", d), ("region", "in", ["eu", "us"])]`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.builders import all_of, any_of, between, like, membership
from parqlake.core.predicates.literals import literal, shown
from parqlake.core.predicates.tree import (
    TRUE,
    Column,
    Compare,
    CompareOp,
    IsNull,
    Literal,
    Not,
    Predicate,
)

_COMPARISONS = {
    "=": CompareOp.EQ,
    "==": CompareOp.EQ,
    "!=": CompareOp.NE,
    "<>": CompareOp.NE,
    "<": CompareOp.LT,
    "<=": CompareOp.LE,
    ">": CompareOp.GT,
    ">=": CompareOp.GE,
}
_OPERATORS = [*_COMPARISONS, "in", "not in", "like", "not like", "between", "is null", "is not null"]


def from_tuples(value: Sequence[Any]) -> Predicate:
    """Reads one condition, a list of conditions that are ANDed, or a list of such lists that are ORed.

    A condition is `(column, operator, value)`, or `(column, "is null")`. A field of a struct is written `a.b`. As in
    SQL, a comparison with None is TRUE for no row. An empty list is no condition at all.

    Raises:
        InvalidPredicateError: something is not of this form; the message shows it.
    """
    if _is_condition(value):
        return _condition(value)
    if not len(value):
        return TRUE
    if all(isinstance(item, list | tuple) and not _is_condition(item) for item in value):
        return any_of(_conjunction(item) for item in value)
    return _conjunction(value)


def _conjunction(items: Sequence[Any]) -> Predicate:
    if not items:
        raise InvalidPredicateError("one of the lists of conditions is empty; leave it out")
    return all_of(_condition(item) for item in items)


def _is_condition(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], str)


def _condition(item: Any) -> Predicate:
    if not _is_condition(item) or not 2 <= len(item) <= 3 or not isinstance(item[1], str):
        raise InvalidPredicateError(f'{shown(item)} is not a condition; write ("column", ">=", value)')
    column = Column((item[0],))
    operator = " ".join(item[1].lower().split())
    if operator in ("is null", "is not null"):
        if len(item) == 3 and item[2] is not None:
            raise InvalidPredicateError(f'{shown(item)} has a value; write ("{item[0]}", "{operator}")')
        return IsNull(column, negated=operator == "is not null")
    if operator not in _OPERATORS:
        raise InvalidPredicateError(f"no operator {item[1]!r} in {shown(item)}; there are {', '.join(_OPERATORS)}")
    if len(item) == 2:
        raise InvalidPredicateError(f'{shown(item)} has no value; write ("{item[0]}", "{item[1]}", value)')
    return _with_value(column, operator, item)


def _with_value(column: Column, operator: str, item: tuple[Any, ...]) -> Predicate:
    value = item[2]
    if operator in _COMPARISONS:
        return Compare(_COMPARISONS[operator], column, literal(value))
    negated = operator.startswith("not ")
    if operator.endswith("in"):
        found = membership(column, _constants(item))
    elif operator == "between":
        ends = _constants(item)
        if len(ends) != 2:
            raise InvalidPredicateError(f'{shown(item)} needs two values; write ("{item[0]}", "between", (low, high))')
        found = between(column, *ends)
    else:
        if not isinstance(value, str):
            raise InvalidPredicateError(f"the pattern of LIKE in {shown(item)} is not a string")
        found = like(column, value)
    return Not(found) if negated else found


def _constants(item: tuple[Any, ...]) -> list[Literal]:
    values = item[2]
    if isinstance(values, pa.Array | pa.ChunkedArray | np.ndarray) or (
        isinstance(values, Collection) and not isinstance(values, str | bytes | bytearray | memoryview | dict)
    ):
        return [literal(value) for value in values]
    raise InvalidPredicateError(f'{shown(item)} needs a list of values; write ("{item[0]}", "{item[1]}", [1, 2])')
