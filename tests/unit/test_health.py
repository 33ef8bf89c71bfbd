"""What is worth rewriting, by what it costs and saves, and what is said of a table's sums. No lake is needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InvalidOptionError
from parqlake.core.findings import Severity
from parqlake.core.health_port import FileTotals, SegmentCounts
from parqlake.core.maintenance import Item, PlannedGroup, Targets, lay_out, pack
from parqlake.core.maintenance.health import (
    MANY_SEGMENTS,
    Cost,
    HealthFinding,
    HealthKind,
    group_cost,
    in_words,
    judge_large,
    judge_partitions,
    judge_segments,
    judge_small,
)
from parqlake.core.maintenance.worth import COST_SHARE, saved_files, worth_clustering, worth_compacting
from parqlake.table.policy import Policy, read_policy

TARGET = 1000
TARGETS = Targets(size_bytes=TARGET, oversize_factor=1.5)
sizes = st.lists(
    st.tuples(st.integers(0, 3 * TARGET), st.integers(1, 50), st.sampled_from(["a", "b"])), max_size=40
).map(lambda found: [Item(size, rows, key) for size, rows, key in found])


def _compacted(items: list[Item], groups: tuple[PlannedGroup, ...]) -> list[Item]:
    """The files afterwards: those that stay, and then the new ones, as sizes were estimated."""
    taken = {place for group in groups for place in group.members}
    made = [
        Item(size, rows, items[group.members[0]].partition)
        for group in groups
        for size, rows in zip(group.output_bytes, group.output_rows, strict=True)
    ]
    return [item for place, item in enumerate(items) if place not in taken] + made


@given(items=sizes, min_files=st.integers(1, 6))
def test_a_second_compaction_finds_nothing_worth_it(items: list[Item], min_files: int) -> None:
    plan = pack(items, TARGETS)
    worth = worth_compacting(items, plan, target_bytes=TARGET, min_files=min_files)
    assert set(worth.groups) <= set(plan.groups)
    places = sorted([*worth.untouched, *(place for group in worth.groups for place in group.members)])
    assert places == list(range(len(items)))
    saving = [group for group in worth.groups if saved_files(group) > 0]
    for group in saving:
        assert COST_SHARE * group_cost(items, [group]).read_bytes <= TARGET * saved_files(group)
    assert not saving or sum(map(saved_files, saving)) >= min_files
    assert {group for group in plan.groups if saved_files(group) <= 0} <= set(worth.groups)
    after = _compacted(items, worth.groups)
    again = worth_compacting(after, pack(after, TARGETS), target_bytes=TARGET, min_files=min_files)
    assert again.groups == ()


@pytest.mark.parametrize(
    ("sizes_of_files", "is_worth"),
    [
        ([10] * 5, True),  # saves 4, which cost nothing
        ([10] * 4, False),  # saves 3 only
        ([480, 480], False),  # one file fewer for a whole target
        ([480, 1, 1, 1], False),  # 160 for each file that is saved, and 125 are allowed
        ([480, 1, 1, 1, 1], True),
        ([240] * 4, False),
        ([2000], True),  # too large
    ],
)
def test_what_is_worth_compacting(sizes_of_files: list[int], *, is_worth: bool) -> None:
    items = [Item(size, 10) for size in sizes_of_files]
    plan = pack(items, TARGETS)
    assert plan.groups
    assert bool(worth_compacting(items, plan, target_bytes=TARGET, min_files=4).groups) == is_worth


@pytest.mark.parametrize(
    ("new", "settled", "is_worth"),
    [
        ([1] * 4, [], True),
        ([1] * 3, [], False),  # too few
        ([200], [], True),  # one, but large
        ([1] * 4, [900] * 4, False),  # too much is rewritten for that
        ([1] * 40, [900] * 4, True),  # 40 files fewer
        ([600], [900] * 4, True),  # an eighth is new
        ([], [900] * 5, True),  # five runs lie over one another
        ([], [100] * 4, False),  # the outputs of one run came out small: that is no reason to write them again
        ([], [10] * 60, True),  # unless they are very small
    ],
)
def test_what_is_worth_clustering(new: list[int], settled: list[int], *, is_worth: bool) -> None:
    items = [Item(size, 10) for size in (*new, *settled)]
    plan = lay_out(items, Targets(size_bytes=TARGET), clustered=(), resize=False)
    assert len(plan.groups) == 1
    runs = [*([None] * len(new)), *(range(5) if len(settled) == 5 else [7] * len(settled))]
    found = worth_clustering(items, plan, runs=runs, target_bytes=TARGET, min_files=4)
    assert bool(found.groups) == is_worth
    assert found.groups or found.untouched == tuple(range(len(items)))


def test_findings_are_made_of_plans() -> None:
    items = [Item(10, 5)] * 6 + [Item(3000, 90)]
    plan = pack(items, TARGETS)
    small = judge_small(
        plan.groups,
        small=6,
        files=7,
        targets=TARGETS,
        worth=True,
        call="t.compact()",
        cost=group_cost(items, plan.groups),
    )
    assert small is not None
    assert small.message == "6 of 7 files are smaller than half of 1000 B; putting 6 together leaves 2 files"
    assert small.cost == Cost(3060, 3060, 7)
    one = judge_small(
        pack(items[:6], TARGETS).groups,
        small=6,
        files=6,
        targets=TARGETS,
        worth=True,
        call="t.compact()",
        cost=small.cost,
    )
    assert one is not None
    assert one.message.endswith("putting 6 together leaves 1 file")
    assert str(small).startswith("warning: 6 of 7 files")
    assert str(small).endswith("t.compact()  (7 files, reads 3.0 KiB, writes 3.0 KiB)")
    large = judge_large(items, plan.groups, targets=TARGETS, call="t.compact()")
    assert large is not None
    assert (large.kind, large.cost) == (HealthKind.OVER_LARGE_FILES, Cost(3000, 3000, 1))
    assert judge_large(items[:6], pack(items[:6], TARGETS).groups, targets=TARGETS, call="") is None
    assert judge_small((), small=1, files=1, targets=TARGETS, worth=False, call="", cost=Cost()) is None
    assert judge_segments(SegmentCounts(900, MANY_SEGMENTS - 1)) is None
    assert isinstance(judge_segments(SegmentCounts(900, MANY_SEGMENTS)), HealthFinding)
    assert [in_words(size) for size in (0, 1023, 1024, 5 * 1024**4)] == ["0 B", "1023 B", "1.0 KiB", "5.0 TiB"]


def _kinds(sizes_of_partitions: list[int], partition_by: tuple[str, ...] = ("p",)) -> list[HealthKind]:
    totals = [FileTotals(str(n), {"p": str(n)}, 1, 1, size, 10) for n, size in enumerate(sizes_of_partitions)]
    found = judge_partitions(totals, partition_by=partition_by, target_bytes=TARGET, call="")
    assert all(finding.severity is Severity.INFO for finding in found)
    return [finding.kind for finding in found]


def test_partitions_are_judged_by_their_sizes() -> None:
    assert _kinds([]) == _kinds([5]) == _kinds([100, 100, 100, 1000]) == []
    assert _kinds([100, 100, 100, 1001]) == [HealthKind.PARTITION_SKEW]
    assert _kinds([100, 100, 1001]) == []  # three are not enough to tell
    assert _kinds([1, 1, 1, 900]) == []  # less than one file's worth
    assert _kinds([10] * 8) == []
    assert _kinds([10] * 9) == [HealthKind.SMALL_PARTITIONS]
    assert _kinds([500] * 9) == []
    assert _kinds([10] * 9, ()) == []


def test_a_policy_is_read_from_properties() -> None:
    assert read_policy({"note": "free text", "cluster_by": "[]"}) == Policy()
    assert not Policy().expires
    by_writes = read_policy({"target_mb_per_file": "32", "max_rows_per_file": "7"})
    assert (by_writes.target_bytes, by_writes.targets.max_rows) == (32 * 1024**2, 7)
    both = read_policy({"target_mb_per_file": "32", "maintain.target_mb_per_file": "64", "maintain.keep_last": "3"})
    assert (both.target_mb_per_file, both.expires, both.expire_older_than) == (64, True, None)
    assert read_policy({"maintain.vacuum_older_than": "Never"}).vacuum_age is None
    with pytest.raises(
        InvalidOptionError, match=r'no property "maintain\.keeplast".* did you mean "maintain\.keep_last"'
    ):
        read_policy({"maintain.keeplast": "3"})
