"""What DuckDB reads: the rows to write, checked, counted, and cut the way that DuckDB likes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from parqlake.engines.not_null import check_not_null

VECTOR_ROWS = 2048
"""DuckDB works in vectors of this many rows; row groups end at the end of a vector."""
_BATCH_ROWS = 60 * VECTOR_ROWS
_BATCH_BYTES = 32 * 1024 * 1024

Divert = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Takes rows out of a batch that have to go another way, and returns the rest."""


class Feed:
    """A stream of rows that can be read in slices and remembers why it broke.

    DuckDB turns an exception of its source into text; the exception itself is kept here.
    """

    def __init__(self, data: pa.RecordBatchReader, schema: pa.Schema, divert: Divert | None = None) -> None:
        """Reads nothing yet."""
        self._data = iter(data)
        self._schema = schema
        self._divert = divert
        self._rest: pa.RecordBatch | None = None
        self.error: BaseException | None = None
        self.rows = 0
        """Rows handed over so far."""

    def reader(self, max_rows: int | None = None) -> pa.RecordBatchReader:
        """The next rows, at most `max_rows` of them, all if None."""
        return pa.RecordBatchReader.from_batches(self._schema, self._watched(max_rows))

    def has_more(self) -> bool:
        """Whether rows are left; reads on until it knows."""
        if self._rest is None:
            self._rest = self._next()
        return self._rest is not None

    def _watched(self, max_rows: int | None) -> Iterator[pa.RecordBatch]:
        try:
            for batch in whole_vectors(self._slice(max_rows)):
                self.rows += batch.num_rows
                yield _without_offsets(batch)
        except BaseException as error:
            self.error = error
            raise

    def _slice(self, max_rows: int | None) -> Iterator[pa.RecordBatch]:
        left = max_rows
        while (left is None or left > 0) and self.has_more():
            batch, self._rest = self._rest, None
            assert batch is not None
            if left is not None:
                if batch.num_rows > left:
                    self._rest = batch.slice(left)
                    batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        for batch in self._data:
            check_not_null(batch, self._schema)
            kept = batch if self._divert is None else self._divert(batch)
            if kept.num_rows:
                return kept
        return None


def whole_vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of whole vectors, all but the last, so that row groups keep to their bound."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not waiting and batch.num_rows % VECTOR_ROWS == 0:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _BATCH_ROWS or (size >= _BATCH_BYTES and rows >= VECTOR_ROWS):
            ready = rows - rows % VECTOR_ROWS
            table = pa.Table.from_batches(waiting)
            yield from table.slice(0, ready).combine_chunks().to_batches()
            waiting = table.slice(ready).to_batches()
            rows -= ready
            size = sum(batch.nbytes for batch in waiting)
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _without_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies nested columns, since DuckDB refuses structs that are slices of larger ones."""
    if not any(pa.types.is_nested(field.type) for field in batch.schema):
        return batch
    columns = [pa.concat_arrays([c, c.slice(0, 0)]) if pa.types.is_nested(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
