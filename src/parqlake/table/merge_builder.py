"""A merge that says by clauses what becomes of rows, as SQL's MERGE does; nothing happens before `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from parqlake.core.errors import InvalidOptionError
from parqlake.core.merging.clause_binding import AskedClause, AskedMerge, When
from parqlake.core.merging.clauses import Action
from parqlake.core.predicates import parse
from parqlake.table.merging import MergeCall, clause_call, merge_call

Values = Mapping[str, Any] | Literal["all"] | None
R = TypeVar("R")
"""What running the merge gives: a `MergeResult`, or inside a transaction the counts."""


@dataclass(frozen=True, slots=True)
class MergeBuilder(Generic[R]):
    """A merge under construction: clauses are added one after the other, and `run` carries it out.

    Each call returns another builder and leaves this one as it is. In conditions and values `t.x` is a column of the
    table and `s.y` one of the source; a name alone will do where only one side has it. For each row the first clause
    whose condition is TRUE is taken, and a row that no clause takes stays as it is.

    Example:
        >>> merge = orders.merge(changes, on="t.id = s.id").when_matched("s.op = 'D'").delete()      # doctest: +SKIP
        >>> merge = merge.when_matched().update(set={"price": "s.price", "times": "t.times + 1"})   # doctest: +SKIP
        >>> merge.when_not_matched("s.op <> 'D'").insert().run().total                              # doctest: +SKIP
        17
    """

    _asked: AskedMerge
    _memory_limit: int | str | None
    _run: Callable[[MergeCall], R]

    def when_matched(self, condition: Any = None) -> WhenMatched[R]:
        """Rows of the table that a row of the source matches, and for which the condition on both is TRUE.

        Args:
            condition: a SQL predicate, a `pyarrow.compute` expression, or tuples; None for all such rows.
        """
        return WhenMatched(self, When.MATCHED, condition)

    def when_not_matched(self, condition: Any = None) -> WhenNotMatched[R]:
        """Rows of the source that match no row of the table, and for which the condition on `s` is TRUE."""
        return WhenNotMatched(self, When.NOT_MATCHED, condition)

    def when_not_matched_by_source(self, condition: Any = None) -> WhenNotMatchedBySource[R]:
        """Rows of the table that no row of the source matches, and for which the condition on `t` is TRUE."""
        return WhenNotMatchedBySource(self, When.BY_SOURCE, condition)

    def run(self) -> R:
        """Carries the merge out, as one new version; where there is nothing to change, none is made.

        In a transaction the merge becomes part of that, and the counts are returned.

        Raises:
            InvalidOptionError: there is no clause, or one that is never reached, or `on` has no equality of columns.
            ColumnNotFoundError: a column is not there; the message suggests the closest.
            InvalidPredicateError: a condition or value cannot be read, or a name is ambiguous.
            TypeMismatchError: a column cannot hold what it is set to, or keys are of different types.
            ConstraintError: several rows of the source match a row that would change, or a row breaks a constraint.
            ConflictError: others changed the same keys again and again.
        """
        return self._run(clause_call(self._asked, memory_limit=self._memory_limit))

    def _with(self, clause: AskedClause) -> MergeBuilder[R]:
        return replace(self, _asked=replace(self._asked, clauses=(*self._asked.clauses, clause)))


class _When(Generic[R]):
    """Rows that a clause is about, waiting to be told what becomes of them."""

    def __init__(self, builder: MergeBuilder[R], when: When, condition: Any) -> None:
        """Raises `InvalidPredicateError` if the condition cannot be read."""
        self._builder = builder
        self._when = when
        self._condition = parse(condition)

    def do_nothing(self) -> MergeBuilder[R]:
        """Leaves these rows as they are, whatever later clauses say."""
        return self._then(Action.NOTHING)

    def _then(self, action: Action, values: Mapping[str, Any] | None = None) -> MergeBuilder[R]:
        return self._builder._with(AskedClause(self._when, self._condition, action, values))


class WhenMatched(_When[R]):
    """Rows of the table that a row of the source matches."""

    def update(self, set: Values = None) -> MergeBuilder[R]:
        """Sets columns of these rows; all values are computed from the rows as they were.

        Args:
            set: column names to values, which are what `Table.update` takes: strings are SQL, over columns of both
                sides, such as `"t.stock - s.sold"`; anything else is taken as it is. None or `"all"`: every column
                that the source has too gets its value.
        """
        return self._then(Action.UPDATE, _values(set, "set"))

    def delete(self) -> MergeBuilder[R]:
        """Removes these rows from the table."""
        return self._then(Action.DELETE)


class WhenNotMatched(_When[R]):
    """Rows of the source that match no row of the table."""

    def insert(self, values: Values = None) -> MergeBuilder[R]:
        """Adds these rows to the table.

        Args:
            values: column names to values, as for `update`, over columns of the source. Columns that are not named
                get their default, or NULL. None or `"all"`: columns get the values of those of the same name, and
                key columns those that `on` compares them with; other columns of the source are left out.
        """
        return self._then(Action.INSERT, _values(values, "values"))


class WhenNotMatchedBySource(_When[R]):
    """Rows of the table that no row of the source matches."""

    def update(self, set: Mapping[str, Any]) -> MergeBuilder[R]:
        """Sets columns of these rows, to values over columns of the table."""
        given = _values(set, "set")
        if given is None:
            raise InvalidOptionError(
                f'{self._when}().update() has no source to take values from; name them: set={{"active": False}}'
            )
        return self._then(Action.UPDATE, given)

    def delete(self) -> MergeBuilder[R]:
        """Removes these rows from the table."""
        return self._then(Action.DELETE)


def asked_merge(
    *,
    on: Sequence[str] | str,
    strategy: str,
    dedup_order_by: Sequence[str] | str | None,
    update_columns: Sequence[str] | None,
    where: Any,
    memory_limit: int | str | None,
    run: Callable[[MergeCall], R],
) -> R | MergeBuilder[R]:
    """Runs what a call to `merge` asks for; where `on` is a condition, begins a merge by clauses instead.

    Raises:
        InputError: the call makes no sense, or has options for a merge by clauses that only strategies have.
    """
    if not isinstance(on, str) or "=" not in on:
        asked = merge_call(
            on=on,
            strategy=strategy,
            dedup_order_by=dedup_order_by,
            update_columns=update_columns,
            where=where,
            memory_limit=memory_limit,
        )
        return run(asked)
    given = {"dedup_order_by": dedup_order_by, "update_columns": update_columns, "where": where}
    if strategy != "upsert":
        given = {"strategy": strategy, **given}
    for name, value in given.items():
        if value is not None:
            raise InvalidOptionError(
                f"{name}={value!r} is for strategies, and on={on!r} begins a merge by clauses; say it by when_matched, "
                'when_not_matched and when_not_matched_by_source, or give key columns: on=["id"]'
            )
    return MergeBuilder(AskedMerge(parse(on)), memory_limit, run)


def _values(given: Any, option: str) -> Mapping[str, Any] | None:
    if given is None or (isinstance(given, str) and given == "all"):
        return None
    if not isinstance(given, Mapping) or not given:
        raise InvalidOptionError(
            f'{option}={given!r} names no column; give for instance {option}={{"price": "s.price"}}, or leave it out '
            "for all columns"
        )
    return given
