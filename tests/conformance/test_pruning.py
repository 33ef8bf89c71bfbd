"""What statistics rule out is not read: plans come from the catalog alone."""

from __future__ import annotations

import fsspec
import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ALIKE, GROUP, data_files, ids, orders
from parqlake.testing.plugin import Feed

pytestmark = pytest.mark.engine_work


@pytest.fixture
def filled(table: Table, feed: Feed) -> Table:
    """Four files of two row groups each, filled in the order of the ids."""
    for first in range(0, 8 * GROUP, 2 * GROUP):
        table.append(feed(orders(2 * GROUP, first=first)), row_group_size=GROUP)
    return table


def _lose(place: LakePlace, paths: set[str]) -> None:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in paths:
        filesystem.rm(f"{root}/{path}")


def test_an_explanation_counts_what_is_read_and_what_is_not(filled: Table) -> None:
    found = filled.scan(f"id >= {5 * GROUP - 2} and id < {5 * GROUP + 3}", columns=["id"]).explain()
    assert (found.table, found.version, found.columns) == ("sales.orders", 4, ("id",))
    assert (found.files_total, found.files_read) == (4, 1)
    assert (found.row_groups_total, found.row_groups_read) == (8, 2)
    assert (found.rows_total, found.rows_read) == (8 * GROUP, 2 * GROUP)
    assert 0 < found.bytes_read < found.bytes_total
    assert found.bytes_total == sum(filled.files().column("size_bytes").to_pylist())
    counts = [(condition.row_groups_kept, condition.row_groups_skipped) for condition in found.conditions]
    assert sorted(counts) == [(4, 4), (6, 2)]
    assert all("id" in condition.text for condition in found.conditions)


def test_an_explanation_can_be_read_by_people_and_by_machines(filled: Table) -> None:
    found = filled.scan("id = 22").explain()
    assert "1 of 4" in str(found)
    assert "22" in str(found)
    assert found.to_dict()["row_groups_read"] == 1
    assert filled.scan().explain().conditions == ()
    assert "(all rows)" in str(filled.scan().explain())


def test_the_figures_of_a_whole_scan_are_those_of_the_table(filled: Table) -> None:
    found = filled.scan().explain()
    assert (found.files_read, found.row_groups_read, found.rows_read) == (4, 8, 8 * GROUP)
    assert found.bytes_read == found.bytes_total
    assert filled.scan(version=2).explain().rows_total == 4 * GROUP


def test_other_files_are_not_even_opened(filled: Table, place: LakePlace) -> None:
    kept = filled.scan("id = 22").explain()
    assert kept.files_read == 1
    needed = filled.scan("id = 22").plan.files[0].path
    _lose(place, data_files(place.root) - {needed})
    assert ids(filled.scan("id = 22").to_arrow()) == [22]
    with pytest.raises(errors.DataCorruptionError, match="missing"):
        filled.scan().to_arrow()


def test_planning_and_exact_counts_open_no_file(filled: Table, place: LakePlace) -> None:
    _lose(place, data_files(place.root))
    rows = 8 * GROUP
    assert filled.scan().count() == rows
    assert filled.scan(f"id >= {4 * GROUP}").count() == 4 * GROUP
    assert filled.scan(f"id >= {3 * GROUP} and id < {5 * GROUP}").count() == 2 * GROUP
    assert filled.scan(f"id > {rows}").count() == 0
    assert filled.scan("id is null").count() == 0
    assert filled.scan("id is not null").count() == rows
    assert filled.scan(f"id > {rows}").to_arrow().num_rows == 0
    assert filled.scan("id = 22").explain().files_read == 1
    assert filled.scan(version=1).count() == 2 * GROUP
    with pytest.raises(errors.DataCorruptionError):
        filled.scan("id = 22").count()


def test_only_what_is_in_doubt_is_read_to_count(filled: Table, place: LakePlace) -> None:
    middle = 4 * GROUP + 22
    doubtful = filled.scan(f"id = {middle}").plan.files[0].path
    _lose(place, data_files(place.root) - {doubtful})
    assert filled.scan(f"id >= {middle}").count() == 8 * GROUP - middle


def test_a_row_group_without_values_is_skipped(lake: Lake, feed: Feed) -> None:
    values = [*[None] * GROUP, *[1] * GROUP, *[None, 3] * (GROUP // 2)]
    data = pa.table({"id": range(3 * GROUP), "x": pa.array(values, pa.int64())})
    table = lake.create_table("t.sparse", data)
    table.append(feed(data), row_group_size=GROUP)
    assert table.scan("x > 0").explain().row_groups_read == 2
    assert table.scan("x is null").explain().row_groups_read == 2
    assert table.scan("x is not null").explain().row_groups_read == 2
    assert table.scan("x > 0").count() == GROUP + GROUP // 2


def test_long_strings_that_begin_alike_are_told_apart_by_reading(lake: Lake, feed: Feed) -> None:
    data = pa.table({"id": range(4), "url": [ALIKE + end for end in "abcd"]})
    table = lake.create_table("t.urls", data)
    table.append(feed(data), max_rows_per_file=1)
    assert ids(table.scan([("url", "=", ALIKE + "c")]).to_arrow()) == [2]
    assert ids(table.scan([("url", ">", ALIKE + "b")]).to_arrow()) == [2, 3]
    assert table.scan([("url", "=", "ftp")]).explain().files_read == 0


def test_every_version_is_pruned_by_its_own_files(filled: Table, feed: Feed) -> None:
    later = 10 * GROUP
    filled.overwrite(feed(orders(10, first=later)))
    assert filled.scan("id < 5").explain().files_read == 0
    assert filled.scan("id < 5", version=4).explain().files_read == 1
    assert filled.scan(f"id >= {later}", version=4).explain().files_read == 0
    assert ids(filled.scan("id < 5", version=4).to_arrow()) == list(range(5))


def test_rows_are_sorted_inside_row_groups_if_the_table_says_so(lake: Lake, feed: Feed) -> None:
    table = lake.create_table("t.sorted", orders(0), sort_by=["amount"])
    assert table.sort_by == ("amount",)
    table.append(feed(orders(20).take(list(reversed(range(20))))), row_group_size=20)
    amounts = table.scan().to_arrow().column("amount").to_pylist()
    values = [amount for amount in amounts if amount is not None]
    assert values == sorted(values)
    assert len(amounts) == 20
