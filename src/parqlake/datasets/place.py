"""Where a dataset lies: one folder of an fsspec file system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import fsspec
import pyarrow.fs

from parqlake.core.errors import FileNotInStoreError, InvalidOptionError
from parqlake.core.maintenance.collect import is_data_path
from parqlake.core.ports import StoredFile
from parqlake.storage_options import StorageOptions
from parqlake.stores import FsspecStore, LocalStore, open_store
from parqlake.stores.fsspec_store import path_is_file
from parqlake.stores.paths import shown_url

HIDDEN_FOLDER = ".parqlake"
"""Where what is not finished lies; readers skip the folder, and no file in it ends in `.parquet`."""


class Place:
    """A folder of Parquet files without a catalog, on any file system that fsspec reaches.

    All paths are relative to the folder and never leave it. Neither `repr` nor an error shows a secret.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        filesystem: Any = None,
        storage_options: StorageOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Finds the folder; touches nothing yet.

        Args:
            path: a local path, or an address such as `memory://data` or `s3://bucket/data`.
            filesystem: an fsspec or PyArrow file system; wins over `storage_options`.
            storage_options: one of `parqlake.storage_options`, or a mapping of what the fsspec file system takes.

        Raises:
            InvalidOptionError: the path is empty, or belongs to another file system than the one given.
            MissingExtraError: the package for the protocol is not installed.
        """
        if filesystem is None and isinstance(storage_options, StorageOptions):
            filesystem = storage_options.to_filesystem()
        if filesystem is None:
            assert not isinstance(storage_options, StorageOptions)
            self._store = open_store(path, storage_options)
        else:
            self._store = _on(filesystem, path)

    def __repr__(self) -> str:
        return f"Place({self.url!r})"

    @property
    def url(self) -> str:
        """The folder as people write it, without secrets."""
        return self._store.url

    @property
    def store(self) -> FsspecStore:
        """The files, by paths relative to the folder."""
        return self._store

    @property
    def filesystem(self) -> Any:
        """The fsspec file system."""
        return self._store.filesystem

    @property
    def is_local(self) -> bool:
        """Whether the files lie in a file system of this machine."""
        return self._store.is_local

    def arrow_filesystem(self) -> Any:
        """The same files as a `pyarrow.fs.FileSystem`."""
        return self._store.arrow_filesystem()

    def full_path(self, path: str) -> str:
        """The path inside `filesystem` and `arrow_filesystem()`; `UnsafePathError` for a way out."""
        return self._store.full_path(path)

    def full_url(self, path: str) -> str:
        """The address that DuckDB or Spark would open: a plain path if local, else `protocol://…`."""
        return self._store.full_url(path)

    def exists(self) -> bool:
        """Whether the folder is there; `PathIsFileError`, a `NotADirectoryError`, if a file is."""
        filesystem, root = self.filesystem, self._store.root
        filesystem.invalidate_cache()
        if not root:
            return True
        if filesystem.isfile(root):
            raise path_is_file(self.url)
        return bool(filesystem.isdir(root))

    def require(self) -> None:
        """Raises if the folder is not there: `FileNotInStoreError`, a `FileNotFoundError`."""
        if not self.exists():
            raise FileNotInStoreError(f'Dataset path "{self.url}" does not exist; check the path, or write to it first')

    def create(self) -> None:
        """Creates the folder unless it is there; `PathIsFileError` if a file is, or one lies on the way."""
        if not self.exists():
            self._store.prepare_root()

    def files(self) -> list[StoredFile]:
        """All files of the dataset, by path: those that end in `.parquet` and that no reader skips.

        As for PyArrow and Spark, what begins with a dot or an underscore is hidden, be it file or folder; a partition
        folder such as `_day=1` is not. If a swap was interrupted, call `recover` first.
        """
        return [file for file in self._store.list_files("") if is_data_path(file.path)]


def _on(filesystem: Any, path: str | os.PathLike[str]) -> FsspecStore:
    """The store for a folder of a file system that the user made."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidOptionError(f"the path {path!r} is none; give a folder, or an address such as s3://bucket/folder")
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        return open_store(text)
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        from fsspec.implementations.arrow import ArrowFSWrapper

        filesystem = ArrowFSWrapper(filesystem)
    if not isinstance(filesystem, fsspec.AbstractFileSystem):
        raise InvalidOptionError(
            f"filesystem is a {type(filesystem).__name__}; give one of fsspec or of pyarrow.fs, or leave it out"
        )
    known = [filesystem.protocol] if isinstance(filesystem.protocol, str) else list(filesystem.protocol)
    protocol, separator, rest = text.partition("://")
    if separator and protocol not in known:
        raise InvalidOptionError(
            f'"{shown_url(text)}" is not for the filesystem given, which is for {", ".join(known)}; leave one out'
        )
    if "file" in known or "local" in known:
        store = open_store(text)
        assert isinstance(store, LocalStore)
        return store
    root = filesystem._strip_protocol(text) if rest or not separator else ""
    return FsspecStore(filesystem, root, url=text)
