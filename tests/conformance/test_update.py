"""Update sets columns of exactly the rows that a predicate selects, to the same values on every engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.data import bag, ids, orders, state
from parqlake.testing.plugin import Feed, Read

GOODS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["nut", "bolt", None, "it's"],
        "price": pa.array([Decimal("1.15"), Decimal("2.00"), None, Decimal("9999999.99")], pa.decimal128(9, 2)),
        "stock": pa.array([10, None, 7, 2**62], pa.int64()),
        "weight": [1.5, float("nan"), None, -0.0],
        "day": pa.array([date(2026, 1, 1), None, date(2026, 1, 3), date(2026, 1, 4)]),
        "ok": [True, False, None, True],
        "tags": pa.array([["a"], [], None, ["b", None]], pa.list_(pa.field("element", pa.string()))),
    }
)

VALUES: list[tuple[str, Any, list[Any]]] = [
    ("price", "price * 1.1", [Decimal("1.27"), Decimal("2.20"), None]),
    ("price", Decimal("0.5"), [Decimal("0.50")] * 3),
    ("stock", "coalesce(stock, 0) + id % 2", [11, 0, 8]),
    ("stock", None, [None, None, None]),
    ("weight", "stock / 4", [2.5, None, 1.75]),
    ("weight", 3, [3.0, 3.0, 3.0]),
    ("name", "name || '-' || name", ["nut-nut", "bolt-bolt", None]),
    ("name", "'it''s'", ["it's"] * 3),
    ("name", pa.scalar("name"), ["name"] * 3),
    ("name", "case when stock > 8 then 'many' when stock is null then name else 'few' end", ["many", "bolt", "few"]),
    ("day", "'2026-02-28'", [date(2026, 2, 28)] * 3),
    ("day", date(2026, 2, 28), [date(2026, 2, 28)] * 3),
    ("day", "coalesce(day, '2020-02-29')", [date(2026, 1, 1), date(2020, 2, 29), date(2026, 1, 3)]),
    ("ok", "stock > 8", [True, None, False]),
    ("tags", ["x", None], [["x", None]] * 3),
    ("tags", "null", [None, None, None]),
]
"""Column, what it is set to, and what the first three rows then hold."""

MISFITS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"nmae": "'x'"}, errors.ColumnNotFoundError, 'no column "nmae"; did you mean "name"'),
    ({"name": "nmae"}, errors.ColumnNotFoundError, "did you mean"),
    ({}, errors.InvalidOptionError, "names no column"),
    ({"id": 2**40}, errors.InvalidPredicateError, "1099511627776"),
    ({"id": "2.5"}, errors.InvalidPredicateError, r"2\.5"),
    ({"day": "name"}, errors.TypeMismatchError, 'column "day" is date32.*string'),
    ({"name": 5}, errors.InvalidPredicateError, "5"),
    ({"tags": 5}, errors.TypeMismatchError, "5"),
    ({"weight": "sum(weight)"}, errors.InvalidPredicateError, "SUM"),
    ({"weight": "1; drop table x"}, errors.InvalidPredicateError, "';'"),
    # found while rows are computed:
    ({"price": "price * 1.1"}, errors.TypeMismatchError, r"10999999\.989"),
    ({"stock": "stock * 4"}, errors.InvalidPredicateError, "overflow"),
    ({"id": "stock"}, errors.TypeMismatchError, str(2**62)),
    ({"stock": "price"}, errors.TypeMismatchError, r"1\.15"),
]


@pytest.fixture
def goods(lake: Lake, feed: Feed) -> Table:
    """Four goods with columns of many kinds."""
    table = lake.create_table("shop.goods", GOODS)
    table.append(feed(GOODS))
    return table


def _column(table: Table, name: str) -> list[Any]:
    found = table.scan().to_arrow().sort_by("id")
    values: list[Any] = found.column(name).to_pylist()
    return values


@pytest.mark.engine_work
def test_only_selected_rows_change_and_only_their_files(table: Table, feed: Feed, read: Read) -> None:
    for first in (0, 20, 40):
        table.append(feed(orders(20, first=first)))
    before = set(table.files().column("path").to_pylist())
    result = table.update("id >= 38 and amount > 20", {"amount": "amount * 2 + id", "region": "'moon'"}, message="up")
    selected = [i for i in range(41, 60) if i % 7 != 3]
    assert (result.updated, result.version, result.files_removed, result.files_added) == (len(selected), 4, 1, 1)
    assert ids(table.scan("region = 'moon'").to_arrow()) == selected
    amounts = {row["id"]: row["amount"] for row in table.scan().to_arrow().to_pylist()}
    assert all(amounts[i] == i + i for i in selected)
    assert bag(read(table.scan("id < 41"))) == bag(orders(41))
    new = [row for row in table.files().to_pylist() if row["path"] not in before]
    assert len(new) == 1 and result.bytes_rewritten == new[0]["size_bytes"]
    entry = table.history()[0]
    assert (entry.operation, entry.added_rows, entry.removed_rows, entry.message) == ("update", 16, 16, "up")
    assert bag(read(table.scan(version=3))) == bag(orders(60))


def test_values_are_the_same_on_every_engine(goods: Table) -> None:
    for column, value, expected in VALUES:
        last = _column(goods, column)[3]
        assert goods.update("id <= 3", {column: value}).updated == 3
        assert _column(goods, column) == [*expected, last], (column, value)
        goods.restore(1)


def test_all_values_come_from_the_row_as_it_was(goods: Table) -> None:
    goods.update("true", {"stock": "id", "id": "id * 10", "weight": "id"})
    assert _column(goods, "id") == [10, 20, 30, 40]
    assert _column(goods, "stock") == [1, 2, 3, 4]
    assert _column(goods, "weight") == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.engine_work
def test_rows_move_when_their_partition_changes(by_region: Table, feed: Feed, read: Read) -> None:
    by_region.append(feed(orders(40)))
    before = set(by_region.files().column("path").to_pylist())
    result = by_region.update("region = 'us' and id < 20", {"region": "case when id < 10 then 'eu' end"})
    assert result.updated == 5
    assert ids(read(by_region.scan("region = 'us'"))) == [21, 25, 29, 33, 37]
    assert ids(read(by_region.scan("region is null and id % 2 = 1"))) == [13, 17]
    assert [i for i in ids(by_region.scan("region = 'eu'").to_arrow()) if i % 4] == [1, 5, 9]
    assert len(before - set(by_region.files().column("path").to_pylist())) == 1
    for row in by_region.files().to_pylist():
        assert dict(row["partition"])["region"] in ("eu", "us", "asia", None)


def test_nothing_to_update_makes_no_version(goods: Table, lake: Lake) -> None:
    before = state(lake)
    result = goods.update("stock = 8", {"name": "'x'"})
    assert (result.updated, result.version, result.files_added) == (0, 1, 0)
    assert state(lake) == before


@pytest.mark.engine_work
def test_values_that_do_not_fit_change_nothing(goods: Table, lake: Lake) -> None:
    before = state(lake)
    for assignments, error, message in MISFITS:
        with pytest.raises(error, match=message):
            goods.update("true", assignments)
    assert state(lake) == before


def test_not_null_columns_stay_so(table: Table, lake: Lake, feed: Feed) -> None:
    table.append(feed(orders(10)))
    before = state(lake)
    with pytest.raises(errors.ConstraintError, match='"id" is NOT NULL'):
        table.update("id = 1", {"id": None})
    with pytest.raises(errors.ConstraintError, match='"id" is NOT NULL'):
        table.update("true", {"id": "case when id < 9 then id end"})
    assert state(lake) == before
    assert table.update("id = 1", {"id": "case when id < 9 then 77 end"}).updated == 1


def test_a_repeat_with_the_same_key_updates_once(goods: Table) -> None:
    first = goods.update("id < 3", {"weight": "coalesce(stock, 0) + 1"}, idempotency_key="job/1")
    goods.update("true", {"weight": "0"})
    again = goods.update("id < 3", {"weight": "coalesce(stock, 0) + 1"}, idempotency_key="job/1")
    assert (again.updated, again.version, again.replayed) == (2, first.version, True)
    assert _column(goods, "weight") == [0.0] * 4


def test_updates_of_a_transaction_see_its_own_rows(lake: Lake, table: Table, feed: Feed) -> None:
    table.append(feed(orders(10)))
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(10, first=10)))
        assert inside.update("id >= 8 and id < 12", {"amount": "-1"}) == 4
        assert inside.update("amount = -1", {"amount": "amount - id"}) == 4
        assert inside.update("amount = -1", {"amount": "5"}) == 0
    assert (table.version, table.scan().count()) == (2, 20)
    rows = table.scan("amount < 0").to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["amount"]) for row in rows] == [(i, -1 - i) for i in range(8, 12)]
