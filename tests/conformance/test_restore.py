"""Restore makes an earlier version the newest again, by metadata alone."""

from __future__ import annotations

import fsspec
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import bag, data_files, ids, orders, state, stored
from parqlake.testing.plugin import Feed, Read

pytestmark = pytest.mark.engine_work


@pytest.fixture
def filled(table: Table, feed: Feed) -> Table:
    """Four versions: 10 rows, 20, 5 others, 8."""
    table.append(feed(orders(10)))
    table.append(feed(orders(10, first=10)))
    table.overwrite(feed(orders(5, first=100)))
    table.append(feed(orders(3, first=200)))
    return table


def _paths(table: Table, version: int | None = None) -> set[str]:
    return set(table.files(version).column("path").to_pylist())


def test_the_restored_version_has_the_same_files_and_rows(filled: Table, place: LakePlace, read: Read) -> None:
    before = stored(place.root)
    result = filled.restore(version=2)
    assert result.version == 5
    assert _paths(filled) == _paths(filled, 2)
    assert bag(read(filled.scan())) == bag(read(filled.scan(version=2)))
    assert stored(place.root) == before
    assert (result.row_count, result.removed_rows) == (20, 8)


def test_no_file_is_read(filled: Table, place: LakePlace) -> None:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        filesystem.rm(f"{root}/{path}")
    filled.restore(version=1)
    assert filled.scan().count() == 10
    assert filled.scan("id >= 5").explain().row_groups_read == 1


def test_files_that_are_in_both_versions_stay(table: Table, feed: Feed) -> None:
    table.append(feed(orders(10)))
    table.append(feed(orders(10, first=10)))
    result = table.restore(1)
    assert (result.row_count, result.removed_rows) == (0, 10)
    assert ids(table.scan().to_arrow()) == list(range(10))


def test_by_tag_and_by_moment(filled: Table) -> None:
    filled.tag("good", version=2)
    filled.restore("good")
    assert filled.scan().count() == 20
    first = filled.history()[-1].committed_at
    filled.restore(as_of=first)
    assert filled.scan().count() == 10


def test_version_zero_is_the_empty_table(filled: Table, feed: Feed) -> None:
    result = filled.restore(0)
    assert (result.version, result.removed_rows) == (5, 8)
    assert filled.scan().count() == 0
    filled.append(feed(orders(2)))
    assert filled.scan().count() == 2


def test_a_restored_table_is_written_to_and_pruned_like_any_other(filled: Table, feed: Feed) -> None:
    filled.restore(2)
    assert filled.scan("id < 5").explain().files_read == 1
    assert ids(filled.scan("id >= 18").to_arrow()) == [18, 19]
    filled.append(feed(orders(1, first=20)))
    filled.overwrite(feed(orders(0)), where="id < 15")
    assert ids(filled.scan().to_arrow()) == list(range(15, 21))
    filled.restore(4)
    filled.restore(2)
    assert ids(filled.scan().to_arrow()) == list(range(20))
    assert [filled.scan(version=v).count() for v in range(1, 10)] == [10, 20, 5, 8, 20, 21, 6, 8, 20]


def test_restoring_the_newest_version_changes_no_rows(filled: Table) -> None:
    result = filled.restore(4)
    assert (result.version, result.row_count, result.removed_rows) == (5, 0, 0)
    assert _paths(filled) == _paths(filled, 4)


def test_what_cannot_be_restored(filled: Table, lake: Lake) -> None:
    before = state(lake)
    with pytest.raises(errors.VersionNotFoundError, match="no version 9"):
        filled.restore(9)
    with pytest.raises(errors.VersionNotFoundError, match='no tag "nothing"'):
        filled.restore("nothing")
    with pytest.raises(errors.InvalidOptionError, match="say what to restore"):
        filled.restore()
    with pytest.raises(errors.InvalidOptionError, match="not both"):
        filled.restore(1, as_of="2026-01-01")
    with pytest.raises(errors.VersionNotFoundError, match="did not exist"):
        filled.restore(as_of="1999-01-01")
    assert state(lake) == before
