"""Rewriting files of a table on Spark's executors: a task for each group of files; no row enters the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.core.wire import decode, encode
from parqlake.engines.arrow.rewrite_parts import stored_paths
from parqlake.engines.arrow.rewrite_table import rewrite_group, tell
from parqlake.engines.spark.cluster_groups import cluster_group, is_for_many
from parqlake.engines.spark.reports import REPORT_SCHEMA, Record, collect, reported, take_back


def rewrite_groups(
    spark: Any,
    groups: Sequence[RewriteGroup],
    spec: WriteSpec,
    store: Store,
    *,
    order: RowOrder | None,
    memory_bytes: int,
) -> list[list[DataFile]]:
    """Rewrites each group in a task of its own, all at the same time; `memory_bytes` is for each task.

    A group that is to be sorted, and is too large for that to be done in the memory of one task, is sorted by many, one
    group after the other. Files of an attempt that failed or came second are tombstones, which no version refers to.
    """
    sent = replace(spec, file_visitor=None, rows_visitor=None)
    found: dict[int, list[DataFile]] = {}
    large = [n for n, group in enumerate(groups) if order is not None and is_for_many(group, memory_bytes)]
    small = [n for n in range(len(groups)) if n not in large]
    if small:
        task = _GroupTask(tuple(groups[n] for n in small), sent, store, order, memory_bytes)
        found |= zip(small, _rewritten(spark, task), strict=True)
        _tell(found.values(), spec, store)
    for n in large:
        assert order is not None
        found[n] = cluster_group(spark, groups[n], sent, store, order=order, memory_bytes=memory_bytes)
        _tell([found[n]], spec, store)
    return [found[n] for n in range(len(groups))]


def _rewritten(spark: Any, task: _GroupTask) -> list[list[DataFile]]:
    """Runs a task for each group; gives the files of each."""
    count = len(task.groups)
    records, error = collect(spark.range(0, count, 1, count).mapInArrow(task, REPORT_SCHEMA))
    found: list[list[DataFile]] = [[] for _ in task.groups]
    for record in records:
        found[record["group"]].append(decode(record["file"]))
    if error is not None:
        take_back(task.store, stored_paths([file for of_group in found for file in of_group], task.spec))
        raise error
    return found


def _tell(groups: Iterable[Sequence[DataFile]], spec: WriteSpec, store: Store) -> None:
    files = [file for of_group in groups for file in of_group]
    tell(files, spec, store)
    if spec.rows_visitor is not None:
        spec.rows_visitor(sum(file.row_count for file in files))


@dataclass(frozen=True, slots=True)
class _GroupTask:
    """Rewrites the groups whose numbers one Spark partition holds."""

    groups: tuple[RewriteGroup, ...]
    spec: WriteSpec
    store: Store
    order: RowOrder | None
    memory_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reported(partial(self._written, number))

    def _written(self, number: int) -> list[Record]:
        files = rewrite_group(
            self.groups[number], self.spec, self.store, order=self.order, memory_bytes=self.memory_bytes
        )
        return [{"group": number, "file": encode(file)} for file in files]
