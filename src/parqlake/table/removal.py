"""Removing the rows that a predicate selects: whole files by metadata alone, others by copy-on-write."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.conflicts import ReadSet
from parqlake.core.model import DataFile, FileEntry, Head, TableInfo
from parqlake.core.ports import CatalogReader, Engine, PlannedFile, ReadPlan, WriteSpec
from parqlake.core.predicates.tree import TRUE, Constant, Predicate, columns_of
from parqlake.core.predicates.untrue import untrue
from parqlake.table.context import LakeContext
from parqlake.table.planning import by_residual, planned, planned_staged, select, select_uncertain
from parqlake.table.unit import Unit


@dataclass(frozen=True, slots=True)
class Removal:
    """What taking rows out comes to: files that go, and files that carry the other rows on."""

    remove: tuple[FileEntry, ...]
    add: tuple[DataFile, ...]
    reads: ReadSet
    rows: int
    """Rows that were removed."""
    carried_rows: int
    """Rows of removed files that the added ones carry on."""


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

    Files that hold no such row are left alone, also where statistics could not tell: they are looked into first,
    reading the predicate's columns only. Files `without` are gone already.
    """
    with context.catalog.read() as reader:
        whole, partial = _sorted_out(reader, info, head, schema, predicate)
    whole = [entry for entry in whole if entry.file_id not in without]
    partial = [entry for entry in partial if entry.file_id not in without]
    counted = ((entry, _count(context, schema, planned(info, entry), predicate)) for entry in partial)
    touched = [(entry, rows) for entry, rows in counted if rows]
    kept = tuple(planned(info, entry) for entry, rows in touched if rows < entry.row_count)
    add: list[DataFile] = []
    if kept:
        add = unit.rewrite(ReadPlan(schema, kept, untrue(predicate)), spec, engine)
    reads = ReadSet((predicate,), frozenset(entry.file_id for entry, _ in touched))
    remove = (*whole, *(entry for entry, _ in touched))
    rows = sum(entry.row_count for entry in whole) + sum(rows for _, rows in touched)
    return Removal(remove, tuple(add), reads, rows, sum(file.row_count for file in add))


def _sorted_out(
    reader: CatalogReader, info: TableInfo, head: Head, schema: pa.Schema, predicate: Predicate
) -> tuple[list[FileEntry], list[FileEntry]]:
    """Files in which every row matches, and files in which some may."""
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
    files: list[DataFile],
    *,
    schema: pa.Schema,
    predicate: Predicate,
    spec: WriteSpec,
    engine: Engine,
) -> list[DataFile]:
    """Takes matching rows out of files that the same transaction wrote before; returns what is left of them."""
    left: list[DataFile] = []
    for file in files:
        plan = planned_staged(info, file)
        rows = _count(context, schema, plan, predicate)
        if rows == 0:
            left.append(file)
        elif rows < file.row_count:
            left += unit.rewrite(ReadPlan(schema, (plan,), untrue(predicate)), spec, engine)
    return left


def _count(context: LakeContext, schema: pa.Schema, file: PlannedFile, predicate: Predicate) -> int:
    """How many rows of the file match, by reading the predicate's columns."""
    names = tuple(dict.fromkeys(column.path[0] for column in columns_of(predicate))) or (schema.names[0],)
    plan = ReadPlan(schema, (file,), predicate, names)
    return sum(batch.num_rows for batch in context.reader.batches(plan, context.store))
