"""A pruned scan gives exactly the rows that the predicate makes TRUE, whatever the data, the engine and the layout."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from parqlake import Lake, Table
from parqlake.core.predicates import bind
from parqlake.core.predicates.to_sql import to_sql
from parqlake.core.predicates.tree import Not, Predicate
from parqlake.testing.data import bag
from parqlake.testing.strategies import predicates, tables
from parqlake.testing.truth import selected, truths

NUMBERS = itertools.count()
ENGINES = ("pyarrow", "duckdb")
Case = tuple[list[pa.Table], list[Predicate], list[str], int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    parts = draw(tables(max_rows=16))
    found = draw(st.lists(predicates(parts), min_size=1, max_size=4))
    engines = [draw(st.sampled_from(ENGINES)) for _ in parts]
    return parts, found, engines, draw(st.integers(1, 5))


def _written(lake: Lake, case: Case) -> Table:
    parts, _, engines, row_group_size = case
    table = lake.create_table(f"random.t{next(NUMBERS)}", parts[0].schema)
    for part, engine in zip(parts, engines, strict=True):
        table.append(part, engine=engine, row_group_size=row_group_size)
    return table


def _check_scans(lake: Lake, case: Case) -> None:
    parts, found, _, _ = case
    table = _written(lake, case)
    whole = pa.concat_tables(parts)
    assert bag(table.scan().to_arrow()) == bag(whole)
    for predicate in found:
        expected = selected(predicate, whole)
        scan = table.scan(predicate)
        note(str(scan.explain()))
        assert bag(scan.to_arrow()) == bag(expected)
        assert scan.count() == expected.num_rows
        for version in range(len(parts) + 1):
            earlier = pa.concat_tables([whole.slice(0, 0), *parts[:version]])
            assert table.scan(predicate, version=version).count() == selected(predicate, earlier).num_rows
        _check_by_duckdb(predicate, whole, expected.num_rows)


def _check_by_duckdb(predicate: Predicate, whole: pa.Table, count: int) -> None:
    sql = to_sql(bind(predicate, whole.schema))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("whole", whole)
        assert connection.sql(f"SELECT count(*) FROM whole WHERE {sql}").fetchall() == [(count,)], sql


def _check_overwrites(lake: Lake, case: Case) -> None:
    parts, found, engines, row_group_size = case
    table = _written(lake, case)
    left = pa.concat_tables(parts)
    for predicate, engine in zip(found, itertools.cycle(engines), strict=False):
        new = selected(predicate, left)
        kept = left.filter(pa.array([truth is not True for truth in truths(predicate, left)], pa.bool_()))
        table.overwrite(new.slice(0, 1), where=predicate, engine=engine, row_group_size=row_group_size)
        left = pa.concat_tables([kept, new.slice(0, 1)])
        assert bag(table.scan().to_arrow()) == bag(left)
        assert table.scan().count() == left.num_rows
        assert table.scan(Not(predicate)).count() == selected(Not(predicate), left).num_rows
    assert bag(table.scan(version=len(parts)).to_arrow()) == bag(pa.concat_tables(parts))


def _check_transactions(lake: Lake, case: Case) -> None:
    parts, found, engines, row_group_size = case
    table = lake.create_table(f"random.t{next(NUMBERS)}", parts[0].schema)
    table.append(parts[0], row_group_size=row_group_size)
    whole = pa.concat_tables(parts)
    with lake.transaction() as tx:
        inside = tx.table(table.name)
        for part, engine in zip(parts[1:], engines, strict=False):
            inside.append(part, engine=engine, row_group_size=row_group_size)
        for predicate in found:
            assert bag(inside.scan(predicate).to_arrow()) == bag(selected(predicate, whole))
            assert inside.scan(predicate).count() == selected(predicate, whole).num_rows
    assert bag(table.scan().to_arrow()) == bag(whole)


@given(case=cases())
@settings(max_examples=40)
def test_a_scan_gives_exactly_the_matching_rows(shared_lake: Lake, case: Case) -> None:
    _check_scans(shared_lake, case)


@given(case=cases())
@settings(max_examples=20)
def test_an_overwrite_replaces_exactly_the_matching_rows(shared_lake: Lake, case: Case) -> None:
    _check_overwrites(shared_lake, case)


@given(case=cases())
@settings(max_examples=15)
def test_a_transaction_reads_exactly_its_own_state(shared_lake: Lake, case: Case) -> None:
    _check_transactions(shared_lake, case)


@pytest.mark.slow
@given(case=cases())
@settings(max_examples=600)
def test_a_scan_gives_exactly_the_matching_rows_at_length(shared_lake: Lake, case: Case) -> None:
    _check_scans(shared_lake, case)


@pytest.mark.slow
@given(case=cases())
@settings(max_examples=300)
def test_an_overwrite_replaces_exactly_the_matching_rows_at_length(shared_lake: Lake, case: Case) -> None:
    _check_overwrites(shared_lake, case)


@pytest.mark.slow
@given(case=cases())
@settings(max_examples=200)
def test_a_transaction_reads_exactly_its_own_state_at_length(shared_lake: Lake, case: Case) -> None:
    _check_transactions(shared_lake, case)
