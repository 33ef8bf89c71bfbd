"""A store's files for DuckDB: read-only, below the lake's root, with the lake's own credentials.

DuckDB knows one file system for each protocol. Each lake has a protocol of its own here, so that lakes with different
credentials can be read on one connection, and nothing but the lake's files can be reached by it. Paths are taken as
they are, never as patterns: no listing is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fsspec import AbstractFileSystem

from parqlake.core.errors import StoreReadOnlyError
from parqlake.core.ports import Store

_UNCHANGED = datetime(2000, 1, 1, tzinfo=UTC)
_MOST_INFOS = 50_000


def duckdb_address(con: Any, store: Store, lake_id: str) -> Callable[[str], str]:
    """How DuckDB opens files of the store, by their paths; makes them known to the connection if need be."""
    if store.is_local:
        return store.full_path
    files = LakeFiles(store, lake_id)
    if not con.filesystem_is_registered(files.protocol):
        con.register_filesystem(files)
    return lambda path: f"{files.protocol}://{path}"


class LakeFiles(AbstractFileSystem):  # type: ignore[misc]
    """The files of one store under the protocol `parqlake-<lake id>`."""

    cachable = False

    def __init__(self, store: Store, lake_id: str) -> None:
        """Opens nothing."""
        super().__init__()
        self.protocol = f"parqlake-{lake_id}".lower()
        self._store = store
        self._infos: dict[str, Any] = {}

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """The file, for reading."""
        if mode != "rb":
            raise StoreReadOnlyError(f'"{path}" cannot be opened by mode={mode!r}: a lake\'s files are only read here')
        # Exactly what DuckDB asks for: reading ahead would fetch whole files for a few pages of them.
        return self._store.filesystem.open(self._full(path), "rb", **{"cache_type": "none", **options})

    def info(self, path: str, **options: Any) -> Any:
        """What the store knows of the file; asked for once, since files never change."""
        full = self._full(path)
        found = self._infos.get(full)
        if found is None:
            found = self._infos[full] = self._store.filesystem.info(full, **options)
            if len(self._infos) > _MOST_INFOS:
                self._infos.pop(next(iter(self._infos)))
        return found

    def modified(self, path: str) -> datetime:  # noqa: ARG002 (fsspec's)
        """Always the same, since files never change: DuckDB need not ask the store."""
        return _UNCHANGED

    def glob(self, path: str, **_: Any) -> list[str]:
        """The path itself: what is special in patterns was escaped by whoever wrote the query."""
        plain = self._plain(path)
        for character in "[*?":
            plain = plain.replace(f"[{character}]", character)
        return [plain]

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: ARG002 (fsspec's)
        """Nothing: files are named, never listed."""
        return []

    def _plain(self, path: str) -> str:
        return path.removeprefix(f"{self.protocol}://")

    def _full(self, path: str) -> str:
        return self._store.full_path(self._plain(path))
