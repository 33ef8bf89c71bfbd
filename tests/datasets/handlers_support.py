"""The two backends behind one face, and small datasets to try them on."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from parqlake.datasets import (
    DuckDBParquetHandler,
    compact_parquet_dataset_pyarrow,
    merge_parquet_dataset_pyarrow,
    optimize_parquet_dataset_pyarrow,
)

REQUIRED = {
    "before_file_count",
    "after_file_count",
    "before_total_bytes",
    "after_total_bytes",
    "compacted_file_count",
    "rewritten_bytes",
    "compression_codec",
    "dry_run",
}


class Duck:
    """The handler, one for each call."""

    name = "duckdb"

    def compact(self, path: Any, *, filesystem: Any = None, **options: Any) -> dict[str, Any]:
        with DuckDBParquetHandler(filesystem=filesystem) as handler:
            return handler.compact_parquet_dataset(path, **options)

    def optimize(self, path: Any, columns: Any, *, filesystem: Any = None, **options: Any) -> dict[str, Any]:
        with DuckDBParquetHandler(filesystem=filesystem) as handler:
            return handler.optimize_parquet_dataset(path, columns, **options)

    def merge(self, source: Any, path: Any, keys: Any, *, filesystem: Any = None, **options: Any) -> dict[str, int]:
        with DuckDBParquetHandler(filesystem=filesystem) as handler:
            return handler.merge_parquet_dataset(source, path, keys, **options)


class Arrow:
    """The PyArrow functions."""

    name = "pyarrow"

    def compact(self, path: Any, **options: Any) -> dict[str, Any]:
        return compact_parquet_dataset_pyarrow(path, **options)

    def optimize(self, path: Any, columns: Any, **options: Any) -> dict[str, Any]:
        return optimize_parquet_dataset_pyarrow(path, columns, **options)

    def merge(self, source: Any, path: Any, keys: Any, **options: Any) -> dict[str, int]:
        return merge_parquet_dataset_pyarrow(source, path, keys, **options)


Backend = Duck | Arrow
SIDES: list[Backend] = [Duck(), Arrow()]
on_both = pytest.mark.parametrize("side", SIDES, ids=lambda side: side.name)


def orders(start: int, count: int) -> pa.Table:
    """Rows of several types, the same for the same numbers."""
    chance = random.Random(start)
    ids = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": pa.array([chance.randrange(50) for _ in ids], pa.int32()),
            "city": pa.array([None if number % 7 == 0 else f"city {number % 11}" for number in ids], pa.string()),
            "amount": pa.array([chance.random() for _ in ids], pa.float64()),
        }
    )


def make(folder: Path, files: int = 6, rows: int = 100, compression: str = "snappy") -> pa.Table:
    """Writes a dataset of small files; returns its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [orders(number * rows, rows) for number in range(files)]
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"in-{number:03}.parquet", compression=compression)
    return pa.concat_tables(tables)


def make_partitions(folder: Path, days: int = 3, files: int = 3, rows: int = 20) -> None:
    """Writes a Hive dataset: `date=2025-11-01/in-000.parquet`, the column only in the folder's name."""
    for day in range(days):
        place = folder / f"date=2025-11-{day + 1:02}"
        place.mkdir(parents=True)
        for number in range(files):
            pq.write_table(orders((day * files + number) * rows, rows), place / f"in-{number:03}.parquet")


def parquet_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if ".parqlake" not in path.parts)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def rows_of(folder: Path, key: str = "id") -> list[dict[str, Any]]:
    """What PyArrow's own reader finds, ordered by key."""
    return pq.read_table(folder).sort_by(key).to_pylist() if parquet_files(folder) else []


def codecs(folder: Path) -> set[str]:
    found = set()
    for path in parquet_files(folder):
        footer = pq.read_metadata(path)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            found |= {group.column(index).compression for index in range(group.num_columns)}
    return found


def row_counts(folder: Path) -> list[int]:
    return [pq.read_metadata(path).num_rows for path in parquet_files(folder)]


class RecordingFileSystem(MemoryFileSystem):
    """Files in memory that know in which order they were opened."""

    protocol = "recorded"
    cachable = False
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    events: list[tuple[str, str]] = []  # noqa: RUF012

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        self.events.append((mode, self._strip_protocol(path)))
        return super()._open(path, mode, *args, **kwargs)

    def pipe_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.events.append(("pipe", self._strip_protocol(path)))
        return super().pipe_file(path, *args, **kwargs)


def recording_files() -> RecordingFileSystem:
    """Such a file system, empty."""
    made = RecordingFileSystem(skip_instance_cache=True)
    made.store.clear()
    made.events.clear()
    return made


def memory_path() -> str:
    return f"memory://data-{uuid.uuid4()}"


def memory() -> Any:
    return fsspec.filesystem("memory")
