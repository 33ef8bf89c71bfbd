"""Every spelling of `where` becomes a predicate tree."""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.literals import shown
from parqlake.core.predicates.tree import TRUE, Predicate


def parse(where: Any) -> Predicate:
    """Reads a predicate: SQL text, a `pyarrow.compute` expression, tuples, or a tree. None is TRUE.

    Example:
        >>> parse([("amount", ">", 10)]) == parse("amount > 10")
        True

    Raises:
        InvalidPredicateError: it is none of these, or is not understood.
    """
    if where is None:
        return TRUE
    if isinstance(where, Predicate):
        return where
    if isinstance(where, str):
        from parqlake.core.predicates.sql import parse_sql  # here, so that sqlglot is loaded only for SQL text

        return parse_sql(where)
    if isinstance(where, list | tuple):
        from parqlake.core.predicates.tuples import from_tuples

        return from_tuples(where)
    if type(where).__module__.startswith("pyarrow") and type(where).__name__ == "Expression":
        from parqlake.core.predicates.arrow import from_arrow

        return from_arrow(where)
    raise InvalidPredicateError(
        f"where is {shown(where)} of type {type(where).__name__}; give SQL text (\"amount > 10 and region = 'eu'\"), "
        'a pyarrow expression (pc.field("amount") > 10), or tuples ([("amount", ">", 10)])'
    )
