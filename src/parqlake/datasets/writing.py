"""Writing: one file, or the files of a dataset; staged where no reader looks, then put in place."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import InvalidOptionError
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
from parqlake.engines.arrow.open_parquet import OpenParquet
from parqlake.engines.arrow.row_buffer import RowBuffer
from parqlake.stores import FsspecStore
from parqlake.table.sources import to_reader

_ROW_GROUP_ROWS = 1024 * 1024
_ROW_GROUP_BYTES = 64 * 1024 * 1024
_MOST_THREADS = 4


def write_one_file(place: Place, name: str, data: Any, *, codec: str) -> None:
    """Writes the rows to one file of the folder: a reader finds the old file or the new one, whole."""
    store = place.store
    reader = _opened(data)
    place.create()
    if place.filesystem.isdir(store.full_path(name)):
        raise InvalidOptionError(f'"{place.url}/{name}" is a folder; give the name of a file in it')
    staged = f".{name}.{uuid_utils.uuid7().hex}.staged"
    try:
        write_file(store, staged, reader, reader.schema, codec)
        store.sync([staged])
        store.move(staged, name, replace=True)
        store.sync_names([name])
    except BaseException:
        with suppress(Exception):
            store.delete([staged])
        raise


def write_dataset(
    place: Place, data: Any, *, overwrite: bool, max_rows: int | None, codec: str, naming: Naming
) -> None:
    """Adds the rows as new files, or replaces all files by them; all or nothing."""
    reader = data if isinstance(data, pa.Table) else _opened(data)
    with Swap(place, append=not overwrite) as swap:
        old = swap.files() if overwrite else []
        if isinstance(reader, pa.Table):
            _write_pieces(lambda: swap.stage_new(naming).path, place.store, reader, max_rows, codec)
        else:
            write_stream(lambda: swap.stage_new(naming).path, place.store, reader, max_rows, codec)
        swap.commit(remove=old)


def _opened(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, str | os.PathLike):
        raise InvalidOptionError(f"table is the path {os.fspath(data)!r}; read it first, with read_parquet")
    return to_reader(data)


def _write_pieces(
    new_path: Callable[[], str], store: FsspecStore, table: pa.Table, max_rows: int | None, codec: str
) -> None:
    """Writes slices of a table, which are no copies, several files at a time."""
    size = max_rows or max(1, table.num_rows)
    pieces = [table.slice(start, size) for start in range(0, table.num_rows, size)] or [table]
    staged = [new_path() for _ in pieces]
    with ThreadPoolExecutor(min(_MOST_THREADS, len(pieces))) as pool:
        work = [
            pool.submit(write_file, store, path, piece.to_reader(), table.schema, codec)
            for path, piece in zip(staged, pieces, strict=True)
        ]
        for done in work:
            done.result()


def write_stream(
    new_path: Callable[[], str], store: FsspecStore, reader: pa.RecordBatchReader, max_rows: int | None, codec: str
) -> None:
    """Writes rows as they come; a file is begun when there are rows for it, and one in any case."""
    batches = (batch for batch in reader if batch.num_rows)
    first = next(batches, None)
    waiting = [] if first is None else [first]
    while True:
        rest = _Rest(itertools.chain(waiting, batches), max_rows)
        write_file(store, new_path(), rest.take(), reader.schema, codec)
        waiting = rest.left()
        if not waiting:
            return


class _Rest:
    """Cuts a stream after so many rows, and keeps what came with the last batch."""

    def __init__(self, batches: Iterator[pa.RecordBatch], rows: int | None) -> None:
        self._batches = batches
        self._rows = rows
        self._over: pa.RecordBatch | None = None

    def take(self) -> Iterator[pa.RecordBatch]:
        left = self._rows
        for batch in self._batches:
            if left is not None and batch.num_rows >= left:
                yield batch.slice(0, left)
                self._over = batch.slice(left) if batch.num_rows > left else None
                return
            if left is not None:
                left -= batch.num_rows
            yield batch

    def left(self) -> list[pa.RecordBatch]:
        if self._over is None:
            self._over = next(self._batches, None)
        return [] if self._over is None else [self._over]


def write_file(store: FsspecStore, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, codec: str) -> None:
    """Writes one Parquet file, row group by row group."""
    buffer = RowBuffer(max_rows=_ROW_GROUP_ROWS, max_bytes=_ROW_GROUP_BYTES)
    file = OpenParquet(store, path, schema, codec, shown=store.url)
    try:
        for batch in batches:
            if batch.num_rows:
                buffer.push(batch)
            while buffer.full:
                file.write(buffer.pop())
        while buffer.rows:
            file.write(buffer.pop())
        file.close()
    except BaseException:
        file.abandon()
        raise
