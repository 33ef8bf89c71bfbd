"""The PyArrow functions: the same operations as the handler's, with PyArrow alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parqlake.core.maintenance import collect_dataset_stats
from parqlake.datasets.backends import pyarrow_backend
from parqlake.datasets.merging import BATCH_ROWS, merge_into
from parqlake.datasets.operations import compact, optimize
from parqlake.datasets.paths import AnyPath, place_of
from parqlake.datasets.survey import recover_if_needed


def collect_dataset_stats_pyarrow(
    path: AnyPath, filesystem: Any = None, partition_filter: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """Finds the Parquet files of a directory, with sizes and row counts.

    Args:
        path: the directory.
        filesystem: an fsspec or PyArrow file system; by default the path says which.
        partition_filter: only these partitions, as "date=2025-11-04", or several; whole folder names count.

    Returns:
        `files`, a list of dicts with path, size_bytes and num_rows; `total_bytes`; `total_rows`.

    Raises:
        FileNotFoundError: no such directory, or no file that the filter takes.
        NotADirectoryError: the path is a file.

    Example:
        >>> import fsspec, pyarrow as pa, pyarrow.parquet as pq
        >>> with fsspec.open("memory://counted/part-0.parquet", "wb") as file:
        ...     pq.write_table(pa.table({"id": [1, 2, 3]}), file)
        >>> collect_dataset_stats_pyarrow("memory://counted")["total_rows"]
        3
    """
    place = place_of(path, filesystem)
    place.require()
    recover_if_needed(place)
    return collect_dataset_stats(place.store.root or "/", place.filesystem, partition_filter)


def compact_parquet_dataset_pyarrow(  # noqa: PLR0917
    path: AnyPath,
    target_mb_per_file: float | None = None,
    target_rows_per_file: int | None = None,
    partition_filter: str | Sequence[str] | None = None,
    compression: str | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    *,
    memory_limit: int | str | None = None,
) -> dict[str, Any]:
    """Puts small files together and splits long ones; see `DuckDBParquetHandler.compact_parquet_dataset`.

    Args:
        path: the directory.
        target_mb_per_file: about how large files shall be, in MiB. This or the next is needed.
        target_rows_per_file: the most rows a file may have.
        partition_filter: only these partitions, as "date=2025-11-04", or several; whole folder names count.
        compression: codec of the files; files of another codec are rewritten. None keeps the usual one.
        dry_run: only plan; the result has `planned_groups`.
        filesystem: an fsspec or PyArrow file system; by default the path says which.
        memory_limit: how much to hold in memory, in bytes or as "512MB".

    Returns:
        The canonical statistics, the same as DuckDB's.

    Example:
        >>> import fsspec, pyarrow as pa, pyarrow.parquet as pq
        >>> for number in range(3):
        ...     with fsspec.open(f"memory://tiny/{number}.parquet", "wb") as file:
        ...         pq.write_table(pa.table({"id": [number]}), file)
        >>> compact_parquet_dataset_pyarrow("memory://tiny", target_rows_per_file=10)["after_file_count"]
        1
    """
    return compact(
        place_of(path, filesystem),
        pyarrow_backend(),
        target_mb_per_file=target_mb_per_file,
        target_rows_per_file=target_rows_per_file,
        partition_filter=partition_filter,
        compression=compression,
        dry_run=dry_run,
        memory_limit=memory_limit,
    )


def optimize_parquet_dataset_pyarrow(  # noqa: PLR0917
    path: AnyPath,
    zorder_columns: Sequence[str],
    target_mb_per_file: float | None = None,
    target_rows_per_file: int | None = None,
    partition_filter: str | Sequence[str] | None = None,
    compression: str | None = None,
    dry_run: bool = False,
    filesystem: Any = None,
    *,
    memory_limit: int | str | None = None,
) -> dict[str, Any]:
    """Lays rows out so that queries by the columns read few files; see the handler's `optimize_parquet_dataset`.

    Args:
        path: the directory.
        zorder_columns: names of columns, those that queries ask for.
        target_mb_per_file: about how large files shall be, in MiB; 128 if no target is given.
        target_rows_per_file: the most rows a file may have.
        partition_filter: only these partitions, as "date=2025-11-04", or several; whole folder names count.
        compression: codec of the files; files of another codec are rewritten. None keeps the usual one.
        dry_run: only plan; the result has `planned_groups`.
        filesystem: an fsspec or PyArrow file system; by default the path says which.
        memory_limit: how much to hold in memory, in bytes or as "512MB".

    Returns:
        The canonical statistics with `zorder_columns`, the same as DuckDB's.

    Example:
        >>> import fsspec, pyarrow as pa, pyarrow.parquet as pq
        >>> with fsspec.open("memory://unsorted/0.parquet", "wb") as file:
        ...     pq.write_table(pa.table({"id": [3, 1, 2]}), file)
        >>> optimize_parquet_dataset_pyarrow("memory://unsorted", ["id"])["zorder_columns"]
        ['id']
    """
    return optimize(
        place_of(path, filesystem),
        pyarrow_backend(),
        zorder_columns=zorder_columns,
        target_mb_per_file=target_mb_per_file,
        target_rows_per_file=target_rows_per_file,
        partition_filter=partition_filter,
        compression=compression,
        dry_run=dry_run,
        memory_limit=memory_limit,
    )


def merge_parquet_dataset_pyarrow(  # noqa: PLR0917
    source: Any,
    target_path: AnyPath,
    key_columns: Sequence[str] | str,
    strategy: str = "upsert",
    dedup_order_by: Sequence[str] | str | None = None,
    compression: str | None = None,
    filesystem: Any = None,
    batch_rows: int = BATCH_ROWS,
    *,
    memory_limit: int | str | None = None,
) -> dict[str, int]:
    """Merges rows into a directory by key; see `DuckDBParquetHandler.merge_parquet_dataset` for the strategies.

    Args:
        source: an Arrow table or reader, whatever else `Table.append` takes, or a path of a file or directory.
        target_path: the directory. If it holds nothing, all strategies but update create it.
        key_columns: columns that together tell rows apart; no NULLs on either side.
        strategy: upsert, insert, update, full_merge or deduplicate.
        dedup_order_by: columns by which the highest of several source rows with one key is taken.
        compression: codec of the files that are written; snappy if None.
        filesystem: an fsspec or PyArrow file system, for both paths; by default each path says which.
        batch_rows: rows of a file that are worked on at a time.
        memory_limit: how much to hold in memory, in bytes or as "512MB"; more goes to disk.

    Returns:
        `inserted`, `updated`, `deleted`, and `total`, the rows afterwards.

    Example:
        >>> import pyarrow as pa
        >>> merge_parquet_dataset_pyarrow(pa.table({"id": [1, 2]}), "memory://new", ["id"])
        {'inserted': 2, 'updated': 0, 'deleted': 0, 'total': 2}
    """
    return merge_into(
        place_of(target_path, filesystem),
        source,
        pyarrow_backend(),
        key_columns=key_columns,
        strategy=strategy,
        dedup_order_by=dedup_order_by,
        compression=compression,
        filesystem=filesystem,
        memory_limit=memory_limit,
        batch_rows=batch_rows,
        stacklevel=2,
    )
