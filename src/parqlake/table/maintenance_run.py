"""Carrying out a plan of maintenance: group by group, and one commit for all or one for each.

What is committed changes no rows, so that it goes ahead beside appends. If a file of a group was removed meanwhile, by
a delete or another compaction, the group's new files would bring rows back: they are thrown away, and what is left of
the group is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa

from parqlake.core.errors import ConcurrentRemoveError, ConcurrentSchemaChangeError, InvalidOptionError
from parqlake.core.maintenance import MaintenanceStats, Packing, PlannedGroup
from parqlake.core.maintenance.rewriting import RewriteGroup, RewritingEngine, RowOrder
from parqlake.core.model import DataFile, FileEntry, Operation, Snapshot
from parqlake.core.names import partition_segment
from parqlake.core.ports import Engine, ReadPlan, WriteSpec
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_stats import summary_of
from parqlake.table.options import OPERATION_KEY
from parqlake.table.planning import planned, stored_schemas
from parqlake.table.progress import SILENT
from parqlake.table.rerunning import MAX_RERUNS
from parqlake.table.target import Target
from parqlake.table.unit import Unit

CONFLICTS = (ConcurrentRemoveError, ConcurrentSchemaChangeError)
Pack = Callable[[Sequence[FileEntry]], Packing]
"""Plans files anew, of which a conflict left some."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all groups of a run have in common."""

    operation: Operation
    pack: Pack
    order: RowOrder | None
    memory_bytes: int
    spec: Callable[[Target, str], WriteSpec]
    """How files are made: by the table and a transaction."""
    planned: MaintenanceStats
    """The plan's own statistics."""
    notes: dict[str, int] = field(default_factory=dict)
    """More for the snapshot's summary."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files to rewrite together, and what came of it once that was done."""

    entries: tuple[FileEntry, ...]
    rows: tuple[int, ...]
    made: tuple[DataFile, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the old files."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def made_bytes(self) -> int:
        """Bytes of the new files."""
        return sum(file.size_bytes for file in self.made or ())


def groups_of(entries: Sequence[FileEntry], groups: Iterable[PlannedGroup]) -> list[Group]:
    """The groups of a plan over the entries."""
    return [Group(tuple(entries[place] for place in group.members), group.output_rows) for group in groups]


def counted(planned: MaintenanceStats, done: Sequence[Group]) -> MaintenanceStats:
    """The statistics of what was done, of what was planned over the same files."""
    removed = sum(len(group.entries) for group in done)
    removed_bytes = sum(group.size_bytes for group in done)
    return replace(
        planned,
        after_file_count=planned.before_file_count - removed + sum(len(group.made or ()) for group in done),
        after_total_bytes=planned.before_total_bytes - removed_bytes + sum(group.made_bytes for group in done),
        compacted_file_count=removed,
        rewritten_bytes=removed_bytes,
        dry_run=False,
        planned_groups=None,
    )


def commit_groups(
    context: LakeContext, unit: Unit, target: Target, groups: Sequence[Group], job: Job
) -> tuple[list[Group], Snapshot | None]:
    """Rewrites the groups and commits them as one version; returns what was done.

    Groups that other commits broke are planned again from what is left of them, and left out where that is nothing.

    Raises:
        ConflictError: others were in the way each time.
    """
    for attempt in range(1, MAX_RERUNS + 1):
        groups = _rewritten(context, unit, target, groups, job)
        change = _change(target, groups, job)
        try:
            snapshots = unit.commit([change])
            return list(groups), snapshots.get(target.info.table_id)
        except CONFLICTS:
            if attempt == MAX_RERUNS:
                raise
        now = target.newest(context)
        same_schema = now.head.schema_id == target.head.schema_id
        again = groups if same_schema else [_unmade(unit, target, group) for group in groups]
        target, groups = now, _left(context, unit, now, again, job)
    raise AssertionError("unreachable")


def rewriting_engine(engine: Engine) -> RewritingEngine:
    """The engine, if it can rewrite files; else `InvalidOptionError`."""
    if not hasattr(engine, "rewrite_groups"):
        raise InvalidOptionError(f'engine="{engine.name}" cannot rewrite files; use "pyarrow", "duckdb" or "spark"')
    return cast("RewritingEngine", engine)


def _rewritten(context: LakeContext, unit: Unit, target: Target, groups: Sequence[Group], job: Job) -> list[Group]:
    """The groups with their new files; those that have them already are not written again."""
    todo = [group for group in groups if group.made is None]
    if not todo:
        return list(groups)
    with context.catalog.read() as reader:
        entries = [entry for group in todo for entry in group.entries]
        stored = stored_schemas(reader, target.info, target.schema, entries)
    asked = [_request(target, group, stored) for group in todo]
    spec = _tracked(unit, job.spec(target, unit.txn_id), job.operation)
    engine = rewriting_engine(target.engine)
    made = engine.rewrite_groups(asked, spec, context.store, order=job.order, memory_bytes=job.memory_bytes)
    found = iter(made)
    return [replace(group, made=tuple(next(found))) if group.made is None else group for group in groups]


def _tracked(unit: Unit, spec: WriteSpec, operation: Operation) -> WriteSpec:
    """The same spec, by which the unit hears of each file, so that none is left if it fails."""
    return replace(
        spec,
        file_visitor=lambda file: unit.track([f"{spec.location}/{file.path}"]),
        rows_visitor=None if unit.report is SILENT else unit.report.advance,
        footer={**spec.footer, OPERATION_KEY: str(operation)},
    )


def _request(target: Target, group: Group, stored: dict[int, pa.Schema]) -> RewriteGroup:
    info = target.info
    values = group.entries[0].partition
    folder = "/".join(partition_segment(name, values.get(name)) for name in info.partition_by)
    files = tuple(planned(info, entry) for entry in group.entries)
    ids = {entry.schema_id for entry in group.entries}
    plan = ReadPlan(target.schema, files, file_schemas={key: schema for key, schema in stored.items() if key in ids})
    return RewriteGroup(plan, group.rows, folder, dict(values))


def _change(target: Target, groups: Sequence[Group], job: Job) -> TableChange:
    return TableChange(
        target.info,
        target.head,
        job.operation,
        data_change=False,
        add=tuple(file for group in groups for file in group.made or ()),
        remove=tuple(entry for group in groups for entry in group.entries),
        carried_rows=sum(entry.row_count for group in groups for entry in group.entries),
        summary=summary_of(counted(job.planned, groups)) | job.notes,
        writes=bool(groups),
    )


def _unmade(unit: Unit, target: Target, group: Group) -> Group:
    """The group as it was before it was rewritten; its new files go."""
    unit.discard(target.info.location, group.made or ())
    return replace(group, made=None)


def _left(context: LakeContext, unit: Unit, now: Target, groups: Sequence[Group], job: Job) -> list[Group]:
    """What is to be done after a conflict: whole groups as they are, and others planned again from what is left."""
    ids = sorted(entry.file_id for group in groups for entry in group.entries)
    with context.catalog.read() as reader:
        found = reader.files(now.info.table_id, now.head.version, ids) if ids else []
    live = {entry.file_id for entry in found}
    kept: list[Group] = []
    broken: list[FileEntry] = []
    for group in groups:
        rest = [entry for entry in group.entries if entry.file_id in live]
        if len(rest) == len(group.entries):
            kept.append(group)
        else:
            _unmade(unit, now, group)
            broken += rest
    broken.sort(key=lambda entry: entry.file_id)
    return kept + groups_of(broken, job.pack(broken).groups)
