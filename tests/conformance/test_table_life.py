"""Tables come and go by name: create, drop, undrop, rename, list."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, data_files, ids, orders, state

pytestmark = pytest.mark.catalog_work


def test_a_table_is_there_for_every_connection_at_once(table: Table, place: LakePlace) -> None:
    table.append(orders(3))
    with place.connect() as other:
        assert other.tables() == ["sales.orders"]
        assert other.table("sales.orders").scan().count() == 3
        other.table("sales.orders").append(orders(2, first=3))
    assert ids(table.scan().to_arrow()) == [0, 1, 2, 3, 4]


def test_a_name_can_be_used_once(table: Table, lake: Lake) -> None:
    with pytest.raises(errors.TableExistsError, match=r"sales.orders"):
        lake.create_table("sales.orders", ORDERS)
    assert lake.tables() == ["sales.orders"]


def test_creating_what_is_there_can_be_ignored(table: Table, lake: Lake) -> None:
    table.append(orders(3))
    again = lake.create_table("sales.orders", pa.schema([("other", pa.int64())]), if_exists="ignore")
    assert again.schema() == ORDERS
    assert again.scan().count() == 3
    new = lake.create_table("sales.new", ORDERS, if_exists="ignore")
    assert new.version == 0


def test_tables_are_listed_by_name_and_by_namespace(lake: Lake) -> None:
    assert lake.tables() == []
    for name in ("b.y", "a.x", "a.b", "b_2.x", "A.x"):
        lake.create_table(name, ORDERS)
    assert lake.tables() == ["A.x", "a.b", "a.x", "b.y", "b_2.x"]
    assert lake.tables("a") == ["a.b", "a.x"]
    assert lake.tables("b") == ["b.y"]
    assert lake.tables("nothing") == []
    with pytest.raises(errors.InvalidNameError, match="invalid namespace"):
        lake.tables("a'; drop table x; --")


def test_a_dropped_table_is_out_of_sight_and_its_files_stay(table: Table, lake: Lake, place: LakePlace) -> None:
    table.append(orders(5))
    before = data_files(place.root)
    lake.drop_table("sales.orders")
    assert lake.tables() == []
    with pytest.raises(errors.TableNotFoundError):
        lake.table("sales.orders")
    assert data_files(place.root) == before


def test_a_dropped_table_comes_back_with_its_history(table: Table, lake: Lake) -> None:
    table.append(orders(5))
    table.append(orders(5, first=5))
    table.tag("t", version=1)
    lake.drop_table("sales.orders")
    back = lake.undrop_table("sales.orders")
    assert lake.tables() == ["sales.orders"]
    assert [entry.version for entry in back.history()] == [2, 1]
    assert back.tags() == {"t": 1}
    assert ids(back.scan().to_arrow()) == list(range(10))
    table.append(orders(1, first=10))
    assert back.scan().count() == 11


def test_a_table_can_come_back_under_another_name(table: Table, lake: Lake) -> None:
    table.append(orders(5))
    lake.drop_table("sales.orders")
    lake.create_table("sales.orders", pa.schema([("n", pa.int64())]))
    with pytest.raises(errors.TableExistsError):
        lake.undrop_table("sales.orders")
    back = lake.undrop_table("sales.orders", rename_to="sales.old")
    assert back.name == "sales.old"
    assert back.scan().count() == 5
    assert lake.table("sales.orders").schema().names == ["n"]


def test_a_name_that_was_dropped_can_be_used_again(table: Table, lake: Lake) -> None:
    table.append(orders(5))
    lake.drop_table("sales.orders")
    second = lake.create_table("sales.orders", ORDERS)
    assert second.version == 0
    assert second.location != table.location
    second.append(orders(2, first=50))
    assert ids(lake.table("sales.orders").scan().to_arrow()) == [50, 51]
    lake.drop_table("sales.orders")
    last = lake.undrop_table("sales.orders")
    assert ids(last.scan().to_arrow()) == [50, 51]
    lake.rename_table("sales.orders", "sales.second")
    assert ids(lake.undrop_table("sales.orders").scan().to_arrow()) == list(range(5))


def test_dropping_what_is_not_there(lake: Lake) -> None:
    with pytest.raises(errors.TableNotFoundError):
        lake.drop_table("sales.nothing")
    lake.drop_table("sales.nothing", if_missing="ignore")
    with pytest.raises(errors.TableNotFoundError, match="no dropped table"):
        lake.undrop_table("sales.nothing")


def test_a_renamed_table_keeps_everything_but_its_name(table: Table, lake: Lake, place: LakePlace) -> None:
    table.append(orders(5))
    before = data_files(place.root)
    renamed = lake.rename_table("sales.orders", "archive.orders")
    assert lake.tables() == ["archive.orders"]
    assert renamed.location == table.location
    assert (renamed.name, table.name) == ("archive.orders", "archive.orders")
    assert ids(renamed.scan().to_arrow()) == list(range(5))
    assert data_files(place.root) == before
    with pytest.raises(errors.TableNotFoundError, match=r"sales.orders"):
        lake.table("sales.orders")
    lake.create_table("sales.orders", ORDERS)
    assert lake.tables() == ["archive.orders", "sales.orders"]


def test_a_rename_never_hides_another_table(table: Table, lake: Lake) -> None:
    lake.create_table("sales.other", ORDERS)
    before = state(lake)
    with pytest.raises(errors.TableExistsError, match=r"sales.other"):
        lake.rename_table("sales.orders", "sales.other")
    with pytest.raises(errors.TableNotFoundError):
        lake.rename_table("sales.nothing", "sales.new")
    assert lake.rename_table("sales.orders", "sales.orders").name == "sales.orders"
    assert state(lake) == before


def test_a_handle_follows_its_table_through_a_rename(table: Table, lake: Lake) -> None:
    table.append(orders(2))
    lake.rename_table("sales.orders", "sales.renamed")
    table.append(orders(2, first=2))
    table.overwrite(orders(0), where="id = 0")
    assert ids(lake.table("sales.renamed").scan().to_arrow()) == [1, 2, 3]
    assert table.history()[0].version == 3


def test_a_handle_of_a_dropped_table_says_so(table: Table, lake: Lake, place: LakePlace) -> None:
    table.append(orders(2))
    scan = table.scan()
    lake.drop_table("sales.orders")
    before = data_files(place.root)
    calls = [
        lambda: table.append(orders(1)),
        lambda: table.overwrite(orders(1)),
        lambda: table.overwrite(orders(1), where="id = 0"),
        lambda: table.restore(1),
        lambda: table.scan(),
        lambda: table.history(),
        lambda: table.files(),
        lambda: table.row_groups(),
        lambda: table.schema(),
        lambda: table.tag("x"),
        lambda: table.set_properties({}),
        lambda: table.version,
        lambda: table.name,
    ]
    for call in calls:
        with pytest.raises(errors.TableNotFoundError, match=r"was dropped.*undrop_table"):
            call()
    assert data_files(place.root) == before
    assert ids(scan.to_arrow()) == [0, 1]


def test_a_handle_never_writes_to_a_new_table_of_the_same_name(table: Table, lake: Lake) -> None:
    lake.drop_table("sales.orders")
    new = lake.create_table("sales.orders", ORDERS)
    with pytest.raises(errors.TableNotFoundError, match="was dropped"):
        table.append(orders(1))
    assert new.version == 0


def test_a_closed_lake_can_be_closed_again(place: LakePlace) -> None:
    lake = place.connect()
    lake.close()
    lake.close()
    with place.connect() as opened:
        assert opened.tables() == []


def test_a_lake_and_a_table_say_what_they_are(table: Table, lake: Lake, place: LakePlace) -> None:
    assert lake.url == place.root
    assert place.root in repr(lake)
    assert "sales.orders" in repr(table)
    assert place.backend.catalog in lake.catalog_url.replace("postgresql", "postgres")
