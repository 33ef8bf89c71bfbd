"""Which files of a version maintenance looks at, and the plan over them, by what the catalog knows alone."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from parqlake.core.maintenance import FileInfo, Item, MaintenanceStats, Packing
from parqlake.core.maintenance.plan_compaction import plan_dict
from parqlake.core.model import FileEntry
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates.tree import Predicate
from parqlake.table.removal import sorted_out
from parqlake.table.target import Target

PartitionKey = tuple[tuple[str, Hashable], ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan over some files of one version."""

    entries: tuple[FileEntry, ...]
    packing: Packing
    stats: MaintenanceStats
    """Those of a dry run."""


def files_in_view(reader: CatalogReader, target: Target, predicate: Predicate) -> list[FileEntry]:
    """The files that may hold a row for which the bound predicate is TRUE, oldest first."""
    whole, partial = sorted_out(reader, target.info, target.head, target.schema, predicate)
    return sorted([*whole, *partial], key=lambda entry: entry.file_id)


def partition_of(entry: FileEntry) -> PartitionKey:
    """The file's partition values, as something to compare."""
    return tuple(sorted(entry.partition.items()))


def items_of(entries: Sequence[FileEntry], *, rewrite_schemas: Collection[int] = ()) -> list[Item]:
    """The files as the planner sees them; those of some schemas are rewritten in any case."""
    return [
        Item(entry.size_bytes, entry.row_count, partition_of(entry), entry.schema_id in rewrite_schemas)
        for entry in entries
    ]


def planned_run(
    entries: Sequence[FileEntry], packing: Packing, *, codec: str, zorder_columns: list[str] | None = None
) -> Planned:
    """The plan with its statistics."""
    infos = [FileInfo(entry.path, entry.size_bytes, entry.row_count) for entry in entries]
    stats: MaintenanceStats = plan_dict(infos, packing, zorder_columns=zorder_columns)["planned_stats"]
    return Planned(tuple(entries), packing, replace(stats, compression_codec=codec))
