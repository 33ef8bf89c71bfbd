"""CHECK and NOT NULL hold for every row of every write, whoever writes it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.core.conflicts import ReadSet
from parqlake.core.evolution.changes import Base, set_nullable
from parqlake.table.schema_changes import Now, evolve, no_nulls
from parqlake.testing.data import bag, ids, orders, state
from parqlake.testing.plugin import Feed

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.float64()), ("region", pa.string())])


@pytest.fixture
def checked(lake: Lake) -> Table:
    """A table with two checks."""
    checks = {"positive": "amount >= 0", "known": "region in ('eu', 'us') or amount > 100"}
    return lake.create_table("sales.checked", SCHEMA, checks=checks)


def _row(id_: int | None, amount: float | None, region: str | None) -> dict[str, object]:
    return {"id": id_, "amount": amount, "region": region}


def _rows(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), pa.schema([field.with_nullable(True) for field in SCHEMA]))


@pytest.mark.engine_work
def test_rows_that_break_a_check_are_shown(checked: Table, lake: Lake, feed: Feed) -> None:
    checked.append(feed(_rows(_row(1, 0.0, "eu"), _row(2, None, None), _row(3, 200.0, "asia"))))
    before = state(lake)
    bad = _rows(*(_row(i, -float(i), "eu") for i in range(7)))
    with pytest.raises(errors.ConstraintError) as caught:
        checked.append(feed(bad))
    assert str(caught.value).splitlines() == [
        '6 row(s) of the data break the check "positive" (amount >= 0); mend or filter them, then write again',
        *(f"  id={i}, amount=-{i}.0, region='eu'" for i in range(1, 6)),
        "  … and 1 more",
    ]
    with pytest.raises(errors.ConstraintError, match='break the check "known"'):
        checked.overwrite(feed(_rows(_row(1, 5.0, "asia"))), where="id = 1")
    with pytest.raises(errors.ConstraintError, match=r'column "id" is NOT NULL, and 1 row(.|\n)*id=None, amount=1.0'):
        checked.append(feed(_rows(_row(1, 1.0, "eu"), _row(None, 1.0, "eu"))))
    assert state(lake) == before


def test_changed_and_merged_rows_are_looked_at_too(checked: Table, lake: Lake, feed: Feed) -> None:
    checked.append(feed(_rows(_row(1, 1.0, "eu"), _row(2, 2.0, "us"))))
    before = state(lake)
    with pytest.raises(errors.ConstraintError, match=r'break the check "positive"(.|\n)*id=2, amount=-2.0'):
        checked.update("id = 2", set={"amount": "0 - amount"})
    for id_ in (2, 3):  # one that is there, one that is new
        with pytest.raises(errors.ConstraintError, match=rf'break the check "positive"(.|\n)*id={id_}, amount=-5.0'):
            checked.merge(feed(_rows(_row(id_, -5.0, "us"))), on="id")
    assert state(lake) == before


def test_checks_come_and_go_with_versions(checked: Table, feed: Feed) -> None:
    checked.append(feed(_rows(_row(1, 1.0, "eu"))))
    checked.drop_check("known")
    checked.append(feed(_rows(_row(2, 2.0, "asia"))))
    with pytest.raises(errors.ConstraintError, match=r'1 row\(s\) of the table break the check "known"(.|\n)*id=2'):
        checked.add_check("known", "region in ('eu', 'us')")
    checked.add_check("short", "length(region) <= 4")
    assert checked.checks() == {"positive": "amount >= 0", "short": "length(region) <= 4"}
    assert set(checked.checks(version=1)) == {"positive", "known"}
    checked.restore(version=1)
    assert set(checked.checks()) == {"positive", "known"}
    with pytest.raises(errors.ConstraintError, match='check "known"'):
        checked.append(feed(_rows(_row(2, 2.0, "asia"))))
    assert ids(checked.scan().to_arrow()) == [1]


def test_columns_of_a_check_are_kept(checked: Table, lake: Lake) -> None:
    before = state(lake)
    for call in (lambda: checked.drop_column("amount"), lambda: checked.rename_column("region", "area")):
        with pytest.raises(errors.InvalidOptionError, match=r'drop_check\("(positive|known)"\) first'):
            call()
    for name, condition, error, text in (
        ("positive", "amount > 1", errors.InvalidOptionError, "is there already"),
        ("new", "amuont > 1", errors.ColumnNotFoundError, 'did you mean "amount"'),
        ("new", "1 = 1", errors.InvalidOptionError, "is the same for every row"),
        ("new", 7, errors.InvalidOptionError, "as SQL text"),
    ):
        with pytest.raises(error, match=text):
            checked.add_check(name, condition)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOptionError, match='no check "positiv"; did you mean "positive"'):
        checked.drop_check("positiv")
    with pytest.raises(errors.ColumnNotFoundError, match="nope"):
        lake.create_table("sales.other", SCHEMA, checks={"c": "nope > 1"})
    assert state(lake) == before


@pytest.mark.engine_work
def test_not_null_holds_inside_structs_and_lists(lake: Lake, feed: Feed) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64())])
    nullable = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("at", inner), ("all", pa.list_(pa.field("element", inner)))])
    data = pa.schema([("id", pa.int64()), ("at", nullable), ("all", pa.list_(pa.field("element", nullable)))])
    table = lake.create_table("nested.strict", schema)
    good = [
        {"id": 1, "at": {"x": 1, "y": None}, "all": [{"x": 1, "y": None}, None]},
        {"id": 2, "at": None, "all": None},
    ]
    table.append(feed(pa.Table.from_pylist(good, data)))
    before = state(lake)
    for row, path in (
        ({"id": 3, "at": {"x": None, "y": 1}, "all": []}, "at.x"),
        ({"id": 3, "at": None, "all": [{"x": 1, "y": 1}, {"x": None, "y": 1}]}, "all.element.x"),
    ):
        with pytest.raises(errors.ConstraintError, match=rf'column "{path}" is NOT NULL(.|\n)*id=3'):
            table.append(feed(pa.Table.from_pylist([good[0], row], data)))
    assert state(lake) == before
    assert table.scan().to_arrow().num_rows == 2
    assert bag(table.scan().to_arrow())


def test_a_change_that_races_with_rows_is_proven_again(lake: Lake, feed: Feed) -> None:
    table = lake.create_table("sales.race", orders(0).schema)
    table.append(feed(orders(1)))
    writers = iter([table])

    def overtaken(now: Now) -> ReadSet:
        """The proof, after which another writer is faster than the commit, once."""
        found = no_nulls("region")(now)
        for writer in writers:
            writer.append(feed(orders(3)))
        return found

    def forbid(base: Base) -> pa.Schema:
        return set_nullable(base, "region", nullable=False)

    with pytest.raises(errors.ConstraintError, match=r'column "region" holds NULL in 1 row'):
        evolve(lake.context, table.info, forbid, proof=overtaken)
    assert (table.version, table.schema().field("region").nullable) == (2, True)


def test_rows_that_race_with_a_change_are_refused(lake: Lake, feed: Feed) -> None:
    table = lake.create_table("sales.race", orders(0).schema)
    table.append(feed(orders(3)))
    with lake.transaction() as tx:
        tx.table("sales.race").append(feed(orders(1, first=7)))
        table.set_nullable("day", False)
        with pytest.raises(errors.ConcurrentSchemaChangeError, match="the schema changed"):
            tx.__exit__(None, None, None)
    assert ids(table.scan().to_arrow()) == [0, 1, 2]
