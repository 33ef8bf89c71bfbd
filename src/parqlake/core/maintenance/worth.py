"""Which parts of a plan are worth carrying out unasked, by what they cost and what they save. Pure.

Who calls `compact` or `optimize` gets all of the plan. Maintenance runs again and again, and what saves little would be
paid for again and again. It carries out

* a group that saves files at no more than an eighth of the target for each (16 MiB of 128): 60 MiB are not rewritten
  for one small file beside them, and are for four;
* a group of a clustering of which at least an eighth, by bytes, is not laid out yet;
* a group that splits over-large files, or puts more runs of clustering together than may lie over one another;

and all that only if together at least `min_files` files are saved or laid out for the first time, or an eighth of
the target is, by bytes, or files are split.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from parqlake.core.clustering.stale import MAX_RUNS
from parqlake.core.maintenance.packing import Item, Packing, PlannedGroup

COST_SHARE = 8
"""A file that is saved may cost the target divided by this to rewrite; and so much of a group has to be new."""


def saved_files(group: PlannedGroup) -> int:
    """How many files fewer there are afterwards; below 0 if files are split."""
    return len(group.members) - len(group.output_rows)


def worth_compacting(items: Sequence[Item], packing: Packing, *, target_bytes: int, min_files: int) -> Packing:
    """The groups of a compaction that are worth it; the files of others are untouched.

    Args:
        items: what was planned over.
        packing: the plan.
        target_bytes: about how large files shall be.
        min_files: how many files have to be saved altogether.

    Example:
        >>> items = [Item(60, 1), Item(1, 1), Item(1, 1)]
        >>> plan = Packing((PlannedGroup((0, 1, 2), (3,), (62,)),), ())
        >>> len(worth_compacting(items, plan, target_bytes=128, min_files=1).groups)
        0
        >>> len(worth_compacting(items, plan, target_bytes=1024, min_files=1).groups)
        1
    """
    splitting = [group for group in packing.groups if saved_files(group) <= 0]
    saving = [group for group in packing.groups if saved_files(group) > 0 and _is_cheap(items, group, target_bytes)]
    if sum(map(saved_files, saving)) < min_files:
        saving = []
    return _only(items, packing, [*splitting, *saving])


def worth_clustering(
    items: Sequence[Item], packing: Packing, *, runs: Sequence[int | None], target_bytes: int, min_files: int
) -> Packing:
    """The groups of a clustering that are worth it; the files of others are untouched.

    Args:
        items: what was planned over.
        packing: the plan.
        runs: what laid each item out by the same columns; None if nothing did.
        target_bytes: about how large files shall be.
        min_files: how many files have to be saved or new altogether.
    """
    needed: list[PlannedGroup] = []
    chosen: list[PlannedGroup] = []
    files = size = 0
    for group in packing.groups:
        fresh = [place for place in group.members if runs[place] is None]
        fresh_bytes = _bytes(items, fresh)
        known = {runs[place] for place in group.members}
        if not fresh and (saved_files(group) <= 0 or len(known) > MAX_RUNS):
            needed.append(group)
        elif _is_cheap(items, group, target_bytes) or (
            fresh and COST_SHARE * fresh_bytes >= _bytes(items, group.members)
        ):
            chosen.append(group)
            files += max(len(fresh), saved_files(group))
            size += fresh_bytes
    if files < min_files and COST_SHARE * size < target_bytes:
        chosen = []
    return _only(items, packing, [*needed, *chosen])


def _is_cheap(items: Sequence[Item], group: PlannedGroup, target_bytes: int) -> bool:
    return COST_SHARE * _bytes(items, group.members) <= target_bytes * saved_files(group)


def _bytes(items: Sequence[Item], places: Collection[int]) -> int:
    return sum(items[place].size_bytes for place in places)


def _only(items: Sequence[Item], packing: Packing, groups: Sequence[PlannedGroup]) -> Packing:
    kept = sorted(groups, key=lambda group: group.members)
    taken = {place for group in kept for place in group.members}
    untouched = tuple(place for place in range(len(items)) if place not in taken)
    return replace(packing, groups=tuple(kept), untouched=untouched)
