"""Rewriting files of a table on Spark's executors: a task for each group of files; no row enters the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

    Files of an attempt that failed or came second are tombstones, which no version refers to.
    """
    if not groups:
        return []
    task = _GroupTask(tuple(groups), replace(spec, file_visitor=None), store, order, memory_bytes)
    records, error = collect(spark.range(0, len(groups), 1, len(groups)).mapInArrow(task, REPORT_SCHEMA))
    found: list[list[DataFile]] = [[] for _ in groups]
    for record in records:
        found[record["group"]].append(decode(record["file"]))
    files = [file for of_group in found for file in of_group]
    if error is not None:
        take_back(store, stored_paths(files, spec))
        raise error
    tell(files, spec, store)
    return found


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
