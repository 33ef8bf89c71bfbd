"""Clauses find their columns on either side, and say of each row what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parqlake.core.errors import ConstraintError, InvalidOptionError, InvalidPredicateError, TypeMismatchError
from parqlake.core.merging import MergeStrategy
from parqlake.core.merging.clause_binding import AskedClause, AskedMerge, When, source_schema
from parqlake.core.merging.clauses import NO_CLAUSE, Action, MergeClauses, first_true
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.tree import TRUE
from parqlake.engines.arrow.merge_source import EveryRowPart

TARGET = pa.schema([pa.field("id", pa.int64(), nullable=False), ("t", pa.float64()), ("S", pa.string())])
SOURCE = pa.schema([("Key", pa.int64()), ("op", pa.dictionary(pa.int8(), pa.string())), ("t", pa.float64())])


def clause(when: When, condition: Any, action: Action, values: Any = None) -> AskedClause:
    return AskedClause(when, parse(condition), action, values)


def bound(*clauses: AskedClause, on: str = "t.id = s.key") -> MergeClauses:
    found = AskedMerge(parse(on), clauses).rule(source_schema(SOURCE, TARGET), TARGET).clauses
    assert found is not None
    return found


DELETE = clause(When.MATCHED, None, Action.DELETE)


def test_equalities_become_keys_and_the_rest_a_condition() -> None:
    found = bound(DELETE, on="s.KEY = t.id and op <> 'x' and id = s.t")
    assert found.keys == (("id", "Key"),)
    assert found.names == ("t_row", "s")  # a column of the table has the other name
    rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "t": [0.0, 0.0, 0.0], "S": [None, None, None]}, schema=TARGET)
    source = pa.array([{"Key": i, "op": op, "t": 2.0} for i, op in ((1, "a"), (2, "a"), (2, "x"))], _source_type())
    assert found.matches(found.joined(rows, source)).tolist() == [False, True, False]
    with pytest.raises(InvalidOptionError, match="equality"):
        bound(DELETE, on="t.id = s.key or s.t = 1")
    with pytest.raises(TypeMismatchError, match=r"t\.S is string and s\.Key is int64"):
        bound(DELETE, on="t.S = s.Key")


def test_the_first_condition_that_is_true_counts_and_unknown_is_not() -> None:
    found = bound(
        clause(When.MATCHED, "s.t > 1", Action.NOTHING),
        clause(When.MATCHED, "t.t > 1", Action.DELETE),
        clause(When.MATCHED, "not t.t > 1", Action.UPDATE, {"S": "s.op"}),
    )
    rows = pa.RecordBatch.from_pydict({"t": pa.array([5.0, 5.0, None, 0.0])})
    source = pa.array([{"Key": 1, "op": "a", "t": t} for t in (2.0, None, None, None)], _source_type())
    assert first_true(found.matched, found.joined(rows, source)).tolist() == [0, 1, NO_CLAUSE, 2]
    assert (found.deciding_columns, found.changed_columns) == (("t",), ("S",))


def test_values_are_computed_from_both_rows_as_they_were() -> None:
    update = clause(When.MATCHED, None, Action.UPDATE, {"t": "t.t + s.t", "id": "t.id + 1", "S": "S || op"})
    found = bound(update, clause(When.NOT_MATCHED, None, Action.INSERT))
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "t": [1.0, None], "S": ["a", "b"]}, schema=TARGET)
    source = pa.array([{"Key": 1, "op": "x", "t": 10.0}, {"Key": 2, "op": None, "t": 20.0}], _source_type())
    changed = found.updated(found.matched[0], rows, source).to_pylist()
    assert changed == [{"id": 2, "t": 11.0, "S": "ax"}, {"id": 3, "t": None, "S": None}]
    inserted = found.inserted(found.not_matched[0], source).to_pylist()
    assert inserted == [{"id": 1, "t": 10.0, "S": None}, {"id": 2, "t": 20.0, "S": None}]
    with pytest.raises(ConstraintError, match='"id" is NOT NULL'):
        found.inserted(found.not_matched[0], pa.array([{"Key": None, "op": "x", "t": 1.0}], _source_type()))


@pytest.mark.parametrize(
    ("when", "condition", "message"),
    [
        (When.MATCHED, "t > 1", "ambiguous"),
        (When.NOT_MATCHED, "t.id > 1", "no row of the table"),
        (When.BY_SOURCE, "s.op = 'x'", "no row of the source"),
        (When.MATCHED, "s.op > 1", "op"),
    ],
)
def test_names_that_mean_nothing_or_two_things_are_refused(when: When, condition: str, message: str) -> None:
    with pytest.raises(InvalidPredicateError, match=message):
        bound(clause(when, condition, Action.NOTHING))
    assert bound(clause(When.NOT_MATCHED, "t > 1", Action.NOTHING)).not_matched  # where it can only be the source's


def test_what_may_change_without_a_match_is_told_to_those_who_choose_files() -> None:
    schema = source_schema(SOURCE, TARGET)

    def rule(*clauses: AskedClause) -> Any:
        return AskedMerge(parse("t.id = s.key"), clauses).rule(schema, TARGET)

    some = clause(When.BY_SOURCE, "t.t > 5", Action.DELETE)
    stay = clause(When.BY_SOURCE, "id = 1", Action.NOTHING)
    rest = clause(When.BY_SOURCE, None, Action.DELETE)
    assert rule(DELETE).strategy is MergeStrategy.UPSERT
    assert (rule(some).strategy, rule(some).where) == (MergeStrategy.FULL_MERGE, bind(parse('"t" > 5'), TARGET))
    assert rule(some).clauses.only_deletes_others
    assert rule(stay, rest).where is None
    assert not rule(stay, rest).clauses.only_deletes_others
    assert bound(DELETE).on == TRUE


def test_every_row_with_the_same_key_is_a_match() -> None:
    found = bound(DELETE)
    batch = pa.RecordBatch.from_pydict({"Key": [7, 8, 7, 9], "op": list("abcd"), "t": [0.0] * 4}, schema=found.source)
    rows = pa.Table.from_batches([found.source_rows(batch, 10)])
    rule = AskedMerge(parse("t.id = s.key"), (DELETE,)).rule(found.source, TARGET)
    part = EveryRowPart(rows, rule)
    places, numbers = part.pairs(part.find([pa.array([9, 5, 7, None, 7])]))
    assert places.tolist() == [0, 2, 2, 4, 4]
    assert np.asarray(part.rows["parqlake_number"])[numbers].tolist() == [13, 10, 12, 10, 12]
    crowd = EveryRowPart(pa.concat_tables([rows] * 200), rule)
    with pytest.raises(ConstraintError, match="pairs"):
        crowd.pairs(crowd.find([pa.array([7] * 65_536)]))


def _source_type() -> pa.DataType:
    return pa.struct(list(source_schema(SOURCE, TARGET)))
