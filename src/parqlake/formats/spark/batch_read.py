"""Reading one version: pruned where Spark plans, read by the PyArrow engine where it executes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from parqlake.core.errors import CatalogError
from parqlake.core.fitting import fit
from parqlake.core.ports import ReadPlan, Store
from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.spark.engine import grouped
from parqlake.formats.spark.options import SourceOptions
from parqlake.table.scan import Scan


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, plan: ReadPlan, store: Store) -> None:
        """`plan` is cut to the task's files."""
        super().__init__(None)
        self.plan = plan
        self.store = store


def partitions_of(scan: Scan, columns: list[str], *, held: str) -> list[InputPartition]:
    """The planned files, put together to tasks.

    They are held for so long: Spark plans in a process that may end before the tasks begin.
    """
    with suppress(CatalogError):  # who may only read the catalog holds nothing; that is no reason not to read
        scan.hold(held)
    plan = replace(scan.plan, columns=tuple(columns), limit=None)
    return [
        FilesPartition(replace(plan, files=tuple(plan.files[index] for index in group)), scan.store)
        for group in grouped(plan.files)
    ]


def rows_of(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in exactly the Arrow types that Spark expects."""
    if not isinstance(partition, FilesPartition):
        return  # Spark makes one partition of its own where there is none
    wanted = to_arrow_schema(schema, timezone="UTC")
    for batch in PyArrowEngine().batches(partition.plan, partition.store):
        if batch.num_rows:
            yield fit(batch, wanted)


@dataclass
class BatchReader(DataSourceReader):
    """Made by `ParqlakeSource.reader`; Spark sends it to the tasks.

    It takes no filters from Spark: Spark 4.3 keeps what was planned for one query of a data frame for the next one, so
    that a frame which was filtered once would miss rows from then on. The option `where` prunes, and is safe.
    """

    options: SourceOptions
    schema: StructType
    version: int | None

    def partitions(self) -> list[InputPartition]:
        """One for each group of files that survive pruning."""
        options = self.options
        with options.connect() as lake:
            table = lake.table(options.table)
            if self.version is None:
                scan = table.scan(options.where, version=options.version, as_of=options.as_of)
            else:
                scan = table.scan(options.where, version=self.version)
            return partitions_of(scan, self.schema.fieldNames(), held="24h")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return rows_of(partition, self.schema)
