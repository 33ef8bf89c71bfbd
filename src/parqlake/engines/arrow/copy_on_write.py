"""Copy-on-write: files are written again with some rows left out or changed, several streams of them at a time.

Each stream reads a few rows of one file at a time and holds one row group, so that memory is bounded by the streams and
not by the files. Row groups come out about as long as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Event, Lock

import pyarrow as pa

from parqlake.core.model import DataFile
from parqlake.core.ports import PlannedFile, ReadPlan, Store, WriteSpec, WrittenFile
from parqlake.core.updating import RowChange
from parqlake.engines.arrow.file_reader import small_batches
from parqlake.engines.arrow.read_ahead import read_ahead
from parqlake.engines.arrow.rewrite_output import give_back

Write = Callable[[pa.RecordBatchReader, WriteSpec], list[DataFile]]
"""Writes a stream by a spec."""

_MAX_STREAMS = 2
"""Of two threads each, one that reads and one that writes."""
_AHEAD_BYTES = 3 * 1024 * 1024
_STREAM_BYTES = 4 * 1024 * 1024
"""Stored bytes that are worth a stream of their own."""
_FEW_ROWS = 64 * 1024
"""Row groups of rewritten files may be at least so long, however short the old ones were."""
_HELD_BYTES = 8 * 1024 * 1024
"""After so much the allocator is asked to return what it keeps for later."""


def write_again(
    plan: ReadPlan,
    spec: WriteSpec,
    store: Store,
    write: Write,
    *,
    change: RowChange | None = None,
    streams: int | None = None,
) -> list[DataFile]:
    """Writes the rows that the plan names, changed if a change is given, and returns the new files in the plan's order.

    Neighbouring files go to one stream, and so to one new file unless that grows too large. If a stream fails the
    others end early, and files that were finished stay where they are.

    Args:
        plan: what to read.
        spec: how to write.
        store: where files are and go.
        write: makes the files of one stream, durable on return.
        change: what becomes of the rows.
        streams: how many at a time; by default one for two cores, up to two.
    """
    count = streams or max(1, min(_MAX_STREAMS, (os.cpu_count() or 1) // 2))
    stop = Event()
    tracked = replace(spec, file_visitor=_one_at_a_time(spec), memory_bytes=spec.memory_bytes // count)

    def run(files: tuple[PlannedFile, ...]) -> list[DataFile]:
        longest = max(_FEW_ROWS, *(file.row_count for file in files))
        own = replace(tracked, row_group_rows=min(spec.row_group_rows, longest))
        batches = small_batches(replace(plan, files=files), store)
        changed = batches if change is None else change.reader(batches)
        try:
            with closing(read_ahead(_until(stop, changed), max_bytes=_AHEAD_BYTES)) as rows:
                return write(pa.RecordBatchReader.from_batches(changed.schema, rows), own)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(count) as pool:
        made = [pool.submit(run, files) for files in _streams(plan, spec, count)]
    failed = [error for part in made if (error := part.exception()) is not None]
    if failed:  # one that stopped because of another does not say why
        raise next(error for error in failed if not isinstance(error, _Stopped))
    return [file for part in made for file in part.result()]


class _Stopped(Exception):  # noqa: N818  nothing went wrong here, but in another stream
    """Another stream failed."""


def _until(stop: Event, batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    held = 0
    for batch in batches:
        if stop.is_set():
            raise _Stopped
        held += batch.nbytes
        yield batch
        if held >= _HELD_BYTES:
            del batch
            give_back()
            held = 0


def _one_at_a_time(spec: WriteSpec) -> Callable[[WrittenFile], None] | None:
    """The visitor of files, who need not know of threads."""
    visitor, lock = spec.file_visitor, Lock()
    if visitor is None:
        return None

    def visit(file: WrittenFile) -> None:
        with lock:
            visitor(file)

    return visit


def _streams(plan: ReadPlan, spec: WriteSpec, most: int) -> list[tuple[PlannedFile, ...]]:
    """Neighbouring files put together to about equal streams: as many as run at a time, more if those were large."""
    if plan.limit is not None:
        return [plan.files]
    runs = _by_partition(plan.files) if spec.partition_by else [(file,) for file in plan.files]
    total = sum(file.read_bytes for file in plan.files)
    count = min(most, max(1, total // _STREAM_BYTES))
    size = min(-(-total // count), spec.target_file_bytes)
    streams: list[list[PlannedFile]] = []
    end = done = 0
    for run in runs:
        if not streams or done >= end:
            streams.append([])
            end += size
        streams[-1] += run
        done += sum(file.read_bytes for file in run)
    return [tuple(stream) for stream in streams]


def _by_partition(files: Sequence[PlannedFile]) -> list[tuple[PlannedFile, ...]]:
    """Files of one partition go together, or it would get a new file from each stream."""
    found: dict[tuple[tuple[str, str], ...], list[PlannedFile]] = {}
    for file in files:
        found.setdefault(tuple((name, str(value)) for name, value in file.partition.items()), []).append(file)
    return [tuple(own) for own in found.values()]
