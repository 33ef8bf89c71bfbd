"""One Parquet file while it is being written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.parquet as pq
import uuid_utils

from parqlake.core.errors import InvalidOptionError, ParqlakeError
from parqlake.core.model import DataFile
from parqlake.core.os_errors import store_error
from parqlake.core.ports import Store, WriteSpec, WrittenFile
from parqlake.core.statistics import describe_file
from parqlake.engines.arrow.encodings import writer_encodings
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.not_null import check_not_null

_LEVELS = {"zstd": 1}
"""Level 1 of zstd costs what snappy costs, for a third less space."""


class PartFile:
    """A `part-<uuidv7>.parquet` at its final place; each write is one row group."""

    def __init__(
        self, folder: str, spec: WriteSpec, store: Store, *, partition: Mapping[str, str | None], finder: NanFinder
    ) -> None:
        """Opens the file; `folder` is relative to the table's location."""
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
        with self._mapped():
            store.make_folders([self.stored_path.rpartition("/")[0]])
            self._sink = store.arrow_filesystem().open_output_stream(store.full_path(self.stored_path))
        self._writer: pq.ParquetWriter | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def write_row_group(self, table: pa.Table) -> None:
        """Writes the rows as one row group."""
        check_not_null(table, self._spec.schema)
        if self._spec.sort_by:
            table = _sorted(table, self._spec.sort_by)
        self._nans.update((self._row_groups, leaf) for leaf in self._finder.find(table))
        with self._mapped():
            self._open_writer(table).write_table(table, row_group_size=table.num_rows)
        self._row_groups += 1
        self.rows += table.num_rows

    def close(self) -> tuple[WrittenFile, DataFile]:
        """Finishes the file and describes it from the writer's own metadata."""
        with self._mapped():
            writer = self._open_writer(self._spec.schema.empty_table())
            writer.add_key_value_metadata(dict(self._spec.footer))
            writer.close()
            size = self.size_bytes
            self._sink.close()
        metadata = writer.writer.metadata
        schema, partition = self._spec.schema, self._partition
        data_file = describe_file(self.path, size, metadata, schema, partition=partition, nans=self._nans)
        return WrittenFile(self.path, metadata, size), data_file

    def abandon(self) -> None:
        """Closes and deletes the unfinished file, as far as that can be done; never raises."""
        writer = self._writer
        if writer is not None:
            with suppress(Exception):
                writer.close()
            with suppress(Exception):
                writer.is_open = False  # or it would try, and fail, again when it is collected
        with suppress(Exception):
            self._sink.close()
        with suppress(Exception):
            self._store.delete([self.stored_path])

    def _open_writer(self, first: pa.Table) -> pq.ParquetWriter:
        """The writer; its encodings are chosen by the first rows."""
        if self._writer is None:
            codec = self._spec.compression.lower()
            self._writer = pq.ParquetWriter(
                self._sink,
                self._spec.schema,
                compression="NONE" if codec == "none" else codec,
                compression_level=_LEVELS.get(codec),
                write_page_checksum=True,
                store_schema=True,
                **writer_encodings(first),
            )
        return self._writer

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except ParqlakeError:
            raise
        except OSError as error:
            raise store_error(error, "write", self.stored_path, writing=True) from error


def _sorted(table: pa.Table, columns: tuple[str, ...]) -> pa.Table:
    joined = table.combine_chunks()
    try:
        return joined.sort_by([(name, "ascending") for name in columns])  # NULLs go last
    except pa.ArrowTypeError as error:
        raise InvalidOptionError(f"cannot sort by {', '.join(columns)}: {error}; leave nested columns out") from error
