"""The port of stores: immutable files under one root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What a listing says of one file."""

    path: str
    size_bytes: int


class Store(Protocol):
    """Immutable files under one root. All paths are relative to it, with `/`, and never leave it."""

    @property
    def url(self) -> str:
        """The root as people write it, without secrets."""

    @property
    def is_local(self) -> bool:
        """Whether the files lie in a file system of this machine."""

    @property
    def filesystem(self) -> Any:
        """The fsspec file system, for engines that want one."""

    def arrow_filesystem(self) -> Any:
        """The same files as a `pyarrow.fs.FileSystem`; the native one where there is one."""

    def full_path(self, path: str) -> str:
        """The path inside `filesystem` and `arrow_filesystem()`. Raises `UnsafePathError` for a way out."""

    def full_url(self, path: str) -> str:
        """The address that DuckDB or Spark would open: a plain path if local, else `protocol://…`."""

    def prepare_root(self) -> None:
        """Creates the root if needed and proves that it can be written to, or raises."""

    def make_folders(self, paths: Iterable[str]) -> None:
        """Creates the folders (not files) named, where the store has real folders."""

    def sync(self, paths: Iterable[str]) -> None:
        """Makes written files durable, and the folder entries that lead to them."""

    def read_bytes(self, path: str) -> bytes:
        """The whole content; `FileNotInStoreError` if there is none."""

    def write_bytes(self, path: str, data: bytes, *, exclusive: bool = False) -> bool:
        """Writes a small file durably; with `exclusive`, returns False if one is already there."""

    def exists(self, path: str) -> bool:
        """Whether a file lies at the path."""

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        """All files below the folder, however deep; none if the folder is missing."""

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files; those already gone are no error."""
