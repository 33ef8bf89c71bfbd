"""Compact: many small files become few, over-large ones several; the rows stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import OVERSIZE_FACTOR, Packing, make_targets, pack
from parqlake.core.maintenance.rewriting import RowOrder
from parqlake.core.model import FileEntry, Operation, TableInfo
from parqlake.core.ports import CatalogReader, WriteSpec
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_call import Mode, bound_where, maintain, memory_of
from parqlake.table.maintenance_plan import Planned, files_in_view, items_of, planned_run
from parqlake.table.maintenance_run import Job
from parqlake.table.maintenance_stats import TableMaintenance
from parqlake.table.options import write_spec
from parqlake.table.planning import stored_schemas
from parqlake.table.target import Target
from parqlake.table.writes import Call


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is asked of a compaction."""

    target_mb_per_file: float | None
    target_rows_per_file: int | None
    where: Any
    sort: bool
    memory_limit: int | str | None
    compression: str | None
    old_schemas: bool = False


def compact(context: LakeContext, info: TableInfo, asked: Compaction, *, call: Call, mode: Mode) -> TableMaintenance:
    """Compacts a table; see `Table.compact`."""
    targets = make_targets(asked.target_mb_per_file, asked.target_rows_per_file, oversize_factor=OVERSIZE_FACTOR)
    memory = memory_of(asked.memory_limit)
    if not isinstance(asked.sort, bool):
        raise InvalidOptionError(f"sort={asked.sort!r} must be True or False; the columns are the table's sort_by")
    if not isinstance(asked.old_schemas, bool):
        raise InvalidOptionError(f"old_schemas={asked.old_schemas!r} must be True or False")
    if asked.sort and not info.sort_by:
        raise InvalidOptionError(
            f"sort=True, but {info.name} has no sort_by to sort by; create it with sort_by=[…], or use optimize"
        )

    def spec(target: Target, txn_id: str) -> WriteSpec:
        return write_spec(target.info, target.schema, {"compression": asked.compression}, txn_id=txn_id)

    def make_plan(reader: CatalogReader, target: Target) -> tuple[Planned, Job]:
        entries = files_in_view(reader, target, bound_where(asked.where, target))
        order = RowOrder(target.info.sort_by) if asked.sort else None
        older = stored_schemas(reader, target.info, target.schema, entries) if asked.old_schemas else ()

        def pack_entries(entries: Sequence[FileEntry]) -> Packing:
            return pack(items_of(entries, rewrite_schemas=older), targets)

        plan = planned_run(entries, pack_entries(entries), codec=spec(target, "").compression)
        return plan, Job(Operation.COMPACT, pack_entries, order, memory, spec, plan.stats)

    return maintain(context, info, make_plan, call=call, mode=mode)
