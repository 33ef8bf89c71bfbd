"""Removing or changing the rows that a predicate selects: whole files by metadata alone, others by copy-on-write."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.conflicts import ReadSet
from parqlake.core.model import DataFile, FileEntry, Head, TableInfo
from parqlake.core.ports import CatalogReader, Engine, PlannedFile, ReadPlan, WriteSpec
from parqlake.core.predicates.tree import TRUE, Constant, Predicate, columns_of
from parqlake.core.predicates.untrue import untrue
from parqlake.core.updating import RowChange
from parqlake.table.context import LakeContext
from parqlake.table.planning import by_residual, planned, planned_staged, select, select_uncertain, stored_schemas
from parqlake.table.unit import Unit

_FILES_AT_A_TIME = 4
"""Files that are looked into together: opening many small ones is waiting, mostly."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What taking rows out, or changing them, comes to: files that go, and files that carry the other rows on."""

    remove: tuple[FileEntry, ...]
    add: tuple[DataFile, ...]
    reads: ReadSet
    rows: int
    """Rows that were removed or changed."""
    carried_rows: int
    """Rows of removed files that the added ones carry on unchanged."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The files of a version in which a predicate selects rows."""

    whole: tuple[FileEntry, ...]
    """Every row is selected."""
    partial: tuple[tuple[FileEntry, int], ...]
    """Some are, and how many: all, perhaps, which only a look into the file could tell."""
    stored: dict[int, pa.Schema]
    """For `ReadPlan.file_schemas`."""

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """All files."""
        return (*self.whole, *(entry for entry, _ in self.partial))

    @property
    def rows(self) -> int:
        """Rows that are selected."""
        return sum(entry.row_count for entry in self.whole) + sum(rows for _, rows in self.partial)


def select_rows(
    context: LakeContext,
    info: TableInfo,
    *,
    head: Head,
    schema: pa.Schema,
    predicate: Predicate,
    without: frozenset[int] = frozenset(),
) -> Selected:
    """Finds the files of the version `head` that hold rows for which the bound predicate is TRUE.

    Where statistics cannot tell, files are looked into, reading the predicate's columns only. Files `without` are gone
    already.
    """
    with context.catalog.read() as reader:
        whole, unsure = sorted_out(reader, info, head, schema, predicate)
        whole = [entry for entry in whole if entry.file_id not in without]
        unsure = [entry for entry in unsure if entry.file_id not in without]
        stored = stored_schemas(reader, info, schema, [*whole, *unsure])
    with ThreadPoolExecutor(_FILES_AT_A_TIME) as pool:
        counts = pool.map(lambda entry: _count(context, schema, planned(info, entry), predicate, stored), unsure)
        partial = tuple((entry, rows) for entry, rows in zip(unsure, counts, strict=True) if rows)
    return Selected(tuple(whole), partial, stored)


def remove_rows(
    context: LakeContext,
    unit: Unit,
    info: TableInfo,
    *,
    head: Head,
    schema: pa.Schema,
    predicate: Predicate,
    spec: WriteSpec,
    engine: Engine,
    without: frozenset[int] = frozenset(),
) -> Removal:
    """Prepares the removal of all rows for which the bound predicate is TRUE from the version `head`.

    Files that hold no such row are left alone, also where statistics could not tell. Files `without` are gone already.
    """
    found = select_rows(context, info, head=head, schema=schema, predicate=predicate, without=without)
    kept = tuple(planned(info, entry) for entry, rows in found.partial if rows < entry.row_count)
    add: list[DataFile] = []
    if kept:
        add = unit.rewrite(ReadPlan(schema, kept, untrue(predicate), file_schemas=found.stored), spec, engine)
    carried = sum(file.row_count for file in add)
    return Removal(found.entries, tuple(add), _reads(predicate, found), found.rows, carried)


def change_rows(
    context: LakeContext,
    unit: Unit,
    info: TableInfo,
    *,
    head: Head,
    schema: pa.Schema,
    change: RowChange,
    spec: WriteSpec,
    engine: Engine,
    without: frozenset[int] = frozenset(),
) -> Removal:
    """Prepares the change of rows of the version `head`; files without a row to change are left alone."""
    found = select_rows(context, info, head=head, schema=schema, predicate=change.predicate, without=without)
    files = tuple(planned(info, entry) for entry in found.entries)
    add: list[DataFile] = []
    if files:
        add = unit.rewrite(ReadPlan(schema, files, file_schemas=found.stored), spec, engine, change)
    before = sum(entry.row_count for entry in found.entries)
    return Removal(found.entries, tuple(add), _reads(change.predicate, found), found.rows, before - found.rows)


def sorted_out(
    reader: CatalogReader, info: TableInfo, head: Head, schema: pa.Schema, predicate: Predicate
) -> tuple[list[FileEntry], list[FileEntry]]:
    """Files in which every row matches, and files in which some may, by what the catalog knows."""
    if head.version == 0:
        return [], []
    if predicate == TRUE:
        return reader.files(info.table_id, head.version), []
    hits = select(reader, info.table_id, head.version, predicate)
    entries = reader.files(info.table_id, head.version, sorted(hits)) if hits else []
    whole: list[FileEntry] = []
    partial: list[FileEntry] = []
    for rest, group in by_residual(entries, schema, predicate).items():
        if isinstance(rest, Constant):
            (whole if rest.value else []).extend(group)
            continue
        possible = select(reader, info.table_id, head.version, rest)
        uncertain = select_uncertain(reader, info.table_id, head.version, rest)
        for entry in group:
            hit = possible.get(entry.file_id)
            certain = hit is not None and hit.complete and entry.file_id not in uncertain
            (whole if certain else partial).append(entry)
    return whole, partial


def remove_staged_rows(
    context: LakeContext,
    unit: Unit,
    info: TableInfo,
    files: Sequence[DataFile],
    *,
    schema: pa.Schema,
    predicate: Predicate,
    spec: WriteSpec,
    engine: Engine,
) -> tuple[list[DataFile], int]:
    """Takes matching rows out of files that the same transaction wrote before; returns what is left, and how many."""
    left: list[DataFile] = []
    removed = 0
    for file in files:
        plan = planned_staged(info, file)
        rows = _count(context, schema, plan, predicate)
        removed += rows
        if rows == 0:
            left.append(file)
        elif rows < file.row_count:
            left += unit.rewrite(ReadPlan(schema, (plan,), untrue(predicate)), spec, engine)
    return left, removed


def change_staged_rows(
    context: LakeContext,
    unit: Unit,
    info: TableInfo,
    files: Sequence[DataFile],
    *,
    schema: pa.Schema,
    change: RowChange,
    spec: WriteSpec,
    engine: Engine,
) -> tuple[list[DataFile], int]:
    """Changes matching rows of files that the same transaction wrote before; returns the files, and how many rows."""
    left: list[DataFile] = []
    changed = 0
    for file in files:
        plan = planned_staged(info, file)
        rows = _count(context, schema, plan, change.predicate)
        changed += rows
        left += unit.rewrite(ReadPlan(schema, (plan,)), spec, engine, change) if rows else [file]
    return left, changed


def _reads(predicate: Predicate, found: Selected) -> ReadSet:
    return ReadSet((predicate,), frozenset(entry.file_id for entry, _ in found.partial))


def _count(
    context: LakeContext,
    schema: pa.Schema,
    file: PlannedFile,
    predicate: Predicate,
    stored: dict[int, pa.Schema] | None = None,
) -> int:
    """How many rows of the file match, by reading the predicate's columns."""
    names = tuple(dict.fromkeys(column.path[0] for column in columns_of(predicate))) or (schema.names[0],)
    plan = ReadPlan(schema, (file,), predicate, names, file_schemas=stored or {})
    return sum(batch.num_rows for batch in context.reader.batches(plan, context.store))
