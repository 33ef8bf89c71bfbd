"""The scenarios of `write_parquet_dataset`: names, modes, validation, compression, and reading it back."""

from __future__ import annotations

import re
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from handlers_support import codecs, orders, parquet_files, row_counts, rows_of

from parqlake.datasets import DuckDBParquetHandler

handler = DuckDBParquetHandler()
UUID_NAME = re.compile(r"part-[0-9a-f]{32}\.parquet")


def names(folder: Path) -> list[str]:
    return [path.name for path in parquet_files(folder)]


def test_write_dataset_with_default_uuid_filenames(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "a" / "d")
    assert [bool(UUID_NAME.fullmatch(name)) for name in names(tmp_path / "a" / "d")] == [True]
    assert pq.read_table(parquet_files(tmp_path)[0]).equals(orders(0, 10))


def test_write_large_table_split_into_multiple_files(tmp_path: Path) -> None:
    table = orders(0, 2500)
    handler.write_parquet_dataset(table, tmp_path / "d", max_rows_per_file=1000)
    assert sorted(row_counts(tmp_path / "d")) == [500, 1000, 1000]
    assert len(set(names(tmp_path / "d"))) == 3
    assert handler.read_parquet(tmp_path / "d").sort_by("id").equals(table)


@pytest.mark.parametrize("rows", [0, 1, 6, 7, 8, 20])
def test_a_stream_is_split_like_a_table(rows: int, tmp_path: Path) -> None:
    table = orders(0, rows)
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    handler.write_parquet_dataset(
        stream, tmp_path / "d", max_rows_per_file=7, basename_template="data_{}.parquet", mode="overwrite"
    )
    whole, rest = divmod(rows, 7)
    assert row_counts(tmp_path / "d") == ([7] * whole + ([rest] if rest else []) or [0])
    assert handler.read_parquet(tmp_path / "d").equals(table)


def test_write_with_custom_basename_template(tmp_path: Path) -> None:
    for _ in range(2):
        handler.write_parquet_dataset(
            orders(0, 4), tmp_path / "d", max_rows_per_file=2, basename_template="data_{}.parquet"
        )
    assert names(tmp_path / "d") == [f"data_00{number}.parquet" for number in range(4)]


def test_write_empty_table_to_dataset(tmp_path: Path) -> None:
    empty = orders(0, 0)
    handler.write_parquet_dataset(empty, tmp_path / "d", max_rows_per_file=5)
    assert row_counts(tmp_path / "d") == [0]
    assert handler.read_parquet(tmp_path / "d").schema.equals(empty.schema)


def test_overwrite_existing_dataset(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "d", max_rows_per_file=3)
    handler.write_parquet_dataset(orders(50, 4), tmp_path / "d", mode="overwrite")
    assert len(parquet_files(tmp_path / "d")) == 1
    assert rows_of(tmp_path / "d") == orders(50, 4).to_pylist()


def test_overwrite_non_existent_dataset(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "new" / "d", mode="overwrite")
    assert rows_of(tmp_path / "new" / "d") == orders(0, 10).to_pylist()


def test_overwrite_preserves_non_parquet_files(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "d")
    kept = {"_metadata": b"m", "notes.txt": b"n", "sub/_SUCCESS": b"", "a.parquet.crc": b"c"}
    for path, data in kept.items():
        (tmp_path / "d" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "d" / path).write_bytes(data)
    handler.write_parquet_dataset(orders(9, 1), tmp_path / "d", mode="overwrite")
    assert {path: (tmp_path / "d" / path).read_bytes() for path in kept} == kept
    assert handler.read_parquet(tmp_path / "d").num_rows == 1


def test_append_to_existing_dataset(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "d")
    (first,) = parquet_files(tmp_path / "d")
    data = first.read_bytes()
    handler.write_parquet_dataset(orders(10, 10), tmp_path / "d", mode="append")
    assert first.read_bytes() == data
    assert len(parquet_files(tmp_path / "d")) == 2
    assert [row["id"] for row in rows_of(tmp_path / "d")] == list(range(20))


def test_append_to_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "d", mode="append")
    assert rows_of(tmp_path / "d") == orders(0, 10).to_pylist()


def test_append_to_non_existent_dataset(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 10), tmp_path / "d", mode="append")
    assert rows_of(tmp_path / "d") == orders(0, 10).to_pylist()


def test_append_multiple_times(tmp_path: Path) -> None:
    for number in range(5):
        handler.write_parquet_dataset(orders(number * 10, 10), tmp_path / "d", mode="append")
    assert len(parquet_files(tmp_path / "d")) == 5
    assert [row["id"] for row in rows_of(tmp_path / "d")] == list(range(50))


@pytest.mark.parametrize("mode", ["replace", "", None, "APPEND"])
def test_invalid_mode_error(mode: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Invalid mode .*; use one of: append, overwrite"):
        handler.write_parquet_dataset(orders(0, 1), tmp_path / "d", mode=mode)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "10"])
def test_invalid_max_rows_per_file_error(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"max_rows_per_file .* must be > 0"):
        handler.write_parquet_dataset(orders(0, 1), tmp_path / "d", max_rows_per_file=rows)
    assert not (tmp_path / "d").exists()


def test_path_is_file_not_directory_error(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(b"precious")
    for mode in ("append", "overwrite"):
        with pytest.raises(NotADirectoryError, match="exists but is a file"):
            handler.write_parquet_dataset(orders(0, 1), tmp_path / "file.parquet", mode=mode)
    assert (tmp_path / "file.parquet").read_bytes() == b"precious"


class Guarded(MemoryFileSystem):
    """A store that lets nobody write."""

    protocol = "guarded"
    cachable = False

    def pipe_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "AccessDenied")

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if "r" not in mode:
            raise PermissionError(13, "AccessDenied")
        return super()._open(path, mode, *args, **kwargs)


def test_remote_storage_write_permission_error() -> None:
    with DuckDBParquetHandler(filesystem=Guarded()) as refused:
        for mode in ("append", "overwrite"):
            with pytest.raises(PermissionError, match=r"cannot write .*AccessDenied.* give this user the right"):
                refused.write_parquet_dataset(orders(0, 1), "guarded://somewhere/d", mode=mode)
        with pytest.raises(PermissionError, match=r"cannot write"):
            refused.write_parquet(orders(0, 1), "guarded://somewhere/x.parquet")


def test_parallel_file_writes(tmp_path: Path) -> None:
    table = orders(0, 20_000)
    handler.write_parquet_dataset(table, tmp_path / "d", max_rows_per_file=500, basename_template="n_{}.parquet")
    assert row_counts(tmp_path / "d") == [500] * 40
    assert handler.read_parquet(tmp_path / "d").equals(table)  # numbered in the order of the rows, whoever was first


def test_memory_efficient_splitting(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(5_000_000), "x": np.full(5_000_000, 0.5)})
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        handler.write_parquet_dataset(table, tmp_path / "d", max_rows_per_file=50_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert len(row_counts(tmp_path / "d")) == 100
    assert pool.max_memory() + peak < table.nbytes / 2, "slices are not copies"


def test_uuid_based_filename_uniqueness(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 50), tmp_path / "d", max_rows_per_file=1)
    handler.write_parquet_dataset(orders(0, 50), tmp_path / "d", max_rows_per_file=1, filename_strategy="uuid")
    found = names(tmp_path / "d")
    assert len(set(found)) == 100
    assert all(UUID_NAME.fullmatch(name) for name in found)


def test_timestamp_based_filename_option(tmp_path: Path) -> None:
    table = orders(0, 30)
    for start in (0, 15):
        handler.write_parquet_dataset(
            table.slice(start, 15), tmp_path / "d", max_rows_per_file=1, filename_strategy="timestamp"
        )
    assert all(re.fullmatch(r"part-\d{8}T\d{15}Z-[0-9a-f]{8}\.parquet", name) for name in names(tmp_path / "d"))
    assert handler.read_parquet(tmp_path / "d").equals(table), "in the order of their names they are in that of time"


def test_sequential_filename_option(tmp_path: Path) -> None:
    handler.write_parquet_dataset(
        orders(0, 3),
        tmp_path / "d",
        max_rows_per_file=1,
        basename_template="data_{}.parquet",
        filename_strategy="sequential",
    )
    assert names(tmp_path / "d") == ["data_000.parquet", "data_001.parquet", "data_002.parquet"]
    with pytest.raises(ValueError, match="Invalid filename_strategy 'random'"):
        handler.write_parquet_dataset(orders(0, 1), tmp_path / "d", filename_strategy="random")


@pytest.mark.parametrize("template", ["part-{}.parquet", "data_{}.parquet"])
def test_filename_collision_prevention(template: str, tmp_path: Path) -> None:
    def write(number: int) -> None:
        with DuckDBParquetHandler() as own:
            own.write_parquet_dataset(
                orders(number * 4, 4), tmp_path / "d", max_rows_per_file=2, basename_template=template
            )

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(12)))
    assert len(parquet_files(tmp_path / "d")) == 24
    assert [row["id"] for row in rows_of(tmp_path / "d")] == list(range(48))
    assert not (tmp_path / "d" / ".parqlake").exists()


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd", "brotli"])
def test_write_dataset_with_custom_compression(codec: str, tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 100), tmp_path / "d", compression=codec)
    assert codecs(tmp_path / "d") == {codec.upper()}


def test_write_dataset_with_different_compression_per_file(tmp_path: Path) -> None:
    handler.write_parquet_dataset(orders(0, 100), tmp_path / "d", max_rows_per_file=10, compression="gzip")
    assert len(parquet_files(tmp_path / "d")) == 10
    assert codecs(tmp_path / "d") == {"GZIP"}


ALL_TYPES = pa.table(
    {
        "i8": pa.array([1, None], pa.int8()),
        "u64": pa.array([2**64 - 1, 0], pa.uint64()),
        "half": pa.array([1.5, None], pa.float32()),
        "money": pa.array([None, None], pa.decimal128(20, 3)),
        "large": pa.array(["a", "ü"], pa.large_string()),
        "bytes": pa.array([b"\0", None], pa.binary()),
        "day": pa.array([0, 19000], pa.int32()).cast(pa.date32()),
        "naive": pa.array([1, None], pa.timestamp("ns")),
        "zoned": pa.array([1, 2], pa.timestamp("us", "Europe/Vienna")),
        "clock": pa.array([1, 2], pa.time64("us")),
        "coded": pa.array(["x", "y"]).dictionary_encode(),
        "list": pa.array([[1, None], None], pa.list_(pa.int16())),
        "struct": pa.array([{"a": 1}, None], pa.struct({"a": pa.int64()})),
        "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "flag": pa.array([True, None]),
    }
).replace_schema_metadata({"owner": "sales"})


def test_read_written_dataset(tmp_path: Path) -> None:
    handler.write_parquet_dataset(ALL_TYPES, tmp_path / "d", max_rows_per_file=1, basename_template="x-{}.parquet")
    found = handler.read_parquet(tmp_path / "d")
    assert found.schema.equals(ALL_TYPES.schema)
    assert found.schema.metadata == ALL_TYPES.schema.metadata
    assert found.to_pylist() == ALL_TYPES.to_pylist()


def test_read_appended_dataset(tmp_path: Path) -> None:
    for number in range(3):
        handler.write_parquet_dataset(orders(number * 10, 10), tmp_path / "d", mode="append")
    assert handler.read_parquet(tmp_path / "d").sort_by("id")["id"].to_pylist() == list(range(30))
