"""Queries run by a DataFusion context of their own, which pushes their conditions into the catalog itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from parqlake.connectors.datafusion_tables import import_datafusion
from parqlake.connectors.scan_dataset import ScanDataset
from parqlake.connectors.sql_pruning import Parameters
from parqlake.connectors.sql_reading import Query
from parqlake.core.errors import InvalidQueryError
from parqlake.table.scan import Scan


class DataFusionQuery:
    """A query on the tables that it names."""

    def __init__(self, query: Query, scans: Sequence[Scan], parameters: Parameters) -> None:
        """Has DataFusion understand the query; nothing is planned or read yet."""
        datafusion = import_datafusion()
        self._text = query.text
        context = datafusion.SessionContext()
        catalog = context.catalog()
        for reference, scan in zip(query.references, scans, strict=True):
            if reference.namespace not in catalog.schema_names():
                catalog.register_schema(reference.namespace, datafusion.catalog.Schema.memory_schema())
            table = datafusion.catalog.Table(ScanDataset(scan))
            catalog.schema(reference.namespace).register_table(reference.name, table)
        options = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
        try:
            self._frame = context.sql(query.text, options, param_values=_by_name(parameters))
        except Exception as error:  # DataFusion raises plain exceptions
            raise _explained(error) from error

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return pa.schema([field.with_nullable(True) for field in self._frame.schema()])

    def run(self) -> pa.RecordBatchReader:
        """Runs the query, and streams the rows."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for piece in self._frame.execute_stream():
                yield pa.RecordBatch.from_arrays(piece.to_pyarrow().columns, schema=self.schema)
        except Exception as error:
            raise _explained(error) from error


def _by_name(parameters: Parameters) -> dict[str, Any] | None:
    if parameters is None or isinstance(parameters, Mapping):
        return None if parameters is None else dict(parameters)
    return {str(number): value for number, value in enumerate(parameters, start=1)}


def _explained(error: Exception) -> InvalidQueryError:
    return InvalidQueryError(f"DataFusion cannot run the query: {str(error).strip() or type(error).__name__}")
