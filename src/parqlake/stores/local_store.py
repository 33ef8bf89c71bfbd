"""A store on a file system of this machine: durable, atomic, and closed to links that lead outside."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs
import uuid_utils

from parqlake.core.errors import UnsafePathError
from parqlake.core.os_errors import store_error
from parqlake.core.ports import StoredFile
from parqlake.stores.durable import fsync_folder, rename, sync_files, sync_names, write_atomic
from parqlake.stores.fsspec_store import PROBE, FsspecStore, path_is_file, read_only
from parqlake.stores.paths import safe_path

_TRIES = 100
"""How often an empty folder may be removed between its making and its first file. A try costs a system call or two."""


class LocalStore(FsspecStore):
    """Immutable files under one folder of this machine."""

    def __init__(self, root: str, *, url: str) -> None:
        """Takes the root as an absolute path with `/`."""
        super().__init__(None, root, url=url)
        self._root = self._root or "/"
        self._below = self._root if self._root.endswith("/") else self._root + "/"
        self._checked: dict[str, tuple[int, int]] = {}

    @property
    def is_local(self) -> bool:
        """Whether the files lie in a file system of this machine: yes."""
        return True

    @property
    def filesystem(self) -> Any:
        """The local file system of fsspec, for those who want one: a table is read without it."""
        if self._given is None:
            import fsspec  # 0.1 s of every start, most of it asyncio

            self._given = fsspec.filesystem("file")
        return self._given

    def arrow_filesystem(self) -> pyarrow.fs.FileSystem:
        """Arrow's own local file system."""
        if self._arrow is None:
            self._arrow = pyarrow.fs.LocalFileSystem()
        return self._arrow

    def full_path(self, path: str) -> str:
        """The absolute path; `UnsafePathError` if it leaves the root, be it by a symbolic link."""
        full = self._below + safe_path(path)
        self._check_folder(posixpath.dirname(full), path)
        if os.path.islink(full):  # noqa: PTH114  a Path object costs more than the check itself
            self._check_inside(full, path)
        return full

    def full_url(self, path: str) -> str:
        """The absolute path."""
        return self.full_path(path)

    def prepare_root(self) -> None:
        """Creates the root if needed and proves that it can be written to, or raises.

        Writes a probe file rather than asking for permissions: those say nothing of a read-only mount,
        nor of what the superuser may do.
        """
        root = Path(self._root)
        probe = root / f"{PROBE}{uuid_utils.uuid7()}"
        try:
            if not root.is_dir():
                root.mkdir(parents=True, exist_ok=True)
                fsync_folder(root.parent)
            with probe.open("xb"):
                pass
            probe.unlink()
        except (FileExistsError, NotADirectoryError) as error:
            raise path_is_file(self._url) from error
        except OSError as error:
            if isinstance(error, PermissionError) or error.errno == errno.EROFS:
                raise read_only(self._url, error) from error
            raise store_error(error, "write to", self._url, writing=True) from error

    def make_folders(self, paths: Iterable[str]) -> None:
        """Creates the folders and those above them."""
        for path in paths:
            folder = self._folder(path)
            self._check_folder(folder, path)
            with self._mapped("create folder", path, writing=True):
                _make_folder(folder)

    def sync(self, paths: Iterable[str]) -> None:
        """Makes written files durable, and every folder entry from the root to them."""
        sync_files([(self.full_path(path), path) for path in paths], self._root)

    def read_bytes(self, path: str) -> bytes:
        """The whole content; `FileNotInStoreError` if there is none."""
        with self._mapped("read", path, writing=False):
            return Path(self.full_path(path)).read_bytes()

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Writes a small file so that it is there whole and durable, or not at all.

        With `exclusive`, returns False if one is already there; of several writers one is told True.
        """
        full = Path(self.full_path(path))
        with self._mapped("write", path, writing=True):
            for attempt in range(_TRIES):
                _make_folder(str(full.parent))
                try:
                    return write_atomic(full, data, Path(self._root), exclusive=exclusive)
                except FileNotFoundError:  # someone removed the folder in the instant in which it was empty
                    if attempt == _TRIES - 1:
                        raise
        raise AssertionError  # not reached: the last try returns or raises

    def exists(self, path: str) -> bool:
        """Whether a file lies at the path."""
        return Path(self.full_path(path)).is_file()

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        """All files below the folder, however deep, by path; none if it is missing. Links are not followed."""
        folder = self._folder(prefix)
        self._check_folder(folder, prefix)
        with self._mapped("list", prefix, writing=False):
            yield from self._walk(folder)

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files; those already gone are no error. Of a link, the link itself is deleted."""
        for path in paths:
            full = self._below + safe_path(path)
            self._check_folder(posixpath.dirname(full), path)
            with self._mapped("delete", path, writing=True), suppress(FileNotFoundError):
                os.unlink(full)  # noqa: PTH108

    def move(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Gives a file another name in one step; with `replace` off, returns False if the name is taken."""
        start, end = self.full_path(source), self.full_path(target)
        with self._mapped("move", source, writing=True):
            for _ in range(_TRIES):
                _make_folder(posixpath.dirname(end))
                try:
                    return rename(start, end, replace=replace)
                except FileNotFoundError as error:
                    missing = error
                    if not os.path.lexists(start):  # else someone removed the empty folder in between
                        break
            raise store_error(missing, "move", source, writing=False) from missing

    def sync_names(self, paths: Iterable[str]) -> None:
        """Makes it durable that files came or went, and the folders on the way to them."""
        fulls = [self._below + safe_path(path) for path in paths]
        with self._mapped("make durable", self._url, writing=True):
            sync_names(fulls, self._root)

    def remove_folders(self, paths: Iterable[str]) -> None:
        """Removes those of the folders that are empty, in the order given; others stay."""
        for path in paths:
            folder = self._below + safe_path(path)
            self._check_folder(posixpath.dirname(folder), path)
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106

    def list_folders(self, prefix: str) -> list[str]:
        """All folders below, the deepest first; links are not followed."""
        folder = self._folder(prefix)
        self._check_folder(folder, prefix)
        return [
            Path(found, name).as_posix()[len(self._below) :]
            for found, names, _ in os.walk(folder, topdown=False)
            for name in sorted(names)
            if not os.path.islink(f"{found}/{name}")  # noqa: PTH114
        ]

    def _folder(self, path: str) -> str:
        return self._root if path in ("", ".") else self._below + safe_path(path)

    def _walk(self, folder: str) -> Iterator[StoredFile]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(f"{folder}/{entry.name}" if folder != "/" else f"/{entry.name}")
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    size = entry.stat(follow_symlinks=False).st_size
                    yield StoredFile(Path(entry.path).as_posix()[len(self._below) :], size)

    def _check_folder(self, folder: str, path: str) -> None:
        """Raises if the folder, with links followed, lies outside; remembers folders by their identity.

        A folder that is the very one that was checked before needs no second look, which makes planning a
        scan of many files cheap.
        """
        try:
            status = os.stat(folder)  # noqa: PTH116
        except OSError:
            self._check_inside(folder, path)
            return
        identity = (status.st_dev, status.st_ino)
        if self._checked.get(folder) != identity:
            self._check_inside(folder, path)
            self._checked[folder] = identity

    def _check_inside(self, full: str, path: str) -> None:
        root = os.path.realpath(self._root)
        if os.path.commonpath([root, os.path.realpath(full)]) != root:
            raise UnsafePathError(
                f'path "{path}" leads outside of "{self._url}" by a symbolic link; '
                "remove the link, or copy what it points to"
            )


def _make_folder(folder: str) -> None:
    """Creates the folder and those above it, even if someone else removes empty ones on the way."""
    for attempt in range(_TRIES):
        try:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        except (FileNotFoundError, FileExistsError):  # the latter: it was there, and no more at the second look
            if attempt == _TRIES - 1:
                raise
        else:
            return
