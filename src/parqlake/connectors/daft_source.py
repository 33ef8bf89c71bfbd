"""Scans as Daft frames, through Daft's own interface for sources of data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from parqlake.connectors.scan_dataset import Part, ScanDataset
from parqlake.core.errors import MissingExtraError
from parqlake.table.scan import Scan


def to_daft(scan: Scan) -> Any:
    """A `daft.DataFrame` over the scan, which reads when it is collected."""
    if find_spec("daft") is None:
        raise MissingExtraError("daft", "daft")
    source, _ = _classes()
    return source(scan).read()


@cache
def _classes() -> tuple[Any, Any]:
    """The source and its task; made when they are first used, since they descend from classes of Daft."""
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch
    from daft.schema import Schema

    class ScanTask(DataSourceTask):  # type: ignore[misc]
        """Some of the planned files."""

        def __init__(self, part: Part, columns: list[str]) -> None:
            self._part = part
            self._columns = columns

        @property
        def schema(self) -> Any:
            whole = self._part.scan.schema
            return Schema.from_pyarrow_schema(pa.schema([whole.field(name) for name in self._columns]))

        async def read(self) -> AsyncIterator[Any]:
            batches = self._part.scanner(columns=self._columns).to_batches()
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)

    class ScanSource(DataSource):  # type: ignore[misc]
        """The scan; conditions and columns of a query prune through the catalog."""

        def __init__(self, scan: Scan) -> None:
            self._scan = scan
            self._dataset = ScanDataset(scan)

        @property
        def name(self) -> str:
            return repr(self._scan)

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(self._scan.schema)

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            # Daft filters rows itself, whatever is pushed down, and needs the columns for that.
            needed = set(pushdowns.columns or self._scan.schema.names) | pushdowns.filter_required_column_names()
            columns = [name for name in self._scan.schema.names if name in needed]
            for part in self._dataset.get_fragments(_arrow_condition(pushdowns.filters)):
                yield ScanTask(part, columns)

    return ScanSource, ScanTask


def _arrow_condition(filters: Any) -> Any:
    """The condition as a pyarrow expression; None if there is none, or no way to say it."""
    if filters is None:
        return None
    try:
        return filters.to_arrow_expr()
    except Exception:  # whatever Daft cannot translate, it has to compute itself, and does
        return None
