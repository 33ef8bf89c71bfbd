"""A file that somebody else wrote, as it is handed to a visitor."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WrittenFile


class DescribedFile(WrittenFile):
    """A finished file whose footer is read if somebody asks for it."""

    __slots__ = ("_full_path", "_store")
    _full_path: str
    _store: Store

    def __init__(self, file: DataFile, location: str, store: Store) -> None:
        """Opens nothing."""
        for name, value in (
            ("path", file.path),
            ("size", file.size_bytes),
            ("_full_path", store.full_path(f"{location}/{file.path}")),
            ("_store", store),
        ):
            object.__setattr__(self, name, value)

    @property
    def metadata(self) -> Any:
        """The file's own `pyarrow.parquet.FileMetaData`."""
        return pq.read_metadata(self._full_path, filesystem=self._store.arrow_filesystem())
