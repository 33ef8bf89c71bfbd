"""What collect_dataset_stats finds in a folder, on a local and on a memory filesystem."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.errors import DataCorruptionError, InputError
from parqlake.core.maintenance import collect_dataset_stats, has_codec, matches_partition, read_footers

Place = tuple[Any, str]


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    filesystem = fsspec.filesystem(request.param)
    root = str(tmp_path / "set") if request.param == "file" else f"/{uuid.uuid4().hex}/set"
    yield filesystem, root
    if filesystem.exists(root):
        filesystem.rm(root, recursive=True)


def put(place: Place, relative: str, rows: int) -> None:
    filesystem, root = place
    path = f"{root}/{relative}"
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with filesystem.open(path, "wb") as file:
        pq.write_table(pa.table({"id": list(range(rows))}), file)


def relatives(place: Place, stats: dict[str, Any]) -> list[str]:
    return [file["path"].split("/set/", 1)[1] for file in stats["files"]]


def test_files_are_found_in_all_folders_in_order_of_path(place: Place) -> None:
    for number, name in enumerate(["b=2/y.parquet", "a.parquet", "b=1/c=2/x.parquet", "b=1/c=1/x.parquet"], start=1):
        put(place, name, number)
    stats = collect_dataset_stats(place[1], place[0])
    assert relatives(place, stats) == ["a.parquet", "b=1/c=1/x.parquet", "b=1/c=2/x.parquet", "b=2/y.parquet"]
    assert [file["num_rows"] for file in stats["files"]] == [2, 4, 3, 1]
    assert stats["total_rows"] == 10
    assert [file["size_bytes"] for file in stats["files"]] == [place[0].size(file["path"]) for file in stats["files"]]
    assert stats["total_bytes"] == sum(file["size_bytes"] for file in stats["files"]) > 0
    assert set(stats["files"][0]) == {"path", "size_bytes", "num_rows"}


def test_only_parquet_files_that_are_not_hidden_are_data(place: Place) -> None:
    hidden = [
        "_tmp.parquet",
        ".part.parquet",
        "_staging/x.parquet",
        ".git/x.parquet",
        "x.parquet.tmp",
        "k=1/_old/y.parquet",
    ]
    for name in hidden:
        put(place, name, 5)
    put(place, "k=__HIVE_DEFAULT_PARTITION__/x.parquet", 1)
    put(place, "spark.parquet/part-0.parquet", 2)
    stats = collect_dataset_stats(place[1], place[0])
    assert relatives(place, stats) == ["k=__HIVE_DEFAULT_PARTITION__/x.parquet", "spark.parquet/part-0.parquet"]


def test_a_hidden_folder_above_the_dataset_does_not_matter(tmp_path: Path) -> None:
    place = (fsspec.filesystem("file"), str(tmp_path / "_work" / ".x" / "set"))
    put(place, "a.parquet", 3)
    assert collect_dataset_stats(place[1], place[0])["total_rows"] == 3


def test_a_relative_path_and_a_trailing_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put((fsspec.filesystem("file"), str(tmp_path / "set")), "d=1/a.parquet", 3)
    monkeypatch.chdir(tmp_path)
    for path in ("set", "set/", "./set"):
        assert collect_dataset_stats(path, fsspec.filesystem("file"), "d=1")["total_rows"] == 3


@pytest.mark.parametrize(
    ("partition_filter", "expected"),
    [
        ("date=2025-11-1", 1),
        (["date=2025-11-1"], 1),
        ("date=2025-11-1/", 1),
        (["date=2025-11-1", "date=2025-11-10"], 11),
        ("date=2025-11-10/h=1", 10),
        ("h=1", 110),
        ("h=1/date=2025-11-10", None),
        ("date=2025-11", None),
        ("1.parquet", None),
    ],
)
def test_a_filter_takes_whole_segments(place: Place, partition_filter: Any, expected: int | None) -> None:
    put(place, "date=2025-11-1/1.parquet", 1)
    put(place, "date=2025-11-10/h=1/1.parquet", 10)
    put(place, "date=2025-11-11/h=1/1.parquet", 100)
    if expected is None:
        with pytest.raises(FileNotFoundError, match=r"No parquet files found under '.*' matching filter"):
            collect_dataset_stats(place[1], place[0], partition_filter)
    else:
        assert collect_dataset_stats(place[1], place[0], partition_filter)["total_rows"] == expected


@pytest.mark.parametrize("wrong", [[], "", "/", ["a=1", ""], [1]])
def test_a_filter_that_says_nothing_is_refused(place: Place, wrong: Any) -> None:
    put(place, "a=1/x.parquet", 1)
    with pytest.raises(InputError, match="partition_filter"):
        collect_dataset_stats(place[1], place[0], wrong)


def test_a_filter_is_not_a_pattern() -> None:
    assert not matches_partition("a=1/x.parquet", "a=*")
    assert not matches_partition("a=1/x.parquet", "a=.")
    assert matches_partition("a=*/x.parquet", "a=*")
    assert matches_partition("x.parquet", None)


def test_a_path_that_is_not_there(place: Place) -> None:
    with pytest.raises(FileNotFoundError, match=r"Dataset path '.*nowhere' does not exist"):
        collect_dataset_stats(place[1] + "/nowhere", place[0])


def test_a_path_that_is_a_file(place: Place) -> None:
    put(place, "a.parquet", 1)
    with pytest.raises(NotADirectoryError, match="exists but is a file"):
        collect_dataset_stats(place[1] + "/a.parquet", place[0])


def test_an_empty_folder(place: Place) -> None:
    place[0].makedirs(place[1])
    with pytest.raises(FileNotFoundError, match=r"No parquet files found under '.*' matching filter"):
        collect_dataset_stats(place[1], place[0])


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1" + b"\xff" * 64 + b"\x20\0\0\0PAR1"])
def test_a_damaged_file_is_named(place: Place, content: bytes) -> None:
    put(place, "good.parquet", 1)
    with place[0].open(place[1] + "/bad.parquet", "wb") as file:
        file.write(content)
    with pytest.raises(DataCorruptionError, match=r"bad\.parquet"):
        collect_dataset_stats(place[1], place[0])


def test_many_files_keep_their_order(place: Place) -> None:
    for number in range(60):
        put(place, f"p={number % 3}/{number:03}.parquet", number)
    files = collect_dataset_stats(place[1], place[0])["files"]
    assert [file["path"] for file in files] == sorted(file["path"] for file in files)
    assert all(int(file["path"][-11:-8]) == file["num_rows"] for file in files)


def test_footers_come_with_their_files(place: Place) -> None:
    put(place, "k=1/a.parquet", 4)
    put(place, "k=2/a.parquet", 5)
    ((file, footer),) = read_footers(place[1], place[0], "k=2")
    assert (file.num_rows, footer.num_rows) == (5, 5)
    assert file.to_dict() == collect_dataset_stats(place[1], place[0], "k=2")["files"][0]


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd", "brotli", "none"])
def test_a_codec_is_told_from_the_others(codec: str) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1] * 100, "b": ["x"] * 100}), file, compression=codec)
    footer = pq.read_metadata(file)
    known = ["SNAPPY", "gzip", "lz4", "ZSTD", "brotli", None]
    assert [has_codec(footer, other) for other in known] == [(other or "none").lower() == codec for other in known]


def test_one_column_of_another_codec_is_enough_to_differ() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "b": [2]}), file, compression={"a": "zstd", "b": "snappy"})
    assert not has_codec(pq.read_metadata(file), "zstd")
