"""A Parquet file that is put together from row groups: some copied as they are, some encoded from rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.ports import Store
from parqlake.engines.arrow.open_parquet import OpenParquet
from parqlake.engines.arrow.parquet_thrift import Struct
from parqlake.engines.arrow.raw_groups import MAGIC, TAIL_BYTES, RawFooter, RawGroup, footer_bytes


class AssembledParquet:
    """What `OpenParquet` is, that also takes row groups as bytes.

    Rows are encoded by `OpenParquet` in memory, and its row groups are copied like all others.
    """

    def __init__(self, store: Store, path: str, schema: pa.Schema, codec: str) -> None:
        """Opens the file; see `OpenParquet`."""
        self._store = store
        self._path = path
        self._schema = schema
        self._codec = codec
        self._groups: list[Struct] = []
        self._owner = OpenParquet(store, path, schema, codec)
        self._sink = self._owner.sink
        with self.writing():
            self._sink.write(MAGIC)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Writes the rows as one row group."""
        data, footer = self._encoded(table)
        for group in footer.groups:
            self.copy(group, data[group.start : group.stop])

    def copy(self, group: RawGroup, data: Any) -> None:
        """Writes a row group as it is; `data` are its bytes."""
        with self.writing():
            self._groups.append(group.moved(self.size_bytes, len(self._groups)))
            self._sink.write(data)

    def close(self, footer: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Finishes the file; returns its size and its `FileMetaData`."""
        _, empty = self._encoded(None, footer)
        with self.writing():
            end = empty.with_groups(self._groups)
            self._sink.write(end)
            size = self.size_bytes
            self._sink.close()
        return size, pq.read_metadata(pa.BufferReader(MAGIC + end))

    def abandon(self) -> None:
        """Closes what is unfinished, for the caller to delete; never raises."""
        with suppress(Exception):
            self._sink.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """See `OpenParquet.writing`."""
        with self._owner.writing():
            yield

    def _encoded(self, table: pa.Table | None, entries: Mapping[str, str] | None = None) -> tuple[Any, RawFooter]:
        """A file in memory of these rows, or of none."""
        data = encoded_file(self._store, self._path, self._schema, self._codec, table=table, entries=entries)
        return data, footer_of(data)


def encoded_file(
    store: Store,
    path: str,
    schema: pa.Schema,
    codec: str,
    *,
    table: pa.Table | None = None,
    entries: Mapping[str, str] | None = None,
) -> memoryview:
    """A whole file in memory, as `OpenParquet` makes it; `path` is for errors."""
    sink = pa.BufferOutputStream()
    file = OpenParquet(store, path, schema, codec, sink=sink)
    try:
        if table is not None:
            file.write(table)
        file.close(entries)
    except BaseException:
        file.abandon()
        raise
    return memoryview(sink.getvalue()).cast("B")


def footer_of(data: memoryview) -> RawFooter:
    """The footer of a file in memory."""
    length = footer_bytes(bytes(data[-TAIL_BYTES:]))
    return RawFooter.parse(data[len(data) - TAIL_BYTES - length : len(data) - TAIL_BYTES])
