"""From a version and a predicate to the row groups to read, with the catalog's answers alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parqlake.core.evolution.marks import is_evolved
from parqlake.core.evolution.projection import Projection
from parqlake.core.model import BoolArray, DataFile, FileEntry, IntArray, Segment, TableInfo
from parqlake.core.names import stored_path
from parqlake.core.pages import Page, pack_column, unpack
from parqlake.core.partitioning import parse_partition_text
from parqlake.core.ports import CatalogReader, PlannedFile, ReadPlan
from parqlake.core.predicates.tree import TRUE, Column, IsNaN, Predicate
from parqlake.core.pruning import RowGroups, key_ranges, may_be_true, may_be_untrue, prunable_columns
from parqlake.core.residual import residual
from parqlake.core.schema import leaves


@dataclass(frozen=True, slots=True)
class Staged:
    """What an open transaction has done to a table so far, for its own reads to see."""

    added: tuple[DataFile, ...] = ()
    removed: frozenset[int] = frozenset()
    replaced_all: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """Row groups of one file that may match, by their number in the file."""

    row_groups: IntArray
    rows: int
    size_bytes: int
    complete: bool
    """Whether these are all row groups of the file."""


def plan_scan(
    reader: CatalogReader,
    info: TableInfo,
    *,
    version: int,
    schema: pa.Schema,
    predicate: Predicate = TRUE,
    columns: tuple[str, ...] | None = None,
    limit: int | None = None,
    staged: Staged | None = None,
    added_after: int | None = None,
) -> ReadPlan:
    """Makes the plan of a scan: exactly the row groups of the version that statistics cannot rule out."""
    if added_after is None:
        files = _committed(reader, info, version, predicate)
    else:
        files = _added(reader, info, added_after, version, predicate)
    if staged is not None:
        if staged.replaced_all:
            files = []
        files = [file for file in files if file.file_id not in staged.removed]
        files += _staged(info, predicate, staged.added)
    stored = stored_schemas(reader, info, schema, files, every_schema=added_after is not None)
    return ReadPlan(schema, tuple(files), None if predicate == TRUE else predicate, columns, limit, stored)


def stored_schemas(
    reader: CatalogReader,
    info: TableInfo,
    schema: pa.Schema,
    files: Sequence[PlannedFile | FileEntry],
    *,
    every_schema: bool = False,
) -> dict[int, pa.Schema]:
    """The schemas of those files that are to be read through a projection: for `ReadPlan.file_schemas`.

    A table whose schema never changed costs nothing here: its schema says so. Only files that are not of the version
    (`every_schema`) may have been written after a schema that looks like the first one. Staged files, of the id -1,
    have the schema of their transaction.
    """
    if not (every_schema or is_evolved(schema)):
        return {}
    stored = {number: reader.schema(info.table_id, number) for number in {file.schema_id for file in files} - {-1}}
    return {number: found for number, found in sorted(stored.items()) if not Projection(found, schema).is_identity}


def select(reader: CatalogReader, table_id: int, version: int, predicate: Predicate) -> dict[int, Hits]:
    """Row groups that may match, by file id, whether or not the file belongs to the version."""
    return _chosen(reader, table_id, version, predicate, may_be_true)


def select_uncertain(reader: CatalogReader, table_id: int, version: int, predicate: Predicate) -> dict[int, Hits]:
    """Of the row groups that may match, those in which some row may not."""

    def uncertain(predicate: Predicate, groups: RowGroups) -> BoolArray:
        return may_be_true(predicate, groups) & may_be_untrue(predicate, groups)

    return _chosen(reader, table_id, version, predicate, uncertain)


def may_hold_nan(
    reader: CatalogReader, table_id: int, version: int, schema: pa.Schema, file_ids: Collection[int]
) -> frozenset[int]:
    """The float columns, by field id and outside lists, of which one of these files may hold a NaN.

    Of files that are not committed, whose ids are negative, nothing is known.
    """
    floats = [leaf for leaf in leaves(schema) if pa.types.is_floating(leaf.type) and not leaf.repeated]
    if any(file_id < 0 for file_id in file_ids):
        return frozenset(leaf.field_id for leaf in floats)
    found = []
    for leaf in floats if file_ids else ():
        hits = select(reader, table_id, version, IsNaN(Column(leaf.path, leaf.field_id, leaf.type)))
        if not hits.keys().isdisjoint(file_ids):
            found.append(leaf.field_id)
    return frozenset(found)


def _chosen(
    reader: CatalogReader,
    table_id: int,
    version: int,
    predicate: Predicate,
    choose: Callable[[Predicate, RowGroups], BoolArray],
) -> dict[int, Hits]:
    segment_ids = reader.segment_ids(table_id, version, key_ranges(predicate))
    pages = {column: reader.pages(table_id, column, segment_ids) for column in prunable_columns(predicate)}
    hits: dict[int, Hits] = {}
    for segment in reader.segments(table_id, segment_ids):
        groups = RowGroups(segment.rows, PageLookup(pages, segment.segment_id))
        _collect(segment, np.flatnonzero(choose(predicate, groups)), hits)
    return hits


def by_residual(
    entries: Sequence[FileEntry], schema: pa.Schema, predicate: Predicate
) -> dict[Predicate, list[FileEntry]]:
    """Groups files by what is left of the predicate once their partition values are put in.

    Values are exact where statistics of strings are not, so that a predicate on partitions alone leaves no doubt.
    """
    groups: dict[Predicate, list[FileEntry]] = {}
    seen: dict[tuple[tuple[str, object], ...], Predicate] = {}
    for entry in entries:
        values = tuple(sorted(entry.partition.items()))
        if values not in seen:
            known = {name: parse_partition_text(text, schema.field(name).type) for name, text in values}
            seen[values] = residual(predicate, known)
        groups.setdefault(seen[values], []).append(entry)
    return groups


def planned(info: TableInfo, entry: FileEntry, hits: Hits | None = None) -> PlannedFile:
    """A file of the catalog as part of a plan; all of it unless hits say which row groups."""
    whole = hits is None or hits.complete
    return PlannedFile(
        path=stored_path(info.location, entry.path),
        size_bytes=entry.size_bytes,
        row_groups=None if whole else tuple(hits.row_groups.tolist()),  # type: ignore[union-attr]
        row_count=entry.row_count if whole else hits.rows,  # type: ignore[union-attr]
        read_bytes=entry.size_bytes if whole else hits.size_bytes,  # type: ignore[union-attr]
        partition=entry.partition,
        file_id=entry.file_id,
        schema_id=entry.schema_id,
    )


def _committed(reader: CatalogReader, info: TableInfo, version: int, predicate: Predicate) -> list[PlannedFile]:
    if version == 0:
        return []
    if predicate == TRUE:
        return [planned(info, entry) for entry in reader.files(info.table_id, version)]
    hits = select(reader, info.table_id, version, predicate)
    if not hits:
        return []
    entries = reader.files(info.table_id, version, sorted(hits))
    return [planned(info, entry, hits[entry.file_id]) for entry in entries]


def _added(reader: CatalogReader, info: TableInfo, after: int, until: int, predicate: Predicate) -> list[PlannedFile]:
    """Files that brought new rows, and not those that compaction made of files that were there."""
    if after >= until:
        return []
    snapshots = reader.snapshots(info.table_id, after=after)
    news = {snapshot.version for snapshot in snapshots if snapshot.data_change}
    entries = [e for e in reader.files_added(info.table_id, after=after, until=until) if e.added in news]
    if predicate == TRUE:
        return [planned(info, entry) for entry in entries]
    hits = select(reader, info.table_id, until, predicate)
    return [planned(info, entry, hits[entry.file_id]) for entry in entries if entry.file_id in hits]


def _collect(segment: Segment, found: IntArray, hits: dict[int, Hits]) -> None:
    """Sorts row groups, numbered within the segment, by file."""
    if not len(found):
        return
    ends = np.cumsum(segment.row_group_counts)
    owners = np.searchsorted(ends, found, side="right")
    cuts = np.flatnonzero(np.diff(owners)) + 1
    for owner, chosen in zip(owners[np.r_[0, cuts]].tolist(), np.split(found, cuts), strict=True):
        start = int(ends[owner] - segment.row_group_counts[owner])
        complete = len(chosen) == segment.row_group_counts[owner]
        rows, size_bytes = int(segment.rows[chosen].sum()), int(segment.sizes[chosen].sum())
        hits[int(segment.file_ids[owner])] = Hits(chosen - start, rows, size_bytes, complete)


@dataclass(frozen=True, slots=True)
class PageLookup:
    """The pages of one segment, by column id."""

    pages: Mapping[int, Mapping[int, Page]]
    segment_id: int

    def __call__(self, column_id: int) -> Page | None:
        """The page of a column; None if nothing is known of it."""
        return self.pages.get(column_id, {}).get(self.segment_id)


def _staged(info: TableInfo, predicate: Predicate, added: tuple[DataFile, ...]) -> list[PlannedFile]:
    """Files that are not committed yet, pruned by the same rules. They have negative ids."""
    files = []
    columns = prunable_columns(predicate)
    for number, file in enumerate(added, start=1):
        packed = {column.column_id: pack_column([column]) for column in file.statistics if column.column_id in columns}
        pages = {column_id: {0: unpack(page.data, page.nulls)} for column_id, page in packed.items()}
        groups = RowGroups(file.row_group_rows, PageLookup(pages, 0))
        found = np.flatnonzero(may_be_true(predicate, groups))
        if not len(found):
            continue
        files.append(planned_staged(info, file, number=number, row_groups=found))
    return files


def planned_staged(
    info: TableInfo, file: DataFile, *, number: int = 1, row_groups: IntArray | None = None
) -> PlannedFile:
    """A file that is not committed yet as part of a plan. Its id is negative: the catalog has given it none."""
    chosen = np.arange(len(file.row_group_rows)) if row_groups is None else row_groups
    return PlannedFile(
        path=f"{info.location}/{file.path}",
        size_bytes=file.size_bytes,
        row_groups=None if len(chosen) == len(file.row_group_rows) else tuple(chosen.tolist()),
        row_count=int(file.row_group_rows[chosen].sum()),
        read_bytes=int(file.row_group_bytes[chosen].sum()),
        partition=file.partition,
        file_id=-number,
        schema_id=-1,
        footer=file.footer,
    )
