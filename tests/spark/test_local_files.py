"""Folders stand for their files only while they hold nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parqlake
from parqlake.spark import local_files
from parqlake.spark.local_files import with_whole_folders
from parqlake.table.table import Table

PLACES = ["a/b", "x y", "Köln %20"]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Twenty files in each of three partitions."""
    lake = parqlake.connect(tmp_path / "a lake 100%")
    made = lake.create_table("a.t", pa.schema([("id", pa.int64()), ("place", pa.string())]), partition_by=["place"])
    rows = pa.table({"id": range(600), "place": [PLACES[n % 3] for n in range(600)]})
    made.append(rows, max_rows_per_file=10)
    yield made
    lake.close()


def _found(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def _paths(table: Table) -> list[str]:
    return [table._context.store.full_path(file.path) for file in table.scan().plan.files]


def test_whole_folders_are_read_as_such(spark: Any, table: Table) -> None:
    paths = _paths(table)
    folders = with_whole_folders(paths)
    assert sorted(folders) == sorted({path.rpartition("/")[0] for path in paths})
    frame = table.scan().to_spark(spark)
    assert _found(frame) == list(range(600))
    assert {row.place for row in frame.select("place").distinct().collect()} == set(PLACES)


def test_other_files_of_a_folder_are_never_read(spark: Any, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = _paths(table)
    folder = paths[0].rpartition("/")[0]
    stray = f"{folder}/part-stray.parquet"
    shutil.copyfile(paths[0], stray)
    assert set(with_whole_folders(paths)) >= {path for path in paths if path.startswith(f"{folder}/")}
    assert _found(table.scan().to_spark(spark)) == list(range(600))

    def too_early(place: str) -> list[str]:
        return [name for name in os.listdir(place) if name != "part-stray.parquet"]  # noqa: PTH208

    monkeypatch.setattr(local_files, "names_in", too_early)  # the file came after the look, and before Spark's
    assert folder in with_whole_folders(paths)
    assert _found(table.scan().to_spark(spark)) == list(range(600))
