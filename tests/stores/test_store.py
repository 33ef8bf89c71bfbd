"""What every store promises, on each of them."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.errors import (
    FileNotInStoreError,
    InvalidOptionError,
    MissingExtraError,
    PathIsFileError,
    StoreError,
    UnsafePathError,
)
from parqlake.core.ports import Store, StoredFile
from parqlake.stores import FsspecStore, LocalStore, open_store


@pytest.fixture(params=["local", "file-url", "memory", "dir"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FsspecStore:
    """A store whose root does not exist yet."""
    match request.param:
        case "local":
            return open_store(str(tmp_path / "lake"))
        case "file-url":
            return open_store((tmp_path / "lake").as_uri())
        case "memory":
            return open_store(f"memory://lake-{uuid.uuid4()}")
    # A file system with real folders that is not treated as local: what a mounted remote one looks like.
    import fsspec

    inner = fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file"))
    return FsspecStore(inner, "lake", url="dir://lake")


def test_it_is_a_store(store: FsspecStore) -> None:
    port: Store = store
    port.prepare_root()
    port.prepare_root()
    assert list(port.list_files("")) == []


def test_files_come_and_go(store: FsspecStore) -> None:
    store.prepare_root()
    assert store.write_bytes("a/b/one", b"1") is True
    assert store.write_bytes("a/two", b"22") is True
    assert store.write_bytes("a/two", b"333") is True
    assert store.read_bytes("a/two") == b"333"
    assert store.exists("a/b/one")
    assert not store.exists("a/b")
    assert not store.exists("a/b/nothing")
    assert list(store.list_files("a")) == [StoredFile("a/b/one", 1), StoredFile("a/two", 3)]
    assert list(store.list_files("")) == list(store.list_files("a"))
    assert list(store.list_files("a/b")) == [StoredFile("a/b/one", 1)]
    assert list(store.list_files("missing")) == []
    store.sync(["a/b/one", "a/two"])
    store.delete(["a/b/one", "a/b/never"])
    store.delete(["a/b/one"])
    store.delete([])
    assert list(store.list_files("")) == [StoredFile("a/two", 3)]


def test_a_missing_file_is_named(store: FsspecStore) -> None:
    store.prepare_root()
    with pytest.raises(FileNotInStoreError, match=r"a/none\.json") as caught:
        store.read_bytes("a/none.json")
    assert isinstance(caught.value, FileNotFoundError)


def test_exclusive_writes_never_replace(store: FsspecStore) -> None:
    store.prepare_root()
    assert store.write_bytes("lake.json", b"first", exclusive=True) is True
    assert store.write_bytes("lake.json", b"second", exclusive=True) is False
    assert store.read_bytes("lake.json") == b"first"
    assert [file.path for file in store.list_files("")] == ["lake.json"]


def test_names_with_glob_characters_are_names(store: FsspecStore) -> None:
    store.prepare_root()
    for name in ("x[1].parquet", "x1.parquet", "y.parquet", "ü %2F=.parquet"):
        store.write_bytes(f"t/{name}", name.encode())
    assert store.read_bytes("t/x[1].parquet") == b"x[1].parquet"
    store.delete(["t/x[1].parquet", "t/*"])
    assert [file.path for file in store.list_files("t")] == ["t/x1.parquet", "t/y.parquet", "t/ü %2F=.parquet"]


def test_arrow_reads_and_writes_the_same_files(store: FsspecStore) -> None:
    store.prepare_root()
    store.make_folders(["t/p=1", "t/p=2"])
    table = pa.table({"a": [1, 2, 3]})
    arrow = store.arrow_filesystem()
    with arrow.open_output_stream(store.full_path("t/p=1/f.parquet")) as sink:
        pq.write_table(table, sink)
    store.sync(["t/p=1/f.parquet"])
    assert [file.path for file in store.list_files("")] == ["t/p=1/f.parquet"]
    with arrow.open_input_file(store.full_path("t/p=1/f.parquet")) as source:
        assert pq.read_table(source).equals(table)
    with store.filesystem.open(store.full_path("t/p=1/f.parquet"), "rb") as file:
        assert file.read(4) == b"PAR1"


def test_a_file_at_the_root_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").write_bytes(b"x")
    for root in (str(tmp_path / "lake"), str(tmp_path / "lake" / "inside")):
        with pytest.raises(PathIsFileError, match="exists but is a file"):
            open_store(root).prepare_root()
        with pytest.raises(PathIsFileError):
            open_store(root).read_bytes("_parqlake.json")
        with pytest.raises(PathIsFileError):
            open_store(root).write_bytes("_parqlake.json", b"x")
    name = f"memory://lake-{uuid.uuid4()}"
    open_store("memory://").write_bytes(name.removeprefix("memory://"), b"x")
    with pytest.raises(PathIsFileError, match="exists but is a file"):
        open_store(name).prepare_root()
    assert (tmp_path / "lake").read_bytes() == b"x"


def test_local_spellings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = (tmp_path / "lake" / "f").as_posix()
    for root in ("lake", "./lake/", "x/../lake", "~/lake", str(tmp_path / "lake"), f"file://{tmp_path}/lake"):
        store = open_store(root)
        assert isinstance(store, LocalStore)
        assert store.is_local
        assert store.full_path("f") == store.full_url("f") == expected
        assert store.url == root
    assert open_store(tmp_path / "lake").full_path("f") == expected


def test_urls_of_remote_stores() -> None:
    store = open_store("memory://lake/x")
    assert not store.is_local
    assert store.full_path("a/f") == "/lake/x/a/f"
    assert store.full_url("a/f") == "memory:///lake/x/a/f"


@pytest.mark.parametrize("root", ["", "  ", "a\0b", 7, None])
def test_a_root_that_is_none(root: object) -> None:
    with pytest.raises(InvalidOptionError, match="no path"):
        open_store(root)  # type: ignore[arg-type]


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(InvalidOptionError, match='unknown protocol in "nosuch://x"'):
        open_store("nosuch://x")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for package, url, extra in (("s3fs", "s3://b", "s3"), ("gcsfs", "gs://b", "gcs"), ("adlfs", "abfs://b", "azure")):
        monkeypatch.setitem(sys.modules, package, None)
        known = sys.modules["fsspec.registry"]._registry
        monkeypatch.delitem(known, url.partition(":")[0], raising=False)  # remembered there once it was used
        with pytest.raises(MissingExtraError, match=rf"parqlake\[{extra}\]"):
            open_store(url)


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="ftp://") as caught:
        open_store("ftp://user:hush@127.0.0.1:1/x", {"timeout": 1})
    assert "hush" not in str(caught.value)
    with pytest.raises(InvalidOptionError) as refused:
        open_store(str(tmp_path), {"password": "hush"})
    assert "hush" not in str(refused.value)
    store = open_store("memory://user:hush@lake", {"key": "hush"})
    assert "hush" not in repr(store) + store.url


def test_a_file_gets_another_name(store: FsspecStore) -> None:
    store.prepare_root()
    store.write_bytes("a/x[1]*.tmp", b"1")
    store.write_bytes("taken", b"other")
    assert store.move("a/x[1]*.tmp", "taken") is False
    assert store.move("a/x[1]*.tmp", "b/c/y[1]*") is True
    store.sync_names(["a/x[1]*.tmp", "b/c/y[1]*", "gone/and/away"])
    assert list(store.list_files("")) == [StoredFile("b/c/y[1]*", 1), StoredFile("taken", 5)]
    assert store.move("b/c/y[1]*", "taken", replace=True) is True
    assert store.read_bytes("taken") == b"1"
    for replace in (False, True):
        with pytest.raises(FileNotInStoreError, match='"b/c/none"'):
            store.move("b/c/none", "new" if not replace else "taken", replace=replace)
    assert [file.path for file in store.list_files("")] == ["taken"]
    assert store.read_bytes("taken") == b"1"
    for source, target in (("../x", "y"), ("taken", "../y")):
        with pytest.raises(UnsafePathError):
            store.move(source, target)


def test_empty_folders_can_be_removed(store: FsspecStore) -> None:
    store.prepare_root()
    store.write_bytes("a/b/c/file", b"1")
    store.make_folders(["a/d"])
    assert store.list_folders("") == ["a/b/c", "a/b", "a/d", "a"]
    assert store.list_folders("a/b") == ["a/b/c"]
    assert store.list_folders("none") == []
    store.remove_folders(["a/b/c", "a/d", "a/none"])
    assert store.exists("a/b/c/file")
    assert store.list_folders("a") == ["a/b/c", "a/b"]
    store.delete(["a/b/c/file"])
    store.remove_folders(store.list_folders("a"))
    assert store.list_folders("") == ["a"]
    for path in ("", "..", "a/../.."):
        with pytest.raises(UnsafePathError):
            store.remove_folders([path])


def test_writers_survive_those_who_remove_empty_folders(store: FsspecStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        tidying = [pool.submit(lambda: [store.remove_folders(["t/p", "t"]) for _ in range(1000)]) for _ in range(2)]
        for number in range(60):
            store.write_bytes("t/p/a", b"x")
            assert store.move("t/p/a", f"t/p/{number}")
            store.delete([f"t/p/{number}"])
        for task in tidying:
            task.result()


class S3AnswerError(Exception):
    """What the S3 client raises inside of the errors of s3fs."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


@pytest.mark.parametrize(
    ("answers", "there", "expected"),
    [
        (["PreconditionFailed"], True, False),
        (["ConditionalRequestConflict", "ConditionalRequestConflict"], False, True),
        (["ConditionalRequestConflict", "PreconditionFailed"], True, False),
        (["NotImplemented"], False, True),
        (["NotImplemented"], True, False),
        (["SlowDown"], False, None),
        (["ConditionalRequestConflict"] * 9, False, None),
    ],
)
def test_what_s3_answers_to_an_exclusive_write(answers: list[str], there: bool, expected: bool | None) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    class Answering(MemoryFileSystem):
        """Refuses in the words of s3fs, which has one kind of error for many answers."""

        protocol = "s3"
        store: dict[str, object] = {}  # noqa: RUF012
        pseudo_dirs = [""]  # noqa: RUF012

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: object) -> None:
            if mode == "create" and left:
                raise OSError(22, "refused") from S3AnswerError(left.pop(0))
            super().pipe_file(path, value, mode=mode, **kwargs)

    left = list(answers)
    answering = FsspecStore(Answering(skip_instance_cache=True), "bucket", url="s3://bucket")
    if there:
        answering.write_bytes("key", b"theirs")
    if expected is None:
        with pytest.raises(StoreError, match='cannot write "key"'):
            answering.write_bytes("key", b"ours", exclusive=True)
        assert not answering.exists("key")
    else:
        assert answering.write_bytes("key", b"ours", exclusive=True) is expected
        assert answering.read_bytes("key") == (b"ours" if expected else b"theirs")
