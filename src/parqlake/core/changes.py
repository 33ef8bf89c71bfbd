"""Changes between two versions: which files have to be compared, as a pure plan, and what the answer looks like.

Files are immutable: one that belongs to both sides holds the same rows on both, and is not read. What is left is
compared row by row, as bags: rows that were only copied cancel out, as do those that went and came back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import FileEntry
from parqlake.core.ports import ReadPlan, Store
from parqlake.core.schema import without_ids

CHANGE = "_change"
VERSION = "_version"
INSERT, UPDATE, DELETE, UPDATE_BEFORE = "insert", "update", "delete", "update_before"


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """Two bags of rows to compare, and the version that the differences belong to."""

    version: int
    before: ReadPlan
    after: ReadPlan

    @property
    def is_one_sided(self) -> bool:
        """Whether there are rows on one side only, so that nothing has to be compared."""
        return not (self.before.files and self.after.files)


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What to compare, and what to tell of it: a pure value. Engines carry it out as it stands."""

    steps: tuple[ChangeStep, ...]
    schema: pa.Schema
    """The table's, at the version up to which changes are told."""
    keys: tuple[str, ...] = ()
    """What pairs an old row with a new one; without keys nothing is an update."""
    columns: tuple[str, ...] | None = None
    tells_before: bool = False
    """Whether an updated row is told as it was, too."""

    @property
    def names(self) -> tuple[str, ...]:
        """The table's columns in the answer."""
        return tuple(self.schema.names) if self.columns is None else self.columns

    @property
    def result(self) -> pa.Schema:
        """The schema of the answer; rows from before a column was NOT NULL may hold NULLs in it."""
        full = without_ids(self.schema)
        fields = [full.field(name).with_nullable(True) for name in self.names]
        return pa.schema([*fields, pa.field(CHANGE, pa.string()), pa.field(VERSION, pa.int64())])

    @property
    def read_bytes(self) -> int:
        """Compressed bytes that are read."""
        return sum(file.read_bytes for step in self.steps for side in (step.before, step.after) for file in side.files)


class ChangeReader(Protocol):
    """A reader that compares the two sides of a plan."""

    def change_batches(self, plan: ChangePlan, store: Store, *, memory_bytes: int) -> pa.RecordBatchReader:
        """The changes as a stream of `plan.result`; holds about so much in memory, and puts the rest aside on disk."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The files to compare: those only the old state has, and those only the new one has."""

    before: tuple[FileEntry, ...]
    after: tuple[FileEntry, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(entry.size_bytes for entry in (*self.before, *self.after))

    @property
    def repeats(self) -> bool:
        """Whether a file stands twice on one side, as one that was brought back may; no reader has to know of that."""
        return any(len({entry.path for entry in side}) < len(side) for side in (self.before, self.after))


def sides(before: Sequence[FileEntry], after: Sequence[FileEntry]) -> Sides:
    """Two lists of files without what they have in common; a file is the same if its path is, whatever its id.

    A file that was removed and brought back stands in one list more often than in the other: so often it counts.
    """
    common = Counter(entry.path for entry in before) & Counter(entry.path for entry in after)
    return Sides(_without(before, common), _without(after, common))


def net_sides(commits: Sides | None, ends: Callable[[], tuple[Sequence[FileEntry], Sequence[FileEntry]]]) -> Sides:
    """The files to compare for all changes from one version to another, as few as can be.

    Args:
        commits: what commits in between removed and added, but for those that changed no rows; None if nobody knows
            that any more. After a compaction of the whole table this is the short way.
        ends: asks for the files of the two versions. After many updates of the same rows these differ by less.
    """
    if commits is not None and not commits.before and not commits.repeats:
        return commits  # rows were only added: there is nothing to compare
    found = sides(*ends())
    if commits is None or commits.repeats:
        return found
    return min(found, commits, key=lambda some: some.size_bytes)


def commit_sides(removed: Sequence[FileEntry], added: Sequence[FileEntry], noisy: Collection[int]) -> Sides:
    """The files that commits removed and added; `noisy` are the versions that changed rows."""
    return sides([e for e in removed if e.removed in noisy], [e for e in added if e.added in noisy])


def version_sides(removed: Sequence[FileEntry], added: Sequence[FileEntry], noisy: Collection[int]) -> dict[int, Sides]:
    """The files to compare for each version that changed rows, in order."""
    gone: dict[int, list[FileEntry]] = {}
    come: dict[int, list[FileEntry]] = {}
    for entry in removed:
        gone.setdefault(entry.removed, []).append(entry)
    for entry in added:
        come.setdefault(entry.added, []).append(entry)
    return {version: sides(gone.get(version, ()), come.get(version, ())) for version in sorted(noisy)}


def check_names(schema: pa.Schema, columns: Sequence[str] | None) -> None:
    """Raises if a column of the answer would have the name of one that tells of the change."""
    names = schema.names if columns is None else columns
    taken = [name for name in (CHANGE, VERSION) if name in names]
    if taken:
        raise InvalidOptionError(
            f'the table has a column "{taken[0]}", which changes are told by; name other columns=[…]'
        )


def _without(entries: Sequence[FileEntry], common: Mapping[str, int]) -> tuple[FileEntry, ...]:
    left = dict(common)
    kept = []
    for entry in entries:
        if left.get(entry.path, 0):
            left[entry.path] -= 1
        else:
            kept.append(entry)
    return tuple(kept)
