"""Clustering of a table's files on Spark: a group too large for one task is sorted by many, file by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.model import DataFile
from parqlake.core.ports import PlannedFile, ReadPlan, Store, WriteSpec
from parqlake.core.wire import decode, encode
from parqlake.engines.arrow.rewrite_parts import PartFiles, stored_paths
from parqlake.engines.arrow.rewrite_schema import working_schema
from parqlake.engines.arrow.rewrite_table import TableFiles
from parqlake.engines.arrow.rewriting import bytes_for_rows
from parqlake.engines.spark.clustering import RemoteFiles, laid_out
from parqlake.engines.spark.reports import Record, collect, take_back

_EXPANSION = 4
"""Rows take about so many times their stored bytes in memory."""


def is_for_many(group: RewriteGroup, memory_bytes: int) -> bool:
    """Whether a group is to be sorted by many tasks: one alone would have to put rows aside on its disk."""
    return len(group.rows) > 1 and group.read_bytes * _EXPANSION > memory_bytes


def cluster_group(
    spark: Any, group: RewriteGroup, spec: WriteSpec, store: Store, *, order: RowOrder, memory_bytes: int
) -> list[DataFile]:
    """Writes the rows of a group in order, each new file by a task of its own; the same files as PyArrow makes.

    No row passes through the driver but a sample of the columns. `memory_bytes` is for each task. Files of an attempt
    that failed or came second are tombstones, which no version refers to.
    """
    rows_bytes = bytes_for_rows(memory_bytes)
    opened = _Opened(replace(group.plan, files=()), {file.path: file for file in group.plan.files}, store, rows_bytes)
    found = RemoteFiles(spark, TableFiles(group.plan, store, memory_bytes=rows_bytes), opened, memory_bytes=rows_bytes)
    writing = _Parts(replace(group, plan=opened.plan), spec, store, rows_bytes)
    records, error = collect(laid_out(found, order.columns, order.curve, group.rows, writing))
    records.sort(key=lambda record: int(record["number"]))
    files = [decode(record["file"]) for record in records]
    if error is not None:
        take_back(store, stored_paths(files, spec))
        raise error
    return files


@dataclass(frozen=True, slots=True)
class _Opened:
    """Opens files of a table, under its newest schema."""

    plan: ReadPlan
    files: Mapping[str, PlannedFile]
    store: Store
    memory_bytes: int

    def __call__(self, path: str) -> TableFiles:
        return TableFiles(replace(self.plan, files=(self.files[path],)), self.store, memory_bytes=self.memory_bytes)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Writes parts of the group's partition."""

    group: RewriteGroup
    spec: WriteSpec
    store: Store
    memory_bytes: int

    @property
    def names(self) -> list[str]:
        """The columns of the working schema."""
        return list(working_schema(self.spec.schema).names)

    def write(self, number: int, rows: int, batches: Iterator[pa.RecordBatch]) -> Record:
        """Writes a part; leaves nothing if it fails."""
        output = PartFiles(replace(self.group, rows=(rows,)), self.spec, self.store, memory_bytes=self.memory_bytes)
        try:
            for batch in batches:
                output.write(batch)
            (made,) = output.finish()
        except BaseException:
            output.abandon()
            raise
        return {"number": number, "file": encode(made)}
