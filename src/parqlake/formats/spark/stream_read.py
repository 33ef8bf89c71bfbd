"""A table as a stream: first all rows of the version at the start, then what each new version adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from parqlake.core.errors import InvalidOptionError
from parqlake.formats.spark.batch_read import partitions_of, rows_of
from parqlake.formats.spark.options import SourceOptions

_NOTHING_YET = -1
"""The offset before the first batch, which reads a whole version."""


@dataclass
class StreamReader(DataSourceStreamReader):
    """Offsets are versions, so that a batch that is run again reads the same rows."""

    options: SourceOptions
    schema: StructType

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's names here and below)
        """Where a new stream begins: with the whole table, or after the version that `from_version` names."""
        start = self.options.from_version
        if start is None or start == "earliest":
            return {"version": _NOTHING_YET}
        with self.options.connect() as lake:
            table = lake.table(self.options.table)
            if start == "latest":
                return {"version": table.version}
            if not start.strip().isdigit():
                raise InvalidOptionError(f'from_version={start!r} must be "earliest", "latest" or a version number')
            return {"version": table.scan(version=int(start)).version}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """The newest version."""
        with self.options.connect() as lake:
            return {"version": lake.table(self.options.table).version}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The files that came between two offsets."""
        after, until = start["version"], end["version"]
        if after >= until:
            return []
        options = self.options
        with options.connect() as lake:
            table = lake.table(options.table)
            if after == _NOTHING_YET:
                scan = table.scan(options.where, version=until)
            else:
                scan = table.added(after, until, where=options.where, allow_removals=options.allow_removals)
            return partitions_of(scan, self.schema.fieldNames(), held="1h")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return rows_of(partition, self.schema)
