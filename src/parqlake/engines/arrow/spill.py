"""Rows put aside on local disk, to be read back piece by piece."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from parqlake.core.errors import StoreError

Piece = tuple[int, int]
"""Where a piece lies in the spill file: offset and length."""


class SpillFile:
    """One temporary file of Arrow batches, each found again by its place.

    One file and one index, however many partitions and pieces there are: open files stay few.
    """

    def __init__(self, schema: pa.Schema, folder: str | None = None) -> None:
        """Makes the file on first use; `folder` is the system's temporary one unless given."""
        self._schema = schema
        self._folder = folder
        self._path: Path | None = None
        self.size_bytes = 0

    def write(self, table: pa.Table) -> list[Piece]:
        """Puts rows aside and returns where they are."""
        pieces = []
        try:
            if self._path is None:
                self._open()
            for batch in table.combine_chunks().to_batches():
                start = self._sink.tell()
                self._writer.write_batch(batch)
                pieces.append((start, self._sink.tell() - start))
            self.size_bytes = self._sink.tell()
        except OSError as error:
            raise self._failed(error) from error
        return pieces

    def read(self, piece: Piece) -> pa.RecordBatch:
        """The rows of one piece."""
        offset, length = piece
        try:
            self._source.seek(offset)
            message = pa.ipc.read_message(self._source.read_buffer(length))
            return pa.ipc.read_record_batch(message, self._schema)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Deletes the file; closing twice is no error."""
        if self._path is None:
            return
        for handle in (self._writer, self._sink, self._source):
            with suppress(OSError, pa.ArrowException):
                handle.close()
        self._path.unlink(missing_ok=True)
        self._path = None

    def _open(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="parqlake-spill-", suffix=".arrow", dir=self._folder)
        os.close(descriptor)
        codec = next((codec for codec in ("lz4", "zstd") if pa.Codec.is_available(codec)), None)
        self._path = Path(name)
        self._sink = pa.OSFile(name, "wb")
        self._source = pa.OSFile(name, "rb")
        self._writer = pa.ipc.new_stream(self._sink, self._schema, options=pa.ipc.IpcWriteOptions(compression=codec))
        # The schema goes out with the first batch: let that be an empty one, so that pieces are batches alone.
        self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=self._schema))
        if os.name != "nt":
            self._path.unlink()  # the handles keep it alive; a killed process leaves nothing behind

    def _failed(self, error: OSError) -> StoreError:
        place = self._folder or tempfile.gettempdir()
        return StoreError(
            f'cannot put rows aside in, or read them back from, "{place}": {error}; make room there, '
            "or choose another place for temporary files by TMPDIR or spill_folder"
        )
