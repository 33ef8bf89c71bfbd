"""Every version stays readable: by number, by tag, by moment; and a scan keeps to the version it began with."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, ids, orders

TICK = timedelta(microseconds=1)
TODAY = datetime.now(UTC).date()


@pytest.fixture
def filled(table: Table) -> Table:
    """Three versions: ten orders, twenty, then five others."""
    table.append(orders(10))
    table.append(orders(10, first=10))
    table.overwrite(orders(5, first=100))
    return table


def _committed(table: Table) -> dict[int, datetime]:
    return {entry.version: entry.committed_at for entry in table.history()}


def test_a_version_is_read_by_its_number(filled: Table) -> None:
    assert [filled.scan(version=number).count() for number in range(4)] == [0, 10, 20, 5]
    assert ids(filled.scan(version=1).to_arrow()) == list(range(10))
    assert ids(filled.scan(version=2).to_arrow()) == list(range(20))
    assert ids(filled.scan(version=3).to_arrow()) == list(range(100, 105))
    assert ids(filled.scan("id >= 8", version=1).to_arrow()) == [8, 9]
    assert filled.scan(version=2).version == 2


def test_a_version_is_read_by_its_tag(filled: Table) -> None:
    filled.tag("release-1", version=2)
    assert filled.scan(version="release-1").version == 2
    assert filled.scan("id < 3", version="release-1").count() == 3


def test_a_version_is_read_by_a_moment(filled: Table) -> None:
    at = _committed(filled)
    assert [filled.scan(as_of=at[number]).version for number in (1, 2, 3)] == [1, 2, 3]
    assert filled.scan(as_of=at[2] - TICK).version == 1
    assert filled.scan(as_of=at[1] - TICK).version == 0
    assert filled.scan(as_of=datetime.now(UTC) + timedelta(days=1)).version == 3
    assert filled.scan(as_of=at[1] + (at[2] - at[1]) / 2).version == 1


def test_a_moment_can_be_written_in_many_ways(filled: Table) -> None:
    at = _committed(filled)[2]
    far = at.astimezone(timezone(timedelta(hours=-9, minutes=-30)))
    same = [at, at.isoformat(), at.replace(tzinfo=None), at.replace(tzinfo=None).isoformat(), far, far.isoformat()]
    same.append(at.isoformat().replace("+00:00", "Z"))
    for moment in same:
        assert filled.scan(as_of=moment).version == 2, moment
    assert filled.scan(as_of=TODAY + timedelta(days=2)).version == 3
    assert filled.scan(as_of=(TODAY + timedelta(days=2)).isoformat()).version == 3


def test_before_it_was_created_there_was_no_table(filled: Table) -> None:
    for moment in (date(2020, 1, 1), "2020-01-01", datetime(1970, 1, 1, tzinfo=UTC)):
        with pytest.raises(errors.VersionNotFoundError, match="did not exist at"):
            filled.scan(as_of=moment)


def test_times_of_commits_rise_with_versions(table: Table) -> None:
    for first in range(12):
        table.append(orders(1, first=first))
    moments = [entry.committed_at for entry in reversed(table.history())]
    assert all(earlier < later for earlier, later in pairwise(moments))
    for number, moment in enumerate(moments, start=1):
        assert table.scan(as_of=moment).version == number


def test_a_scan_does_not_see_later_commits(filled: Table) -> None:
    scan, filtered = filled.scan(), filled.scan("id >= 100")
    filled.append(orders(3, first=200))
    filled.overwrite(orders(1))
    assert ids(scan.to_arrow()) == list(range(100, 105))
    assert ids(filtered.to_arrow()) == list(range(100, 105))
    assert (scan.count(), scan.explain().rows_total, scan.version) == (5, 5, 3)
    assert filled.scan().count() == 1


def test_a_stream_that_has_begun_is_not_disturbed(table: Table) -> None:
    table.append(orders(5000), max_rows_per_file=500)
    stream = table.scan().to_batches()
    first = stream.read_next_batch()
    table.overwrite(orders(1))
    assert first.num_rows + sum(batch.num_rows for batch in stream) == 5000


def test_versions_survive_reopening_the_lake(place: LakePlace) -> None:
    with place.connect() as lake:
        table = lake.create_table("sales.orders", ORDERS)
        table.append(orders(10))
        table.append(orders(10, first=10))
        table.tag("first", version=1)
    with place.connect() as lake:
        table = lake.table("sales.orders")
        assert [table.scan(version=number).count() for number in (0, 1, 2)] == [0, 10, 20]
        assert table.scan(version="first").count() == 10


def test_the_schema_of_a_version_is_known(filled: Table) -> None:
    assert filled.schema() == filled.schema(version=1) == filled.schema(version=0) == ORDERS
    filled.tag("t", version=1)
    assert filled.schema(version="t") == ORDERS


def test_versions_that_are_not_there(filled: Table, lake: Lake) -> None:
    for version in (4, -1, 10**12):
        with pytest.raises(errors.VersionNotFoundError, match=r"0 .empty. to 3"):
            filled.scan(version=version)
    filled.tag("release-1")
    with pytest.raises(errors.VersionNotFoundError, match='did you mean "release-1"'):
        filled.scan(version="release1")
    for wrong in (1.5, True, b"1", [1]):
        with pytest.raises(errors.InvalidOptionError, match="whole number or the name of a tag"):
            filled.scan(version=wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOptionError, match="not both"):
        filled.scan(version=1, as_of="2026-01-01")
    for wrong_moment in ("yesterday", "", 5, "2026-13-01"):
        with pytest.raises(errors.InvalidOptionError, match="is no moment"):
            filled.scan(as_of=wrong_moment)  # type: ignore[arg-type]
