"""Spark data frames written to a plain directory by their executors; the driver only gives the files their names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.fitting import fit
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap
from parqlake.datasets.writing import write_file, write_stream
from parqlake.engines.spark.reports import (
    REPORT_SCHEMA,
    Record,
    check_shared,
    collect,
    move_all,
    reported,
    take_back,
    unnamed,
)
from parqlake.engines.spark.settings import row_batches
from parqlake.engines.spark.types import arrow_schema
from parqlake.stores import FsspecStore


def frame_schema(frame: Any) -> pa.Schema:
    """The columns of a data frame as files have them: each may hold NULLs, whatever Spark happens to know of it."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema(frame.schema)])


def write_frame_file(place: Place, name: str, frame: Any, *, codec: str) -> None:
    """Writes a data frame to one file of the folder, in one task: a reader finds the old file or the new one, whole."""
    store = place.store
    task = _FrameTask(store, f".{name}.{uuid_utils.uuid7().hex}", frame_schema(frame), codec, None)
    check_shared(store)
    place.create()
    (made,) = _written(frame.coalesce(1), task)  # coalesced, rows keep the order that the frame has
    try:
        store.sync([made])
        store.move(made, name, replace=True)
        store.sync_names([name])
    except BaseException:
        with suppress(Exception):
            store.delete([made])
        raise


def write_frame_dataset(
    place: Place, frame: Any, *, overwrite: bool, max_rows: int | None, codec: str, naming: Naming
) -> None:
    """Adds the rows of a data frame as new files, or replaces all files by them; all or nothing.

    Each of Spark's partitions that has rows makes a file, or several of at most so many rows.
    """
    schema = frame_schema(frame)
    check_shared(place.store)
    with Swap(place, append=not overwrite) as swap:
        old = swap.files() if overwrite else []
        made = _written(frame, _FrameTask(place.store, f"{swap.folder}/rows", schema, codec, max_rows))
        move_all(place.store, [(path, swap.stage_new(naming).path) for path in made])
        swap.commit(remove=old)


@dataclass(frozen=True, slots=True)
class _FrameTask:
    """Writes the rows of one partition of a data frame."""

    store: FsspecStore
    beside: str
    """A path; what is written gets names beside it."""
    schema: pa.Schema
    codec: str
    max_rows: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the paths of the files."""
        yield from reported(partial(self._made, batches))

    def _made(self, batches: Iterator[pa.RecordBatch]) -> list[Record]:
        rows = (fit(batch.rename_columns(self.schema.names), self.schema) for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return []
        paths: list[str] = []

        def new_path() -> str:
            paths.append(unnamed(self.beside))
            return paths[-1]

        reader = pa.RecordBatchReader.from_batches(self.schema, itertools.chain([first], rows))
        try:
            write_stream(new_path, self.store, reader, self.max_rows, self.codec)
        except BaseException:
            take_back(self.store, paths)
            raise
        return [{"path": path} for path in paths]


def _written(frame: Any, task: _FrameTask) -> list[str]:
    """Has executors write the frame; at least one file, so that columns are not forgotten."""
    plain = frame.toDF(*(f"c{number}" for number in range(len(task.schema))))  # names may hold what is syntax to Spark
    records, error = collect(plain.mapInArrow(task, REPORT_SCHEMA), row_batches(frame.sparkSession, task.schema))
    paths = [record["path"] for record in records]
    if error is not None:
        take_back(task.store, paths)
        raise error
    if not paths:
        paths = [unnamed(task.beside)]
        write_file(task.store, paths[0], [], task.schema, task.codec)
    return paths
