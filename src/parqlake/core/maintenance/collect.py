"""What files a plain directory of Parquet holds: paths, sizes, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.errors import DataCorruptionError, FileNotInStoreError, InvalidOptionError, PathIsFileError
from parqlake.core.maintenance.files import FileInfo

_THREADS = 16
_CODECS = {"none": "UNCOMPRESSED", "lz4_raw": "LZ4", "gz": "GZIP", "zst": "ZSTD"}

T = TypeVar("T")


def collect_dataset_stats(
    path: str, filesystem: Any, partition_filter: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """Finds the Parquet files under a folder and reads their row counts from the footers.

    Args:
        path: the dataset's folder.
        filesystem: an fsspec filesystem that the path is on.
        partition_filter: partition folders to keep, as `date=2025-11-04` or `a=1/b=2`, or several of them; whole path
            segments are compared. None keeps all.

    Returns:
        `files`, a list of dicts with path, size_bytes and num_rows, ordered by path; `total_bytes`; `total_rows`.

    Raises:
        FileNotFoundError: there is no such folder, or no Parquet file in it that the filter takes.
        NotADirectoryError: the path is a file.

    Example:
        >>> import fsspec, pyarrow as pa, pyarrow.parquet as pq
        >>> memory = fsspec.filesystem("memory")
        >>> with memory.open("/sales/date=2025-11-04/part-0.parquet", "wb") as file:
        ...     pq.write_table(pa.table({"id": [1, 2, 3]}), file)
        >>> collect_dataset_stats("/sales", memory, "date=2025-11-04")["total_rows"]
        3
    """
    files = _collect(path, filesystem, partition_filter, lambda file, _: file)
    return {
        "files": [file.to_dict() for file in files],
        "total_bytes": sum(file.size_bytes for file in files),
        "total_rows": sum(file.num_rows for file in files),
    }


def read_footers(
    path: str, filesystem: Any, partition_filter: str | Sequence[str] | None = None
) -> list[tuple[FileInfo, Any]]:
    """Finds the Parquet files under a folder like `collect_dataset_stats`, and keeps each one's `FileMetaData`.

    Example:
        >>> import fsspec, pyarrow as pa, pyarrow.parquet as pq
        >>> memory = fsspec.filesystem("memory")
        >>> with memory.open("/lines/part-0.parquet", "wb") as file:
        ...     pq.write_table(pa.table({"id": [1, 2, 3]}), file)
        >>> [(file.num_rows, footer.num_row_groups) for file, footer in read_footers("/lines", memory)]
        [(3, 1)]
    """
    return _collect(path, filesystem, partition_filter, lambda file, footer: (file, footer))


def has_codec(footer: Any, codec: str | None) -> bool:
    """Whether all columns of a file are compressed by the codec; None or "none" is no compression.

    Example:
        >>> import io, pyarrow as pa, pyarrow.parquet as pq
        >>> file = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1, 2, 3]}), file, compression="zstd")
        >>> has_codec(pq.read_metadata(file), "ZSTD"), has_codec(pq.read_metadata(file), "snappy")
        (True, False)
    """
    wanted = _CODECS.get((codec or "none").lower(), (codec or "none").upper())
    return all(
        _CODECS.get(group.column(i).compression.lower(), group.column(i).compression) == wanted
        for group in map(footer.row_group, range(footer.num_row_groups))
        for i in range(group.num_columns)
    )


def is_data_path(relative: str) -> bool:
    """Whether a path inside a dataset is a data file: ends in .parquet, and no segment is hidden.

    What begins with a dot or an underscore is hidden, be it file or folder; a partition folder such as `_day=1` is not.

    Example:
        >>> is_data_path("a=1/x.parquet"), is_data_path("_tmp/x.parquet"), is_data_path(".x.parquet")
        (True, False, False)
    """
    return relative.endswith(".parquet") and not any(_is_hidden(segment) for segment in relative.split("/"))


def _is_hidden(segment: str) -> bool:
    return segment.startswith(".") or (segment.startswith("_") and "=" not in segment)


def matches_partition(relative: str, partition_filter: str | Sequence[str] | None) -> bool:
    """Whether the file of that path inside a dataset lies in one of the partitions.

    Example:
        >>> matches_partition("date=2025-11-10/x.parquet", "date=2025-11-1")
        False
        >>> matches_partition("a=1/b=2/x.parquet", ["b=2", "a=3"])
        True
    """
    return _matches(relative, _segments(partition_filter))


def _collect(
    path: str, filesystem: Any, partition_filter: str | Sequence[str] | None, take: Callable[[FileInfo, Any], T]
) -> list[T]:
    filters = _segments(partition_filter)
    if filesystem.isfile(path):
        raise PathIsFileError(f"Dataset path '{path}' exists but is a file; give the folder that holds the files")
    if not filesystem.exists(path):
        raise FileNotInStoreError(f"Dataset path '{path}' does not exist; check the path and the filesystem")
    found = [
        (name, size)
        for relative, name, size in _walk(path, filesystem)
        if is_data_path(relative) and _matches(relative, filters)
    ]
    if not found:
        shown = "" if partition_filter is None else f" {partition_filter!r}"
        raise FileNotInStoreError(
            f"No parquet files found under '{path}' matching filter{shown}; a filter names whole folders, "
            'for instance "date=2025-11-04"'
        )
    with ThreadPoolExecutor(max_workers=min(_THREADS, len(found))) as threads:
        return list(threads.map(lambda entry: take(*_read(filesystem, *entry)), found))


def _segments(partition_filter: str | Sequence[str] | None) -> list[list[str]] | None:
    if partition_filter is None:
        return None
    texts: Iterable[object] = [partition_filter] if isinstance(partition_filter, str) else partition_filter
    result = []
    for text in texts:
        segments = [part for part in text.split("/") if part] if isinstance(text, str) else []
        if not segments:
            raise InvalidOptionError(
                f'partition_filter holds {text!r}; give partition folders, for instance "date=2025-11-04" or "a=1/b=2"'
            )
        result.append(segments)
    if not result:
        raise InvalidOptionError("partition_filter is an empty list, which no file matches; leave it out to take all")
    return result


def _matches(relative: str, filters: list[list[str]] | None) -> bool:
    if filters is None:
        return True
    folders = relative.split("/")[:-1]
    return any(
        folders[start : start + len(wanted)] == wanted
        for wanted in filters
        for start in range(len(folders) - len(wanted) + 1)
    )


def _walk(path: str, filesystem: Any) -> Iterator[tuple[str, str, int | None]]:
    """Yields path inside the dataset, path on the filesystem and size of every file, ordered by path."""
    root = str(filesystem._strip_protocol(path)).rstrip("/")
    filesystem.invalidate_cache(path)  # a remembered listing would miss what others wrote
    entries = filesystem.find(path, detail=True)
    for name in sorted(entries):
        yield name[len(root) :].lstrip("/"), name, entries[name].get("size")


def _read(filesystem: Any, name: str, size: int | None) -> tuple[FileInfo, Any]:
    with filesystem.open(name, "rb") as file:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the store's own, not Arrow's about what it read
            raise DataCorruptionError(
                f"'{name}' is no Parquet file or is damaged: {error}; restore it or move it out of the dataset"
            ) from error
        if size is None:
            size = file.seek(0, 2)
    return FileInfo(name, int(size), footer.num_rows), footer
