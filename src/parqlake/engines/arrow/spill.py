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
_PIECE_BYTES = 1024 * 1024
_SIZE_BYTES = 8


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
        """Puts rows aside and returns where they are, in pieces of about a megabyte."""
        pieces: list[Piece] = []
        step = max(1, table.num_rows * _PIECE_BYTES // max(table.nbytes, 1))
        try:
            if self._path is None:
                self._open()
            for start in range(0, table.num_rows, step):
                pieces += map(self._put, table.slice(start, step).combine_chunks().to_batches())
            self.size_bytes = self._sink.tell()
        except OSError as error:
            raise self._failed(error) from error
        return pieces

    def read(self, piece: Piece) -> pa.RecordBatch:
        """The rows of one piece."""
        offset, length = piece
        try:
            self._source.seek(offset)
            stored = self._source.read_buffer(length)
            size = int.from_bytes(stored.slice(0, _SIZE_BYTES), "little")
            message = stored.slice(_SIZE_BYTES)
            if self._codec is not None:
                message = self._codec.decompress(message, size)
            return pa.ipc.read_record_batch(message, self._schema)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Deletes the file; closing twice is no error."""
        if self._path is None:
            return
        for handle in (self._sink, self._source):
            with suppress(OSError, pa.ArrowException):
                handle.close()
        self._path.unlink(missing_ok=True)
        self._path = None

    def _open(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="parqlake-spill-", suffix=".arrow", dir=self._folder)
        os.close(descriptor)
        codec = next((codec for codec in ("lz4", "zstd") if pa.Codec.is_available(codec)), None)
        self._codec = None if codec is None else pa.Codec(codec)
        self._path = Path(name)
        self._sink = pa.OSFile(name, "wb")
        self._source = pa.OSFile(name, "rb")
        if os.name != "nt":
            self._path.unlink()  # the handles keep it alive; a killed process leaves nothing behind

    def _put(self, batch: pa.RecordBatch) -> Piece:
        """Writes one piece: its size, then its message, compressed here.

        Arrow's own compression works in other threads, whose heaps keep what they once had: it doubled the memory.
        """
        message = batch.serialize()
        start = self._sink.tell()
        self._sink.write(message.size.to_bytes(_SIZE_BYTES, "little"))
        self._sink.write(message if self._codec is None else self._codec.compress(message))
        return start, self._sink.tell() - start

    def _failed(self, error: OSError) -> StoreError:
        place = self._folder or tempfile.gettempdir()
        return StoreError(
            f'cannot put rows aside in, or read them back from, "{place}": {error}; make room there, '
            "or choose another place for temporary files by TMPDIR or spill_folder"
        )
