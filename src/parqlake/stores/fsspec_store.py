"""A store over any fsspec file system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow.fs
import uuid_utils

from parqlake.core.errors import ParqlakeError, PathIsFileError, StoreReadOnlyError
from parqlake.core.os_errors import store_error
from parqlake.core.ports import StoredFile
from parqlake.stores.paths import safe_folder, safe_path, shown_url

PROBE = ".parqlake-probe-"
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "r2"}
_DELETE_THREADS = 16
_CREATE_TRIES = 5
_FOLDER_TRIES = 100
_S3_TAKEN = {"PreconditionFailed", "412"}
_S3_RACE = {"ConditionalRequestConflict", "409"}
"""Someone else writes the same object in this instant; S3 says to try again."""
_S3_UNABLE = {"NotImplemented", "501"}

_T = TypeVar("_T")


class FsspecStore:
    """Immutable files under one root of an fsspec file system.

    All paths are relative to the root and never leave it. Neither `repr` nor any error shows storage
    options or secrets of the URL.
    """

    def __init__(self, filesystem: Any, root: str, *, url: str) -> None:
        """Takes the root as a path inside the file system, and the URL as the user wrote it."""
        self._given = filesystem
        self._root = root.rstrip("/")
        self._url = shown_url(url)
        self._arrow: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    @property
    def url(self) -> str:
        """The root as people write it, without secrets."""
        return self._url

    @property
    def root(self) -> str:
        """The root as a path inside `filesystem`; may be empty."""
        return self._root

    @property
    def is_local(self) -> bool:
        """Whether the files lie in a file system of this machine."""
        return False

    @property
    def filesystem(self) -> Any:
        """The fsspec file system."""
        return self._given

    def arrow_filesystem(self) -> Any:
        """The same files as a `pyarrow.fs.FileSystem`."""
        if self._arrow is None:
            handler = pyarrow.fs.FSSpecHandler(self._filesystem)
            self._arrow = pyarrow.fs.PyFileSystem(handler)
        return self._arrow

    def full_path(self, path: str) -> str:
        """The path inside `filesystem`; `UnsafePathError` for a way out of the root."""
        return f"{self._root}/{safe_path(path)}"

    def full_url(self, path: str) -> str:
        """The address that DuckDB or Spark would open, `protocol://…`."""
        return str(self._filesystem.unstrip_protocol(self.full_path(path)))

    def prepare_root(self) -> None:
        """Creates the root if needed and proves that it can be written to, or raises."""
        probe = f"{self._root}/{PROBE}{uuid_utils.uuid7()}"
        if self._root and self._filesystem.isfile(self._root):
            raise path_is_file(self._url)
        try:
            if self._has_folders and self._root:
                self._filesystem.makedirs(self._root, exist_ok=True)
            self._filesystem.pipe_file(probe, b"parqlake")
            self._filesystem.rm_file(probe)
        except (FileExistsError, NotADirectoryError) as error:
            raise path_is_file(self._url) from error
        except PermissionError as error:
            raise read_only(self._url, error) from error
        except OSError as error:
            raise store_error(error, "write to", self._url, writing=True) from error

    def make_folders(self, paths: Iterable[str]) -> None:
        """Creates the folders, where the store has real ones; object stores have none."""
        folders = [self._folder_path(path) for path in paths]
        if not self._has_folders:
            return
        for folder in folders:
            with self._mapped("create folder", folder, writing=True):
                self._in_folder(f"{folder}/", lambda: None)

    def sync(self, paths: Iterable[str]) -> None:
        """Checks the paths; what a remote store has acknowledged is durable already."""
        for path in paths:
            safe_path(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole content; `FileNotInStoreError` if there is none."""
        with self._mapped("read", path, writing=False):
            return bytes(self._filesystem.cat_file(self.full_path(path)))

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Writes a small file; with `exclusive`, returns False if one is already there.

        Exclusive is atomic where the file system has put-if-absent; where it has not, two writers in the
        same instant may both be told that they were first.
        """
        full = self.full_path(path)
        with self._mapped("write", path, writing=True):
            return self._in_folder(full, lambda: self._write(full, data, exclusive=exclusive))

    def exists(self, path: str) -> bool:
        """Whether a file lies at the path."""
        with self._mapped("look for", path, writing=False):
            self._filesystem.invalidate_cache()  # what fsspec remembers may be out of date
            return bool(self._filesystem.isfile(self.full_path(path)))

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        """All files below the folder, however deep, by path; none if the folder is missing."""
        folder = self._folder_path(prefix)
        start = len(self._root) + 1
        with self._mapped("list", prefix, writing=False):
            self._filesystem.invalidate_cache()
            found = self._find(folder)
        if list(found) == [folder]:  # some file systems "find" a file at the folder's own path
            return
        for full, info in sorted(found.items()):
            yield StoredFile(full[start:], int(info.get("size") or 0))

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files; those already gone are no error."""
        # fsspec's `rm` expands * and [ in names; `rm_file` takes them as they are.
        full_paths = [self.full_path(path) for path in paths]
        if not full_paths:
            return
        with ThreadPoolExecutor(min(_DELETE_THREADS, len(full_paths))) as pool:
            list(pool.map(self._delete_one, full_paths, paths))

    def move(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Gives a file another name; with `replace` off, returns False if the name is taken.

        One step where the file system renames; elsewhere a copy and then a delete, so that at every moment the file
        lies whole under at least one of the two names. `FileNotInStoreError` if there is no source.
        """
        start, end = self.full_path(source), self.full_path(target)
        with self._mapped("move", source, writing=True):
            self._filesystem.invalidate_cache()
            if not replace and self._filesystem.exists(end):
                return False
            try:
                self._in_folder(end, lambda: self._move(start, end), source=start)
            except FileNotFoundError as error:
                raise store_error(error, "move", source, writing=False) from error
        return True

    def sync_names(self, paths: Iterable[str]) -> None:
        """Makes it durable that files came or went; what a remote store has acknowledged is durable already."""
        for path in paths:
            safe_path(path)

    def remove_folders(self, paths: Iterable[str]) -> None:
        """Removes those of the folders that are empty, in the order given; others, and object stores, stay."""
        folders = [self._folder_path(safe_path(path)) for path in paths]
        if not self._has_folders:
            return
        for folder in folders:
            with suppress(OSError, KeyError):  # the latter: see `_find`
                if not self._filesystem.ls(folder, detail=False):  # some file systems remove what is not empty
                    self._filesystem.rmdir(folder)

    def list_folders(self, prefix: str) -> list[str]:
        """All folders below, the deepest first; none where the store has no real ones."""
        folder = self._folder_path(prefix)
        if not self._has_folders:
            return []
        with self._mapped("list", prefix, writing=False):
            self._filesystem.invalidate_cache()
            found = self._find(folder, withdirs=True)
        start = len(self._root) + 1
        names = [full[start:] for full, info in found.items() if info.get("type") == "directory" and full != folder]
        return sorted(names, key=lambda name: (-name.count("/"), name))

    @property
    def _filesystem(self) -> Any:
        return self.filesystem

    @property
    def _has_folders(self) -> bool:
        protocol = self._filesystem.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        return not names & _OBJECT_STORES

    def _folder_path(self, path: str) -> str:
        folder = safe_folder(path)
        return f"{self._root}/{folder}" if folder else self._root

    def _find(self, folder: str, *, withdirs: bool = False) -> dict[str, dict[str, Any]]:
        for attempt in range(_FOLDER_TRIES):
            try:
                return dict(self._filesystem.find(folder, withdirs=withdirs, detail=True))
            except KeyError:  # the file system in memory trips over a file that goes while it lists
                if attempt == _FOLDER_TRIES - 1:
                    raise
        raise AssertionError  # not reached: the last try returns or raises

    def _in_folder(self, full: str, action: Callable[[], _T], *, source: str | None = None) -> _T:
        """Creates the folder of a file, then acts in it; again if someone removed the still empty folder meanwhile.

        A `source` that is missing is no such case: that is raised at once.
        """
        folder = full.rpartition("/")[0]
        for attempt in range(_FOLDER_TRIES):
            try:
                if self._has_folders:
                    self._filesystem.makedirs(folder, exist_ok=True)
                return action()
            except (FileNotFoundError, FileExistsError):  # the latter: it was there, and no more at the second look
                in_vain = self._filesystem.isfile(folder) or (source and not self._filesystem.exists(source))
                if not self._has_folders or in_vain or attempt == _FOLDER_TRIES - 1:
                    raise
        raise AssertionError  # not reached: the last try returns or raises

    def _write(self, full: str, data: bytes, *, exclusive: bool) -> bool:
        if exclusive:
            return self._create(full, data)
        self._filesystem.pipe_file(full, data)
        return True

    def _create(self, full: str, data: bytes) -> bool:
        for attempt in range(_CREATE_TRIES):
            try:
                self._filesystem.pipe_file(full, data, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, ValueError):
                break
            except OSError as error:
                code = _s3_code(error)
                if code in _S3_TAKEN:
                    return False
                if code in _S3_UNABLE:
                    break
                if code not in _S3_RACE or attempt == _CREATE_TRIES - 1:
                    raise
            else:
                return True
        if self._filesystem.exists(full):
            return False
        self._filesystem.pipe_file(full, data)
        return True

    def _move(self, start: str, end: str) -> None:
        from fsspec import AbstractFileSystem

        if self._has_folders and type(self._filesystem).mv is not AbstractFileSystem.mv:
            try:
                self._filesystem.mv(start, end)
                return
            except FileExistsError:  # a file system whose renames replace nothing: copies do
                pass
        # The general `mv` takes * and [ in names for patterns; these two do not.
        self._filesystem.cp_file(start, end)
        self._filesystem.rm_file(start)

    def _delete_one(self, full: str, path: str) -> None:
        with self._mapped("delete", path, writing=True), suppress(FileNotFoundError):
            self._filesystem.rm_file(full)

    @contextmanager
    def _mapped(self, doing: str, path: str, *, writing: bool) -> Iterator[None]:
        """Turns errors of the file system into those of the tree, with the path as users know it."""
        try:
            yield
        except ParqlakeError:
            raise
        except OSError as error:
            if isinstance(error, NotADirectoryError | FileExistsError) and self._filesystem.isfile(self._root):
                raise path_is_file(self._url) from error
            raise store_error(error, doing, path, writing=writing) from error


def _s3_code(error: OSError) -> str | None:
    """What S3 itself answered; s3fs raises errors for it that do not tell one refusal from another."""
    response = getattr(error.__cause__, "response", None)
    found = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(found) if found is not None else None


def path_is_file(url: str) -> PathIsFileError:
    """The error for a root where a file lies."""
    return PathIsFileError(f'"{url}" exists but is a file; give a folder, or a name that is free')


def read_only(url: str, error: OSError) -> StoreReadOnlyError:
    """The error for a root that cannot be written to."""
    reason = error.strerror or "permission denied"
    return StoreReadOnlyError(
        f'cannot write to "{url}": {reason}; give this user the right to write there, '
        "mount it for writing, or choose another folder"
    )
