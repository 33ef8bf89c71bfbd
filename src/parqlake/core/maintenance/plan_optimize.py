"""The plan of an optimization: which partitions to lay out anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parqlake.core.maintenance.files import FileInfo, as_file_infos
from parqlake.core.maintenance.laying_out import lay_out
from parqlake.core.maintenance.packing import Item
from parqlake.core.maintenance.plan_compaction import plan_dict
from parqlake.core.maintenance.targets import DEFAULT_TARGET_MB, check_columns, make_targets


def plan_optimize_groups(
    file_infos: Sequence[FileInfo | Mapping[str, Any]],
    zorder_columns: Sequence[str],
    target_mb_per_file: float | None = None,
    target_rows_per_file: int | None = None,
    sample_schema: Any = None,
    *,
    clustered: Collection[str] = (),
    recompress: Collection[str] = (),
) -> dict[str, Any]:
    """Plans which folders to lay out anew along the z-order columns; reads and writes nothing.

    A z-order is global: all files of a folder form one group, whose rows are ordered together and then cut into files
    that do not overlap. A folder that is already clustered is left alone, unless a file must be recompressed, breaks
    `target_rows_per_file`, or a target was given and the files have on average less than a quarter of it.

    Args:
        file_infos: the files, as `FileInfo` or as dicts with path, size_bytes and num_rows.
        zorder_columns: names of the columns to cluster by.
        target_mb_per_file: about how large a file shall be, in MiB; 128 if no target is given.
        target_rows_per_file: the most rows a file may have.
        sample_schema: a schema, or names of columns, that the z-order columns are looked up in; None does not check.
        clustered: folders (parents of files) that were found to be clustered by these columns already; see
            `parqlake.core.clustering`.
        recompress: paths of files whose codec is not the wanted one.

    Returns:
        The same as `plan_compaction_groups`, with `zorder_columns` in the statistics.

    Example:
        >>> files = [FileInfo("d/1.parquet", 100, 10), FileInfo("d/2.parquet", 100, 15)]
        >>> plan_optimize_groups(files, ["id"])["planned_groups"]
        [['d/1.parquet', 'd/2.parquet']]
        >>> plan_optimize_groups(files, ["id"], clustered=["d"])["planned_groups"]
        []
    """
    columns = check_columns(zorder_columns, sample_schema)
    resize = target_mb_per_file is not None or target_rows_per_file is not None
    targets = make_targets(target_mb_per_file, target_rows_per_file, default_mb=DEFAULT_TARGET_MB)
    files = as_file_infos(file_infos)
    again = frozenset(recompress)
    items = [Item(file.size_bytes, file.num_rows, file.folder, file.path in again) for file in files]
    plan = lay_out(items, targets, clustered=frozenset(clustered), resize=resize)
    return plan_dict(files, plan, zorder_columns=columns)
