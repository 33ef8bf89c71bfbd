"""Which files are worth rewriting together: bin packing inside each partition.

The one planner of the project. It knows sizes, rows and partition keys, and not whether those are folders of a plain
directory or partition values of a table.

The rules:

* Files of different partitions are never put together.
* `max_rows` is a hard bound. A file above it is cut into files of exactly `max_rows`, and what is left over goes into
  the packing like a small file does.
* `size_bytes` is a target. A file of at least half of it, or of three quarters of `max_rows`, is full: it is not
  worth rewriting to gain a small file. Outputs that come out somewhat smaller than their inputs stay full.
* Small files are packed first-fit in the order given, so that neighbours stay together. A bin of one file that needs
  nothing is left alone: it would not reduce the number of files.
* With `oversize_factor`, a file larger than so many targets is cut into equal files near the target.

No two outputs fit together, so a second plan over the outputs of the first one finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from parqlake.core.maintenance.first_fit import Bins

OVERSIZE_FACTOR = 1.5
"""A sensible `oversize_factor`: the pieces are then between 3/4 and 5/4 of the target."""

_UNBOUNDED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Targets:
    """What output files shall be like; None is no such target."""

    size_bytes: int | None = None
    max_rows: int | None = None
    oversize_factor: float | None = None

    def is_full(self, size_bytes: int, rows: int) -> bool:
        """Whether a file is close enough to a target to be left alone."""
        return (self.size_bytes is not None and 2 * size_bytes >= self.size_bytes) or (
            self.max_rows is not None and 4 * rows >= 3 * self.max_rows
        )


@dataclass(frozen=True, slots=True)
class Item:
    """A file as the planner sees it. `must_rewrite` asks for a rewrite for a reason of the caller's, as a new codec."""

    size_bytes: int
    rows: int
    partition: Hashable = None
    must_rewrite: bool = False


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Items to rewrite together, and the files that come of it."""

    members: tuple[int, ...]
    """Places in the sequence of items, ascending."""
    output_rows: tuple[int, ...]
    """Rows of each output, in order: the writer cuts the members' concatenated rows accordingly."""
    output_bytes: tuple[int, ...]
    """Size of each output, estimated."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A plan: every item is in one group or untouched."""

    groups: tuple[PlannedGroup, ...]
    untouched: tuple[int, ...]

    @property
    def output_count(self) -> int:
        """Files after the plan was carried out."""
        return len(self.untouched) + sum(len(group.output_rows) for group in self.groups)


def pack(items: Sequence[Item], targets: Targets) -> Packing:
    """Plans which items to rewrite together; the same items in the same order give the same plan.

    Example:
        >>> plan = pack([Item(10, 40), Item(10, 40), Item(10, 250)], Targets(max_rows=100))
        >>> [(group.members, group.output_rows) for group in plan.groups]
        [((0, 1), (80,)), ((2,), (100, 100, 50))]
    """
    partitions: dict[Hashable, list[int]] = {}
    for place, item in enumerate(items):
        partitions.setdefault(item.partition, []).append(place)
    groups: list[PlannedGroup] = []
    untouched: list[int] = []
    for places in partitions.values():
        _pack_partition(items, places, targets, groups, untouched)
    groups.sort(key=lambda group: group.members)
    return Packing(tuple(groups), tuple(sorted(untouched)))


def _pack_partition(
    items: Sequence[Item], places: list[int], targets: Targets, groups: list[PlannedGroup], untouched: list[int]
) -> None:
    bins = Bins(bytes_each=targets.size_bytes or _UNBOUNDED, rows_each=targets.max_rows or _UNBOUNDED, most=len(places))
    filled: dict[int, list[int]] = {}
    for place in places:
        item = items[place]
        pieces = _even_pieces(item, targets)
        if pieces > 1:
            groups.append(_even_group(place, item, pieces))
            continue
        size, rows = _loose(item, targets)
        if targets.is_full(size, rows):
            if item.must_rewrite or rows < item.rows:
                groups.append(_group(items, [place], targets))
            else:
                untouched.append(place)
        elif rows == 0 < item.rows:  # cut without a rest
            groups.append(_group(items, [place], targets))
        else:
            filled.setdefault(bins.place(size, rows), []).append(place)
    for members in filled.values():
        first = items[members[0]]
        if len(members) > 1 or first.must_rewrite or _cut(first.rows, targets) > 0:
            groups.append(_group(items, members, targets))
        else:
            untouched += members


def _cut(rows: int, targets: Targets) -> int:
    """How many files of exactly `max_rows` are cut off a file that is over the bound."""
    if targets.max_rows is None or rows <= targets.max_rows:
        return 0
    return rows // targets.max_rows


def _loose(item: Item, targets: Targets) -> tuple[int, int]:
    """Bytes and rows of an item that are to be packed: all of it, or what is left after the cuts."""
    cut = _cut(item.rows, targets)
    if not cut or targets.max_rows is None:
        return item.size_bytes, item.rows
    rows = item.rows - cut * targets.max_rows
    return item.size_bytes * rows // item.rows, rows


def _even_pieces(item: Item, targets: Targets) -> int:
    """Into how many equal files an item is cut because of its size; 1 if it is not, or if its rows call for more."""
    if targets.oversize_factor is None or targets.size_bytes is None:
        return 1
    if item.size_bytes <= targets.oversize_factor * targets.size_bytes:
        return 1
    by_size = min((2 * item.size_bytes + targets.size_bytes) // (2 * targets.size_bytes), item.rows)
    by_rows = -(-item.rows // targets.max_rows) if targets.max_rows else 1
    return by_size if by_size >= by_rows else 1


def _even_group(place: int, item: Item, pieces: int) -> PlannedGroup:
    short, longer = divmod(item.rows, pieces)
    rows = (short + 1,) * longer + (short,) * (pieces - longer)
    return PlannedGroup((place,), rows, tuple(item.size_bytes * part // item.rows for part in rows))


def _group(items: Sequence[Item], members: list[int], targets: Targets) -> PlannedGroup:
    rows: list[int] = []
    sizes: list[int] = []
    loose_bytes = loose_rows = 0
    for place in members:
        item = items[place]
        cut = _cut(item.rows, targets)
        size, left = _loose(item, targets)
        rows += [targets.max_rows or 0] * cut
        sizes += [(item.size_bytes - size) // cut] * cut if cut else []
        loose_bytes += size
        loose_rows += left
    if loose_rows or not rows:
        rows.append(loose_rows)
        sizes.append(loose_bytes)
    return PlannedGroup(tuple(members), tuple(rows), tuple(sizes))
