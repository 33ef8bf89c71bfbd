"""The data source that Spark finds under the name `parqlake`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from parqlake.core.errors import InvalidOptionError
from parqlake.engines.spark.types import check_spark_types
from parqlake.formats.spark.batch_read import BatchReader
from parqlake.formats.spark.batch_write import BatchWriter
from parqlake.formats.spark.options import SourceOptions, read_options
from parqlake.formats.spark.stream_read import StreamReader
from parqlake.formats.spark.stream_write import StreamWriter
from parqlake.table.scan import Scan


class ParqlakeSource(DataSource):
    """`format("parqlake")`. Spark finds it by itself where parqlake is installed.

    Options: `lake`, `catalog`, `storage_options` (JSON); reading: `version`, `as_of`, `where`; writing: `create`,
    `partition_by` (of a new table), `message`, `idempotency_key`, and the options of `Table.append`, `schema_mode`
    among them; streams: `from_version`, `allow_removals`.

    Example:
        >>> frame = spark.read.format("parqlake").option("lake", "warehouse").load("sales.orders")  # doctest: +SKIP
        >>> writer = frame.write.format("parqlake").option("lake", "warehouse")                     # doctest: +SKIP
        >>> writer.mode("append").save("sales.copy")                                                # doctest: +SKIP
    """

    _version: int | None = None
    """The version that the schema was taken from, so that the rows are of the same one."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Called by Spark, in a process of its own."""
        super().__init__(options)
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        """What the format is called."""
        return "parqlake"

    def schema(self) -> StructType:
        """The table's schema; refuses by name what Spark cannot hold."""
        with self._options.connect() as lake:
            scan = _scan(self._options, lake)
            check_spark_types(scan.schema)
            self._version = scan.version
            return from_arrow_schema(scan.schema)

    def reader(self, schema: StructType) -> BatchReader:
        """Reads one version; a schema that was given by hand chooses columns."""
        return BatchReader(self._options, schema, self._version)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Writes one version."""
        if self._options.version is not None or self._options.as_of is not None or self._options.where is not None:
            raise InvalidOptionError("version, as_of and where are options for reading; leave them out to write")
        return BatchWriter.begin(self._options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 (Spark's name)
        """Follows the versions of a table."""
        return StreamReader(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Writes one version for each batch."""
        return StreamWriter.begin(self._options, schema, complete=overwrite)


def _scan(options: SourceOptions, lake: Any) -> Scan:
    scan: Scan = lake.table(options.table).scan(options.where, version=options.version, as_of=options.as_of)
    return scan
