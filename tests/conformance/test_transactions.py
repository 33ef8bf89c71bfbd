"""Transactions: several changes to several tables become visible together, or not at all."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, bag, data_files, ids, orders, state
from parqlake.testing.plugin import Feed, Read

pytestmark = [pytest.mark.engine_work, pytest.mark.catalog_work]


@pytest.fixture
def lines(lake: Lake) -> Table:
    """A second table."""
    return lake.create_table("sales.lines", ORDERS, partition_by=["region"])


def test_two_tables_change_together(lake: Lake, table: Table, lines: Table, feed: Feed) -> None:
    table.append(feed(orders(1)))
    with lake.transaction(message="the load of today") as tx:
        tx.table("sales.orders").append(feed(orders(5, first=10)))
        tx.table("sales.lines").append(feed(orders(8)))
        tx.table("sales.orders").append(feed(orders(5, first=20)))
        assert (table.version, lines.version) == (1, 0)
        assert table.scan().count() == 1
    assert tx.versions == {"sales.orders": 2, "sales.lines": 1}
    assert not tx.replayed
    assert ids(table.scan().to_arrow()) == [0, *range(10, 15), *range(20, 25)]
    assert lines.scan().count() == 8
    last, other = table.history()[0], lines.history()[0]
    assert last.message == other.message == "the load of today"
    assert last.transaction_id == other.transaction_id
    assert last.committed_at == other.committed_at
    assert str(last.operation) == "append"
    assert (last.added_rows, last.row_count) == (10, 11)


def test_an_exception_leaves_nothing(lake: Lake, table: Table, lines: Table, feed: Feed) -> None:
    table.append(feed(orders(3)))
    before = state(lake)
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        tx.table("sales.orders").append(feed(orders(5, first=10)), max_rows_per_file=2)
        tx.table("sales.lines").overwrite(feed(orders(8)))
        tx.table("sales.orders").overwrite(feed(orders(0)), where="id = 1")
        raise ZeroDivisionError
    assert state(lake) == before
    assert tx.versions == {}


def test_bad_data_in_the_second_table_undoes_the_first(lake: Lake, table: Table, lines: Table, feed: Feed) -> None:
    before = state(lake)
    with pytest.raises(errors.SchemaMismatchError), lake.transaction() as tx:
        tx.table("sales.orders").append(feed(orders(5)))
        tx.table("sales.lines").append(feed(orders(5).drop_columns(["amount"])))
    assert state(lake) == before


def test_a_mistake_that_is_caught_does_not_spoil_the_rest(
    lake: Lake, table: Table, place: LakePlace, feed: Feed
) -> None:
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(3)))
        with pytest.raises(errors.SchemaMismatchError):
            inside.append(feed(orders(5).drop_columns(["amount"])))
        with pytest.raises(errors.ConstraintError):
            inside.overwrite(feed(orders(5)), where="id > 100")
        inside.append(feed(orders(2, first=3)))
    assert ids(table.scan().to_arrow()) == [0, 1, 2, 3, 4]
    assert {f"{table.location}/{path}" for path in table.files().column("path").to_pylist()} == data_files(place.root)


def test_reads_see_the_transactions_own_appends(lake: Lake, table: Table, feed: Feed) -> None:
    table.append(feed(orders(10)), row_group_size=5)
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(10, first=10)), row_group_size=5)
        assert ids(inside.scan().to_arrow()) == list(range(20))
        assert ids(inside.scan("id between 8 and 11").to_arrow()) == [8, 9, 10, 11]
        assert inside.scan("id >= 8").count() == 12
        assert inside.scan(columns=["id"], limit=3).to_arrow().num_rows == 3
        assert inside.scan("id >= 15").explain().files_read == 1
        assert table.scan().count() == 10
    assert table.scan().count() == 20


def test_reads_see_the_transactions_own_overwrite_of_all(lake: Lake, table: Table, feed: Feed) -> None:
    table.append(feed(orders(10)))
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(3, first=50)))
        inside.overwrite(feed(orders(2, first=100)))
        assert ids(inside.scan().to_arrow()) == [100, 101]
        inside.append(feed(orders(1, first=102)))
        assert ids(inside.scan().to_arrow()) == [100, 101, 102]
        inside.overwrite(feed(orders(0)), where="id = 101")
        assert ids(inside.scan().to_arrow()) == [100, 102]
        assert inside.scan("id < 100").count() == 0
    assert ids(table.scan().to_arrow()) == [100, 102]
    assert table.version == 2
    assert str(table.history()[0].operation) == "overwrite"


def test_reads_see_the_transactions_own_overwrite_of_some(
    lake: Lake, lines: Table, place: LakePlace, feed: Feed
) -> None:
    lines.append(feed(orders(20)))
    eu = orders(8, first=100).filter(pc.field("region") == "eu").slice(0, 1)
    assert eu.column("region").to_pylist() == ["eu"]
    with lake.transaction() as tx:
        inside = tx.table("sales.lines")
        inside.append(feed(orders(4, first=20)))
        inside.overwrite(feed(eu), where="region = 'eu'")
        assert ids(inside.scan("region = 'eu'").to_arrow()) == [100]
        inside.overwrite(feed(orders(0)), where="id in (1, 21, 2)")
        inside.overwrite(feed(orders(0)), where="id in (1, 5)")
        found = ids(inside.scan().to_arrow())
        assert found == [3, *(i for i in range(6, 24) if i % 4 and i != 21), 100]
        assert lines.scan().count() == 20
    assert ids(lines.scan().to_arrow()) == found
    assert lines.version == 2
    used = {path for number in (1, 2) for path in lines.files(number).column("path").to_pylist()}
    assert data_files(place.root) == {f"{lines.location}/{path}" for path in used}


def test_reads_are_of_one_moment_of_the_whole_lake(
    lake: Lake, table: Table, lines: Table, place: LakePlace, feed: Feed
) -> None:
    table.append(feed(orders(3)))
    with lake.transaction() as tx, place.connect() as other:
        other.table("sales.lines").append(feed(orders(5)))
        other.table("sales.orders").append(feed(orders(5, first=10)))
        assert tx.table("sales.lines").scan().count() == 0
        assert ids(tx.table("sales.orders").scan().to_arrow()) == [0, 1, 2]
    assert tx.versions == {}
    assert (table.version, lines.version) == (2, 1)


def test_a_transaction_that_only_reads_never_conflicts(lake: Lake, table: Table, feed: Feed) -> None:
    with lake.transaction() as tx:
        assert tx.table("sales.orders").scan().count() == 0
        table.append(feed(orders(5)))
        assert tx.table("sales.orders").scan().count() == 0
    assert table.version == 1


def test_an_empty_transaction_does_nothing(lake: Lake, table: Table) -> None:
    before = state(lake)
    with lake.transaction() as tx:
        pass
    assert (tx.versions, tx.replayed) == ({}, False)
    assert state(lake) == before


def test_a_transaction_that_has_ended_takes_nothing_more(lake: Lake, table: Table, feed: Feed) -> None:
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(2)))
    before = state(lake)
    for call in (
        lambda: tx.table("sales.orders"),
        lambda: inside.append(feed(orders(1))),
        lambda: inside.overwrite(feed(orders(1))),
        lambda: inside.scan(),
    ):
        with pytest.raises(errors.InputError, match="has ended"):
            call()
    assert state(lake) == before


def test_engines_can_be_mixed(lake: Lake, table: Table, read: Read) -> None:
    with lake.transaction() as tx:
        tx.table("sales.orders").append(orders(5), engine="pyarrow")
        tx.table("sales.orders").append(orders(5, first=5), engine="duckdb")
    assert bag(read(table.scan())) == bag(orders(10))
    assert table.version == 1


def test_a_table_that_is_not_there(lake: Lake, table: Table, place: LakePlace, feed: Feed) -> None:
    with lake.transaction() as tx:
        with pytest.raises(errors.TableNotFoundError, match=r"sales.nothing"):
            tx.table("sales.nothing")
        with pytest.raises(errors.InvalidNameError):
            tx.table("../up")
        with place.connect() as other:
            other.create_table("sales.later", ORDERS)
        with pytest.raises(errors.TableNotFoundError, match="when this transaction began"):
            tx.table("sales.later")
        tx.table("sales.orders").append(feed(orders(1)))
    assert table.version == 1


def test_options_inside_a_transaction_are_checked_before_anything_is_written(
    lake: Lake, table: Table, feed: Feed
) -> None:
    before = state(lake)
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        with pytest.raises(errors.InvalidOptionError, match="compression"):
            inside.append(feed(orders(1)), compression="rar")
        with pytest.raises(errors.InvalidPredicateError):
            inside.overwrite(feed(orders(1)), where="id >")
        with pytest.raises(errors.ColumnNotFoundError, match='"ident"'):
            inside.scan("ident = 1")
        with pytest.raises(errors.ColumnNotFoundError, match='"ident"'):
            inside.scan(columns=["ident"])
        with pytest.raises(errors.InvalidOptionError, match="limit"):
            inside.scan(limit=-1)
        with pytest.raises(errors.InvalidOptionError, match="engine"):
            inside.append(orders(1), engine="spork")
    assert state(lake) == before
