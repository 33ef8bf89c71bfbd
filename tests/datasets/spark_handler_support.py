"""Datasets for the handler of Spark, and the same call on every backend."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from handlers_support import SIDES, parquet_files

from parqlake.datasets import SparkParquetHandler


def in_order(folder: Path) -> list[pa.Table]:
    """The files' rows as they lie in them, whatever the files are called."""
    found = [pq.read_table(path, partitioning=None) for path in parquet_files(folder)]
    return sorted(found, key=lambda table: str(table.slice(0, 1).to_pylist()))


def same_everywhere(
    tmp_path: Path, handler: SparkParquetHandler, fill: Callable[[Path], Any], act: Callable[[Any, Path], Any]
) -> Any:
    """Acts on copies of one dataset with each backend; all must return the same and leave the same files."""
    fill(tmp_path / "given")
    results = []
    for name, side in [*((side.name, side) for side in SIDES), ("spark", Spark(handler))]:
        folder = tmp_path / name
        shutil.copytree(tmp_path / "given", folder)
        results.append((act(side, folder), in_order(folder)))
        assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    first = results[0]
    for stats, files in results[1:]:
        assert stats == first[0]
        assert len(files) == len(first[1])
        assert all(one.equals(other) for one, other in zip(files, first[1], strict=True))
    return first[0]


class Spark:
    """The handler under the names that the other backends have in these tests."""

    def __init__(self, handler: SparkParquetHandler) -> None:
        self.compact = handler.compact_parquet_dataset
        self.optimize = handler.optimize_parquet_dataset


def scattered(folder: Path) -> None:
    """Rows in no order, many of them equal in a column."""
    folder.mkdir()
    chance = np.random.default_rng(7)
    for number in range(3):
        rows = {
            "id": np.arange(number * 20_000, (number + 1) * 20_000),
            "few": pa.array(chance.choice([5, 5, 5, 5, 1, 9], 20_000), pa.uint8(), mask=chance.random(20_000) < 0.05),
            "many": chance.random(20_000),
            "city": [f"city {value % 13}" for value in chance.integers(0, 10**6, 20_000)],
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet", row_group_size=6000)


def hive(folder: Path) -> None:
    """Three partitions, one of them spelled in a way of its own, and a key that two files hold."""
    for month, ids in (("01", range(0, 40)), ("2", range(40, 80)), ("3", range(80, 120))):
        (folder / f"month={month}").mkdir(parents=True)
        half = len(ids) // 2
        for number, part in enumerate((ids[:half], [*ids[half:], ids[0]])):
            table = pa.table({"id": pa.array(part, pa.int64()), "x": [f"old {value}" for value in part]})
            pq.write_table(table, folder / f"month={month}" / f"in-{number}.parquet")
