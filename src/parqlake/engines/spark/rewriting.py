"""Rewriting files on Spark's executors: a task for each new file, which reads just its rows; none enters the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow.rewrite_output import OutputFiles
from parqlake.engines.arrow.rewrite_source import SourceFile, SourceFiles
from parqlake.engines.arrow.rewriting import DEFAULT_MEMORY_BYTES, bytes_for_rows, check_options, planned_rows
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


def rewrite_files(
    spark: Any,
    store: Store,
    sources: Sequence[str],
    new_path: Callable[[], str],
    *,
    schema: pa.Schema,
    rows: Sequence[int] | None,
    compression: str,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    metadata: Mapping[bytes, bytes] | None = None,
) -> list[FileInfo]:
    """Writes the rows of the sources, in order, to new files of exactly the rows given; deletes nothing else.

    Promises what `parqlake.engines.arrow.rewriting.rewrite_files` does, and makes the same files. The driver reads
    footers only. `memory_bytes` is for each task. A task writes under a name of its own, which the driver changes once
    all have ended: attempts that failed or came second leave nothing under a name that counts.
    """
    check_shared(store)
    check_options(schema=schema, compression=compression, memory_bytes=memory_bytes)
    memory_bytes = bytes_for_rows(memory_bytes)
    found = SourceFiles(store, sources, schema, memory_bytes=memory_bytes)
    output = FileWriting(store, schema, compression, memory_bytes, metadata)
    pieces = cut(found.files, planned_rows(rows, found.rows))
    paths = taken_paths(new_path, len(pieces), sources)
    task = _RewriteTask(output, tuple(paths), tuple(pieces))
    return written(spark.range(0, len(paths), 1, len(paths)).mapInArrow(task, REPORT_SCHEMA), store, paths)


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Some rows of a file, from one number up to another."""

    path: str
    start: int
    stop: int
    whole: bool
    """Whether these are all its rows."""


@dataclass(frozen=True, slots=True)
class FileWriting:
    """How a task writes one new file."""

    store: Store
    schema: pa.Schema
    compression: str
    memory_bytes: int
    metadata: Mapping[bytes, bytes] | None

    def write(self, number: int, path: str, rows: int, batches: Iterable[pa.RecordBatch]) -> Record:
        """Writes rows of the working schema to a name beside the path; leaves nothing if it fails."""
        own = unnamed(path)
        output = OutputFiles(
            self.store,
            lambda: own,
            schema=self.schema,
            rows=[rows],
            compression=self.compression,
            memory_bytes=self.memory_bytes,
            metadata=self.metadata,
        )
        (made,) = output.write_all(batches)
        return {"number": number, "path": own, "size": made.size_bytes, "rows": made.num_rows}


@dataclass(frozen=True, slots=True)
class _RewriteTask:
    """Writes the new files whose numbers one Spark partition holds."""

    output: FileWriting
    paths: tuple[str, ...]
    pieces: tuple[tuple[RowSpan, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reported(partial(self._written, number))

    def _written(self, number: int) -> list[Record]:
        spans = self.pieces[number]
        rows = sum(span.stop - span.start for span in spans)
        files = PlainFiles(self.output.store, self.output.schema, self.output.memory_bytes)
        return [self.output.write(number, self.paths[number], rows, rows_of(spans, files))]


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """Opens files by their paths alone."""

    store: Store
    schema: pa.Schema
    memory_bytes: int

    def __call__(self, path: str) -> SourceFiles:
        """One file."""
        return SourceFiles(self.store, [path], self.schema, memory_bytes=self.memory_bytes)


def rows_of(
    spans: Sequence[RowSpan], opened: Callable[[str], SourceFiles], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the spans, or some of their columns, in working types; reads only row groups that hold some."""
    for span in spans:
        file = opened(span.path)
        if span.whole:
            yield from file.batches(columns)
        else:
            yield from file.rows_at(np.arange(span.start, span.stop), columns or file.working.names)


def cut(files: Sequence[SourceFile], rows: Sequence[int]) -> list[tuple[RowSpan, ...]]:
    """Which rows of which files make up each new file.

    Example:
        >>> files = [SourceFile("a", 3, 0, None), SourceFile("b", 2, 0, None)]
        >>> [[(span.path, span.start, span.stop) for span in spans] for spans in cut(files, [2, 3])]
        [[('a', 0, 2)], [('a', 2, 3), ('b', 0, 2)]]
    """
    pieces = []
    number = used = 0
    for wanted in rows:
        spans: list[RowSpan] = []
        left = wanted
        while left:
            file = files[number]
            taken = min(left, file.rows - used)
            if taken:
                spans.append(RowSpan(file.path, used, used + taken, whole=taken == file.rows))
            left, used = left - taken, used + taken
            if used == file.rows:
                number, used = number + 1, 0
        pieces.append(tuple(spans))
    return pieces


def taken_paths(new_path: Callable[[], str], count: int, sources: Sequence[str]) -> list[str]:
    """The paths of so many new files, none of which is in use."""
    paths = [new_path() for _ in range(count)]
    taken = set(sources)
    for path in paths:
        if path in taken:
            raise InvalidOptionError(f'new_path gave "{path}", which is in use; give a new name for each file')
        taken.add(path)
    return paths


def written(tasks: Any, store: Store, paths: Sequence[str]) -> list[FileInfo]:
    """Runs tasks that write the files, and gives the files their names."""
    records, error = collect(tasks)
    if error is not None:
        take_back(store, [record["path"] for record in records])
        raise error
    records.sort(key=lambda record: int(record["number"]))
    move_all(store, [(record["path"], paths[record["number"]]) for record in records])
    return [FileInfo(paths[record["number"]], record["size"], record["rows"]) for record in records]
