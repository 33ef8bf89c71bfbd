"""Rows that wait until they fill a row group."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

_SMALL_ROWS = 4096
_JOIN_ROWS = 65_536
_JOIN_BATCHES = 1024


@dataclass(slots=True)
class _Piece:
    batch: pa.RecordBatch
    size_bytes: int
    release: Callable[[], None] | None


class RowBuffer:
    """Collects batches and gives them back as tables of at most one row group, without copying.

    Only runs of tiny batches are joined, since a row group of a million one-row pieces is slow to write.
    """

    def __init__(self, *, max_rows: int, max_bytes: int) -> None:
        """Takes the limits of a row group; bytes are counted as Arrow holds them."""
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._pieces: deque[_Piece] = deque()
        self._tiny: list[pa.RecordBatch] = []
        self._tiny_rows = 0
        self._tiny_bytes = 0
        self.rows = 0
        self.size_bytes = 0

    @property
    def full(self) -> bool:
        """Whether a whole row group can be taken out."""
        return self.rows >= self._max_rows or self.size_bytes >= self._max_bytes

    def push(
        self, batch: pa.RecordBatch, *, size_bytes: int | None = None, release: Callable[[], None] | None = None
    ) -> None:
        """Adds rows.

        Args:
            batch: the rows.
            size_bytes: what they take, if the caller knows it already.
            release: called once all of these rows have been taken out.
        """
        if not batch.num_rows:
            return
        size = batch.nbytes if size_bytes is None else size_bytes
        self.rows += batch.num_rows
        self.size_bytes += size
        if batch.num_rows < _SMALL_ROWS and release is None:
            self._tiny.append(batch)
            self._tiny_rows += batch.num_rows
            self._tiny_bytes += size
            if self._tiny_rows >= _JOIN_ROWS or len(self._tiny) >= _JOIN_BATCHES:
                self._join_tiny()
            return
        self._join_tiny()
        self._pieces.append(_Piece(batch, size, release))

    def pop(self) -> pa.Table:
        """Takes out one row group, or all rows if they make less than one."""
        self._join_tiny()
        taken: list[pa.RecordBatch] = []
        rows = size = 0
        while self._pieces:
            piece = self._pieces[0]
            fits = self._rows_that_fit(piece, rows, size)
            if fits < piece.batch.num_rows:
                if fits or not taken:
                    taken.append(self._cut(piece, max(fits, 1)))
                break
            self._pieces.popleft()
            taken.append(piece.batch)
            rows += piece.batch.num_rows
            size += piece.size_bytes
            self.rows -= piece.batch.num_rows
            self.size_bytes -= piece.size_bytes
            if piece.release is not None:
                piece.release()
        return pa.Table.from_batches(taken)

    def _rows_that_fit(self, piece: _Piece, rows: int, size: int) -> int:
        room = self._max_rows - rows
        count: int = piece.batch.num_rows
        if size + piece.size_bytes > self._max_bytes:
            count = max(self._max_bytes - size, 0) * count // piece.size_bytes
        return min(room, count)

    def _cut(self, piece: _Piece, rows: int) -> pa.RecordBatch:
        if rows >= piece.batch.num_rows:  # a single row above the limit
            self._pieces.popleft()
            self.rows -= rows
            self.size_bytes -= piece.size_bytes
            if piece.release is not None:
                piece.release()
            return piece.batch
        head = piece.batch.slice(0, rows)
        part = piece.size_bytes * rows // piece.batch.num_rows
        piece.batch = piece.batch.slice(rows)
        piece.size_bytes -= part
        self.rows -= rows
        self.size_bytes -= part
        return head

    def _join_tiny(self) -> None:
        if not self._tiny:
            return
        joined = self._tiny[0] if len(self._tiny) == 1 else pa.concat_batches(self._tiny)
        self._pieces.append(_Piece(joined, self._tiny_bytes, None))
        self._tiny = []
        self._tiny_rows = self._tiny_bytes = 0
