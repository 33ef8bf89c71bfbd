"""What DuckDB reads: the rows to write, checked and counted on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from parqlake.engines.not_null import check_not_null

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
        return pa.RecordBatchReader.from_batches(self._schema, self._batches(max_rows))

    def has_more(self) -> bool:
        """Whether rows are left; reads on until it knows."""
        if self._rest is None:
            self._rest = self._next()
        return self._rest is not None

    def _batches(self, max_rows: int | None) -> Iterator[pa.RecordBatch]:
        left = max_rows
        try:
            while left is None or left > 0:
                if not self.has_more():
                    return
                batch, self._rest = self._rest, None
                assert batch is not None
                if left is not None:
                    if batch.num_rows > left:
                        self._rest = batch.slice(left)
                        batch = batch.slice(0, left)
                    left -= batch.num_rows
                self.rows += batch.num_rows
                yield batch
        except BaseException as error:
            self.error = error
            raise

    def _next(self) -> pa.RecordBatch | None:
        for batch in self._data:
            check_not_null(batch, self._schema)
            kept = batch if self._divert is None else self._divert(batch)
            if kept.num_rows:
                return kept
        return None
