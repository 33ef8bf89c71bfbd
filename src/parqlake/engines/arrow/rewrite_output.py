"""The files that a rewrite makes: a stream of rows cut at exactly the rows planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.clustering.marks import MARK_KEY
from parqlake.core.errors import ConstraintError, InvalidOptionError, ParqlakeError
from parqlake.core.maintenance import FileInfo
from parqlake.core.os_errors import store_error
from parqlake.core.ports import Store
from parqlake.engines.arrow.encodings import writer_encodings
from parqlake.engines.arrow.rewrite_schema import as_stored
from parqlake.engines.arrow.row_buffer import RowBuffer

CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
_LEVELS = {"zstd": 1}
_GROUP_ROWS = 1024 * 1024
_GROUP_BYTES = 64 * 1024 * 1024
_GROUPS_IN_MEMORY = 8
"""A row group is held, copied and encoded, beside what is being read."""


class OutputFiles:
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
        """
        self._store = store
        self._new_path = new_path
        self._schema = schema.with_metadata(_footer_entries(schema, metadata))
        self._plan = list(rows)
        codec = compression.lower()
        self._codec = "NONE" if codec == "none" else codec
        self._level = _LEVELS.get(codec)
        self._group_bytes = max(1, min(_GROUP_BYTES, memory_bytes // _GROUPS_IN_MEMORY))
        self._taken = set(taken)
        self._paths: list[str] = []
        self._made: list[FileInfo] = []
        self._file: _OpenFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes the next rows; ends files where they are full and begins the next."""
        while batch.num_rows:
            file = self._file or self._begin()
            part = batch.slice(0, file.rows_left)
            file.write(part)
            batch = batch.slice(part.num_rows)
            if not file.rows_left:
                self._end()

    def finish(self) -> list[FileInfo]:
        """Ends the last file, makes all durable and tells of them, in order."""
        while len(self._made) < len(self._plan):  # files planned without rows
            self._file = self._file or self._begin()
            self._end()
        self._store.sync([file.path for file in self._made])
        return self._made

    def abandon(self) -> None:
        """Deletes all files made so far, as far as that can be done; never raises."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        with suppress(Exception):
            self._store.delete(self._paths)

    def _begin(self) -> _OpenFile:
        if len(self._made) >= len(self._plan):
            raise InvalidOptionError(
                f"more rows than the {sum(self._plan)} planned; plan again from the files as they are"
            )
        path = self._new_path()
        if path in self._taken:
            raise InvalidOptionError(f'new_path gave "{path}", which is in use; give a new name for each file')
        self._taken.add(path)
        rows = self._plan[len(self._made)]
        group_rows = -(-max(rows, 1) // -(-max(rows, 1) // _GROUP_ROWS))  # groups of equal length, not a short last one
        with _writing(path):
            self._store.make_folders([path.rpartition("/")[0]])
            self._paths.append(path)
            sink = self._store.arrow_filesystem().open_output_stream(self._store.full_path(path))
        buffer = RowBuffer(max_rows=group_rows, max_bytes=self._group_bytes)
        self._file = _OpenFile(path, sink, self._schema, rows, buffer, codec=self._codec, level=self._level)
        return self._file

    def _end(self) -> None:
        assert self._file is not None
        self._made.append(self._file.close())
        self._file = None


class _OpenFile:
    """One file while it is being written."""

    def __init__(
        self, path: str, sink: Any, schema: pa.Schema, rows: int, buffer: RowBuffer, *, codec: str, level: int | None
    ) -> None:
        self._path = path
        self._sink = sink
        self._schema = schema
        self._rows = rows
        self._buffer = buffer
        self._codec = codec
        self._level = level
        self._writer: Any = None
        self.rows_left = rows

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows_left -= batch.num_rows
        self._buffer.push(batch)
        while self._buffer.full:
            self._write_group(self._buffer.pop())

    def close(self) -> FileInfo:
        while self._buffer.rows:
            self._write_group(self._buffer.pop())
        with _writing(self._path):
            self._open_writer(self._schema.empty_table()).close()
            size = int(self._sink.tell())
            self._sink.close()
        return FileInfo(self._path, size, self._rows - self.rows_left)

    def abandon(self) -> None:
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()
            with suppress(Exception):
                self._writer.is_open = False  # or it would try, and fail, again when it is collected
        with suppress(Exception):
            self._sink.close()

    def _write_group(self, table: pa.Table) -> None:
        with _writing(self._path):
            rows = as_stored(table, self._schema)
            self._open_writer(rows).write_table(rows, row_group_size=max(1, rows.num_rows))

    def _open_writer(self, first: pa.Table) -> Any:
        """The writer; its encodings are chosen by the first rows."""
        if self._writer is None:
            halves = any(pa.types.is_float16(field.type) for field in self._schema)  # which Arrow cannot count
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self._codec,
                compression_level=self._level,
                write_page_checksum=True,
                store_schema=True,
                **({} if halves else writer_encodings(first)),
            )
        return self._writer


def _footer_entries(schema: pa.Schema, more: Mapping[bytes, bytes] | None) -> dict[bytes, bytes]:
    """The schema's own entries and those given; what a former file said of its order is true no longer."""
    own = {key: value for key, value in (schema.metadata or {}).items() if key != MARK_KEY}
    return own | dict(more or {})


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except ParqlakeError:
        raise
    except pa.ArrowInvalid as error:  # a NULL inside a nested column that must not hold one, for instance
        raise ConstraintError(f'cannot write these rows to "{path}": {error}; give a schema that fits them') from error
    except OSError as error:
        raise store_error(error, "write", path, writing=True) from error
