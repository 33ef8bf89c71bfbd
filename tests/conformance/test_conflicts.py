"""Two writers at once: what commutes goes through, what does not is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, data_files, ids, orders, state

pytestmark = pytest.mark.catalog_work


@pytest.fixture
def other(place: LakePlace, lake: Lake) -> Iterator[Lake]:
    """A second connection to the same lake."""
    with place.connect() as opened:
        yield opened


@pytest.fixture
def filled(table: Table) -> Table:
    """Twenty orders in one version."""
    table.append(orders(20))
    return table


def _region(name: str, first: int) -> pa.Table:
    return orders(20, first=first).filter(pc.field("region") == name)


def test_blind_appends_in_two_open_transactions_both_commit(lake: Lake, filled: Table, other: Lake) -> None:
    with lake.transaction() as mine, other.transaction() as theirs:
        mine.table("sales.orders").append(orders(5, first=100))
        theirs.table("sales.orders").append(orders(5, first=200))
    assert theirs.versions == {"sales.orders": 2}
    assert mine.versions == {"sales.orders": 3}
    assert filled.scan("id >= 100").count() == 10


def test_a_transaction_that_read_what_another_appended_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    result = lake.create_table("sales.sums", pa.schema([("rows", pa.int64())]))
    with pytest.raises(errors.ConcurrentAppendError, match=r"sales.orders"), lake.transaction() as tx:
        count = tx.table("sales.orders").scan("id >= 10").count()
        tx.table("sales.sums").append(pa.table({"rows": [count]}))
        other.table("sales.orders").append(orders(5, first=50))
        before = state(other)
    after = state(lake)
    assert result.version == 0
    assert {name: after[name] for name in after if name != "files"} == {n: before[n] for n in before if n != "files"}
    assert not [path for path in data_files(lake.url) if path.startswith(result.location)]


def test_what_another_appended_elsewhere_does_not_matter(lake: Lake, filled: Table, other: Lake) -> None:
    sums = lake.create_table("sales.sums", pa.schema([("rows", pa.int64())]))
    with lake.transaction() as tx:
        count = tx.table("sales.orders").scan("id < 20").count()
        tx.table("sales.sums").append(pa.table({"rows": [count]}))
        other.table("sales.orders").append(orders(5, first=50))
    assert sums.scan().to_arrow().column("rows").to_pylist() == [20]


def test_rows_that_were_looked_for_and_not_found_count_as_read(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConcurrentAppendError), lake.transaction() as tx:
        inside = tx.table("sales.orders")
        if inside.scan("id = 77").count() == 0:
            inside.append(orders(1, first=77))
        other.table("sales.orders").append(orders(1, first=77))
    assert filled.scan("id = 77").count() == 1


def test_a_transaction_that_read_what_another_removed_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConcurrentRemoveError), lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.scan("id = 3").to_arrow()
        inside.append(orders(1, first=99))
        other.table("sales.orders").overwrite(orders(0), where="id <= 19")
    assert filled.scan().count() == 0
    assert filled.version == 2


def test_a_transaction_that_read_what_another_rewrote_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConflictError), lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.scan("id = 3").to_arrow()
        inside.append(orders(1, first=99))
        other.table("sales.orders").overwrite(orders(0), where="id = 3")
    assert ids(filled.scan().to_arrow()) == [i for i in range(20) if i != 3]


def test_write_skew_over_two_tables_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    second = lake.create_table("sales.second", ORDERS)
    second.append(orders(20))
    before = data_files(lake.url)
    with other.transaction() as theirs:
        theirs.table("sales.second").scan("id < 5").count()
        theirs.table("sales.orders").append(orders(1, first=3))
        with pytest.raises(errors.ConflictError), lake.transaction() as mine:
            mine.table("sales.orders").scan("id < 5").count()
            mine.table("sales.second").append(orders(1, first=3))
            theirs.__exit__(None, None, None)
    assert theirs.versions == {"sales.orders": 2}
    assert mine.versions == {}
    assert second.version == 1
    assert len(data_files(lake.url)) == len(before) + 1


def test_write_skew_inside_one_table_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConflictError), lake.transaction() as mine:
        mine.table("sales.orders").scan("id between 100 and 199").count()
        mine.table("sales.orders").append(orders(1, first=200))
        with other.transaction() as theirs:
            theirs.table("sales.orders").scan("id between 200 and 299").count()
            theirs.table("sales.orders").append(orders(1, first=100))
    assert filled.scan("id >= 100").count() == 1


def test_overwriting_what_another_replaced_is_refused_in_a_transaction(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConflictError), lake.transaction() as mine:
        mine.table("sales.orders").overwrite(orders(0), where="id < 5")
        other.table("sales.orders").overwrite(orders(0), where="id between 3 and 8")
    assert ids(filled.scan().to_arrow()) == [0, 1, 2, *range(9, 20)]
    assert filled.version == 2


def test_overwriting_what_another_appended_to_is_refused_in_a_transaction(
    lake: Lake, filled: Table, other: Lake
) -> None:
    with pytest.raises(errors.ConcurrentAppendError), lake.transaction() as mine:
        mine.table("sales.orders").overwrite(orders(0), where="id >= 15")
        other.table("sales.orders").append(orders(5, first=20))
    assert filled.scan().count() == 25


def test_overwriting_different_partitions_both_commit(lake: Lake, by_region: Table, other: Lake) -> None:
    by_region.append(orders(40))
    with lake.transaction() as mine:
        mine.table("sales.by_region").overwrite(_region("eu", 100), where="region = 'eu'")
        other.table("sales.by_region").overwrite(_region("us", 200), where="region = 'us'")
        other.table("sales.by_region").append(_region("asia", 300))
    assert mine.versions == {"sales.by_region": 4}
    assert ids(by_region.scan("region = 'eu'").to_arrow()) == [100, 104, 108, 112, 116]
    assert ids(by_region.scan("region = 'us'").to_arrow()) == [201, 205, 209, 213, 217]
    assert by_region.scan("region = 'asia'").count() == 15


def test_overwriting_all_takes_away_what_another_appended(lake: Lake, filled: Table, other: Lake) -> None:
    with lake.transaction() as mine:
        mine.table("sales.orders").overwrite(orders(2, first=500))
        other.table("sales.orders").append(orders(5, first=100))
    assert mine.versions == {"sales.orders": 3}
    assert ids(filled.scan().to_arrow()) == [500, 501]
    assert filled.history()[0].removed_rows == 25


def test_a_single_overwrite_is_worked_out_again(filled: Table, other: Lake) -> None:
    met: list[int] = []

    def interfere(_: WrittenFile) -> None:
        if not met:
            met.append(1)
            other.table("sales.orders").append(orders(5, first=20))

    filled.overwrite(orders(2, first=18), where="id >= 15", file_visitor=interfere)
    assert met
    assert ids(filled.scan().to_arrow()) == [*range(15), 18, 19]
    assert filled.version == 3
    live = {path for number in (1, 2, 3) for path in filled.files(number).column("path").to_pylist()}
    assert data_files(other.url) == {f"{filled.location}/{path}" for path in live}


def test_a_single_append_goes_on_whatever_happened(filled: Table, other: Lake) -> None:
    met: list[int] = []

    def interfere(_: WrittenFile) -> None:
        if not met:
            met.append(1)
            other.table("sales.orders").overwrite(orders(1, first=300))
            other.table("sales.orders").restore(1)
            other.table("sales.orders").append(orders(1, first=400))

    result = filled.append(orders(2, first=100), file_visitor=interfere)
    assert result.version == 5
    assert ids(filled.scan().to_arrow()) == [*range(20), 100, 101, 400]


def test_a_restore_beside_an_append_is_one_after_the_other(lake: Lake, filled: Table, other: Lake) -> None:
    with lake.transaction() as mine:
        mine.table("sales.orders").append(orders(2, first=100))
        other.table("sales.orders").restore(0)
    assert ids(filled.scan().to_arrow()) == [100, 101]
    assert filled.version == 3


def test_a_restore_of_what_was_overwritten_in_part_is_refused(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConcurrentRemoveError), lake.transaction() as mine:
        mine.table("sales.orders").overwrite(orders(0), where="id = 3")
        other.table("sales.orders").restore(0)
    assert filled.scan().count() == 0


def test_a_table_that_is_dropped_while_rows_are_appended(lake: Lake, filled: Table, other: Lake) -> None:
    before = data_files(lake.url)

    def drop(_: WrittenFile) -> None:
        if "sales.orders" in other.tables():
            other.drop_table("sales.orders")

    with pytest.raises(errors.ConcurrentDropError, match=r"sales.orders"):
        filled.append(orders(5, first=100), file_visitor=drop)
    assert data_files(lake.url) == before
    assert lake.undrop_table("sales.orders").version == 1


def test_a_table_that_is_dropped_during_a_transaction(lake: Lake, filled: Table, other: Lake) -> None:
    second = lake.create_table("sales.second", ORDERS)
    before = data_files(lake.url)
    with pytest.raises(errors.ConcurrentDropError, match=r"sales.orders"), lake.transaction() as tx:
        tx.table("sales.second").append(orders(5))
        tx.table("sales.orders").append(orders(5, first=100))
        other.drop_table("sales.orders")
    assert second.version == 0
    assert data_files(lake.url) == before


def test_a_dropped_and_recreated_table_is_another_table(lake: Lake, filled: Table, other: Lake) -> None:
    with pytest.raises(errors.ConcurrentDropError), lake.transaction() as tx:
        tx.table("sales.orders").append(orders(5, first=100))
        other.drop_table("sales.orders")
        other.create_table("sales.orders", ORDERS)
    assert lake.table("sales.orders").version == 0


def test_a_rename_is_no_conflict(lake: Lake, filled: Table, other: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("sales.orders").append(orders(5, first=100))
        other.rename_table("sales.orders", "sales.renamed")
    assert tx.versions == {"sales.renamed": 2}
    assert lake.table("sales.renamed").scan().count() == 25


def test_a_refused_transaction_goes_through_when_it_is_run_again(lake: Lake, filled: Table, other: Lake) -> None:
    attempts = 0
    while True:
        attempts += 1
        try:
            with lake.transaction() as tx:
                inside = tx.table("sales.orders")
                largest = max(ids(inside.scan("id >= 10").to_arrow()))
                inside.append(orders(1, first=largest + 1))
                if attempts == 1:
                    other.table("sales.orders").append(orders(1, first=20))
            break
        except errors.ConflictError:
            continue
    assert attempts == 2
    assert ids(filled.scan().to_arrow()) == list(range(22))
