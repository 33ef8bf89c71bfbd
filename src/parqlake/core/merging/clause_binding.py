"""What a MERGE asks for becomes clauses that can be applied: columns found on either side, types known to fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from parqlake.core.errors import (
    ConstraintError,
    InvalidOptionError,
    InvalidPredicateError,
    SchemaMismatchError,
    TypeMismatchError,
    column_not_found,
)
from parqlake.core.evolution.constraints import checks_of, with_checks
from parqlake.core.evolution.marks import write_default
from parqlake.core.merging.clauses import Action, Clause, MergeClauses
from parqlake.core.merging.conforming import working_schema
from parqlake.core.merging.model import MergeRule, MergeStrategy
from parqlake.core.merging.validation import plain_type, spelled_alike
from parqlake.core.predicates import bind
from parqlake.core.predicates.builders import any_of
from parqlake.core.predicates.expressions import bind_expression
from parqlake.core.predicates.renaming import renamed
from parqlake.core.predicates.tree import (
    TRUE,
    And,
    Column,
    Compare,
    CompareOp,
    Expr,
    Literal,
    Predicate,
    columns_of,
    conjuncts,
)
from parqlake.core.predicates.value_types import type_of
from parqlake.core.updating import row_change

TARGET_NAME, SOURCE_NAME = "t", "s"


class When(StrEnum):
    """Which rows a clause is about."""

    MATCHED = "when_matched"
    NOT_MATCHED = "when_not_matched"
    BY_SOURCE = "when_not_matched_by_source"


@dataclass(frozen=True, slots=True)
class AskedClause:
    """A clause as somebody wrote it."""

    when: When
    condition: Predicate
    action: Action
    values: Mapping[str, Any] | None = None
    """None: all columns that the source has too."""


@dataclass(frozen=True, slots=True)
class AskedMerge:
    """A MERGE as somebody wrote it."""

    on: Predicate
    clauses: tuple[AskedClause, ...] = ()

    def rule(self, source: pa.Schema, target: pa.Schema) -> MergeRule:
        """The merge for these schemas, or an error for one that cannot be.

        Args:
            source: from `source_schema`.
            target: of the table, with its constraints and defaults.

        Raises:
            InvalidOptionError: there is no clause, or one that is never reached, or no key to match by.
            ColumnNotFoundError: a column is not there.
            InvalidPredicateError: a condition or value is not understood, or a name is ambiguous.
            TypeMismatchError: a column cannot hold what it is set to, or keys are of different types.
            ConstraintError: a NOT NULL column would get no value.
        """
        self._check_order()
        binding = _Binding(source, target)
        keys, rest = binding.keys(self.on)
        own = {when: [binding.clause(asked, keys) for asked in self.clauses if asked.when is when] for when in When}
        clauses = MergeClauses(
            keys,
            binding.condition(rest, When.MATCHED),
            tuple(own[When.MATCHED]),
            tuple(own[When.NOT_MATCHED]),
            tuple(own[When.BY_SOURCE]),
            target=binding.target,
            source=source,
            names=binding.names,
        )
        changing = [c.condition for c in clauses.by_source if c.action is not Action.NOTHING]
        strategy = MergeStrategy.FULL_MERGE if changing else MergeStrategy.UPSERT
        where = None
        if changing and TRUE not in changing:
            plain = renamed(any_of(changing), lambda column: Column(column.path[1:]))
            where = bind(plain, target)
        return MergeRule(tuple(name for name, _ in keys), strategy, where=where, clauses=clauses)

    def _check_order(self) -> None:
        if not self.clauses:
            raise InvalidOptionError(
                "the merge has no clause; say what to do, for instance "
                ".when_matched().update().when_not_matched().insert()"
            )
        for when in When:
            own = [clause for clause in self.clauses if clause.when is when]
            for number, clause in enumerate(own[:-1], start=1):
                if clause.condition == TRUE:
                    raise InvalidOptionError(
                        f"{when}() without a condition takes all rows, so that clause {number + 1} of {when} is never "
                        "reached; put the one without a condition last"
                    )


def source_schema(source: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The columns of a source as they are merged: laid out as the table's where they mean the same, NULLs allowed."""
    twice = sorted({name for name in source.names if source.names.count(name) > 1})
    if twice:
        raise SchemaMismatchError(f'Schema mismatch: source has column "{twice[0]}" twice; rename one of them')
    alike = spelled_alike(source, target)
    return pa.schema([pa.field(item.name, plain_type(item.type)) for item in alike])


@dataclass(slots=True)
class _Binding:
    """Looks names up on both sides."""

    source: pa.Schema
    table: pa.Schema
    target: pa.Schema = field(init=False)
    names: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.target = with_checks(working_schema(self.table), checks_of(self.table))
        taken = set(self.table.names)
        self.names = (_free(TARGET_NAME, taken), _free(SOURCE_NAME, taken))

    def keys(self, on: Predicate) -> tuple[tuple[tuple[str, str], ...], Predicate]:
        """Takes the equalities of plain columns out of the condition; returns them, and what is left."""
        keys: dict[str, str] = {}
        rest: list[Predicate] = []
        for item in conjuncts(on):
            pair = self._pair(item)
            if pair is None or pair[0] in keys:
                rest.append(item)
            else:
                keys[pair[0]] = pair[1]
        if not keys:
            raise InvalidOptionError(
                'on needs an equality of a column of the table and one of the source, such as "t.id = s.id"; '
                "further conditions may follow after AND"
            )
        for name, other in keys.items():
            self._check_key(name, other)
        return tuple(keys.items()), And(tuple(rest)) if len(rest) > 1 else rest[0] if rest else TRUE

    def condition(self, condition: Predicate, when: When) -> Predicate:
        """The condition, bound."""
        return bind(renamed(condition, lambda column: self._placed(column, when)), self._joined(when))

    def clause(self, asked: AskedClause, keys: tuple[tuple[str, str], ...]) -> Clause:
        """The clause, bound."""
        condition = self.condition(asked.condition, asked.when)
        if asked.action is Action.UPDATE:
            return Clause(condition, asked.action, tuple(self._assigned(self._set(asked), asked.when).items()))
        if asked.action is Action.INSERT:
            return Clause(condition, asked.action, self._row(asked, keys))
        return Clause(condition, asked.action)

    def _set(self, asked: AskedClause) -> Mapping[str, Any]:
        if asked.values is not None:
            return asked.values
        same = self._same_names()
        if not same:
            raise InvalidOptionError(
                f"no column of the source ({', '.join(self.source.names)}) has the name of one of the table "
                f'({", ".join(self.table.names)}); say what to set: update(set={{"column": "s.other"}})'
            )
        return same

    def _row(self, asked: AskedClause, keys: tuple[tuple[str, str], ...]) -> tuple[tuple[str, Expr], ...]:
        """What each column of an inserted row is."""
        values = asked.values
        if values is None:
            values = {**{name: _from_source(other) for name, other in keys}, **self._same_names()}
        assigned = self._assigned(values, asked.when)
        return tuple((item.name, assigned.get(item.name) or self._default(item)) for item in self.table)

    def _same_names(self) -> dict[str, Column]:
        found = {}
        for item in self.table:
            other = _look_up(item.name, self.source)
            if other is not None:
                found[item.name] = _from_source(other)
        return found

    def _default(self, item: pa.Field) -> Literal:
        default = write_default(item)
        if default is None and not item.nullable:
            raise ConstraintError(
                f'column "{item.name}" is NOT NULL and has no default, and the insert gives it no value; '
                f'name it: insert(values={{"{item.name}": …}})'
            )
        type_ = self.target.field(item.name).type
        scalar = pa.scalar(None, type_) if default is None else default.cast(type_)
        return Literal(scalar.as_py(), scalar)

    def _assigned(self, values: Any, when: When) -> dict[str, Expr]:
        if not isinstance(values, Mapping) or not values:
            row_change(values, TRUE, self.target)  # raises, and says what is wanted
        return {name: self._value(name, value, when) for name, value in values.items()}

    def _value(self, name: str, value: Any, when: When) -> Expr:
        if name not in self.table.names:
            raise column_not_found(str(name), self.table.names)
        if isinstance(value, Column):
            parsed: Expr = value
        elif isinstance(value, str):
            from parqlake.core.predicates.sql import parse_value  # here, so that sqlglot is loaded only for SQL text

            parsed = parse_value(value)
        if not isinstance(value, str | Column) or not any(columns_of(parsed)):
            return row_change({name: value}, TRUE, self.target).values[0][1]
        wanted = self.target.field(name)
        placed = renamed(parsed, lambda column: self._placed(column, when))
        bound = bind_expression(placed, self._joined(when), target=wanted)
        text = value.name if isinstance(value, Column) else value
        given = f"({text})" if text == name else text
        # Whether a column can be set to values of that type is known to those who set columns.
        row_change({name: '"' + given.replace('"', '""') + '"'}, TRUE, pa.schema([wanted, (given, type_of(bound))]))
        return bound

    def _joined(self, when: When) -> pa.Schema:
        sides = []
        if when is not When.NOT_MATCHED:
            sides.append(pa.field(self.names[0], pa.struct(list(self.target))))
        if when is not When.BY_SOURCE:
            sides.append(pa.field(self.names[1], pa.struct(list(self.source))))
        return pa.schema(sides)

    def _placed(self, column: Column, when: When) -> Column:
        """The column on the side that it is on."""
        side, path = self._side(column, when)
        if side == TARGET_NAME and when is When.NOT_MATCHED:
            raise InvalidPredicateError(
                f'"{column.name}": where nothing matched there is no row of the table; {when} can use columns of '
                f"the source: {_listed(self.source, SOURCE_NAME)}"
            )
        if side == SOURCE_NAME and when is When.BY_SOURCE:
            raise InvalidPredicateError(
                f'"{column.name}": where nothing matched there is no row of the source; {when} can use columns of '
                f"the table: {_listed(self.table, TARGET_NAME)}"
            )
        schema = self.table if side == TARGET_NAME else self.source
        name = _look_up(path[0], schema)
        if name is None:
            raise column_not_found(f"{side}.{path[0]}", [f"{side}.{other}" for other in schema.names])
        return Column((self.names[0 if side == TARGET_NAME else 1], name, *path[1:]))

    def _side(self, column: Column, when: When) -> tuple[str, tuple[str, ...]]:
        path = column.path
        if len(path) == 1 and "." in path[0] and not self._homes(path[0], When.MATCHED):
            path = tuple(path[0].split("."))
        alias = path[0].casefold()
        if len(path) > 1 and alias in (TARGET_NAME, SOURCE_NAME):
            return alias, path[1:]
        homes = self._homes(path[0], when)
        if not homes:
            names = [f"t.{name}" for name in self.table.names] + [f"s.{name}" for name in self.source.names]
            raise column_not_found(column.name, names)
        if len(homes) > 1:
            raise InvalidPredicateError(
                f'"{column.name}" is ambiguous: it is a column of the table and of the source; '
                f"write t.{column.name} or s.{column.name}"
            )
        return homes[0], path

    def _homes(self, name: str, when: When) -> list[str]:
        found = []
        if when is not When.NOT_MATCHED and _look_up(name, self.table) is not None:
            found.append(TARGET_NAME)
        if when is not When.BY_SOURCE and _look_up(name, self.source) is not None:
            found.append(SOURCE_NAME)
        return found

    def _pair(self, item: Predicate) -> tuple[str, str] | None:
        """The columns of the table and of the source that the condition says are equal, if it does."""
        if not isinstance(item, Compare) or item.op is not CompareOp.EQ:
            return None
        sides = {}
        for column in (item.left, item.right):
            if isinstance(column, Column):
                placed = self._placed(column, When.MATCHED)
                if len(placed.path) == 2:
                    sides[placed.path[0]] = placed.path[1]
        return (sides[self.names[0]], sides[self.names[1]]) if len(sides) == 2 else None

    def _check_key(self, name: str, other: str) -> None:
        want = self.target.field(name)
        have = self.source.field(other)
        (alike,) = spelled_alike(pa.schema([have.with_name(name)]), pa.schema([want]))
        if pa.types.is_nested(want.type):
            raise InvalidOptionError(
                f'on: column "{name}" is of type {want.type}, which cannot be compared; use a plain column'
            )
        if alike.type != want.type:
            raise TypeMismatchError(
                f"on: t.{name} is {want.type} and s.{other} is {have.type} (type mismatch); "
                "cast the column of the source to the table's type, then merge again"
            )


def _from_source(name: str) -> Column:
    return Column((SOURCE_NAME, name))


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that no column has."""
    while name in taken:
        name += "_row"
    return name


def _look_up(name: str, schema: pa.Schema) -> str | None:
    """The column's exact name: as it is written, else in any case if that fits one only."""
    if name in schema.names:
        return name
    similar = [other for other in schema.names if other.casefold() == name.casefold()]
    return similar[0] if len(similar) == 1 else None


def _listed(schema: pa.Schema, side: str) -> str:
    return ", ".join(f"{side}.{name}" for name in schema.names)
