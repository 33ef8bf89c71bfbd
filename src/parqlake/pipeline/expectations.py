"""Expectations: what rows and tables have to be like, and what is done about those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from parqlake.core.errors import InvalidOptionError
from parqlake.core.names import parse_table_name
from parqlake.core.retention import parse_age


class Action(StrEnum):
    """What is done about a row, or a table, that is not as expected."""

    WARN = "warn"
    DROP = "drop"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class TableCheck(StrEnum):
    """The rules that are about more than one row."""

    UNIQUE = "unique"
    ROW_COUNT = "row_count"
    FRESH = "fresh"
    REFERENCES = "references"


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that every row has to meet. Made by `expect`; each of its calls returns another one."""

    name: str
    condition: str
    """In Spark's SQL."""
    action: Action = Action.FAIL
    table: str | None = None
    """Where rows go that are quarantined."""

    def warn(self) -> RowRule:
        """Keeps such rows, and says so in the report."""
        return replace(self, action=Action.WARN, table=None)

    def drop(self) -> RowRule:
        """Leaves such rows out."""
        return replace(self, action=Action.DROP, table=None)

    def quarantine(self, table: str) -> RowRule:
        """Puts such rows into another table, in the same transaction, with the names of the rules that they break.

        The table is made on first use. It has the columns of the rows, and `_rules`, `_run_id`, `_quarantined_at`.
        """
        return replace(self, action=Action.QUARANTINE, table=str(parse_table_name(table)))

    def fail(self) -> RowRule:
        """Commits nothing at all if there is such a row."""
        return replace(self, action=Action.FAIL, table=None)


@dataclass(frozen=True, slots=True)
class TableRule:
    """A rule about many rows together. Made by `unique`, `row_count`, `fresh` and `references`."""

    name: str
    check: TableCheck
    columns: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    age: timedelta | None = None
    table: str | None = None
    """Of references: the table and column that values have to be in."""
    column: str | None = None
    action: Action = Action.FAIL

    def warn(self) -> Self:
        """Says so in the report, and goes on."""
        return replace(self, action=Action.WARN)

    def fail(self) -> Self:
        """Commits nothing at all."""
        return replace(self, action=Action.FAIL)


Expectation = RowRule | TableRule


def expect(name: str, condition: str) -> RowRule:
    """Expects that a condition is TRUE for every row; a row for which it is NULL does not meet it.

    Without a further word the run fails at the first row that does not; `.warn()`, `.drop()` and `.quarantine(table)`
    say otherwise. To let NULLs pass, say so: `"amount is null or amount >= 0"`.

    Args:
        name: what the report calls it.
        condition: an expression of Spark's SQL over the columns that the step returns.

    Example:
        >>> expect("positive", "amount >= 0").quarantine("silver.orders_bad").action
        <Action.QUARANTINE: 'quarantine'>
    """
    for what, value in (("name", name), ("condition", condition)):
        if not isinstance(value, str) or not value.strip():
            raise InvalidOptionError(f"the {what} of an expectation is {value!r}; give a text that is not empty")
    return RowRule(name, condition)


def unique(*columns: str) -> TableRule:
    """Expects that no two rows of the table agree in these columns, once the run is committed; NULLs count as equal.

    Example:
        >>> unique("order_id", "line").name
        'unique(order_id, line)'
    """
    return TableRule(f"unique({', '.join(_columns(columns, 'unique'))})", TableCheck.UNIQUE, tuple(columns))


def row_count(least: int | None = None, most: int | None = None) -> TableRule:
    """Expects so many rows in what the run writes to the table, quarantined and dropped ones not counted.

    Example:
        >>> row_count(1, 1_000_000).name
        'row_count(1, 1000000)'
    """
    for value in (least, most):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InvalidOptionError(f"row_count({least!r}, {most!r}): give whole numbers that are not negative")
    if least is None and most is None:
        raise InvalidOptionError("row_count() expects nothing; give the least or the most rows there may be")
    if least is not None and most is not None and least > most:
        raise InvalidOptionError(f"row_count({least}, {most}): the least is more than the most")
    return TableRule(f"row_count({least}, {most})", TableCheck.ROW_COUNT, least=least, most=most)


def fresh(column: str, age: str | timedelta) -> TableRule:
    """Expects that the table's newest value of a column is no older than this when the run is committed.

    Example:
        >>> fresh("updated_at", "2h").age
        datetime.timedelta(seconds=7200)
    """
    (name,) = _columns([column], "fresh")
    return TableRule(f"fresh({name}, {age})", TableCheck.FRESH, (name,), age=parse_age(age, "fresh"))


def references(column: str, target: str) -> TableRule:
    """Expects that every value which the run writes to a column stands in a column of another table; NULLs may.

    Args:
        column: the column of the step.
        target: `namespace.table.column`.

    Example:
        >>> references("customer_id", "crm.customers.id").table
        'crm.customers'
    """
    (name,) = _columns([column], "references")
    table, _, other = str(target).rpartition(".")
    if not table or not other:
        raise InvalidOptionError(f"references({column!r}, {target!r}): name the other column like crm.customers.id")
    rule = f"references({name}, {target})"
    return TableRule(rule, TableCheck.REFERENCES, (name,), table=str(parse_table_name(table)), column=other)


def checked_expectations(given: Any) -> tuple[Expectation, ...]:
    """The expectations of a step; names are theirs alone, so that the report can tell them apart."""
    rules = (given,) if isinstance(given, RowRule | TableRule) else tuple(given)
    for rule in rules:
        if not isinstance(rule, RowRule | TableRule):
            raise InvalidOptionError(
                f"expect=[{rule!r}] is no expectation; write for instance expect('positive', 'amount >= 0').warn()"
            )
    names = [rule.name for rule in rules]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidOptionError(f'two expectations are called "{twice[0]}"; give each a name of its own')
    return rules


def _columns(columns: Sequence[str], rule: str) -> tuple[str, ...]:
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise InvalidOptionError(f"{rule}({', '.join(map(repr, columns))}): name columns, for instance {rule}('id')")
    return tuple(columns)
