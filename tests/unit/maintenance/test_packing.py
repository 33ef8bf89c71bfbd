"""The planner, against what it promises, with random files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.maintenance import OVERSIZE_FACTOR, Item, Packing, Targets, pack
from parqlake.core.maintenance.first_fit import Bins

ITEMS = st.lists(
    st.builds(
        Item,
        size_bytes=st.one_of(st.integers(0, 60), st.integers(20, 90), st.integers(0, 1000)),
        rows=st.one_of(st.integers(0, 60), st.integers(20, 90), st.integers(0, 500)),
        partition=st.sampled_from(["a", "b", None]),
        must_rewrite=st.booleans() | st.just(False),
    ),
    max_size=40,
) | st.lists(st.builds(Item, size_bytes=st.integers(5, 60), rows=st.integers(20, 80)), min_size=4, max_size=12)
TARGETS = st.one_of(
    st.builds(Targets, size_bytes=st.integers(1, 300)),
    st.builds(Targets, max_rows=st.integers(1, 150)),
    st.builds(Targets, max_rows=st.integers(90, 110)),
    st.builds(Targets, size_bytes=st.integers(1, 300), max_rows=st.integers(1, 150)),
)


def outputs(items: list[Item], plan: Packing) -> list[Item]:
    """The files that the plan leaves behind."""
    after = [replace(items[place], must_rewrite=False) for place in plan.untouched]
    for group in plan.groups:
        partition = items[group.members[0]].partition
        after += [Item(size, rows, partition) for size, rows in zip(group.output_bytes, group.output_rows, strict=True)]
    return after


@given(ITEMS, TARGETS)
def test_every_item_is_in_one_group_or_untouched(items: list[Item], targets: Targets) -> None:
    plan = pack(items, targets)
    assert sorted([*plan.untouched, *(place for group in plan.groups for place in group.members)]) == [
        *range(len(items))
    ]


@given(ITEMS, TARGETS)
def test_partitions_never_mix(items: list[Item], targets: Targets) -> None:
    for group in pack(items, targets).groups:
        assert len({items[place].partition for place in group.members}) == 1


@given(ITEMS, TARGETS)
def test_no_row_is_lost_and_the_bounds_hold(items: list[Item], targets: Targets) -> None:
    plan = pack(items, targets)
    for group in plan.groups:
        assert sum(group.output_rows) == sum(items[place].rows for place in group.members)
        if len(group.members) > 1 and targets.size_bytes is not None:
            assert group.output_bytes[-1] <= targets.size_bytes
    if targets.max_rows is not None:
        assert all(item.rows <= targets.max_rows for item in outputs(items, plan))
    assert plan.output_count == len(outputs(items, plan))


@given(ITEMS, TARGETS)
def test_untouched_items_need_nothing(items: list[Item], targets: Targets) -> None:
    for place in pack(items, targets).untouched:
        assert not items[place].must_rewrite
        assert targets.max_rows is None or items[place].rows <= targets.max_rows


@given(ITEMS, TARGETS)
def test_a_group_has_a_reason(items: list[Item], targets: Targets) -> None:
    for group in pack(items, targets).groups:
        members = [items[place] for place in group.members]
        over = targets.max_rows is not None and any(item.rows > targets.max_rows for item in members)
        assert over or any(item.must_rewrite for item in members) or len(group.output_rows) < len(members)


@given(ITEMS, TARGETS, st.randoms(use_true_random=False))
def test_a_second_plan_finds_nothing_whatever_the_order(items: list[Item], targets: Targets, random: object) -> None:
    after = outputs(items, pack(items, targets))
    random.shuffle(after)  # type: ignore[attr-defined]  # names of new files order them anew
    assert pack(after, targets).groups == ()


@given(st.lists(st.tuples(st.integers(1, 10), st.sampled_from("ab")), min_size=40, max_size=200))
def test_outputs_that_shrink_stay_as_they_are(files: list[tuple[int, str]]) -> None:
    # Merged files compress better than their parts; a second compaction must not see room in that.
    items = [Item(size, 1, partition) for size, partition in files]
    targets = Targets(size_bytes=100)
    after = outputs(items, pack(items, targets))
    assert pack([replace(item, size_bytes=item.size_bytes * 6 // 10) for item in after], targets).groups == ()


@given(ITEMS, st.integers(10, 300), st.none() | st.integers(100, 1000))
def test_oversized_files_are_cut_near_the_target(items: list[Item], size: int, max_rows: int | None) -> None:
    items = [replace(item, rows=item.rows * 1000, must_rewrite=False) for item in items]  # so that any cut is possible
    targets = Targets(size, None if max_rows is None else max_rows * 1000, oversize_factor=OVERSIZE_FACTOR)
    plan = pack(items, targets)
    after = outputs(items, plan)
    for item in after:
        assert item.size_bytes <= OVERSIZE_FACTOR * size or item.rows == 0
        assert targets.max_rows is None or item.rows <= targets.max_rows
    for group in plan.groups:
        assert sum(group.output_rows) == sum(items[place].rows for place in group.members)
    cut = [group for group in plan.groups if len(group.members) == 1 and max_rows is None]
    for group in cut:
        assert all(0.7 * size <= piece <= 1.3 * size for piece in group.output_bytes)
    assert pack(after, targets).groups == ()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([10, 20, 15, 100], [(0, 1, 2)]),
        ([100, 200, 50], []),
        ([30], []),
        ([49, 49], [(0, 1)]),
        ([40, 40, 40, 40, 40], [(0, 1), (2, 3)]),
        ([30, 49, 30, 49, 30], [(0, 1), (2, 3)]),
        ([], []),
    ],
)
def test_sizes(sizes: list[int], expected: list[tuple[int, ...]]) -> None:
    plan = pack([Item(size, 1) for size in sizes], Targets(size_bytes=100))
    assert [group.members for group in plan.groups] == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([10, 15, 20, 100], [((0, 1, 2), (45,)), ((3,), (50, 50))]),
        ([50, 50], []),
        ([51], [((0,), (50, 1))]),
        ([60, 60, 30], [((0, 1, 2), (50, 50, 50))]),
        ([0, 0], [((0, 1), (0,))]),
        ([0, 50], []),
    ],
)
def test_rows(rows: list[int], expected: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    plan = pack([Item(1, count) for count in rows], Targets(max_rows=50))
    assert [(group.members, group.output_rows) for group in plan.groups] == expected


def test_both_targets_hold_together() -> None:
    plan = pack([Item(10, 40), Item(10, 40), Item(40, 4), Item(40, 4)], Targets(size_bytes=100, max_rows=60))
    assert [group.members for group in plan.groups] == [(0, 2, 3)]
    assert plan.untouched == (1,)


def test_a_hundred_thousand_files_take_seconds_at_most() -> None:
    # Almost half the target each, so that bins stay open to the end: slow for a scan of all bins.
    plan = pack([Item(480 + place % 7, place % 3) for place in range(100_000)], Targets(size_bytes=1000))
    assert len(plan.groups) == 50_000


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=60))
def test_first_fit_is_that_of_a_plain_scan(items: list[tuple[int, int]]) -> None:
    bins = Bins(bytes_each=50, rows_each=50, most=max(1, len(items)))
    left: list[list[int]] = []
    for size, rows in items:
        expected = next((i for i, room in enumerate(left) if room[0] >= size and room[1] >= rows), len(left))
        if expected == len(left):
            left.append([50, 50])
        left[expected][0] -= size
        left[expected][1] -= rows
        assert bins.place(size, rows) == expected


def test_an_item_larger_than_a_bin_is_refused() -> None:
    with pytest.raises(ValueError, match="no bin holds 11 bytes"):
        Bins(bytes_each=10, rows_each=10, most=2).place(11, 1)
