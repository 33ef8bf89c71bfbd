"""One Parquet file while it is being written: the one place that knows levels, checksums and encodings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.errors import ConstraintError, ParqlakeError
from parqlake.core.os_errors import store_error
from parqlake.core.ports import Store
from parqlake.engines.arrow.encodings import writer_encodings

_LEVELS = {"zstd": 1}
"""Level 1 of zstd costs what snappy costs, for a third less space."""


class OpenParquet:
    """A file under way; each write is one row group, and the first rows choose the encodings."""

    def __init__(self, store: Store, path: str, schema: pa.Schema, codec: str, *, shown: str | None = None) -> None:
        """Opens the file.

        Args:
            store: where it goes.
            path: relative to the store's root.
            schema: of the file.
            codec: snappy, zstd, gzip, lz4, brotli or none.
            shown: what errors call it; the path if left out.
        """
        self._schema = schema
        self._codec = codec.lower()
        self._shown = path if shown is None else shown
        self._writer: pq.ParquetWriter | None = None
        folder = path.rpartition("/")[0]
        with self.writing():
            if folder:
                store.make_folders([folder])
            self._sink = store.arrow_filesystem().open_output_stream(store.full_path(path))

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Writes the rows as one row group."""
        with self.writing():
            self._opened(table).write_table(table, row_group_size=max(1, table.num_rows))

    def close(self, footer: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Finishes the file; returns its size and the writer's own `FileMetaData`."""
        with self.writing():
            writer = self._opened(self._schema.empty_table())
            if footer:
                writer.add_key_value_metadata(dict(footer))
            writer.close()
            size = self.size_bytes
            self._sink.close()
        return size, writer.writer.metadata

    def abandon(self) -> None:
        """Closes what is unfinished, for the caller to delete; never raises."""
        writer = self._writer
        if writer is not None:
            with suppress(Exception):
                writer.close()
            with suppress(Exception):
                writer.is_open = False  # or it would try, and fail, again when it is collected
        with suppress(Exception):
            self._sink.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns what goes wrong while rows are written, or made ready for it, into errors that name the file."""
        try:
            yield
        except ParqlakeError:
            raise
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            # A NULL inside a nested column that must not hold one, for instance.
            raise ConstraintError(
                f'cannot write these rows to "{self._shown}": {error}; cast or mend them, then write again'
            ) from error
        except OSError as error:
            raise store_error(error, "write", self._shown, writing=True) from error

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression="NONE" if self._codec == "none" else self._codec,
                compression_level=_LEVELS.get(self._codec),
                write_page_checksum=True,
                store_schema=True,
                **writer_encodings(first),
            )
        return self._writer
