"""One Parquet file while it is being written: the one place that knows levels, checksums and encodings."""

from __future__ import annotations

from base64 import b64encode
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
_SCHEMA_KEY = "ARROW:schema"
"""Where Arrow keeps what Parquet has no words for."""


class OpenParquet:
    """A file under way; each write is one row group, and the first rows choose the encodings."""

    def __init__(
        self, store: Store, path: str, schema: pa.Schema, codec: str, *, shown: str | None = None, sink: Any = None
    ) -> None:
        """Opens the file.

        Args:
            store: where it goes.
            path: relative to the store's root.
            schema: of the file.
            codec: snappy, zstd, gzip, lz4, brotli or none.
            shown: what errors call it; the path if left out.
            sink: an open stream that takes the bytes instead.
        """
        self._schema = schema
        self._codec = codec.lower()
        self._shown = path if shown is None else shown
        self._writer: pq.ParquetWriter | None = None
        folder = path.rpartition("/")[0]
        with self.writing():
            if folder and sink is None:
                store.make_folders([folder])
            self.sink: Any = sink or store.arrow_filesystem().open_output_stream(store.full_path(path))

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self.sink.tell())

    def write(self, table: pa.Table) -> None:
        """Writes the rows as one row group; texts may be dictionaries, the same columns in all row groups."""
        with self.writing():
            self._opened(table).write_table(table, row_group_size=max(1, table.num_rows))

    def close(self, footer: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Finishes the file; returns its size and the writer's own `FileMetaData`."""
        with self.writing():
            writer = self._opened(self._schema.empty_table())
            more = dict(footer or {})
            if writer.schema is not self._schema:  # some columns come as dictionaries, which is nobody else's business
                more[_SCHEMA_KEY] = b64encode(self._schema.serialize()).decode()
            if more:
                writer.add_key_value_metadata(more)
            writer.close()
            size = self.size_bytes
            self.sink.close()
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
            self.sink.close()

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
            schema = self._schema
            if any(map(_is_text_of_few_values, first.schema.types, schema.types)):
                pairs = zip(schema, first.schema.types, strict=True)
                schema = pa.schema(
                    [
                        field.with_type(type_) if _is_text_of_few_values(type_, field.type) else field
                        for field, type_ in pairs
                    ],
                    schema.metadata,
                )
            self._writer = pq.ParquetWriter(
                self.sink,
                schema,
                compression="NONE" if self._codec == "none" else self._codec,
                compression_level=_LEVELS.get(self._codec),
                write_page_checksum=True,
                store_schema=schema is self._schema,
                store_decimal_as_integer=True,  # written in half the time, and read in half
                **writer_encodings(first),
            )
        return self._writer


def _is_text_of_few_values(type_: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(type_) and type_ != wanted and type_.value_type == wanted)
