"""What a query itself says of the rows that it needs of a table, so that the catalog can prune before it runs.

Only what is sure: conditions in WHERE, and in ON of joins, of the SELECT that names the table, that are about columns
of this table alone and compare them with constants. What is left out prunes less, and never changes the result: the
engine filters by the query as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parqlake.core.errors import ParqlakeError
from parqlake.core.predicates import bind
from parqlake.core.predicates.builders import all_of, any_of
from parqlake.core.predicates.resolve import resolve
from parqlake.core.predicates.sql import parse_sql
from parqlake.core.predicates.tree import (
    TRUE,
    And,
    Column,
    Compare,
    Constant,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)

Parameters = Sequence[Any] | Mapping[str, Any] | None
Schemas = Mapping[int, pa.Schema]
"""By the id of each node that is a table of the lake: its columns."""

_EXACT_IN_DOUBLE = 2**53
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?", re.ASCII)
_PLAIN_JOINS = ({"", "INNER", "CROSS", "OUTER"}, {"", "LEFT", "RIGHT", "FULL"})
_RENAMING = ("pivots", "sample", "changes", "rows_from", "ordinality", "partition")


def needed(nodes: Sequence[Any], schemas: Schemas, parameters: Parameters) -> Predicate:
    """A condition that is TRUE for all rows of a table that the query can make use of.

    Args:
        nodes: where the query names the table.
        schemas: the columns of all tables of the query.
        parameters: the values for its placeholders.
    """
    found = [_of_one(node, schemas, parameters) for node in nodes]
    return TRUE if TRUE in found else any_of(found)


def _of_one(node: Any, schemas: Schemas, parameters: Parameters) -> Predicate:
    from sqlglot import exp

    select = node.parent.parent if isinstance(node.parent, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select) or any(node.args.get(name) for name in _RENAMING):
        return TRUE
    if node.args.get("joins") or (node.args.get("alias") and node.args["alias"].columns):
        return TRUE
    joins = select.args.get("joins") or []
    if not all(_is_plain(join) for join in joins) or select.args.get("laterals"):
        return TRUE
    reader = _Reader(node, select, schemas, parameters)
    may_be_missing = _is_null_extended(node, joins)
    items = []
    for condition, own_join in _conditions(node, select, joins):
        item = reader.read(condition)
        if item != TRUE and (own_join or not may_be_missing or _rejects_null(item)):
            items.append(item)
    return all_of(items) if items else TRUE


def _is_plain(join: Any) -> bool:
    """Whether rows that no condition selects have no say in what else the join gives."""
    kinds, sides = _PLAIN_JOINS
    return not join.args.get("method") and (join.kind or "") in kinds and (join.side or "") in sides


def _is_null_extended(node: Any, joins: list[Any]) -> bool:
    """Whether a join puts NULLs in place of the table's rows where it finds no match."""
    joined = False  # the table in FROM comes before all joins
    own = next((join for join in joins if join.this is node), None)
    if own is None:
        return any((join.side or "") in ("RIGHT", "FULL") for join in joins)
    for join in joins:
        side = join.side or ""
        if join is own and side in ("LEFT", "FULL"):
            return True
        if joined and side in ("RIGHT", "FULL"):
            return True
        joined = joined or join is own
    return False


def _conditions(node: Any, select: Any, joins: list[Any]) -> Iterator[tuple[Any, bool]]:
    """Conditions that rows have to meet, and whether they decide about matches of the table's own outer join."""
    where = select.args.get("where")
    if where is not None:
        yield from ((item, False) for item in _conjuncts(where.this))
    for join in joins:
        on, side = join.args.get("on"), join.side or ""
        if on is not None and side == "":
            yield from ((item, False) for item in _conjuncts(on))
        elif on is not None and side == "LEFT" and join.this is node:
            yield from ((item, True) for item in _conjuncts(on))


def _conjuncts(condition: Any) -> Iterator[Any]:
    from sqlglot import exp

    waiting = [condition]
    while waiting:
        item = waiting.pop()
        if isinstance(item, exp.And):
            waiting += [item.expression, item.this]
        elif isinstance(item, exp.Paren):
            waiting.append(item.this)
        else:
            yield item


class _Reader:
    """Reads conditions about one table, where it stands in one SELECT."""

    def __init__(self, node: Any, select: Any, schemas: Schemas, parameters: Parameters) -> None:
        self._schema = schemas[id(node)]
        self._node = node
        self._alias = node.alias_or_name.casefold()
        self._parameters = parameters
        self._own = _names(self._schema)
        self._foreign = _foreign_names(node, select, schemas)
        self._outputs = {item.alias.casefold() for item in select.expressions if item.alias}

    def read(self, condition: Any) -> Predicate:
        """The condition in our language; TRUE if it is not sure to mean the same there."""
        from sqlglot import exp
        from sqlglot.dialects.duckdb import DuckDB

        if any(condition.find(kind) for kind in (exp.Query, exp.Window, exp.AggFunc)):
            return TRUE
        copied = condition.copy()
        originals = list(condition.find_all(exp.Placeholder))
        if not all(self._is_own(column) for column in copied.find_all(exp.Column)):
            return TRUE
        for column in list(copied.find_all(exp.Column)):
            column.replace(exp.column(exp.to_identifier(column.name, quoted=True)))
        try:
            for mark, original in zip(list(copied.find_all(exp.Placeholder)), originals, strict=True):
                copied = _replaced(copied, mark, self._value(original))
            text = copied.sql(dialect="duckdb", comments=False)
            again: Any = DuckDB().parse(f"SELECT {text}")[0]
            if again.expressions[0] != copied:
                return TRUE
            tree = parse_sql(text)
            if not self._is_sure(tree):
                return TRUE
            bind(tree, self._schema)
        except (ParqlakeError, LookupError, TypeError, ValueError, RecursionError):
            return TRUE
        return tree

    def _is_own(self, column: Any) -> bool:
        """Whether a name in a condition can only be a column of this table."""
        name = column.name.casefold()
        if name not in self._own:
            return False
        if column.db:  # sales.orders.id
            return bool(not self._node.alias and _path(column) == (self._node.db.casefold(), self._alias))
        if column.table:
            return bool(column.table.casefold() == self._alias)
        return self._foreign is not None and name not in self._foreign and name not in self._outputs

    def _value(self, placeholder: Any) -> Any:
        """The parameter as a part of the syntax."""
        from sqlglot import exp

        name, values = str(placeholder.this), self._parameters
        if values is None:
            raise LookupError(name)
        value = values[name] if isinstance(values, Mapping) else values[int(name) - 1]
        if isinstance(value, bool):
            return exp.Boolean(this=value)
        if isinstance(value, int):
            return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)
        if isinstance(value, datetime):
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), kind)
        if isinstance(value, date):
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        if isinstance(value, str) and self._strings_only(placeholder):
            return exp.Literal.string(value)
        raise TypeError(value)

    def _strings_only(self, placeholder: Any) -> bool:
        """Whether the condition is about text: what a string is converted to is the engine's business."""
        from sqlglot import exp

        condition = placeholder.find_ancestor(exp.Condition) or placeholder
        columns = list(condition.find_all(exp.Column))
        types = [resolve(Column((column.name,)), self._schema).type for column in columns]
        return bool(types) and all(pa.types.is_string(type_) for type_ in types)

    def _is_sure(self, tree: Predicate) -> bool:
        match tree:
            case And(items=items) | Or(items=items):
                return all(self._is_sure(item) for item in items)
            case Not(item=item):
                return self._is_sure(item)
            case Constant():
                return False
            case Compare(left=Column() as column, right=Literal() as value):
                return self._compares_alike(column, value)
            case Compare(left=Literal() as value, right=Column() as column):
                return self._compares_alike(column, value)
            case In(expr=Column() as column, values=values):
                return all(self._compares_alike(column, value) for value in values)
            case IsNull(expr=expr) | Like(expr=expr):
                return isinstance(expr, Column)
        return False

    def _compares_alike(self, column: Column, literal: Literal) -> bool:
        """Whether an engine that converts one side to the other's type comes to the same answer as exact values do."""
        type_: Any = resolve(column, self._schema).type
        t, value = pa.types, literal.value
        match value:
            case bool():
                return bool(t.is_boolean(type_))
            case int():
                exact = t.is_integer(type_) or t.is_decimal(type_)
                return bool(exact or (t.is_float64(type_) and abs(value) <= _EXACT_IN_DOUBLE))
            case Decimal() | float():
                return bool(t.is_float64(type_) or (t.is_decimal(type_) and isinstance(value, Decimal)))
            case datetime():
                return bool(t.is_timestamp(type_) and (type_.tz is None) == (value.tzinfo is None))
            case date():
                return bool(t.is_date(type_) or (t.is_timestamp(type_) and type_.tz is None))
            case str():
                moment = t.is_date(type_) or (t.is_timestamp(type_) and type_.tz is None)
                return bool(t.is_string(type_) or (moment and _MOMENT.fullmatch(value)))
        return False


def _replaced(tree: Any, old: Any, new: Any) -> Any:
    if tree is old:
        return new
    old.replace(new)
    return tree


def _foreign_names(node: Any, select: Any, schemas: Schemas) -> set[str] | None:
    """The columns of all other tables of the SELECT; None if one of them is not known."""
    sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    others = [source for source in sources if source is not node]
    if any(id(other) not in schemas for other in others):
        return None
    return {name for other in others for name in _names(schemas[id(other)])}


def _path(column: Any) -> tuple[str, str]:
    return column.db.casefold(), column.table.casefold()


def _names(schema: pa.Schema) -> set[str]:
    return {name.casefold() for name in schema.names}


def _rejects_null(tree: Predicate) -> bool:
    """Whether the condition is never TRUE for a row of NULLs."""
    match tree:
        case And(items=items):
            return any(_rejects_null(item) for item in items)
        case Compare(left=left, right=right):
            return isinstance(left, Column) or isinstance(right, Column)
        case In(expr=expr) | Like(expr=expr):
            return _is_column(expr)
        case IsNull(expr=expr, negated=True):
            return _is_column(expr)
    return False


def _is_column(expr: Expr) -> bool:
    return isinstance(expr, Column)
