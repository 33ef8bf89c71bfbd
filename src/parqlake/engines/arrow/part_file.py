"""One Parquet file while it is being written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec, WrittenFile
from parqlake.core.statistics import describe_file
from parqlake.engines.arrow.assembled_parquet import AssembledParquet
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.open_parquet import OpenParquet
from parqlake.engines.arrow.raw_groups import RawGroup
from parqlake.engines.not_null import check_not_null


class PartFile:
    """A `part-<uuidv7>.parquet` at its final place; each write is one row group."""

    def __init__(
        self,
        folder: str,
        spec: WriteSpec,
        store: Store,
        *,
        partition: Mapping[str, str | None],
        finder: NanFinder,
        copies: bool = False,
    ) -> None:
        """Opens the file; `folder` is relative to the table's location. With `copies` it takes row groups as bytes."""
        self._spec = spec
        self._store = store
        self._partition = partition
        self._finder = finder
        self._nans: set[tuple[int, int]] = set()
        self._row_groups = 0
        self.rows = 0
        name = f"part-{uuid_utils.uuid7()}.parquet"
        self.path = f"{folder}/{name}" if folder else name
        self.stored_path = f"{spec.location}/{self.path}"
        kind = AssembledParquet if copies else OpenParquet
        self._file = kind(store, self.stored_path, spec.schema, spec.compression)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._file.size_bytes

    def write_row_group(self, table: pa.Table) -> None:
        """Writes the rows as one row group."""
        check_not_null(table, self._spec.schema)
        if self._spec.sort_by:
            table = sorted_rows(table, self._spec.sort_by)
        self._nans.update((self._row_groups, leaf) for leaf in self._finder.find(table))
        self._file.write(table)
        self._row_groups += 1
        self.rows += table.num_rows

    def copy_row_group(self, group: RawGroup, data: Any, nans: Iterable[int]) -> None:
        """Writes a row group as it is, of whose leaves these hold a NaN."""
        assert isinstance(self._file, AssembledParquet)
        self._file.copy(group, data)
        self._nans.update((self._row_groups, leaf) for leaf in nans)
        self._row_groups += 1
        self.rows += group.rows

    def close(self) -> tuple[WrittenFile, DataFile]:
        """Finishes the file and describes it from the writer's own metadata."""
        size, metadata = self._file.close(self._spec.footer)
        schema, partition = self._spec.schema, self._partition
        far = not self._store.is_local
        data_file = describe_file(
            self.path, size, metadata, schema, partition=partition, nans=self._nans, keep_footer=far
        )
        return WrittenFile(self.path, metadata, size), data_file

    def abandon(self) -> None:
        """Closes and deletes the unfinished file, as far as that can be done; never raises."""
        self._file.abandon()
        with suppress(Exception):
            self._store.delete([self.stored_path])


def sorted_rows(table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    """The rows of a row group in order; NULLs go last."""
    joined = table.combine_chunks()
    try:
        return joined.sort_by([(name, "ascending") for name in columns])
    except pa.ArrowTypeError as error:
        raise InvalidOptionError(f"cannot sort by {', '.join(columns)}: {error}; leave nested columns out") from error
