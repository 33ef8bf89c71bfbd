"""The Spark engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from parqlake.core import errors
from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.merging import MergeOutcome, MergeRule, MergeTarget
from parqlake.core.merging.validation import spelled_alike
from parqlake.core.model import DataFile
from parqlake.core.ports import BatchCheck, PlannedFile, ReadPlan, Store, WriteSpec
from parqlake.core.updating import RowChange
from parqlake.core.wire import decode
from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.arrow.described_file import DescribedFile
from parqlake.engines.spark.changing import ChangeTask
from parqlake.engines.spark.settings import SAME_ROWS, row_batches, settings
from parqlake.engines.spark.tasks import RECORD_SCHEMA, RewriteTask, WriteTask, take_away
from parqlake.engines.spark.types import arrow_schema, check_spark_types

_TASK_BYTES = 256 * 1024 * 1024


class SparkEngine:
    """Writes Spark data frames where their rows are, and rewrites files as tasks over files.

    Each task streams its rows to final files with the same writer as the PyArrow engine and sends back one record
    for each file; the driver sees records, never rows. Only what a successful attempt of a task reported counts:
    files of a failed, retried or speculated attempt are tombstones, which no version refers to. Data that is not in
    Spark (a pandas frame, say) is already on the driver, so the driver writes it.
    """

    def __init__(self, spark: Any) -> None:
        """Uses the session as it is."""
        self._spark = spark
        self._arrow = PyArrowEngine()

    def __repr__(self) -> str:
        return "SparkEngine()"

    @property
    def name(self) -> str:
        """How users choose it."""
        return "spark"

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises `UnsupportedTypeError`, naming the column, for what Spark cannot hold."""
        self._arrow.check_schema(schema)
        check_spark_types(schema)

    def frame_schema(self, frame: Any) -> pa.Schema:
        """The Arrow schema of a Spark data frame; refuses what Arrow cannot carry, by column."""
        return arrow_schema(frame.schema)

    def write(self, data: pa.RecordBatchReader, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Writes rows that are on the driver, there; see `PyArrowEngine.write`."""
        return self._arrow.write(data, spec, store)

    def write_frame(
        self, frame: Any, spec: WriteSpec, store: Store, checks: Sequence[BatchCheck] = ()
    ) -> list[DataFile]:
        """Writes a data frame on its executors, and returns the records of its files.

        For a partitioned table rows are brought together by partition first, hot partitions split and small ones
        put together by Spark's own measure of size, so that there are few files and none is huge.
        """
        if not is_shared(store):
            raise errors.InvalidOptionError(
                f"a Spark data frame cannot be written to {store.url}, which only this process sees: Spark's workers "
                "are others; use a folder or an object store, or collect the rows and write them as Arrow"
            )
        names = tuple(frame.columns)
        # mapInArrow takes a dot or a backtick in a column's name for syntax: rows travel under plain names.
        plain = {name: f"c{number}" for number, name in enumerate(names)}
        frame = frame.toDF(*plain.values())
        by = [plain[name] for name in spec.partition_by if name in plain]  # others are filled with one value
        if by:
            frame = frame.hint("rebalance", *by)
        task = WriteTask(replace(spec, file_visitor=None), store, tuple(checks), names)
        batches = row_batches(frame.sparkSession, spec.schema)
        return self._collected(frame.mapInArrow(task, RECORD_SCHEMA), spec, store, batches)

    def rewrite(self, plan: ReadPlan, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads and writes files as tasks over groups of files; no row enters the JVM."""
        groups = grouped(plan.files)
        if len(groups) < 2 or not is_shared(store):
            return self._arrow.rewrite(plan, spec, store)
        task = RewriteTask(plan, tuple(groups), replace(spec, file_visitor=None), store)
        return self._over_groups(task, spec, store)

    def rewrite_changed(self, plan: ReadPlan, change: RowChange, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads, changes and writes files as tasks over groups of files; no row enters the JVM."""
        groups = grouped(plan.files)
        if len(groups) < 2 or not is_shared(store):
            return self._arrow.rewrite_changed(plan, change, spec, store)
        task = ChangeTask(plan, tuple(groups), replace(spec, file_visitor=None), store, change)
        return self._over_groups(task, spec, store)

    def rewrite_groups(
        self,
        groups: Sequence[RewriteGroup],
        spec: WriteSpec,
        store: Store,
        *,
        order: RowOrder | None,
        memory_bytes: int,
    ) -> list[list[DataFile]]:
        """Rewrites groups of files as tasks on executors; see `parqlake.engines.spark.rewrite_tasks`.

        On a store that only this process sees, it is done here.
        """
        if not is_shared(store):
            return self._arrow.rewrite_groups(groups, spec, store, order=order, memory_bytes=memory_bytes)
        from parqlake.engines.spark.rewrite_tasks import rewrite_groups

        return rewrite_groups(self._spark, groups, spec, store, order=order, memory_bytes=memory_bytes)

    def merge(
        self, source: Any, target: MergeTarget, rule: MergeRule, *, memory_bytes: int, stacklevel: int = 1
    ) -> MergeOutcome:
        """Merges a data frame, or Arrow data, into the target on executors; see `parqlake.engines.spark.merging`.

        On a store that only this process sees, Arrow data is merged here.
        """
        is_arrow = isinstance(source, pa.RecordBatchReader | pa.Table)
        if is_arrow and not is_shared(target.store):
            return self._arrow.merge(source, target, rule, memory_bytes=memory_bytes, stacklevel=stacklevel + 1)
        from parqlake.engines.spark.merge_sources import FrameRows
        from parqlake.engines.spark.merging import merge

        rows = source
        if not is_arrow:
            rows = FrameRows(source, spelled_alike(self.frame_schema(source), target.spec.schema))
        return merge(self._spark, rows, target, rule, memory_bytes=memory_bytes, stacklevel=stacklevel + 1)

    def _over_groups(self, task: RewriteTask, spec: WriteSpec, store: Store) -> list[DataFile]:
        numbers = self._spark.range(0, len(task.groups), 1, len(task.groups))
        return self._collected(numbers.mapInArrow(task, RECORD_SCHEMA), spec, store)

    def _collected(
        self, records: Any, spec: WriteSpec, store: Store, batches: Mapping[str, str] | None = None
    ) -> list[DataFile]:
        with settings(records.sparkSession, SAME_ROWS | dict(batches or {})):
            rows = records.collect()
        files = [decode(row["file"]) for row in rows if row["file"] is not None]
        if spec.file_visitor is not None:
            for number, file in enumerate(files):
                try:
                    spec.file_visitor(DescribedFile(file, spec.location, store))
                except BaseException:  # nobody hears of the files after this one: they are this call's to delete
                    take_away(store, [f"{spec.location}/{later.path}" for later in files[number + 1 :]])
                    raise
        for row in rows:
            if row["error"] is not None:
                raise getattr(errors, row["error"])(row["message"])
        return files


def grouped(files: Sequence[PlannedFile]) -> list[tuple[int, ...]]:
    """Neighbouring files, by their number, put together up to a task's size."""
    groups: list[tuple[int, ...]] = []
    current: list[int] = []
    size = 0
    for number, file in enumerate(files):
        if current and size + file.read_bytes > _TASK_BYTES:
            groups.append(tuple(current))
            current, size = [], 0
        current.append(number)
        size += file.read_bytes
    if current:
        groups.append(tuple(current))
    return groups


def is_shared(store: Store) -> bool:
    """Whether other processes see the same files."""
    return not store.url.startswith("memory:")
