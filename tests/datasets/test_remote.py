"""The same calls where the files are not on a disk: in memory, and on an S3 server on loopback."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import Backend, memory, on_both, orders
from moto.server import ThreadedMotoServer

from parqlake.datasets import DuckDBParquetHandler, collect_dataset_stats_pyarrow, recover
from parqlake.storage_options import AwsStorageOptions


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = AwsStorageOptions(
        key="test", secret="hush", region="eu-west-1", endpoint_url=f"http://{host}:{port}", path_style=True
    )
    yield options.to_filesystem()
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def remote(request: pytest.FixtureRequest) -> tuple[Any, str]:
    """A file system, and the address of a directory that is not there yet."""
    if request.param == "memory":
        return memory(), f"memory://data-{uuid.uuid4()}"
    files = request.getfixturevalue("s3")
    bucket = f"bucket-{uuid.uuid4()}"
    files.mkdir(bucket)
    return files, f"s3://{bucket}/data"


def names(remote: tuple[Any, str]) -> list[str]:
    files, path = remote
    files.invalidate_cache()
    return [name.rpartition("/")[2] for name in files.find(path)]


@on_both
def test_the_life_of_a_remote_dataset(side: Backend, remote: tuple[Any, str]) -> None:
    files, path = remote
    with DuckDBParquetHandler(filesystem=files) as handler:
        handler.write_parquet_dataset(orders(0, 100), path, max_rows_per_file=20, basename_template="data_{}.parquet")
        assert names(remote) == [f"data_00{number}.parquet" for number in range(5)]
        assert side.merge(orders(95, 10), path, ["id"], filesystem=files) == {
            "inserted": 5,
            "updated": 5,
            "deleted": 0,
            "total": 105,
        }
        plan = side.compact(path, target_rows_per_file=1000, dry_run=True, filesystem=files)
        assert plan["planned_groups"] == [sorted(file["path"] for file in _stats(remote)["files"])]
        assert side.compact(path, target_rows_per_file=1000, filesystem=files)["after_file_count"] == 1
        assert side.compact(path, target_rows_per_file=1000, filesystem=files)["compacted_file_count"] == 0
        options = {"target_rows_per_file": 40, "compression": "zstd", "filesystem": files}
        assert side.optimize(path, ["customer", "amount"], **options)["after_file_count"] == 3
        assert side.optimize(path, ["customer", "amount"], **options)["compacted_file_count"] == 0
        assert all(name.startswith("optimized-") for name in names(remote))
        assert handler.read_parquet(path)["id"].to_pylist() != list(range(105))
        assert handler.read_parquet(path).sort_by("id")["id"].to_pylist() == list(range(105))
        found = handler.execute_sql(f"SELECT count(*) AS n FROM parquet_scan('{path}/*.parquet')")
        assert found.to_pylist() == [{"n": 105}]
        handler.write_parquet_dataset(orders(0, 3), path, mode="overwrite")
        assert _stats(remote)["total_rows"] == 3
        assert len(names(remote)) == 1, "nothing is left behind"
        assert not recover(path, files)


def _stats(remote: tuple[Any, str]) -> dict[str, Any]:
    return collect_dataset_stats_pyarrow(remote[1], remote[0])


@on_both
def test_remote_hive_partitions(side: Backend, remote: tuple[Any, str]) -> None:
    files, path = remote
    with DuckDBParquetHandler(filesystem=files) as handler:
        for day in (1, 2):
            handler.write_parquet_dataset(orders(day * 100, 10), f"{path}/day={day}", max_rows_per_file=5)
        assert side.compact(path, target_mb_per_file=1, filesystem=files)["after_file_count"] == 2
        source = orders(205, 10).append_column("day", pa.array([2] * 10, pa.int64()))
        assert side.merge(source, path, ["id"], filesystem=files)["updated"] == 5
        found = handler.read_parquet(path, columns=["day", "id"])
        assert {(row["day"], row["id"] // 100) for row in found.to_pylist()} == {(1, 1), (2, 2)}
        stats = side.compact(path, target_mb_per_file=1, partition_filter="day=2", filesystem=files)
        assert stats["after_file_count"] == 1


def test_a_remote_file_is_written_and_read(remote: tuple[Any, str]) -> None:
    files, path = remote
    with DuckDBParquetHandler(filesystem=files) as handler:
        handler.write_parquet(orders(0, 10), f"{path}/a/out.parquet", compression="zstd")
        handler.write_parquet(orders(0, 7), f"{path}/a/out.parquet")
        assert handler.read_parquet(f"{path}/a/out.parquet").equals(orders(0, 7))
        assert names(remote) == ["out.parquet"]
        with files.open(f"{path}/a/out.parquet") as file:
            assert pq.read_metadata(file).num_rows == 7
        with pytest.raises(FileNotFoundError):
            handler.read_parquet(f"{path}/a/other.parquet")
        with pytest.raises(FileNotFoundError, match="does not exist"):
            handler.compact_parquet_dataset(f"{path}/nowhere", target_mb_per_file=1)
        with pytest.raises(NotADirectoryError, match="exists but is a file"):
            handler.write_parquet_dataset(orders(0, 1), f"{path}/a/out.parquet")
