"""Reading with Spark: files pruned in the driver, rows read by Spark's own reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.schema import without_ids
from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.spark.engine import grouped, is_shared
from parqlake.engines.spark.settings import settings
from parqlake.engines.spark.types import check_spark_types
from parqlake.spark.columns import quoted, to_column
from parqlake.spark.local_files import parquet_frame
from parqlake.spark.projecting import projected
from parqlake.table.explain import spark_way

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_IGNORE_LOCALITY = "spark.sql.sources.ignoreDataLocality"


def to_spark(plan: ReadPlan, store: Store, spark: Any) -> Any:
    """A Spark data frame of what the plan names.

    Files that the JVM can open are read by Spark's vectorized reader, from the exact list and with the table's
    schema, so that nothing is listed or inferred; those that were written under an older schema, with that one, and
    are brought to the newer by Spark's own expressions. Others are read in Python workers through the store itself.
    """
    check_spark_types(plan.schema)
    if not is_shared(store):
        raise InvalidOptionError(
            f"Spark cannot read {store.url}, which only this process sees: its workers are others; use a folder or an "
            "object store, or spark.createDataFrame(scan.to_arrow())"
        )
    if not plan.files:
        return spark.createDataFrame([], spark_schema(_result_schema(plan)))
    frame = (_native if spark_way(store, plan) == "natively" else _through_python)(plan, store, spark)
    return frame if plan.limit is None else frame.limit(plan.limit)


def _native(plan: ReadPlan, store: Store, spark: Any) -> Any:
    frame = reduce(lambda one, other: one.union(other), _stored_frames(plan, store, spark))
    if plan.predicate is not None:
        frame = frame.where(to_column(plan.predicate))
    return frame if plan.columns is None else frame.select(*(quoted((name,)) for name in plan.columns))


def _stored_frames(plan: ReadPlan, store: Store, spark: Any) -> Iterator[Any]:
    """One frame of the table's schema for each schema that files are stored by."""
    groups: dict[int, list[PlannedFile]] = {}
    for file in plan.files:
        groups.setdefault(file.schema_id if file.schema_id in plan.file_schemas else 0, []).append(file)
    for schema_id, files in groups.items():
        stored = plan.file_schemas.get(schema_id)
        frame = _files(files, plan.schema if stored is None else stored, store, spark)
        yield frame if stored is None else projected(frame, stored, plan.schema)


def _files(files: Sequence[PlannedFile], schema: pa.Schema, store: Store, spark: Any) -> Any:
    paths = [store.full_path(file.path) for file in files]
    # Without this Spark starts a job to list more than 32 paths, which takes longer than the read.
    with settings(spark, {_LISTING_THRESHOLD: str(len(paths) + 1), _IGNORE_LOCALITY: "true"}):
        reader = spark.read.schema(spark_schema(without_ids(schema))).option("__globPaths__", "false")
        return parquet_frame(reader, paths, spark)


def _through_python(plan: ReadPlan, store: Store, spark: Any) -> Any:
    groups = grouped(plan.files)
    task = ReadTask(replace(plan, limit=None), tuple(groups), store)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(task, spark_schema(_result_schema(plan)))


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads the groups of files whose numbers one Spark partition holds."""

    plan: ReadPlan
    groups: tuple[tuple[int, ...], ...]
    store: Store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the rows."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = tuple(self.plan.files[index] for index in self.groups[number])
                yield from PyArrowEngine().batches(replace(self.plan, files=files), self.store)


def _result_schema(plan: ReadPlan) -> pa.Schema:
    schema = without_ids(plan.schema)
    return schema if plan.columns is None else pa.schema([schema.field(name) for name in plan.columns])


def spark_schema(schema: pa.Schema) -> Any:
    """The Spark schema of an Arrow one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
