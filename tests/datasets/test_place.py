"""Where a dataset lies: each way to name it leads to the same files."""

from __future__ import annotations

import uuid
from pathlib import Path

import fsspec
import pyarrow.fs
import pytest
from datasets_support import fill, overwrite, rows

from parqlake.core.errors import InvalidOptionError, UnsafePathError
from parqlake.core.maintenance.collect import is_data_path
from parqlake.datasets.journal import work_folder
from parqlake.datasets.place import Place
from parqlake.storage_options import AwsStorageOptions, LocalStorageOptions


def test_ways_to_name_a_local_directory(tmp_path: Path) -> None:
    fill(Place(tmp_path / "data"), {"a.parquet": b"1"})
    for place in (
        Place(str(tmp_path / "data")),
        Place(f"file://{tmp_path}/data/"),
        Place(tmp_path / "data", fsspec.filesystem("file")),
        Place(f"file://{tmp_path}/data", fsspec.filesystem("local")),
        Place(tmp_path / "data", pyarrow.fs.LocalFileSystem()),
        Place(tmp_path / "data", storage_options=LocalStorageOptions()),
        Place(tmp_path / "data", fsspec.filesystem("file"), AwsStorageOptions()),  # the file system wins
    ):
        assert place.is_local
        assert rows(place) == [b"1"]
        assert place.full_path("a.parquet") == place.full_url("a.parquet") == f"{tmp_path.as_posix()}/data/a.parquet"


def test_ways_to_name_a_remote_directory() -> None:
    name = f"data-{uuid.uuid4()}"
    fill(Place(f"memory://{name}"), {"p=1/a.parquet": b"1"})
    for place in (Place(f"memory://{name}/", fsspec.filesystem("memory")), Place(name, fsspec.filesystem("memory"))):
        assert not place.is_local
        assert place.exists()
        assert rows(place) == [b"1"]
        assert place.full_url("p=1/a.parquet") == f"memory:///{name}/p=1/a.parquet"
        with place.arrow_filesystem().open_input_file(place.full_path("p=1/a.parquet")) as file:
            assert file.read() == b"1"


def test_an_arrow_file_system(tmp_path: Path) -> None:
    arrow = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    place = Place("data", arrow)
    fill(place, {"a.parquet": b"1", "p=1/b.parquet": b"2"})
    assert rows(place) == [b"1", b"2"]
    assert overwrite(place) == rows(place)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted(
        ["p=9", *(file.path for file in place.files() if "/" not in file.path)]
    )


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    name = f"file-{uuid.uuid4()}"
    fsspec.filesystem("memory").pipe_file(f"/{name}", b"x")
    for path in (tmp_path / "file", f"memory://{name}"):
        for call in (Place(path).exists, Place(path).require, Place(path).create):
            with pytest.raises(NotADirectoryError, match="exists but is a file"):
                call()
    with pytest.raises(NotADirectoryError, match="exists but is a file"):
        Place(tmp_path / "file" / "below").create()


def test_a_missing_directory(place: Place) -> None:
    assert not place.exists()
    assert place.files() == []
    with pytest.raises(FileNotFoundError, match=r'Dataset path ".*" does not exist'):
        place.require()


def test_wrong_values_are_named(tmp_path: Path) -> None:
    for path in ("", " ", "a\0b", 7, None):
        for filesystem in (None, fsspec.filesystem("memory")):
            with pytest.raises(InvalidOptionError, match=r"no path|is none"):
                Place(path, filesystem)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="a dict; give one of fsspec"):
        Place("x", {})
    with pytest.raises(InvalidOptionError, match=r'"s3://\*\*\*@bucket/x" is not for .* which is for memory'):
        Place("s3://key:hush@bucket/x", fsspec.filesystem("memory"))
    with pytest.raises(UnsafePathError):
        Place(tmp_path).full_path("../x")
    assert "hush" not in repr(Place("memory://me:hush@x/y"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.parquet", True),
        ("p=1/q=2/a.parquet", True),
        ("_p=1/a.parquet", True),
        ("a.PARQUET", False),
        ("a.parquet.crc", False),
        (".a.parquet", False),
        ("_a.parquet", False),
        ("_delta_log/a.parquet", False),
        (f"{work_folder('1')}/a.parquet", False),
        ("p=1/.x/a.parquet", False),
    ],
)
def test_what_readers_take_for_data(path: str, expected: bool) -> None:
    assert is_data_path(path) is expected
