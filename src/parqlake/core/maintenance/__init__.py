"""Maintenance of Parquet files: what is there, which files to rewrite together, and what came of it.

Nothing here writes. One planner serves plain directories and tables alike (`packing` for
compactions, `laying_out` for optimizations); the rest is its public face.
"""

from parqlake.core.maintenance.collect import (
    collect_dataset_stats,
    has_codec,
    is_data_path,
    matches_partition,
    read_footers,
)
from parqlake.core.maintenance.files import CompactionGroup, FileInfo, MaintenanceStats
from parqlake.core.maintenance.laying_out import lay_out, output_rows
from parqlake.core.maintenance.packing import (
    OVERSIZE_FACTOR,
    Item,
    Packing,
    PlannedGroup,
    Targets,
    pack,
)
from parqlake.core.maintenance.plan_compaction import plan_compaction_groups
from parqlake.core.maintenance.plan_optimize import plan_optimize_groups
from parqlake.core.maintenance.targets import DEFAULT_TARGET_MB, check_columns, make_targets

__all__ = [
    "DEFAULT_TARGET_MB",
    "OVERSIZE_FACTOR",
    "CompactionGroup",
    "FileInfo",
    "Item",
    "MaintenanceStats",
    "Packing",
    "PlannedGroup",
    "Targets",
    "check_columns",
    "collect_dataset_stats",
    "has_codec",
    "is_data_path",
    "lay_out",
    "make_targets",
    "matches_partition",
    "output_rows",
    "pack",
    "plan_compaction_groups",
    "plan_optimize_groups",
    "read_footers",
]
