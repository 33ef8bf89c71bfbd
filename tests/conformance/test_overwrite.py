"""Overwrite replaces all rows, or exactly those that a predicate selects, in one step."""

from __future__ import annotations

import fsspec
import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import bag, data_files, ids, orders, state
from parqlake.testing.plugin import Feed, Read

pytestmark = pytest.mark.engine_work


def _only(data: pa.Table, region: str) -> pa.Table:
    return data.filter(pa.compute.field("region") == region)


def test_overwriting_all_leaves_only_the_new_rows(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    result = table.overwrite(feed(orders(5, first=100)))
    assert (result.version, result.row_count, result.removed_rows, len(result.files)) == (2, 5, 20, 1)
    assert ids(table.scan().to_arrow()) == list(range(100, 105))
    assert table.scan(version=1).count() == 20


def test_overwriting_with_nothing_empties_the_table(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    result = table.overwrite(feed(orders(0)))
    assert (result.row_count, result.removed_rows) == (0, 20)
    assert table.scan().count() == 0
    assert table.files().num_rows == 0
    assert table.scan(version=1).count() == 20


def test_overwriting_an_empty_table_is_an_append(table: Table, feed: Feed) -> None:
    table.overwrite(feed(orders(3)))
    table.overwrite(feed(orders(4, first=10)), where="id >= 10")
    assert ids(table.scan().to_arrow()) == [0, 1, 2, 10, 11, 12, 13]
    assert table.version == 2


def test_only_selected_rows_are_replaced(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(20)))
    table.append(feed(orders(20, first=20)))
    result = table.overwrite(feed(orders(3, first=17)), where="id between 15 and 24")
    assert (result.version, result.removed_rows - result.row_count) == (3, 7)
    assert ids(table.scan().to_arrow()) == [*range(15), 17, 18, 19, *range(25, 40)]
    kept = orders(40).filter((pa.compute.field("id") < 15) | (pa.compute.field("id") > 24))
    assert bag(read(table.scan("id < 15 or id > 24"))) == bag(kept)


def test_rows_for_which_the_predicate_is_unknown_are_kept(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)))
    table.overwrite(feed(_only(orders(4, first=100), "eu")), where="region = 'eu'")
    found = table.scan().to_arrow()
    nulls = [i for i in range(20) if i % 4 == 2]
    assert ids(table.scan("region is null").to_arrow()) == nulls
    assert ids(found) == [i for i in range(20) if i % 4 != 0] + [100]
    table.overwrite(feed(orders(0)), where="amount > 3")
    assert ids(table.scan("amount is null").to_arrow()) == [3, 10, 17]


def test_files_whose_rows_all_go_are_not_read(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        filesystem.pipe_file(f"{root}/{path}", b"unreadable")
    result = by_region.overwrite(feed(_only(orders(8, first=100), "us")), where="region = 'us'")
    assert result.removed_rows == 10
    assert ids(by_region.scan("region = 'us'").to_arrow()) == [101, 105]
    result = by_region.overwrite(feed(orders(0)), where="region is null")
    assert result.removed_rows == 10
    assert by_region.scan("region is null").count() == 0


def test_files_whose_statistics_tell_enough_are_not_read(table: Table, place: LakePlace, feed: Feed) -> None:
    table.append(feed(orders(10)))
    table.append(feed(orders(10, first=10)))
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        filesystem.pipe_file(f"{root}/{path}", b"unreadable")
    table.overwrite(feed(orders(5, first=12)), where="id >= 10")
    assert table.scan("id >= 10").count() == 5
    assert table.history()[0].removed_files == 1


def test_files_without_a_selected_row_stay_as_they_are(by_region: Table, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    before = set(by_region.files().column("path").to_pylist())
    by_region.overwrite(feed(orders(0)), where="region = 'eu' and id = 8")
    after = set(by_region.files().column("path").to_pylist())
    assert {path for path in before if "region=eu/" not in path} <= after
    assert len(before - after) == 1
    assert ids(by_region.scan("region = 'eu'").to_arrow()) == [0, 4, 12, 16, 20, 24, 28, 32, 36]


def test_a_predicate_that_selects_nothing_only_adds(table: Table, feed: Feed) -> None:
    table.append(feed(orders(10)))
    before = table.files().column("path").to_pylist()
    result = table.overwrite(feed(orders(2, first=50)), where="id >= 50")
    assert (result.row_count, result.removed_rows) == (2, 0)
    assert table.files().column("path").to_pylist()[:1] == before
    table.overwrite(feed(orders(0)), where="region = 'nowhere'")
    assert ids(table.scan().to_arrow()) == [*range(10), 50, 51]


def test_a_repeat_replaces_what_the_first_run_wrote(by_region: Table, feed: Feed, read: Read) -> None:
    by_region.append(feed(orders(40)))
    fresh = _only(orders(20, first=100), "asia")
    for _ in range(3):
        by_region.overwrite(feed(fresh), where="region = 'asia'")
    assert bag(read(by_region.scan("region = 'asia'"))) == bag(fresh)
    assert by_region.scan().count() == 35


def test_new_rows_must_match_the_predicate(table: Table, lake: Lake, feed: Feed) -> None:
    table.append(feed(orders(10)))
    before = state(lake)
    with pytest.raises(errors.ConstraintError, match="do not match where"):
        table.overwrite(feed(orders(5)), where="id >= 3")
    with pytest.raises(errors.ConstraintError, match="do not match where"):
        table.overwrite(feed(orders(5)), where="region = 'eu'")
    assert state(lake) == before


def test_every_spelling_of_a_predicate_selects_what_is_replaced(table: Table, feed: Feed) -> None:
    table.append(feed(orders(30)))
    table.overwrite(feed(orders(0)), where=[("id", "<", 5)])
    table.overwrite(feed(orders(0)), where=pa.compute.field("id") >= 25)
    table.overwrite(feed(orders(0)), where="id in (10, 11)")
    assert ids(table.scan().to_arrow()) == [i for i in range(5, 25) if i not in (10, 11)]


def test_nothing_is_left_on_the_store_that_no_version_needs(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    by_region.overwrite(feed(orders(0)), where="id = 3")
    by_region.overwrite(feed(_only(orders(4), "eu")), where="region = 'eu'")
    known = {path for number in (1, 2, 3) for path in by_region.files(version=number).column("path").to_pylist()}
    assert data_files(place.root) == {f"{by_region.location}/{path}" for path in known}


def test_nan_and_null_survive_a_rewrite(lake: Lake, feed: Feed, read: Read) -> None:
    data = pa.table({"id": range(6), "x": [1.0, float("nan"), None, -0.0, float("inf"), 2.0]})
    table = lake.create_table("maths.floats", data)
    table.append(feed(data))
    table.overwrite(feed(data.slice(0, 0)), where="x <= 1")
    assert bag(read(table.scan())) == bag(data.take([1, 2, 4, 5]))
    table.overwrite(feed(data.slice(0, 0)), where="x > 100")
    assert bag(read(table.scan())) == bag(data.take([2, 5]))


@pytest.mark.parametrize("where", ["x <= 5", "not isnan(x)", "x = 2.5", "x < 5 and id < 99"])
def test_a_nan_beside_rows_that_go_is_kept(lake: Lake, where: str, feed: Feed, read: Read) -> None:
    data = pa.table({"id": range(3), "x": [2.5, float("nan"), 2.5]})
    table = lake.create_table("maths.floats", data)
    table.append(feed(data))
    assert table.overwrite(feed(data.slice(0, 0)), where=where).removed_rows == 2
    assert bag(read(table.scan())) == bag(data.slice(1, 1))
