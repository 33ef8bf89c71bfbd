"""The files that a rewrite of a table makes: parts of planned lengths, described as every other write describes its."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from parqlake.core.maintenance.rewriting import RewriteGroup
from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.part_file import PartFile
from parqlake.engines.arrow.rewrite_copying import CopiedGroup
from parqlake.engines.arrow.rewrite_output import CutRows, FilledFile, row_group_bytes, row_group_rows
from parqlake.engines.arrow.rewrite_schema import as_stored
from parqlake.engines.arrow.row_buffer import RowBuffer


class PartFiles(CutRows["_Part"]):
    """Writes rows, in working types, to parts of one partition; leaves none behind if it is abandoned.

    Files are told of once all are durable.
    """

    def __init__(
        self, group: RewriteGroup, spec: WriteSpec, store: Store, *, memory_bytes: int, copies: bool = False
    ) -> None:
        """Opens nothing yet; `memory_bytes` bounds the size of row groups, of which `copies` may come as bytes."""
        super().__init__(group.rows, group_bytes=row_group_bytes(memory_bytes, spec.row_group_bytes))
        self._group = group
        self._spec = spec
        self._store = store
        self._finder = NanFinder(spec.schema)
        self._copies = copies
        self._paths: list[str] = []
        self._made: list[DataFile] = []

    def finish(self) -> list[DataFile]:
        """Makes all files durable and describes them, in order."""
        self._store.sync(self._paths)
        return self._made

    def abandon(self) -> None:
        """Deletes all files made so far, as far as that can be done; never raises."""
        self._abandon_open()
        with suppress(Exception):
            self._store.delete(self._paths)

    def _open(self, rows: int) -> _Part:
        group = self._group
        file = PartFile(
            group.folder,
            self._spec,
            self._store,
            partition=group.partition,
            finder=self._finder,
            copies=self._copies,
        )
        self._paths.append(file.stored_path)
        most = row_group_rows(rows, self._spec.row_group_rows)
        return _Part(file, self._spec.schema, rows, RowBuffer(max_rows=most, max_bytes=self._group_bytes))

    def _close(self, file: _Part) -> None:
        self._made.append(file.close())


class _Part(FilledFile):
    """One file while it is being filled."""

    def __init__(self, file: PartFile, schema: pa.Schema, rows: int, buffer: RowBuffer) -> None:
        super().__init__(rows, buffer)
        self._file = file
        self._schema = schema

    def close(self) -> DataFile:
        self.end_group()
        _, described = self._file.close()
        return described

    def abandon(self) -> None:
        self._file.abandon()

    def _write_group(self, rows: pa.Table) -> None:
        self._file.write_row_group(as_stored(rows, self._schema))

    def _copy_group(self, group: CopiedGroup) -> None:
        self._file.copy_row_group(group.group, group.data, group.nans)


def stored_paths(files: Sequence[DataFile], spec: WriteSpec) -> list[str]:
    """Where described files lie in the store."""
    return [f"{spec.location}/{file.path}" for file in files]
