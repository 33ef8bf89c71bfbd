"""The plan of a compaction of a plain directory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parqlake.core.maintenance.files import CompactionGroup, FileInfo, MaintenanceStats, as_file_infos
from parqlake.core.maintenance.packing import Item, Packing, pack
from parqlake.core.maintenance.targets import make_targets


def plan_compaction_groups(
    file_infos: Sequence[FileInfo | Mapping[str, Any]],
    target_mb_per_file: float | None = None,
    target_rows_per_file: int | None = None,
    *,
    recompress: Collection[str] = (),
    oversize_factor: float | None = None,
) -> dict[str, Any]:
    """Plans which files to rewrite together; reads and writes nothing.

    Files of one folder only are put together. `target_rows_per_file` is a hard bound, so that larger files are split;
    `target_mb_per_file` is approximate. With both, both hold. A plan over the files that an earlier plan made is empty.

    Args:
        file_infos: the files, as `FileInfo` or as dicts with path, size_bytes and num_rows.
        target_mb_per_file: about how large a file shall be, in MiB.
        target_rows_per_file: the most rows a file may have.
        recompress: paths of files to rewrite in any case, because their codec is not the wanted one.
        oversize_factor: split files larger than this many size targets; None leaves them as they are.

    Returns:
        `groups` (a list of `CompactionGroup`), `untouched_files` (a list of `FileInfo`), `planned_stats` (a
        `MaintenanceStats` of a dry run, without codec) and `planned_groups` (paths, group by group).

    Example:
        >>> files = [FileInfo("a/1.parquet", 100, 10), FileInfo("a/2.parquet", 100, 15), FileInfo("b/1.parquet", 9, 1)]
        >>> plan_compaction_groups(files, target_rows_per_file=50)["planned_groups"]
        [['a/1.parquet', 'a/2.parquet']]
    """
    targets = make_targets(target_mb_per_file, target_rows_per_file, oversize_factor=oversize_factor)
    files = as_file_infos(file_infos)
    again = frozenset(recompress)
    items = [Item(file.size_bytes, file.num_rows, file.folder, file.path in again) for file in files]
    return plan_dict(files, pack(items, targets))


def plan_dict(
    files: Sequence[FileInfo], packing: Packing, *, zorder_columns: list[str] | None = None
) -> dict[str, Any]:
    """The plan over `files` in the form that callers know, with the statistics of a dry run."""
    groups = [CompactionGroup([files[i] for i in group.members], group.output_rows) for group in packing.groups]
    rewritten = sum(group.total_size_bytes for group in groups)
    planned_groups = [group.file_paths() for group in groups]
    total = sum(file.size_bytes for file in files)
    stats = MaintenanceStats(
        before_file_count=len(files),
        after_file_count=packing.output_count,
        before_total_bytes=total,
        # Nobody knows how well the merged rows compress; the same as before is the honest estimate.
        after_total_bytes=total,
        compacted_file_count=sum(group.file_count for group in groups),
        rewritten_bytes=rewritten,
        dry_run=True,
        zorder_columns=zorder_columns,
        planned_groups=planned_groups,
    )
    return {
        "groups": groups,
        "untouched_files": [files[place] for place in packing.untouched],
        "planned_stats": stats,
        "planned_groups": planned_groups,
    }
