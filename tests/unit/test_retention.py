"""What may be forgotten and what may be deleted: the pure decisions, against a slow and obvious model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import uuid_utils
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core import errors
from parqlake.core.model import LIVE, Operation, Snapshot
from parqlake.core.retention import (
    CLOCK_SLACK,
    SHORTEST_AGE,
    FileSpan,
    Guard,
    ReaderLease,
    Tombstone,
    birth_of,
    cutoff,
    parse_age,
    plan_removal,
    unneeded_paths,
    versions_to_expire,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def part(number: int) -> str:
    return f"part-00000000-0000-7000-8000-{number:012x}.parquet"


def part_born(moment: datetime, number: int = 0) -> str:
    millis = f"{int(moment.timestamp() * 1000):012x}"
    return f"part-{millis[:8]}-{millis[8:]}-7000-8000-{number:012x}.parquet"


def snapshot(version: int, age: timedelta) -> Snapshot:
    counts = dict.fromkeys(
        ("row_count", "file_count", "row_group_count", "size_bytes", "added_files", "removed_files"), 0
    )
    return Snapshot(
        1, version, 1, NOW - age, Operation.APPEND, "t", data_change=True, added_rows=0, removed_rows=0, **counts
    )


def lease(first: int, last: int) -> ReaderLease:
    return ReaderLease("a", 1, first, last, "me", NOW + HOUR)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7d", 604_800), ("12h", 43_200), ("30m", 1_800), (" 1.5 h ", 5_400), ("2w", 1_209_600), (0, 0)],
)
def test_ages(text: object, seconds: float) -> None:
    assert parse_age(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "wrong", ["7", "d", "7 days", "", 7, None, True, "-1d", timedelta(days=-1), "1e9d", "9" * 30 + "w"]
)
def test_what_is_no_age_is_shown(wrong: object) -> None:
    with pytest.raises(errors.InvalidOptionError, match="older_than="):
        parse_age(wrong)


def test_an_endless_age_reaches_to_the_beginning_of_time() -> None:
    assert cutoff(NOW, timedelta.max) < datetime(2, 1, 1, tzinfo=UTC)


def test_birth_is_read_from_our_names_only() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    born = birth_of(f"day=1/part-{uuid_utils.uuid7()}.parquet")
    assert born is not None
    assert before <= born <= datetime.now(UTC)
    for name in (
        "part-0.parquet",
        f"part-{uuid_utils.uuid4()}.parquet",
        f"part-{uuid_utils.uuid7().hex}.parquet",
        f"part-{uuid_utils.uuid7()}.parquet.tmp",
        f"xpart-{uuid_utils.uuid7()}.parquet",
        f"part-{str(uuid_utils.uuid7()).upper()}.PARQUET",
    ):
        assert birth_of(name) is None, name


def test_a_version_that_was_the_newest_at_the_cutoff_stays() -> None:
    kept = [snapshot(v, age) for v, age in ((1, 9 * HOUR), (2, 5 * HOUR), (3, 3 * HOUR), (4, HOUR))]
    expire = {"keep_last": 1, "tagged": (), "leases": ()}
    assert versions_to_expire(kept, before=NOW - 4 * HOUR, **expire) == [1]  # 2 was the newest then
    assert versions_to_expire(kept, before=NOW - 3 * HOUR, **expire) == [1, 2]
    assert versions_to_expire(kept, before=NOW, **expire) == [1, 2, 3]
    assert versions_to_expire(kept, before=None, **expire) == [1, 2, 3]


def test_tags_leases_and_the_newest_keep_versions() -> None:
    kept = [snapshot(v, (10 - v) * HOUR) for v in range(1, 9)]
    assert versions_to_expire(kept, before=None, keep_last=2, tagged={3}, leases=[lease(5, 6)]) == [1, 2, 4]
    assert versions_to_expire(kept[-1:], before=None, keep_last=1, tagged=(), leases=()) == []
    assert versions_to_expire([], before=None, keep_last=1, tagged=(), leases=()) == []
    for more in (8, 9, 13, 100):  # asked to keep more than there are: all stay
        assert versions_to_expire(kept, before=None, keep_last=more, tagged=(), leases=()) == []


spans = st.builds(
    lambda i, added, life, path: FileSpan(i, part(path), 1, added, LIVE if life > 8 else added + life),
    st.integers(1, 99),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 8),
)


@given(st.lists(spans), st.sets(st.integers(1, 12)))
def test_a_file_is_unneeded_exactly_if_no_kept_version_holds_it(files: list[FileSpan], kept: set[int]) -> None:
    needed = {f.path for f in files if f.removed == LIVE or any(f.added <= v < f.removed for v in kept)}
    found = unneeded_paths(files, sorted(kept))
    assert found.keys() == {f.path for f in files} - needed
    assert all(set(entries) == {f for f in files if f.path == path} for path, entries in found.items())


@given(
    st.lists(spans),
    st.sets(st.integers(1, 12)),
    st.dictionaries(st.integers(1, 16), st.integers(0, 60)),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), max_size=2),
    st.none() | st.integers(0, 60),
    st.integers(0, 48),
    st.sets(st.integers(1, 20)),
)
def test_nothing_that_anyone_needs_is_ever_removed(  # noqa: PLR0917 (hypothesis)
    files: list[FileSpan],
    kept: set[int],
    marks: dict[int, int],
    leases: list[tuple[int, int]],
    open_for: int | None,
    age: int,
    born: set[int],
) -> None:
    """Ages are in hours: tombstones by when they were marked, unknown files by when they were born."""
    tombstones = [Tombstone(part(number), NOW - hours * HOUR, "expired") for number, hours in marks.items()]
    unknown = {part_born(NOW - hours * HOUR): hours for hours in born}
    listed = {f.path: 1 for f in files} | {t.path: 1 for t in tombstones} | dict.fromkeys(unknown, 1) | {"notes.txt": 1}
    readers = [lease(first, first + more) for first, more in leases]
    open_since = None if open_for is None else NOW - open_for * HOUR
    removal = plan_removal(listed, files, tombstones, sorted(kept), Guard(NOW, age * HOUR, readers, open_since))
    going = removal.expired.keys() | removal.leftovers.keys() | set(removal.forget)
    for file in files:
        needed = file.removed == LIVE or any(file.added <= v < file.removed for v in kept)
        read = any(file.added <= v < file.removed for r in readers for v in range(r.first, r.last + 1))
        assert not (file.path in going and (needed or read))
    for tombstone in tombstones:
        since = NOW - tombstone.since
        too_young = since < age * HOUR or (
            open_for is not None and tombstone.since > NOW - open_for * HOUR - CLOCK_SLACK
        )
        assert not (tombstone.path in going and too_young)
        assert not (tombstone.path in removal.forget and since < SHORTEST_AGE)
    marked = {t.path for t in tombstones}
    for path in removal.expired.keys() | set(removal.forget):
        assert path in marked
    for path, hours in unknown.items():
        stays = hours < age or (open_for is not None and hours * HOUR < open_for * HOUR + CLOCK_SLACK)
        if path not in marked and path not in {f.path for f in files}:
            assert (path in removal.leftovers) is not stays
    assert removal.strays == ["notes.txt"]
