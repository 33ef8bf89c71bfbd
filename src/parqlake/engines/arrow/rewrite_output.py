"""The files that a rewrite makes: a stream of rows cut at exactly the rows planned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import pyarrow as pa

from parqlake.core.clustering.marks import MARK_KEY
from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow.assembled_parquet import AssembledParquet
from parqlake.engines.arrow.open_parquet import OpenParquet
from parqlake.engines.arrow.rewrite_copying import CopiedGroup
from parqlake.engines.arrow.rewrite_schema import as_stored
from parqlake.engines.arrow.row_buffer import RowBuffer

CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
GROUP_ROWS = 1024 * 1024
_GROUP_BYTES = 64 * 1024 * 1024
_GROUPS_IN_MEMORY = 8
"""A row group is held, copied and encoded, beside what is being read."""
_COPIED_FOR_SHORT = 4
"""Where row groups are copied, those between them may be short: the first, and one more for each so many copied."""


def give_back() -> None:
    """Returns what the allocator keeps for later, a third of all memory where sizes change all the time."""
    pa.default_memory_pool().release_unused()


class FilledFile(ABC):
    """A file while it is being filled, of as many rows as planned."""

    def __init__(self, rows: int, buffer: RowBuffer) -> None:
        """Takes the file's rows, and what holds those of a row group."""
        self._buffer = buffer
        self._short = 0
        self._copied = 0
        self.rows_left = rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows, no more than are left."""
        self.rows_left -= batch.num_rows
        self._buffer.push(batch)
        while self._buffer.full:
            self._write_group(self._buffer.pop())

    def copy(self, group: CopiedGroup) -> bool:
        """Takes a row group as it is; False if it does not fit, or would leave too many short ones before it."""
        if group.num_rows > self.rows_left or (self._buffer.rows and self._short > self._copied // _COPIED_FOR_SHORT):
            return False
        self._short += bool(self._buffer.rows)
        self.end_group()
        self._copy_group(group)
        self._copied += 1
        self.rows_left -= group.num_rows
        return True

    def end_group(self) -> None:
        """Writes the rows that wait."""
        while self._buffer.rows:
            self._write_group(self._buffer.pop())

    @abstractmethod
    def abandon(self) -> None:
        """Closes what is unfinished; never raises."""

    @abstractmethod
    def _write_group(self, rows: pa.Table) -> None:
        """Writes rows, in working types, as one row group."""

    @abstractmethod
    def _copy_group(self, group: CopiedGroup) -> None:
        """Writes a row group as it is."""


_F = TypeVar("_F", bound=FilledFile)


class CutRows(ABC, Generic[_F]):
    """Cuts a stream of rows into files of planned lengths."""

    def __init__(self, rows: Sequence[int], *, group_bytes: int) -> None:
        """Opens nothing yet; `group_bytes` is about how large a row group is."""
        self._plan = list(rows)
        self._group_bytes = group_bytes
        self._ended = 0
        self._file: _F | None = None
        self._kept_bytes = 0

    def write(self, rows: pa.RecordBatch | CopiedGroup) -> None:
        """Takes the next rows; ends files where they are full and begins the next."""
        if isinstance(rows, pa.RecordBatch):
            self._write(rows)
            return
        file = self._file or self._next()
        if not file.copy(rows):
            for batch in rows.decoded():
                self._write(batch)
        elif not file.rows_left:
            self._end()

    def _write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            file = self._file or self._next()
            part = batch.slice(0, file.rows_left)
            file.write(part)
            self._kept_bytes += part.nbytes
            if self._kept_bytes >= self._group_bytes:
                give_back()
                self._kept_bytes = 0
            batch = batch.slice(part.num_rows)
            if not file.rows_left:
                self._end()

    @abstractmethod
    def _open(self, rows: int) -> _F:
        """Begins a file for so many rows."""

    @abstractmethod
    def _close(self, file: _F) -> None:
        """Finishes a file."""

    def _next(self) -> _F:
        if self._ended >= len(self._plan):
            raise InvalidOptionError(
                f"more rows than the {sum(self._plan)} planned; plan again from the files as they are"
            )
        self._file = self._open(self._plan[self._ended])
        return self._file

    def _end(self) -> None:
        assert self._file is not None
        self._close(self._file)
        self._file = None
        self._ended += 1

    def _abandon_open(self) -> None:
        if self._file is not None:
            self._file.abandon()
            self._file = None


def row_group_rows(rows: int, most: int) -> int:
    """Rows of each row group of a file: groups of equal length, not a short last one."""
    return -(-max(rows, 1) // -(-max(rows, 1) // most))


def row_group_bytes(memory_bytes: int, most: int = _GROUP_BYTES) -> int:
    """About how large a row group may be, so that it fits beside all else."""
    return max(1, min(most, memory_bytes // _GROUPS_IN_MEMORY))


class OutputFiles(CutRows["_PlannedFile"]):
    """Writes rows, in working types, to files of planned lengths; leaves none behind if it is abandoned."""

    def __init__(
        self,
        store: Store,
        new_path: Callable[[], str],
        *,
        schema: pa.Schema,
        rows: Sequence[int],
        compression: str,
        memory_bytes: int,
        metadata: Mapping[bytes, bytes] | None = None,
        taken: Collection[str] = (),
        copies: bool = False,
    ) -> None:
        """Opens nothing yet.

        Args:
            store: where files go.
            new_path: gives the path of the next file.
            schema: of the files.
            rows: of each file, in order.
            compression: the codec's name.
            memory_bytes: bounds the size of row groups.
            metadata: more entries for the footers.
            taken: paths that must not be written to.
            copies: whether row groups may come as bytes.
        """
        super().__init__(rows, group_bytes=row_group_bytes(memory_bytes))
        self._store = store
        self._new_path = new_path
        self._schema = schema.with_metadata(_footer_entries(schema, metadata))
        self._codec = compression
        self._taken = set(taken)
        self._copies = copies
        self._paths: list[str] = []
        self._made: list[FileInfo] = []

    def write_all(self, batches: Iterable[pa.RecordBatch | CopiedGroup]) -> list[FileInfo]:
        """Writes all rows and finishes, or deletes what was made and raises."""
        try:
            for batch in batches:
                self.write(batch)
            return self.finish()
        except BaseException:
            self.abandon()
            raise

    def finish(self) -> list[FileInfo]:
        """Ends the last file, makes all durable and tells of them, in order."""
        while self._ended < len(self._plan):  # files planned without rows
            self._file = self._file or self._next()
            self._end()
        self._store.sync([file.path for file in self._made])
        return self._made

    def abandon(self) -> None:
        """Deletes all files made so far, as far as that can be done; never raises."""
        self._abandon_open()
        with suppress(Exception):
            self._store.delete(self._paths)

    def _open(self, rows: int) -> _PlannedFile:
        path = self._new_path()
        if path in self._taken:
            raise InvalidOptionError(f'new_path gave "{path}", which is in use; give a new name for each file')
        self._taken.add(path)
        self._paths.append(path)
        buffer = RowBuffer(max_rows=row_group_rows(rows, GROUP_ROWS), max_bytes=self._group_bytes)
        kind = AssembledParquet if self._copies else OpenParquet
        return _PlannedFile(path, kind(self._store, path, self._schema, self._codec), self._schema, rows, buffer)

    def _close(self, file: _PlannedFile) -> None:
        self._made.append(file.close())


class _PlannedFile(FilledFile):
    """One file while it is being filled."""

    def __init__(
        self, path: str, file: OpenParquet | AssembledParquet, schema: pa.Schema, rows: int, buffer: RowBuffer
    ) -> None:
        super().__init__(rows, buffer)
        self._path = path
        self._file = file
        self._schema = schema
        self._rows = rows

    def close(self) -> FileInfo:
        self.end_group()
        size, _ = self._file.close()
        return FileInfo(self._path, size, self._rows - self.rows_left)

    def abandon(self) -> None:
        self._file.abandon()

    def _write_group(self, rows: pa.Table) -> None:
        with self._file.writing():
            rows = as_stored(rows, self._schema)
        self._file.write(rows)

    def _copy_group(self, group: CopiedGroup) -> None:
        assert isinstance(self._file, AssembledParquet)
        self._file.copy(group.group, group.data)


def _footer_entries(schema: pa.Schema, more: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The schema's own entries and those given; what a former file said of its order is true no longer."""
    own = {key: value for key, value in (schema.metadata or {}).items() if key != MARK_KEY}
    return own | dict(more or {})
