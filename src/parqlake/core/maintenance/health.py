"""The findings about a table's health: what is not as good as it could be, what mends it, and what that costs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from parqlake.core.findings import Severity
from parqlake.core.health_port import FileTotals, SegmentCounts
from parqlake.core.maintenance.packing import Item, PlannedGroup, Targets
from parqlake.core.maintenance.worth import saved_files

MANY_SEGMENTS = 128
"""So many small segments of statistics are worth putting together."""
_SKEW = 10
_SKEW_PARTITIONS = 4
_TINY_PARTITIONS = 8
_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


class HealthKind(StrEnum):
    """What a finding is about."""

    SMALL_FILES = "small_files"
    OVER_LARGE_FILES = "over_large_files"
    CLUSTERING = "clustering"
    PARTITION_SKEW = "partition_skew"
    SMALL_PARTITIONS = "small_partitions"
    OLD_SCHEMAS = "old_schemas"
    OLD_VERSIONS = "old_versions"
    TOMBSTONES = "tombstones"
    STATISTICS_SEGMENTS = "statistics_segments"
    LAPSED_TRANSACTIONS = "lapsed_transactions"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Cost:
    """What mending something takes, estimated.

    Attributes:
        read_bytes: bytes that are read.
        write_bytes: bytes that are written.
        files: files that are rewritten or deleted.
    """

    read_bytes: int = 0
    write_bytes: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something that could be better.

    Attributes:
        kind: what it is about.
        severity: a warning is worth mending now, and `maintain` mends it where the policy lets it.
        message: what is the matter, with figures.
        call: the call that mends it, as code over `t`, the table, and `lake`.
        cost: what the call takes.
    """

    kind: HealthKind
    severity: Severity
    message: str
    call: str
    cost: Cost = Cost()

    def __str__(self) -> str:
        cost = self.cost
        takes = ""
        if cost.files:
            takes = f"  ({cost.files:,} files, reads {in_words(cost.read_bytes)}, writes {in_words(cost.write_bytes)})"
        return f"{self.severity}: {self.message}: {self.call}{takes}"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values."""
        return {
            "kind": str(self.kind),
            "severity": str(self.severity),
            "message": self.message,
            "call": self.call,
            "read_bytes": self.cost.read_bytes,
            "write_bytes": self.cost.write_bytes,
            "files": self.cost.files,
        }


def in_words(size_bytes: float) -> str:
    """A size for people.

    Example:
        >>> in_words(512), in_words(3 * 1024**2)
        ('512 B', '3.0 MiB')
    """
    size, name = next(((size, name) for size, name in _UNITS if size_bytes >= size), (1, "B"))
    return f"{size_bytes / size:.{0 if size == 1 else 1}f} {name}"


def group_cost(items: Sequence[Item], groups: Collection[PlannedGroup]) -> Cost:
    """What carrying the groups out takes."""
    return Cost(
        sum(items[place].size_bytes for group in groups for place in group.members),
        sum(sum(group.output_bytes) for group in groups),
        sum(len(group.members) for group in groups),
    )


def judge_small(
    groups: Sequence[PlannedGroup], *, small: int, files: int, targets: Targets, worth: bool, call: str, cost: Cost
) -> HealthFinding | None:
    """Small files that a plan would put together; None if it would not have fewer files.

    Args:
        groups: those of the plan that the call carries out.
        small: files below half of the target.
        files: all files.
        targets: what files shall be like.
        worth: whether `maintain` would do it.
        call: what carries the plan out.
        cost: what that takes.
    """
    saving = [group for group in groups if saved_files(group) > 0]
    saved = sum(map(saved_files, saving))
    if not saved:
        return None
    touched = sum(len(group.members) for group in saving)
    message = (
        f"{small:,} of {files:,} files are smaller than half of {_target(targets)}; putting {touched:,} together "
        f"leaves {files - saved:,} {'file' if files - saved == 1 else 'files'}"
    )
    if not worth:
        message += ", which is not worth much"
    return HealthFinding(HealthKind.SMALL_FILES, _weight(worth), message, call, cost)


def judge_large(
    items: Sequence[Item], groups: Sequence[PlannedGroup], *, targets: Targets, call: str
) -> HealthFinding | None:
    """Files that a plan splits."""
    splitting = [group for group in groups if saved_files(group) < 0]
    if not splitting:
        return None
    large = [items[place] for group in splitting for place in group.members]
    largest = max(item.size_bytes for item in large)
    message = f"{len(large):,} files are too large for {_target(targets)}, the largest has {in_words(largest)}"
    return HealthFinding(HealthKind.OVER_LARGE_FILES, Severity.WARNING, message, call, group_cost(items, splitting))


def judge_partitions(
    totals: Sequence[FileTotals], *, partition_by: Sequence[str], target_bytes: int, call: str
) -> list[HealthFinding]:
    """Partitions that are far from even, or far too many; nothing of both matters in a small table."""
    sizes: dict[str, int] = {}
    values: dict[str, Mapping[str, Any]] = {}
    for total in totals:
        sizes[total.partition] = sizes.get(total.partition, 0) + total.size_bytes
        values[total.partition] = total.values
    if not partition_by or not sizes:
        return []
    whole = sum(sizes.values())
    cost = Cost(whole, whole, sum(total.files for total in totals))
    found = []
    largest = max(sizes, key=lambda key: (sizes[key], key))
    middle = median(sizes.values())
    if len(sizes) >= _SKEW_PARTITIONS and sizes[largest] > target_bytes and sizes[largest] > _SKEW * middle:
        named = ", ".join(f"{name}={values[largest].get(name)}" for name in partition_by)
        message = (
            f"the partition {named} has {in_words(sizes[largest])}, {sizes[largest] / whole:.0%} of the table and "
            f"{sizes[largest] / max(middle, 1):,.0f} times the median of {len(sizes):,} partitions; clustering by the "
            "same columns would be even"
        )
        found.append(HealthFinding(HealthKind.PARTITION_SKEW, Severity.INFO, message, call, cost))
    if len(sizes) > _TINY_PARTITIONS * max(1, -(-whole // target_bytes)):
        message = (
            f"{len(sizes):,} partitions have {in_words(whole / len(sizes))} each on average, and files of different "
            "partitions are never put together; clustering by the same columns would make few files"
        )
        found.append(HealthFinding(HealthKind.SMALL_PARTITIONS, Severity.INFO, message, call, cost))
    return found


def judge_schemas(totals: Sequence[FileTotals], *, older: Collection[int], call: str) -> HealthFinding | None:
    """Files that were written under a schema that readers have to translate from."""
    old = [total for total in totals if total.schema_id in older]
    if not old:
        return None
    files, size = sum(total.files for total in old), sum(total.size_bytes for total in old)
    message = (
        f"{files:,} of {sum(total.files for total in totals):,} files ({in_words(size)}) were written under an older "
        "schema, and are translated by every read"
    )
    return HealthFinding(HealthKind.OLD_SCHEMAS, Severity.INFO, message, call, Cost(size, size, files))


def judge_segments(counts: SegmentCounts) -> HealthFinding | None:
    """Segments of statistics that make planning slower than need be."""
    if counts.small < MANY_SEGMENTS:
        return None
    message = f"{counts.small:,} of {counts.all:,} segments of statistics are small, and each costs every plan a little"
    return HealthFinding(HealthKind.STATISTICS_SEGMENTS, Severity.WARNING, message, "t.maintain()")


def _weight(worth: bool) -> Severity:
    return Severity.WARNING if worth else Severity.INFO


def _target(targets: Targets) -> str:
    size = "" if targets.size_bytes is None else in_words(targets.size_bytes)
    rows = "" if targets.max_rows is None else f"{targets.max_rows:,} rows"
    return " or ".join(part for part in (size, rows) if part)
