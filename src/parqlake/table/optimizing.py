"""Optimize: rows laid out along a curve over some columns, so that statistics let readers skip files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from parqlake.core.clustering import Curve
from parqlake.core.clustering.stale import LaidFile, stale_files
from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import DEFAULT_TARGET_MB, Item, Packing, Targets, lay_out, make_targets
from parqlake.core.maintenance.laying_out import unsteady
from parqlake.core.maintenance.rewriting import RowOrder
from parqlake.core.model import FileEntry, Operation, TableInfo
from parqlake.core.ports import CatalogReader, WriteSpec
from parqlake.core.schema import field_id
from parqlake.table.clustering import by_partition, clustering_columns
from parqlake.table.clustering_bounds import Bounds
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_call import Mode, bound_where, maintain, memory_of
from parqlake.table.maintenance_plan import Planned, files_in_view, items_of, partition_of, planned_run
from parqlake.table.maintenance_run import Job
from parqlake.table.maintenance_stats import TableMaintenance
from parqlake.table.options import write_spec
from parqlake.table.target import Target
from parqlake.table.writes import Call

LAYOUT = "layout"
"""In a snapshot's summary: a number that stands for the columns and the curve."""
_CURVES = {"hilbert": Curve.HILBERT, "zorder": Curve.MORTON}
_SMALL_FILES = 4
"""Settled files of so many targets together are rewritten with new ones without a second thought."""
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Optimization:
    """What is asked of an optimization."""

    zorder_columns: Any
    curve: Any
    target_mb_per_file: float | None
    target_rows_per_file: int | None
    where: Any
    memory_limit: int | str | None
    compression: str | None


def optimize(context: LakeContext, info: TableInfo, asked: Optimization, *, call: Call, mode: Mode) -> TableMaintenance:
    """Optimizes a table; see `Table.optimize`."""
    targets = make_targets(asked.target_mb_per_file, asked.target_rows_per_file, default_mb=DEFAULT_TARGET_MB)
    resize = asked.target_mb_per_file is not None or asked.target_rows_per_file is not None
    memory = memory_of(asked.memory_limit)
    if asked.curve not in _CURVES:
        raise InvalidOptionError(f'curve={asked.curve!r} is unknown; use "hilbert" or "zorder"')
    curve = _CURVES[asked.curve]

    def spec(target: Target, txn_id: str) -> WriteSpec:
        return write_spec(target.info, target.schema, {"compression": asked.compression}, txn_id=txn_id)

    def pack_all(entries: Sequence[FileEntry]) -> Packing:
        return lay_out(items_of(entries), targets, clustered=(), resize=False)

    def make_plan(reader: CatalogReader, target: Target) -> tuple[Planned, Job]:
        columns = clustering_columns(asked.zorder_columns, target)
        layout = layout_id(target, columns, curve)
        entries = files_in_view(reader, target, bound_where(asked.where, target))
        stale = _stale(reader, target, entries, columns, layout=layout, targets=targets)
        packing = _planned(entries, stale, targets, resize=resize)
        plan = planned_run(entries, packing, codec=spec(target, "").compression, zorder_columns=columns)
        order = RowOrder(tuple(columns), curve)
        return plan, Job(Operation.OPTIMIZE, pack_all, order, memory, spec, plan.stats, {LAYOUT: layout})

    return maintain(context, info, make_plan, call=call, mode=mode)


def layout_id(target: Target, columns: Sequence[str], curve: Curve) -> int:
    """A number that stands for the columns, whatever they are called, and the curve."""
    ids = [field_id(target.schema.field(name)) for name in columns]
    along = str(curve) if len(columns) > 1 else ""  # one column is a plain sort by either
    return zlib.crc32(json.dumps([ids, along]).encode())


def _stale(
    reader: CatalogReader,
    target: Target,
    entries: Sequence[FileEntry],
    columns: Sequence[str],
    *,
    layout: int,
    targets: Targets,
) -> frozenset[int]:
    """Ids of the files that are to be laid out again."""
    if not entries:
        return frozenset()
    runs = _runs(reader, target, entries, layout)
    bounds = Bounds(reader, target, columns)
    found: set[int] = set()
    for files in by_partition(entries):
        laid = [
            LaidFile(
                entry.size_bytes,
                entry.added if entry.added in runs else None,
                entry.row_group_count,
                1.0 if entry.added in runs else bounds.inner_depth(entry),
            )
            for entry in files
        ]
        small = _SMALL_FILES * _target_bytes(files, targets)
        found.update(files[n].file_id for n in stale_files(laid, bounds.of_files(files), small_bytes=small))
    return frozenset(found)


def _target_bytes(files: Sequence[FileEntry], targets: Targets) -> int:
    """About how large a file of the target's length is."""
    size = targets.size_bytes or DEFAULT_TARGET_MB * _MIB
    if targets.max_rows is None:
        return size
    rows = max(1, sum(entry.row_count for entry in files))
    return min(size, targets.max_rows * sum(entry.size_bytes for entry in files) // rows)


def _runs(reader: CatalogReader, target: Target, entries: Sequence[FileEntry], layout: int) -> set[int]:
    """Versions that an optimization by the same columns and curve made."""
    table_id, after = target.info.table_id, min(entry.added for entry in entries) - 1
    snapshots = (*reader.snapshots(table_id, after=after), *reader.expired_snapshots(table_id, after=after))
    return {
        snapshot.version
        for snapshot in snapshots
        if snapshot.operation is Operation.OPTIMIZE and snapshot.summary.get(LAYOUT) == layout
    }


def _planned(entries: Sequence[FileEntry], stale: frozenset[int], targets: Targets, *, resize: bool) -> Packing:
    """One group for the stale files of each partition; other files stay, unless their lengths are a reason."""
    while True:
        keys: list[tuple[Hashable, bool]] = [(partition_of(entry), entry.file_id in stale) for entry in entries]
        items = [Item(entry.size_bytes, entry.row_count, key) for entry, key in zip(entries, keys, strict=True)]
        packing = lay_out(items, targets, clustered={key for key in keys if not key[1]}, resize=resize)
        touched = {keys[place] for group in packing.groups for place in group.members}
        twice = {partition for partition, is_stale in touched if is_stale and (partition, False) in touched}
        twice |= unsteady(items, packing, targets, whole=lambda key: key[0]) if resize else set()
        if not twice:
            return packing
        # Both parts of a partition are rewritten, or would be next time: together, then, so that they do not overlap.
        stale |= {entry.file_id for entry in entries if partition_of(entry) in twice}
