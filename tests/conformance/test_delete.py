"""Delete takes away exactly the rows that a predicate selects, and touches no file that holds none of them."""

from __future__ import annotations

import fsspec
import pyarrow as pa
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import bag, data_files, ids, orders, state
from parqlake.testing.plugin import Feed, Read


def _unreadable(root: str) -> None:
    filesystem, folder = fsspec.core.url_to_fs(root)
    for path in data_files(root):
        filesystem.pipe_file(f"{folder}/{path}", b"unreadable")


def _paths(table: Table) -> set[str]:
    return set(table.files().column("path").to_pylist())


@pytest.mark.engine_work
def test_exactly_the_selected_rows_go(table: Table, feed: Feed, read: Read) -> None:
    for first in (0, 20, 40):
        table.append(feed(orders(20, first=first)))
    before = _paths(table)
    result = table.delete("id between 15 and 24", message="gone")
    assert (result.deleted, result.version, result.files_removed, result.files_added) == (10, 4, 2, 1)
    kept = orders(60).filter((pa.compute.field("id") < 15) | (pa.compute.field("id") > 24))
    assert bag(read(table.scan())) == bag(kept)
    assert len(before & _paths(table)) == 1
    new = {row["path"]: row["size_bytes"] for row in table.files().to_pylist() if row["path"] not in before}
    assert result.bytes_rewritten == sum(new.values()) > 0
    entry = table.history()[0]
    assert (entry.operation, entry.removed_rows, entry.added_rows, entry.message) == ("delete", 10, 0, "gone")
    assert entry.transaction_id == result.transaction_id
    assert bag(read(table.scan(version=3))) == bag(orders(60))


def test_rows_for_which_the_predicate_is_unknown_stay(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    assert table.delete("not (amount <= 3)").deleted == sum(i / 2 > 3 and i % 7 != 3 for i in range(20))
    assert ids(table.scan("amount is null").to_arrow()) == [3, 10, 17]
    assert table.delete("region != 'eu'").deleted == table.scan(version=2).count() - table.scan().count()
    assert table.scan("region is null").count() > 0
    assert table.delete("null").deleted == 0


@pytest.mark.engine_work
def test_whole_files_and_partitions_go_without_a_look(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    by_region.append(feed(orders(40, first=40)))
    _unreadable(place.root)
    first = by_region.delete("region = 'us'")
    assert (first.deleted, first.files_added, first.bytes_rewritten) == (20, 0, 0)
    second = by_region.delete("id >= 40")
    assert (second.deleted, second.files_removed, second.files_added) == (30, 3, 0)
    third = by_region.delete("true")
    assert (third.deleted, third.bytes_rewritten) == (30, 0)
    assert by_region.scan().count() == 0


def test_nothing_to_delete_makes_no_version(table: Table, lake: Lake, feed: Feed) -> None:
    empty = table.delete("id = 1")
    assert (empty.deleted, empty.version) == (0, 0)
    table.append(feed(orders(10)))
    before = state(lake)
    for where in ("id = 77", "id > 3 and id < 4", "amount = 1.25", "false"):
        result = table.delete(where)
        assert (result.deleted, result.version, result.files_removed, result.transaction_id) == (0, 1, 0, "")
    assert state(lake) == before


def test_every_spelling_of_a_predicate_is_understood(table: Table, feed: Feed) -> None:
    table.append(feed(orders(30)))
    assert table.delete([("id", "<", 5)]).deleted == 5
    assert table.delete(pa.compute.field("id") >= 25).deleted == 5
    assert table.delete("id in (10, 11)").deleted == 2
    assert ids(table.scan().to_arrow()) == [i for i in range(5, 25) if i not in (10, 11)]


def test_nan_is_greater_than_every_number(lake: Lake, feed: Feed, read: Read) -> None:
    data = pa.table({"id": range(5), "x": [2.5, float("nan"), None, 2.5, -0.0]})
    table = lake.create_table("maths.floats", data)
    table.append(feed(data))
    assert table.delete("x < 5").deleted == 3
    assert bag(read(table.scan())) == bag(data.slice(1, 2))
    assert table.delete("x > 1e300").deleted == 1
    assert ids(table.scan().to_arrow()) == [2]


def test_bad_predicates_change_nothing(table: Table, lake: Lake, feed: Feed) -> None:
    table.append(feed(orders(10)))
    before = state(lake)
    with pytest.raises(errors.ColumnNotFoundError, match='"regoin"; did you mean "region"'):
        table.delete("regoin = 'eu'")
    with pytest.raises(errors.InvalidPredicateError, match="amount"):
        table.delete("amount = 'much'")
    with pytest.raises(errors.InvalidOptionError, match='where="true"'):
        table.delete(None)
    with pytest.raises(errors.InvalidOptionError, match="compresion"):
        table.delete("id = 1", compresion="zstd")  # type: ignore[call-arg]
    assert state(lake) == before


def test_a_repeat_with_the_same_key_deletes_nothing_more(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    first = table.delete("id < 5", idempotency_key="job/1")
    table.append(feed(orders(5)))
    again = table.delete("id < 5", idempotency_key="job/1")
    assert (first.deleted, again.deleted, again.version, again.replayed) == (5, 5, first.version, True)
    assert (again.bytes_rewritten, again.files_added) == (first.bytes_rewritten, first.files_added)
    assert table.scan("id < 5").count() == 5
    nothing = table.delete("id = 99", idempotency_key="job/2")
    table.append(feed(orders(1, first=99)))
    assert (nothing.replayed, table.delete("id = 99", idempotency_key="job/2").replayed) == (False, True)
    assert table.scan("id = 99").count() == 1


def test_a_visitor_sees_new_files_and_nothing_is_left_over(table: Table, place: LakePlace, feed: Feed) -> None:
    table.append(feed(orders(20)))
    seen: list[WrittenFile] = []
    table.delete("id = 3", file_visitor=seen.append)
    assert {file.path for file in seen} == _paths(table)
    known = {path for n in (1, 2) for path in table.files(version=n).column("path").to_pylist()}
    assert data_files(place.root) == {f"{table.location}/{path}" for path in known}


def test_deletes_of_a_transaction_see_its_own_rows(lake: Lake, table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(10, first=20)))
        assert inside.delete("id >= 15 and id < 25") == 10
        assert inside.delete("id >= 15 and id < 25") == 0
        assert inside.scan().count() == 20
        inside.overwrite(feed(orders(5, first=100)))
        assert inside.delete("id < 102") == 2
    assert ids(table.scan().to_arrow()) == [102, 103, 104]
    assert table.version == 2
    with lake.transaction() as tx:
        assert tx.table("sales.orders").delete("id = 1") == 0
    assert (tx.versions, table.version) == ({}, 2)
