"""What a scan reads, what it skips and by which condition; which conditions skip nothing, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.evolution.reading import spark_reads
from parqlake.core.keys import key_value
from parqlake.core.model import BoolArray, IntArray, Segment, Snapshot, TableInfo
from parqlake.core.pages import Page
from parqlake.core.ports import CatalogReader, ReadPlan, Store
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.tree import (
    TRUE,
    Column,
    Compare,
    CompareOp,
    In,
    IsNull,
    Like,
    Literal,
    Predicate,
    columns_of,
    conjuncts,
)
from parqlake.core.pruning import RowGroups, interval, may_be_true, prunable_columns
from parqlake.core.pruning_reasons import why_never
from parqlake.table.planning import PageLookup

_PARTITION, _STATISTICS, _NOTHING = "partition", "statistics", "nothing"
_POOR_SHARE = 0.5
"""A condition that leaves more than this share of the files hardly helps."""
_MANY_FILES = 4
_GAIN = 3.0
"""Clustering is worth a word if a condition would then leave at most a part of this of the files."""
_MOST_SUGGESTED = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the conditions that must all hold, and what it alone would leave.

    Attributes:
        text: the condition.
        by: how it skips files: by `"partition"`, by `"statistics"` of its columns, or by `"nothing"`.
        columns: the columns that it looks at.
        files_kept: files that may hold a row for which it is true.
        files_skipped: the others.
        row_groups_kept: the same for row groups.
        row_groups_skipped: the same for row groups.
        bytes_skipped: compressed bytes of the row groups that it skips.
        reason: why it skips nothing, or little; None if it skips well.
    """

    text: str
    by: str
    columns: tuple[str, ...]
    files_kept: int
    files_skipped: int
    row_groups_kept: int
    row_groups_skipped: int
    bytes_skipped: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a condition skipped of what those before it had left: all together are what was skipped.

    Attributes:
        by: `"partition region"`, `"statistics of id"`.
        text: the condition.
        files: files of which nothing is left.
        row_groups: row groups, those of these files included.
        size_bytes: compressed bytes of these row groups.
    """

    by: str
    text: str
    files: int
    row_groups: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Look:
    """What the statistics say of each condition."""

    conditions: tuple[Condition, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The figures of a plan; `str()` makes them readable, `to_dict()` keeps them for machines."""

    table: str
    version: int
    where: str | None
    columns: tuple[str, ...]
    files_total: int
    files_read: int
    row_groups_total: int
    row_groups_read: int
    rows_total: int
    rows_read: int
    bytes_total: int
    bytes_read: int
    conditions: tuple[Condition, ...]
    spark_reads: str
    """How `to_spark` reads: `natively`, or `through Python workers` where the JVM cannot open the store or would read
    columns that became text differently."""
    skipped: tuple[Skipped, ...] = ()
    suggestion: str | None = None
    """What would let such scans skip more."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"scan of {self.table} at version {self.version}",
            f"  where       {self.where or '(all rows)'}",
            f"  columns     {', '.join(self.columns)}",
            f"  files       {self._share(self.files_read, self.files_total)}",
            f"  row groups  {self._share(self.row_groups_read, self.row_groups_total)}",
            f"  rows        {self._share(self.rows_read, self.rows_total)}",
            f"  bytes       {self._share(self.bytes_read, self.bytes_total)} (all columns)",
            f"  Spark       would read {self.spark_reads}",
        ]
        if self.skipped:
            lines.append("  skipped, one after the other:")
            lines += [
                f"    {item.files:>9,} files {item.row_groups:>9,} row groups {_size(item.size_bytes):>9}  "
                f"by {item.by}: {item.text}"
                for item in self.skipped
            ]
        poor = [item for item in self.conditions if item.reason is not None]
        if poor:
            lines.append("  skipped little or nothing:")
            lines += [f"    {item.text}: {item.reason}" for item in poor]
        if self.suggestion:
            lines.append(f"  would help: {self.suggestion}")
        return "\n".join(lines)

    def _share(self, part: int, whole: int) -> str:
        percent = f" ({100 * part / whole:.1f} %)" if whole else ""
        return f"{part:,} of {whole:,}{percent}"


def spark_way(store: Store, plan: ReadPlan) -> str:
    """How Spark reads what is planned.

    It has no connector but for local files unless a jar brings one, and spells some values differently when the type
    of a column has changed to text.
    """
    return "natively" if store.is_local and spark_reads(plan) else "through Python workers"


def look_at(reader: CatalogReader, info: TableInfo, snapshot: Snapshot | None, predicate: Predicate) -> Look:
    """Asks the statistics for each condition alone, and for all one after the other; partitions come first."""
    if predicate == TRUE or snapshot is None:
        return Look()
    view = _View(reader, info, snapshot, predicate)
    items = sorted(conjuncts(predicate), key=lambda item: not view.is_partition(item))
    masks = [view.mask(item) for item in items]
    conditions = [view.condition(item, mask) for item, mask in zip(items, masks, strict=True)]
    skipped = []
    left = view.visible
    for item, mask, condition in zip(items, masks, conditions, strict=True):
        after = left & mask
        gone = left & ~mask
        if gone.any():
            files = view.files(left) - view.files(after)
            of = f"{_PARTITION} " if condition.by == _PARTITION else "statistics of "
            sizes = int(view.sizes[gone].sum())
            skipped.append(Skipped(of + ", ".join(condition.columns), describe(item), files, int(gone.sum()), sizes))
        left = after
    return Look(tuple(conditions), tuple(skipped), view.suggestion(items, masks, view.files(left)))


class _View:
    """The row groups of one version, all in one row, and the pages of the columns that a predicate names."""

    def __init__(self, reader: CatalogReader, info: TableInfo, snapshot: Snapshot, predicate: Predicate) -> None:
        self._info = info
        table_id, version = snapshot.table_id, snapshot.version
        segment_ids = reader.segment_ids(table_id, version)
        self._segments: list[Segment] = reader.segments(table_id, segment_ids)
        columns = prunable_columns(predicate)
        self._pages = {column: reader.pages(table_id, column, segment_ids) for column in columns}
        owners = [np.repeat(segment.file_ids, segment.row_group_counts) for segment in self._segments]
        of_files: IntArray = np.concatenate([np.empty(0, dtype=np.int64), *owners])
        self._owners = np.unique(of_files, return_inverse=True)[1]
        self.sizes: IntArray = np.concatenate([np.empty(0, dtype=np.int64), *(s.sizes for s in self._segments)])
        self.visible: BoolArray = np.ones(len(of_files), dtype=np.bool_)
        if len(of_files) != snapshot.row_group_count:  # some belong to files that other versions hold
            ids = np.array(reader.file_ids(table_id, version), dtype=np.int64)
            self.visible = np.isin(of_files, ids)
        self._files = self.files(self.visible)
        self._row_groups = int(self.visible.sum())
        missed: dict[Column, float] = {}
        for item in conjuncts(predicate):  # of two bounds of a range, each leaves out its end
            column, share = self._asked(item)
            if column is not None and share is not None:
                missed[column] = missed.get(column, 0.0) + 1.0 - share
        self._shares = {column: max(0.0, 1.0 - out) for column, out in missed.items()}

    def is_partition(self, item: Predicate) -> bool:
        """Whether a condition looks at partition columns alone."""
        names = {column.path[0] for column in columns_of(item)}
        return bool(names) and names <= set(self._info.partition_by)

    def mask(self, item: Predicate) -> BoolArray:
        """The row groups that may hold a row for which the condition is true."""
        parts = [may_be_true(item, RowGroups(s.rows, PageLookup(self._pages, s.segment_id))) for s in self._segments]
        return np.concatenate([np.empty(0, dtype=np.bool_), *parts]) & self.visible

    def files(self, mask: BoolArray) -> int:
        """How many files the row groups belong to."""
        return int(np.count_nonzero(np.bincount(self._owners[mask])))

    def condition(self, item: Predicate, mask: BoolArray) -> Condition:
        """What the condition alone leaves, and why so much."""
        kept, row_groups = self.files(mask), int(mask.sum())
        by = _PARTITION if self.is_partition(item) else _STATISTICS
        names = tuple(dict.fromkeys(column.name for column in columns_of(item)))
        return Condition(
            text=describe(item),
            by=by if row_groups < self._row_groups else _NOTHING,
            columns=names,
            files_kept=kept,
            files_skipped=self._files - kept,
            row_groups_kept=row_groups,
            row_groups_skipped=self._row_groups - row_groups,
            bytes_skipped=int(self.sizes[self.visible & ~mask].sum()),
            reason=self._reason(item, names, kept, row_groups),
        )

    def suggestion(self, items: Sequence[Predicate], masks: Sequence[BoolArray], read: int) -> str | None:
        """Clustering by the columns whose conditions would then leave far fewer files."""
        if read < _MANY_FILES:
            return None
        kept: dict[Column, BoolArray] = {}
        for item, mask in zip(items, masks, strict=True):
            column, _ = self._asked(item)
            if column in self._shares and len(column.path) == 1 and column.path[0] not in self._info.partition_by:
                kept[column] = kept.get(column, self.visible) & mask
        gains = {}
        for column, mask in kept.items():
            files, wanted = self.files(mask), max(1.0, self._shares[column] * self._files)
            if files > _GAIN * wanted:
                gains[column.path[0]] = files / wanted
        best = sorted(gains, key=lambda name: -gains[name])[:_MOST_SUGGESTED]
        if not best:
            return None
        names = ", ".join(f'"{name}"' for name in best)
        return f'lake.table("{self._info.name}").optimize([{names}]) lays rows out by {names}'

    def _reason(self, item: Predicate, names: tuple[str, ...], kept: int, row_groups: int) -> str | None:
        never = why_never(item)
        if never is not None:
            return never
        if row_groups <= _POOR_SHARE * self._row_groups or self._row_groups < 2:
            return None
        if not any(self._has_statistics(column) for column in columns_of(item)):
            return f"there are no statistics of {', '.join(names)}"
        column, _ = self._asked(item)
        if column is None:
            if len(names) > 1:
                return f"a row group is skipped only if it holds nothing for any side ({', '.join(names)})"
            return None
        share = self._shares.get(column)
        if share is not None and kept >= _MANY_FILES and kept > _GAIN * max(1.0, share * self._files):
            where = f"{kept:,} of {self._files:,} files have a range that holds such values"
            return f"{where}: rows are not clustered by {column.name}"
        return "most row groups hold such values" if row_groups == self._row_groups else None

    def _has_statistics(self, column: Column) -> bool:
        return column.field_id is not None and bool(self._pages.get(column.field_id))

    def _asked(self, item: Predicate) -> tuple[Column | None, float | None]:
        """The one column of a condition on values, and about which share of all values it asks for."""
        match item:
            case Compare(op=op, left=Column() as column, right=Literal() as literal):
                return column, 0.0 if op is CompareOp.EQ else self._share(column, op, literal)
            case In(expr=Column() as column, values=values, negated=False):
                return column, len(values) / max(1, self._files)
            case Like(expr=Column() as column, negated=False, ignore_case=False):
                return column, 0.0
            case IsNull(expr=Column() as column):
                return column, None
        return None, None

    def _share(self, column: Column, op: CompareOp, literal: Literal) -> float | None:
        """The share of the range between the least and the greatest key that a comparison takes in."""
        wanted = interval(op, literal)
        pages: list[Page] = list(self._pages.get(column.field_id, {}).values()) if column.field_id is not None else []
        if wanted is None or not pages or any(page.prefix is not None for page in pages):
            return None
        low, high = min(page.base for page in pages), max(page.top for page in pages)
        first, last = min(max(int(wanted[0]), low), high), max(min(int(wanted[1]), high), low)
        if pa.types.is_floating(column.type):  # whose keys do not grow with their values
            low, high, first, last = (key_value(key, column.type) for key in (low, high, first, last))
            return max(0.0, last - first) / (high - low) if high > low else None
        return max(0, last - first + 1) / (high - low + 1)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"
