"""`DuckDBParquetHandler`: plain directories of Parquet, with DuckDB to query and to maintain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from parqlake.core.errors import MissingExtraError
from parqlake.datasets.backends import Backend, duckdb_backend
from parqlake.datasets.handler import ParquetHandler
from parqlake.datasets.paths import AnyPath, place_of
from parqlake.storage_options import StorageOptions


class DuckDBParquetHandler(ParquetHandler):
    """Reads, writes, merges and maintains plain Parquet files and directories, on any store that fsspec reaches.

    Every method that writes does so all or nothing: a failure leaves the old rows or the new ones. What a plain
    directory cannot promise is that a reader in the middle of a change sees one of the two; a table of a lake does.

    One handler is for one thread; several may work on the same directory.

    Example:
        >>> import fsspec, pyarrow as pa
        >>> with DuckDBParquetHandler(filesystem=fsspec.filesystem("memory")) as handler:
        ...     handler.write_parquet_dataset(pa.table({"id": [1, 2, 3]}), "/handled")
        ...     handler.execute_sql("SELECT max(id) AS top FROM 'memory://handled/*.parquet'").to_pylist()
        [{'top': 3}]
    """

    def __init__(
        self, storage_options: StorageOptions | Mapping[str, Any] | None = None, filesystem: Any = None
    ) -> None:
        """Opens a DuckDB connection in memory and registers the file system in it.

        Args:
            storage_options: one of `parqlake.storage_options`, or a mapping with `protocol` and its fields.
            filesystem: an fsspec or PyArrow file system; wins over `storage_options`. With neither, paths are local,
                and addresses such as `memory://data` find their file system by themselves.

        Raises:
            MissingExtraError: DuckDB, or the package for the store, is not installed.
        """
        if find_spec("duckdb") is None:
            raise MissingExtraError("duckdb", "duckdb")
        import duckdb

        super().__init__(storage_options, filesystem)
        self._connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET python_enable_replacements = false")  # names in a query are never our variables
        self._register(self._filesystem)

    def close(self) -> None:
        """Closes the connection; closing twice is no error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def execute_sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pa.Table:
        """Runs a query; DuckDB's errors come as they are.

        Args:
            query: SQL. Files are read with `parquet_scan('…')`; directories with `parquet_scan('…/**/*.parquet')`.
            parameters: values for `?`, or by name for `$name`.

        Returns:
            The result.

        Raises:
            duckdb.Error: the query is wrong, or fails.

        Example:
            >>> DuckDBParquetHandler().execute_sql("SELECT ? + 1 AS next", [41]).to_pylist()
            [{'next': 42}]
        """
        connection = self._open()
        result = connection.sql(query, params=parameters) if parameters is not None else connection.sql(query)
        return pa.table({}) if result is None else result.to_arrow_table()

    def _backend(self) -> Backend:
        return duckdb_backend()

    def _given(self, path: AnyPath) -> Any:
        """The file system for a path: the user's. Without one an address finds its own, which DuckDB then knows too."""
        if not self._chosen and "://" in str(path):
            self._register(place_of(path).filesystem)
        return super()._given(path)

    def _register(self, filesystem: Any) -> None:
        protocol = filesystem.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        if not names & set(self._connection.list_filesystems()):
            self._connection.register_filesystem(filesystem)
