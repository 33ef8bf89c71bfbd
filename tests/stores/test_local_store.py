"""What a folder of this machine promises beyond other stores: durable, atomic, closed to links."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from parqlake.core.errors import StoreError, StoreReadOnlyError, UnsafePathError
from parqlake.core.os_errors import store_error
from parqlake.stores import LocalStore, open_store

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, needs POSIX permissions")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    opened = open_store(str(tmp_path / "lake"))
    assert isinstance(opened, LocalStore)
    opened.prepare_root()
    return opened


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions do not bind the superuser: become nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def fsynced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of what is forced to disk while the context lasts; the call itself goes through."""
    seen: list[str] = []
    real: Callable[[int], None] = os.fsync

    def spy(descriptor: int) -> None:
        seen.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", spy)
        yield seen


@linux_only
def test_sync_forces_files_and_then_folders_up_to_the_root(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "lake"
    store.make_folders(["s/t/p=1", "s/t/p=2"])
    paths = ["s/t/p=1/a", "s/t/p=1/b", "s/t/p=2/c"]
    for path in paths:
        (root / path).write_bytes(b"x")
    with fsynced(monkeypatch) as seen:
        store.sync(paths)
    assert set(seen[:3]) == {str(root / path) for path in paths}
    assert set(seen[3:5]) == {str(root / "s/t/p=1"), str(root / "s/t/p=2")}
    assert seen[5:] == [str(root / "s/t"), str(root / "s"), str(root)]


@linux_only
def test_write_bytes_forces_content_before_the_name(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fsynced(monkeypatch) as seen:
        store.write_bytes("a/lake.json", b"x")
    assert Path(seen[0]).parent == tmp_path / "lake" / "a"
    assert Path(seen[0]).name.startswith(".parqlake-tmp-")
    assert seen[1:] == [str(tmp_path / "lake/a"), str(tmp_path / "lake")]
    assert [file.path for file in store.list_files("")] == ["a/lake.json"]


def test_one_of_many_exclusive_writers_wins(store: LocalStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: store.write_bytes("a/key", str(i).encode(), exclusive=True), range(40)))
    assert won.count(True) == 1
    assert store.read_bytes("a/key") == str(won.index(True)).encode()
    assert [file.path for file in store.list_files("")] == ["a/key"]


def test_syncing_a_missing_file_names_it(store: LocalStore) -> None:
    with pytest.raises(StoreError, match="t/none"):
        store.sync(["t/none"])


def test_links_that_lead_outside_are_refused(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "lake" / "t").mkdir()
    (tmp_path / "lake" / "t" / "way").symlink_to(outside)
    (tmp_path / "lake" / "t" / "file").symlink_to(outside / "secret")
    (tmp_path / "lake" / "t" / "new").symlink_to(outside / "new")
    for path in ("t/way/secret", "t/file"):
        for call in (store.full_path, store.read_bytes, store.exists, lambda p: store.sync([p])):
            with pytest.raises(UnsafePathError, match="symbolic link"):
                call(path)
    for path in ("t/way/new", "t/way/deep/new", "t/new"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            store.write_bytes(path, b"x")
    with pytest.raises(UnsafePathError):
        store.delete(["t/way/secret"])
    with pytest.raises(UnsafePathError):
        store.make_folders(["t/way/x"])
    with pytest.raises(UnsafePathError):
        list(store.list_files("t/way"))
    assert list(store.list_files("")) == []
    store.delete(["t/file"])
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_folder_swapped_for_a_link_is_noticed(store: LocalStore, tmp_path: Path) -> None:
    store.write_bytes("t/a", b"x")
    assert store.full_path("t/a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "lake" / "t").rename(tmp_path / "lake" / "old")
    (tmp_path / "lake" / "t").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafePathError):
        store.full_path("t/a")


def test_links_inside_and_a_linked_root_are_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    store = open_store(str(tmp_path / "lake"))
    store.prepare_root()
    store.write_bytes("real/a", b"x")
    (tmp_path / "disk" / "alias").symlink_to(tmp_path / "disk" / "real")
    assert store.read_bytes("alias/a") == b"x"


@linux_only
def test_a_root_without_the_right_to_write() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        folder = Path(top) / "lake"
        folder.mkdir()
        folder.chmod(0o555)
        with unprivileged():
            with pytest.raises(StoreReadOnlyError, match="cannot write to") as caught:
                open_store(str(folder)).prepare_root()
            with pytest.raises(StoreReadOnlyError):
                open_store(str(folder / "new")).prepare_root()
            with pytest.raises(StoreReadOnlyError, match='"a"'):
                open_store(str(folder)).write_bytes("a", b"x")
    assert isinstance(caught.value, PermissionError)
    assert "choose another folder" in str(caught.value)


@linux_only
def test_a_place_that_takes_no_files_is_named() -> None:
    # The superuser passes every permission check here, and still no folder can be made.
    with pytest.raises(StoreError, match='cannot write to "/proc/parqlake"'):
        open_store("/proc/parqlake").prepare_root()


@linux_only
def test_a_full_disk_says_what_to_do() -> None:
    with pytest.raises(OSError, match="No space left") as caught, Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")
    error = store_error(caught.value, "write", "t/a", writing=True)
    assert isinstance(error, StoreError)
    assert 'cannot write "t/a"' in str(error)
    assert "make room" in str(error)


def test_the_root_folder_of_the_machine_can_be_a_store() -> None:
    store = open_store("/")
    assert store.full_path("tmp/x") == "/tmp/x"


def test_a_move_that_was_interrupted_is_finished(store: LocalStore, tmp_path: Path) -> None:
    store.write_bytes("a", b"x")
    os.link(tmp_path / "lake" / "a", tmp_path / "lake" / "b")  # what a crash between the two steps leaves
    assert store.move("a", "b") is True
    assert [file.path for file in store.list_files("")] == ["b"]


def test_a_file_system_without_links_moves_too(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    store.write_bytes("a", b"x")
    store.write_bytes("taken", b"other")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        assert store.move("a", "taken") is False
        assert store.move("a", "b") is True
    assert store.read_bytes("b") == b"x"
    assert store.read_bytes("taken") == b"other"


def test_moves_do_not_follow_links_outside(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "lake" / "way").symlink_to(tmp_path / "outside")
    store.write_bytes("a", b"x")
    with pytest.raises(UnsafePathError, match="symbolic link"):
        store.move("a", "way/a")
    with pytest.raises(UnsafePathError, match="symbolic link"):
        store.remove_folders(["way/x"])
    assert store.list_folders("") == []
    assert store.exists("a")


@linux_only
def test_sync_names_forces_folders_even_of_files_that_are_gone(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_bytes("t/p=1/a", b"x")
    store.delete(["t/p=1/a"])
    with fsynced(monkeypatch) as seen:
        store.sync_names(["t/p=1/a", "t/gone/b"])
    root = tmp_path / "lake"
    assert seen == [str(root / "t/p=1"), str(root / "t"), str(root)]
