"""The files that a merge writes: replacements in the folders of the old ones, and inserted rows by partition."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

import pyarrow as pa

from parqlake.core.evolution.constraints import check_rows, checks_of
from parqlake.core.merging.conforming import as_stored
from parqlake.core.merging.model import AddedFile, MergeTarget, TargetFile
from parqlake.core.merging.validation import plain_type
from parqlake.core.names import partition_segment
from parqlake.core.partitioning import parse_partition_text, partition_text
from parqlake.engines.arrow.grouping import PartitionKey, group_rows
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.open_parquet import OpenParquet
from parqlake.engines.arrow.part_file import sorted_rows
from parqlake.engines.arrow.row_buffer import RowBuffer
from parqlake.engines.arrow.spill import Piece, SpillFile
from parqlake.engines.not_null import check_not_null

_GROUPS_IN_MEMORY = 8
"""A row group is held, copied and encoded, for an old file and for inserted rows."""


class MergeOutput:
    """Makes new files; knows them all, so that a failed merge leaves none behind. Safe in several threads."""

    def __init__(self, target: MergeTarget, *, memory_bytes: int) -> None:
        """Opens nothing yet; row groups are kept small enough for the memory."""
        self.target = target
        self.row_group_bytes = max(1, min(target.spec.row_group_bytes, memory_bytes // _GROUPS_IN_MEMORY))
        self.schema = target.file_schema
        self.finder = NanFinder(self.schema)
        self.has_checks = bool(checks_of(self.schema))
        self.added: list[AddedFile] = []
        self._paths: list[str] = []
        self._lock = Lock()

    def replacement(self, file: TargetFile) -> MergedFile:
        """A file for the rows that stay of an old one, in its folder."""
        return MergedFile(self, file.folder, file.partition, replaces=file.path)

    def finish(self) -> tuple[AddedFile, ...]:
        """Makes all files durable and tells of them."""
        self.target.store.sync([file.path for file in self.added])
        return tuple(sorted(self.added, key=lambda file: file.path))

    def abandon(self) -> None:
        """Deletes all files, as far as that can be done; never raises."""
        with suppress(Exception):
            self.target.store.delete(self._paths)

    def take_path(self, folder: str) -> str:
        """The path of a new file, remembered before the file is there."""
        with self._lock:
            path = self.target.new_path(folder)
            self._paths.append(path)
        return path

    def note(self, file: AddedFile) -> None:
        """Takes down a finished file."""
        with self._lock:
            self.added.append(file)


class MergedFile:
    """One file, or several where they grow too large; without rows there is none."""

    def __init__(
        self, output: MergeOutput, folder: str, partition: Mapping[str, str | None], *, replaces: str | None = None
    ) -> None:
        """Opens nothing yet. A replacement is never cut in two."""
        self._output = output
        self._folder = folder
        self._partition = partition
        self._replaces = replaces
        spec = output.target.spec
        max_rows = min(spec.row_group_rows, spec.max_rows_per_file or spec.row_group_rows)
        self._buffer = RowBuffer(max_rows=max_rows, max_bytes=output.row_group_bytes)
        self._path = ""
        self._file: OpenParquet | None = None
        self._rows = 0
        self._nans: set[tuple[int, int]] = set()
        self._groups = 0

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Takes rows in the working schema."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            self._buffer.push(batch)
        while self._buffer.full:
            self._write_group(self._buffer.pop())

    def close(self, *, even_if_empty: bool = False) -> None:
        """Writes what waits and finishes the file."""
        while self._buffer.rows:
            self._write_group(self._buffer.pop())
        if even_if_empty and self._file is None:
            self._open()
        self._finish()

    def abandon(self) -> None:
        """Closes the file, which the output deletes; never raises."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _write_group(self, table: pa.Table) -> None:
        rows = as_stored(table, self._output.schema)
        check_not_null(rows, self._output.schema)
        if self._output.has_checks:  # of an old row and some columns of a new one, perhaps
            for batch in rows.to_batches():
                check_rows(batch, self._output.schema)
        if self._output.target.spec.sort_by:
            rows = sorted_rows(rows, self._output.target.spec.sort_by)
        limit = self._output.target.spec.max_rows_per_file if self._replaces is None else None
        if limit is not None and self._rows + rows.num_rows > limit:
            self._finish()
        file = self._file or self._open()
        self._nans.update((self._groups, leaf) for leaf in self._output.finder.find(rows))
        file.write(rows)
        self._groups += 1
        self._rows += rows.num_rows
        if self._replaces is None and file.size_bytes >= self._output.target.spec.target_file_bytes:
            self._finish()

    def _open(self) -> OpenParquet:
        target = self._output.target
        self._path = self._output.take_path(self._folder)
        self._file = OpenParquet(target.store, self._path, self._output.schema, target.spec.compression)
        self._rows = self._groups = 0
        self._nans = set()
        return self._file

    def _finish(self) -> None:
        if self._file is None:
            return
        size, metadata = self._file.close(self._output.target.spec.footer)
        self._file = None
        nans = frozenset(self._nans)
        self._output.note(
            AddedFile(self._path, self._rows, size, dict(self._partition), self._replaces, metadata, nans)
        )


class InsertedRows:
    """Rows that go to the folders of their partition values, in whatever order they come; memory is bounded."""

    def __init__(
        self, output: MergeOutput, schema: pa.Schema, *, memory_bytes: int, spill_folder: str | None = None
    ) -> None:
        """Opens nothing yet; `schema` is the working one."""
        self._output = output
        self._spec = output.target.spec
        self._memory_bytes = memory_bytes
        self._plain: MergedFile | None = None
        self._spill = SpillFile(schema, spill_folder)
        self._held: dict[PartitionKey, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._spilled: dict[PartitionKey, list[Piece]] = {}

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Takes rows in the working schema."""
        if not rows.num_rows:
            return
        if not self._spec.partition_by:
            if self._plain is None:
                self._plain = MergedFile(self._output, self._spec.location, {})
            self._plain.write(rows)
            return
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        for group in group_rows(table, self._spec.partition_by):
            self._held.setdefault(group.key, []).extend(group.batches)
        self._held_bytes += table.nbytes
        if self._held_bytes > self._memory_bytes:
            self._put_aside()

    def close(self) -> None:
        """Writes what waits, one partition after the other."""
        if self._plain is not None:
            self._plain.close()
        folders = self._known_folders() if self._spec.partition_by else {}
        for key in sorted({*self._held, *self._spilled}, key=str):
            values = dict(zip(self._spec.partition_by, key, strict=True))
            segments = [partition_segment(name, text) for name, text in values.items()]
            usual = "/".join([*filter(None, [self._spec.location]), *segments])
            file = MergedFile(self._output, folders.get(key, usual), values)
            try:
                for piece in self._spilled.get(key, ()):
                    file.write(self._spill.read(piece))
                for batch in self._held.pop(key, ()):
                    file.write(batch)
                file.close()
            except BaseException:
                file.abandon()
                raise
        self._spill.close()

    def abandon(self) -> None:
        """Closes what is open; never raises."""
        if self._plain is not None:
            self._plain.abandon()
        self._spill.close()

    def _known_folders(self) -> dict[PartitionKey, str]:
        """Folders that partitions have already, which may be spelled in another way: `month=01` for 1."""
        names = self._spec.partition_by
        types = {name: plain_type(self._spec.schema.field(name).type) for name in names}
        found: dict[PartitionKey, str] = {}
        for file in self._output.target.files:
            if not all(name in file.partition for name in names):
                continue
            key = tuple(partition_text(parse_partition_text(file.partition[name], types[name])) for name in names)
            if key not in found or len(file.folder) < len(found[key]):
                found[key] = file.folder
        return found

    def _put_aside(self) -> None:
        for key, batches in self._held.items():
            self._spilled.setdefault(key, []).extend(self._spill.write(pa.Table.from_batches(batches)))
        self._held = {}
        self._held_bytes = 0
