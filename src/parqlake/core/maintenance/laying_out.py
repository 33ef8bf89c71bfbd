"""Which partitions to lay out anew: the planner of optimizations, for plain directories and tables alike.

A curve is global: all files of a partition are ordered together and then cut into files that do not overlap. So a
partition is rewritten as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from parqlake.core.maintenance.packing import Item, Packing, PlannedGroup, Targets


def lay_out(items: Sequence[Item], targets: Targets, *, clustered: Collection[Hashable], resize: bool) -> Packing:
    """Plans one group for each partition that is worth it, with output files of about equal rows.

    A partition that is clustered already, or has no rows, is left alone, unless

    * an item must be rewritten, or is over `max_rows`;
    * `resize` is asked for, and the files have on average less than a quarter of every target. (Files that this plan
      makes have about half of a target at least, and may have become smaller by a better codec. So a second plan finds
      nothing to do.)

    Args:
        items: the files.
        targets: what output files shall be like.
        clustered: keys of partitions whose rows lie along the curve already.
        resize: whether small files of a clustered partition are a reason to rewrite it.

    Example:
        >>> items = [Item(10, 4, "a"), Item(10, 3, "a"), Item(10, 9, "b")]
        >>> plan = lay_out(items, Targets(max_rows=5), clustered=["a"], resize=False)
        >>> [(group.members, group.output_rows) for group in plan.groups], plan.untouched
        ([((2,), (5, 4))], (0, 1))
    """
    partitions: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        partitions.setdefault(item.partition, []).append(place)
    groups: list[PlannedGroup] = []
    untouched: list[int] = []
    for partition, places in partitions.items():
        members = [items[place] for place in places]
        size, rows = sum(item.size_bytes for item in members), sum(item.rows for item in members)
        outputs = output_rows(rows, size, targets)
        settled = rows == 0 or partition in clustered
        if settled and not _has_reason(members, len(outputs), targets, resize=resize):
            untouched += places
        else:
            sizes = tuple(size * part // max(rows, 1) for part in outputs)
            groups.append(PlannedGroup(tuple(places), tuple(outputs), sizes))
    return Packing(tuple(groups), tuple(sorted(untouched)))


def unsteady(
    items: Sequence[Item], packing: Packing, targets: Targets, *, whole: Callable[[Any], Hashable]
) -> set[Hashable]:
    """Wholes of which the plan rewrites a part, and whose files a second plan would then find too small.

    Args:
        items: what was planned over.
        packing: the plan.
        targets: what output files shall be like.
        whole: what a partition of the items is a part of.

    Example:
        >>> items = [Item(10, 4, ("a", 1)), Item(10, 4, ("a", 1)), Item(10, 4, ("a", 2))]
        >>> plan = lay_out(items, Targets(max_rows=100), clustered=[("a", 2)], resize=True)
        >>> plan.untouched, unsteady(items, plan, Targets(max_rows=100), whole=lambda key: key[0])
        ((2,), {'a'})
    """
    rest: dict[Hashable, list[Item]] = {}
    for place in packing.untouched:
        item = items[place]
        rest.setdefault(whole(item.partition), []).append(Item(item.size_bytes, item.rows))
    made: dict[Hashable, list[Item]] = {}
    for group in packing.groups:
        outputs = [Item(size, rows) for size, rows in zip(group.output_bytes, group.output_rows, strict=True)]
        made.setdefault(whole(items[group.members[0]].partition), []).extend(outputs)
    both = made.keys() & rest.keys()
    return {key for key in both if lay_out([*made[key], *rest[key]], targets, clustered=[None], resize=True).groups}


def output_rows(total_rows: int, total_bytes: int, targets: Targets) -> list[int]:
    """Rows of each file that a rewrite as a whole makes: as few as the targets allow, about equal, none too long.

    Example:
        >>> output_rows(10, 1000, Targets(max_rows=4))
        [4, 3, 3]
    """
    count = 1
    if targets.size_bytes is not None:
        count = -(-total_bytes // targets.size_bytes)
    if targets.max_rows is not None:
        count = max(count, -(-total_rows // targets.max_rows))
    count = max(1, min(count, total_rows))
    short, longer = divmod(total_rows, count)
    return [short + 1] * longer + [short] * (count - longer)


def _has_reason(items: Sequence[Item], outputs: int, targets: Targets, *, resize: bool) -> bool:
    if any(item.must_rewrite for item in items):
        return True
    if targets.max_rows is not None and any(item.rows > targets.max_rows for item in items):
        return True
    size, rows = sum(item.size_bytes for item in items), sum(item.rows for item in items)
    small = (targets.size_bytes is None or 4 * size < len(items) * targets.size_bytes) and (
        targets.max_rows is None or 4 * rows < len(items) * targets.max_rows
    )
    return resize and small and len(items) > outputs
