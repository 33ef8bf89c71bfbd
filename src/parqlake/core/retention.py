"""Retention: which versions may be forgotten, and which files nobody needs any more. Pure decisions.

A version goes by `expire`, and its files by `vacuum`, later: in between they are tombstones, so that whoever began to
read before the version went can finish. A file is deleted only if no kept version holds it, no reader holds a version
that did, no transaction is open that began before the file became of no use, and the time that the caller gave is over.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import LIVE, Snapshot

SHORTEST_AGE = timedelta(minutes=15)
"""Files stay at least so long after they became of no use. Readers and clocks are given their slack out of it."""

CLOCK_SLACK = timedelta(minutes=10)
"""How far clocks of machines that write to one lake may be apart."""

EXPIRED, ABORTED = "expired", "aborted"
"""Why a file is a tombstone."""

_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(w|d|h|m|min|s)\s*")
_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1}
_PART = re.compile(r"part-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.parquet")


@dataclass(frozen=True, slots=True)
class ReaderLease:
    """A reader at work on versions `first` to `last` of a table, who is heard of again before `until`."""

    lease_id: str
    table_id: int
    first: int
    last: int
    who: str
    until: datetime

    def holds(self, added: int, removed: int) -> bool:
        """Whether a file of the versions [added, removed) belongs to what is being read."""
        return added <= self.last and removed > self.first


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A file that no kept version refers to, and since when."""

    path: str
    """Relative to the table's location."""
    since: datetime
    reason: str
    txn_id: str = ""


@dataclass(frozen=True, slots=True)
class FileSpan:
    """The least that is known of a file: the versions it belongs to are [added, removed)."""

    file_id: int
    path: str
    size_bytes: int
    added: int
    removed: int


def parse_age(value: Any, option: str = "older_than") -> timedelta:
    """Reads an age: "7d", "12h", "30m", "45s", "2w", a timedelta, or 0.

    Example:
        >>> parse_age("12h")
        datetime.timedelta(seconds=43200)
    """
    found: timedelta | None = None
    if isinstance(value, timedelta):
        found = value
    elif isinstance(value, str) and (match := _AGE.fullmatch(value)):
        seconds = float(match[1]) * _UNITS[match[2]]
        found = timedelta(seconds=seconds) if seconds <= timedelta.max.total_seconds() / 2 else None
    elif value == 0 and isinstance(value, int | float) and not isinstance(value, bool):
        found = timedelta(0)
    if found is None:
        raise InvalidOptionError(
            f'{option}={value!r} is no age; write it like "7d", "12h" or "30m", or give a timedelta'
        )
    if found < timedelta(0):
        raise InvalidOptionError(f"{option}={value!r} lies in the future; give an age of 0 or more")
    return found


def cutoff(at: datetime, age: timedelta) -> datetime:
    """The moment that lies so long ago; the beginning of time if there was none."""
    start = datetime.min.replace(tzinfo=UTC)
    return at - age if at - start > age else start


def birth_of(path: str) -> datetime | None:
    """When a file was begun, by the UUIDv7 in its name; None for a name that parqlake does not give.

    Example:
        >>> birth_of("day=1/part-019a3c2e-5c00-7000-8000-000000000000.parquet").year
        2025
    """
    match = _PART.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    return datetime.fromtimestamp(int(match[1] + match[2], 16) / 1000, UTC)


# ------------------------------------------------------------------------------------------------ versions


def versions_to_expire(
    kept: Sequence[Snapshot],
    *,
    before: datetime | None,
    keep_last: int,
    tagged: Collection[int],
    leases: Iterable[ReaderLease],
) -> list[int]:
    """The versions that may go: not the newest ones, nor those that are tagged or being read.

    With `before`, a version stays if it was the newest one at that moment or later: so every question about a
    moment since then can still be answered.

    Args:
        kept: the versions that are there, by number.
        before: only versions that had been replaced at this moment; None: of any age.
        keep_last: so many of the newest stay, one at least.
        tagged: versions that tags keep.
        leases: what is being read.
    """
    held = list(leases)
    going = []
    for place, snapshot in enumerate(kept[: max(0, len(kept) - max(1, keep_last))]):
        version = snapshot.version
        replaced_at = kept[place + 1].committed_at
        if before is not None and replaced_at > before:
            break  # times rise with versions
        if version not in tagged and not any(lease.first <= version <= lease.last for lease in held):
            going.append(version)
    return going


def unneeded_paths(spans: Iterable[FileSpan], kept: Sequence[int]) -> dict[str, list[FileSpan]]:
    """Files that no kept version holds, with all that is known of them.

    A file that was restored stands in the catalog more than once; it is needed if any of its entries is.

    Args:
        spans: all entries of the table.
        kept: the kept versions, sorted.
    """
    needed: set[str] = set()
    rest: dict[str, list[FileSpan]] = {}
    for span in spans:
        if _is_needed(span, kept):
            needed.add(span.path)
        else:
            rest.setdefault(span.path, []).append(span)
    for path in needed & rest.keys():
        del rest[path]
    return rest


def _is_needed(span: FileSpan, kept: Sequence[int]) -> bool:
    if span.removed == LIVE:
        return True
    place = bisect_left(kept, span.added)
    return place < len(kept) and kept[place] < span.removed


# ------------------------------------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class Guard:
    """What keeps files from being deleted, all from one moment of the catalog."""

    at: datetime
    age: timedelta
    leases: Sequence[ReaderLease]
    open_since: datetime | None
    """When the oldest transaction began that is still open; None if there is none."""

    @property
    def horizon(self) -> datetime:
        """What came to be after this moment stays: it is too young, or an open transaction may need it."""
        limit = cutoff(self.at, self.age)
        return limit if self.open_since is None else min(limit, cutoff(self.open_since, CLOCK_SLACK))

    def lets_go(self, tombstone: Tombstone, spans: Iterable[FileSpan]) -> bool:
        """Whether a tombstone may be deleted."""
        if tombstone.since > self.horizon:
            return False
        return not any(lease.holds(span.added, span.removed) for span in spans for lease in self.leases)

    def lets_leftover_go(self, birth: datetime) -> bool:
        """Whether a file that the catalog does not know may be deleted."""
        return birth <= self.horizon

    def lets_forget(self, tombstone: Tombstone) -> bool:
        """Whether the catalog may forget the file.

        However short the age that was asked for: a plan that was begun before the version expired has to find all its
        files in the catalog, be it to learn from the store that one is gone.
        """
        return tombstone.since <= cutoff(self.at, max(self.age, SHORTEST_AGE))


@dataclass(frozen=True, slots=True)
class Removal:
    """What a vacuum of one table takes away."""

    expired: Mapping[str, int]
    """Tombstones to delete, with their sizes."""
    forget: Sequence[str]
    """Those of them that the catalog forgets afterwards."""
    leftovers: Mapping[str, int]
    """Files of failed writes to delete, with their sizes."""
    held: int
    """Tombstones and leftovers that stay for now."""
    strays: Sequence[str]
    """Files that bear no name of ours; they stay."""


def plan_removal(
    listed: Mapping[str, int],
    spans: Iterable[FileSpan],
    tombstones: Sequence[Tombstone],
    kept: Sequence[int],
    guard: Guard,
) -> Removal:
    """Decides what of a table's folder may be deleted.

    Args:
        listed: all files in the table's folder with their sizes, listed before the catalog was asked.
        spans: all files that the catalog knows, live or not.
        tombstones: those that no kept version holds, and leftovers of transactions that were aborted.
        kept: the kept versions, sorted.
        guard: what keeps files from being deleted.
    """
    known = list(spans)
    unneeded = unneeded_paths(known, kept)
    needed = {span.path for span in known} - unneeded.keys()
    expired: dict[str, int] = {}
    forget: list[str] = []
    held = 0
    for tombstone in tombstones:
        path = tombstone.path
        if path in needed or not guard.lets_go(tombstone, unneeded.get(path, ())):
            held += 1
            continue
        if birth_of(path) is not None and path in listed:
            expired[path] = listed[path]
        if guard.lets_forget(tombstone):
            forget.append(path)
    marked = {tombstone.path for tombstone in tombstones}
    leftovers: dict[str, int] = {}
    strays: list[str] = []
    for path, size_bytes in listed.items():
        if path in needed or path in unneeded or path in marked:
            continue
        birth = birth_of(path)
        if birth is None:
            strays.append(path)
        elif guard.lets_leftover_go(birth):
            leftovers[path] = size_bytes
        else:
            held += 1
    return Removal(expired, forget, leftovers, held, sorted(strays))
