"""The answer to a query: lazy, and handed out in whichever form is wanted."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from parqlake.connectors.polars_frames import frame_of
from parqlake.table.arrow_rows import ArrowRows


class RunningQuery(Protocol):
    """A query that an engine has understood."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of its result."""

    def run(self) -> pa.RecordBatchReader:
        """Runs it, and streams the rows; each call runs it again."""


class SqlResult(ArrowRows):
    """The rows of `lake.sql`. The query runs when they are asked for, on the versions that were found by the call.

    It can be asked as often as one likes, and be written to a table: `table.append(lake.sql("…"))`.
    """

    def __init__(self, query: RunningQuery) -> None:
        """Made by `Lake.sql`."""
        self._query = query

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._query.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""
        return self._query.run()

    def cancel(self) -> None:
        """Ends a run that is under way, from another thread perhaps, which then raises; engines that cannot go on."""
        cancel = getattr(self._query, "cancel", None)
        if cancel is not None:
            cancel()

    def to_polars(self) -> Any:
        """All rows as a Polars data frame."""
        return frame_of(self.to_arrow())

    def __repr__(self) -> str:
        return f"<SqlResult with columns {', '.join(self.columns)}>"
