"""Queries run by a DuckDB of their own, which sees the files of the query's tables and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.connectors.duckdb_files import duckdb_address
from parqlake.connectors.duckdb_views import check_installed, stream_name, view_text
from parqlake.connectors.sql_pruning import Parameters, needed
from parqlake.connectors.sql_reading import Query
from parqlake.core.errors import InvalidQueryError, ParqlakeError, StoreError
from parqlake.core.predicates.sql_text import identifier, string
from parqlake.core.predicates.tree import TRUE
from parqlake.engines.duck.merge_sql import escaped
from parqlake.table.scan import Scan


class DuckDBQuery:
    """A query on views of pruned files."""

    def __init__(self, query: Query, scans: Sequence[Scan], parameters: Parameters) -> None:
        """Plans each table by what the query says of it, and has DuckDB bind the query; nothing is read but footers."""
        check_installed()
        import duckdb

        self._errors = duckdb.Error, duckdb.IOException
        self.scans = pruned(query, scans, parameters)
        for scan in self.scans:
            scan.hold_while_alive(self)
        self._streams: list[Scan] = []
        self._connection = self._cursor = _connection()
        try:
            for reference, scan in zip(query.references, self.scans, strict=True):
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(reference.namespace)}")
                name = f"{identifier(reference.namespace)}.{identifier(reference.name)}"
                text = view_text(scan, self._connection, filtered=False)
                self._connection.execute(f"CREATE VIEW {name} AS {text}")
                if stream_name(scan) in text:
                    self._streams.append(scan)
            _lock(self._connection, self.scans)
            self._text = query.text
            self._parameters = dict(parameters) if isinstance(parameters, Mapping) else parameters
            self._relation = self._bound(self._connection)
        except duckdb.Error as error:
            raise self._explained(error) from error

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        try:
            return self._relation.limit(0).to_arrow_table().schema
        except self._errors as error:
            raise self._explained(error) from error

    def run(self) -> pa.RecordBatchReader:
        """Runs the query, and streams the rows."""
        cursor = self._cursor = self._connection.cursor()  # a connection streams one result at a time
        try:
            for scan in self._streams:
                cursor.register(stream_name(scan), scan)
            rows = self._bound(cursor).to_arrow_reader()
        except self._errors as error:
            raise self._explained(error) from error
        return pa.RecordBatchReader.from_batches(rows.schema, self._explaining(rows))

    def cancel(self) -> None:
        """Interrupts what runs; its stream raises."""
        self._cursor.interrupt()

    def _explaining(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except (*self._errors, pa.ArrowException, OSError) as error:
            raise self._explained(error) from error

    def _bound(self, connection: Any) -> Any:
        return connection.sql(self._text, params=self._parameters)

    def _explained(self, error: Exception) -> ParqlakeError:
        text = str(error).strip() or type(error).__name__
        if isinstance(error, self._errors[1]):
            return StoreError(f"DuckDB cannot read a file of the query's tables: {text}")
        return InvalidQueryError(f"DuckDB cannot run the query: {text}")


def pruned(query: Query, scans: Sequence[Scan], parameters: Parameters) -> list[Scan]:
    """The scans of the query's tables, narrowed to what it says of each."""
    schemas = {
        id(node): scan.table_schema
        for reference, scan in zip(query.references, scans, strict=True)
        for node in reference.nodes
    }
    found = []
    for reference, scan in zip(query.references, scans, strict=True):
        condition = needed(reference.nodes, schemas, parameters)
        found.append(scan if condition == TRUE else scan.narrowed(condition))
    return found


def _connection() -> Any:
    import duckdb

    place = Path(tempfile.gettempdir()) / f"parqlake-duckdb-{uuid_utils.uuid7()}"
    connection = duckdb.connect(
        config={
            "temp_directory": str(place),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "validate_external_file_cache": "NO_VALIDATION",  # files of a lake never change
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _lock(connection: Any, scans: Sequence[Scan]) -> None:
    """From here on nothing can be opened but folders of the query's tables, and no setting be changed."""
    folders = dict.fromkeys(folder for scan in scans for folder in _folders(scan, connection))
    connection.execute(f"SET allowed_directories = [{', '.join(string(folder) for folder in folders)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _folders(scan: Scan, connection: Any) -> Iterator[str]:
    """Where the files are; twice if DuckDB would take the name for a pattern, since it asks for both spellings."""
    address = duckdb_address(connection, scan.store, scan.lake_id)
    for file in scan.plan.files:
        folder = address(file.path).rpartition("/")[0] + "/"
        yield folder
        yield escaped(folder)
