"""Clustering on Spark: rows laid out along a curve over several columns, in files that do not overlap.

A sample tells the ranks of the columns and where ranges of codes begin, as for the other engines. Executors count the
rows of each range; so the driver knows which ranges make up which file. Rows then go to their files, and each file is
sorted and written by a task of its own: the rows are the same, in the same order, as PyArrow alone would write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.clustering import Curve, RankModel, cut_codes
from parqlake.core.errors import ConflictError
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow.cluster_codes import CodePlan
from parqlake.engines.arrow.cluster_sample import check_columns, cut_text, draw_sample
from parqlake.engines.arrow.cluster_sorting import CODE, RowOrder
from parqlake.engines.arrow.clustering import new_mark
from parqlake.engines.arrow.rewrite_source import SourceFiles
from parqlake.engines.arrow.rewriting import DEFAULT_MEMORY_BYTES, bytes_for_rows, check_options, planned_rows
from parqlake.engines.spark.cluster_tasks import (
    COUNTS,
    AloneTask,
    CountTask,
    NamedFiles,
    Places,
    Reading,
    SendTask,
    SortTask,
    Spread,
    Writing,
)
from parqlake.engines.spark.packing import PACKED, SMALL_BATCHES, Packer
from parqlake.engines.spark.reports import REPORT_SCHEMA, check_shared, error_of
from parqlake.engines.spark.rewriting import FileWriting, PlainFiles, RowSpan, cut, taken_paths, written
from parqlake.engines.spark.settings import SAME_ROWS, settings
from parqlake.engines.spark.tasks import FINAL

_RANGES_FOR_A_FILE = 16
_TASK_BYTES = 256 * 1024 * 1024
_SAMPLE = "task int, rows binary, error string, message string"


def cluster_files(
    spark: Any,
    store: Store,
    sources: Sequence[str],
    new_path: Callable[[], str],
    *,
    columns: Sequence[str],
    schema: pa.Schema,
    rows: Sequence[int],
    compression: str,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    curve: Curve = Curve.HILBERT,
    metadata: Mapping[bytes, bytes] | None = None,
) -> list[FileInfo]:
    """Writes all rows of the sources to new files, ordered along the curve over the columns; deletes nothing else.

    Promises what `parqlake.engines.arrow.clustering.cluster_files` does, and makes the same files. The driver reads
    footers, and holds a sample of the columns. `memory_bytes` is for each task; what does not fit goes to local disk.
    """
    check_shared(store)
    check_options(schema=schema, compression=compression, memory_bytes=memory_bytes)
    check_columns(columns, schema)
    rows_bytes = bytes_for_rows(memory_bytes)
    opened = PlainFiles(store, schema, rows_bytes)
    local = SourceFiles(store, sources, schema, memory_bytes=rows_bytes)
    found = RemoteFiles(spark, local, opened, memory_bytes=rows_bytes)
    planned = planned_rows(rows, found.rows)
    mark = new_mark(columns, curve, len(planned)) | dict(metadata or {})
    paths = tuple(taken_paths(new_path, len(planned), sources))
    if len(planned) == 1 or found.rows * found.row_bytes <= memory_bytes:
        output = FileWriting(store, schema, compression, memory_bytes, mark)
        alone = AloneTask(output, tuple(sources), paths, tuple(planned), tuple(columns), curve)
        return written(spark.range(0, 1, 1, 1).mapInArrow(alone, REPORT_SCHEMA), store, paths)
    named = NamedFiles(FileWriting(store, schema, compression, rows_bytes, mark), paths)
    return written(laid_out(found, columns, curve, planned, named), store, paths)


def laid_out(
    found: RemoteFiles, columns: Sequence[str], curve: Curve | None, planned: Sequence[int], output: Writing
) -> Any:
    """Tasks that write all rows of the files in order, each a file of so many rows, and report of it.

    A sample and counts of rows come to the driver before; rows go from executor to executor.
    """
    layout = _layout(found, columns, curve, len(planned))
    reading = Reading(found.opened, found.spans, found.memory_bytes)
    spread = _spread(found.spark, reading, layout, tuple(columns), planned)
    packs = found.tasks().mapInArrow(SendTask(reading, layout, spread), PACKED)
    sorted_packs = packs.repartitionById(len(planned), "dest").sortWithinPartitions("dest", "place")
    return sorted_packs.mapInArrow(SortTask(layout, spread, output), REPORT_SCHEMA)


def _layout(found: RemoteFiles, columns: Sequence[str], curve: Curve | None, files: int) -> CodePlan:
    """The codes of rows as the other engines have them, cut into many more ranges than there are files."""
    has_code = len(columns) > 1 and curve is not None  # the order of one column is that of its code, and finer
    ranked = columns if has_code else columns[:1]
    sample = draw_sample(found, ranked, memory_bytes=found.memory_bytes)
    model = RankModel.fit(sample, ranked)
    along = Curve.HILBERT if curve is None else curve  # all the same for a single column
    cuts = cut_codes(model.codes(sample, along), _RANGES_FOR_A_FILE * files)
    schema = pa.schema([*found.working, pa.field(CODE, pa.uint64())]) if has_code else found.working
    order = RowOrder([found.working.get_field_index(name) for name in columns], has_code=has_code)
    return CodePlan(model, along, cuts, schema, order)


def _spread(spark: Any, reading: Reading, layout: CodePlan, columns: tuple[str, ...], planned: Sequence[int]) -> Spread:
    """Counts rows, and says which ranges go to which files."""
    tasks = len(reading.spans)
    numbers = spark.range(0, tasks, 1, tasks)
    frame = numbers.mapInArrow(CountTask(reading, layout, columns), COUNTS)
    counts = np.zeros(len(layout.cuts) + 1, dtype=np.int64)
    for row in _collected(frame.groupBy("part", "error", "message").sum("count")):
        counts[row["part"]] += row["sum(count)"]
    ends = np.cumsum(np.asarray(planned, dtype=np.int64))
    if counts.sum() != ends[-1]:
        raise ConflictError("a file changed while it was read; run this again")
    start = np.cumsum(counts) - counts
    first = np.searchsorted(ends, start, side="right")
    last = np.maximum(first, np.searchsorted(ends, start + counts - 1, side="right"))
    first[counts == 0], last[counts == 0] = len(ends), -1  # nobody waits for these
    # A range that is longer than a file would go to several, whole: unless its rows are equal, as they mostly are then.
    long = frozenset(np.flatnonzero(last - first > 1).tolist())
    equal = {}
    if long:
        looking = numbers.mapInArrow(CountTask(reading, layout, columns, long), COUNTS)
        equal = _equal_ranges(_collected(looking), tasks)
    return Spread(first, last, start, ends, equal)


def _equal_ranges(rows: Sequence[Any], tasks: int) -> dict[int, Places]:
    """The ranges that hold one value only; for each, how many rows come before those of each task."""
    counts: dict[int, npt.NDArray[np.int64]] = {}
    values: dict[int, set[bytes | None]] = {}
    for row in rows:
        counts.setdefault(row["part"], np.zeros(tasks, dtype=np.int64))[row["task"]] = row["count"]
        values.setdefault(row["part"], set()).add(None if row["only"] is None else bytes(row["only"]))
    return {
        part: np.cumsum(own) - own
        for part, own in counts.items()
        if len(values[part]) == 1 and None not in values[part]
    }


def _collected(frame: Any) -> list[Any]:
    """The lines that tasks give; raises the first error among them."""
    with settings(frame.sparkSession, SAME_ROWS | SMALL_BATCHES):
        rows = frame.collect()
    for row in rows:
        if row["error"] is not None:
            raise error_of(row)
    return list(rows)


class RemoteFiles:
    """Files whose rows executors read; the driver knows how long they are, and looks at a few rows."""

    def __init__(
        self, spark: Any, found: SourceFiles, opened: Callable[[str], SourceFiles], *, memory_bytes: int
    ) -> None:
        """Takes the files, and how a task opens each; `memory_bytes` is for the rows of a task."""
        self.spark = spark
        self.opened = opened
        self.memory_bytes = memory_bytes
        self.working = found.working
        self.rows = found.rows
        self.row_bytes = found.row_bytes
        step = max(1, min(_TASK_BYTES, memory_bytes) // self.row_bytes)
        counts = [min(step, self.rows - start) for start in range(0, self.rows, step)]
        self.spans: tuple[tuple[RowSpan, ...], ...] = tuple(cut(found.files, counts))
        """What each task reads: about the same, and not always whole files."""

    def tasks(self) -> Any:
        """A frame of one number for each task."""
        return self.spark.range(0, len(self.spans), 1, len(self.spans))

    def rows_at(self, positions: npt.NDArray[np.int64], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows at these places, counted through all files; long texts are cut."""
        task = _PickTask(self.opened, self.spans, positions, tuple(columns))
        packer = Packer(pa.schema([self.working.field(name) for name in columns]))
        for row in sorted(_collected(self.tasks().mapInArrow(task, _SAMPLE)), key=lambda row: int(row["task"])):
            yield from packer.unpack(bytes(row["rows"])).to_batches()


@dataclass(frozen=True, slots=True)
class _PickTask:
    """Reads some rows, by their numbers."""

    opened: Callable[[str], SourceFiles]
    spans: tuple[tuple[RowSpan, ...], ...]
    positions: npt.NDArray[np.int64]
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one pack for each task."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                line: tuple[Any, ...]
                try:
                    line = (task, self._picked(task), None, None)
                except FINAL as error:
                    line = (task, None, type(error).__name__, str(error))
                types = [pa.int32(), pa.binary(), pa.string(), pa.string()]
                columns = [pa.array([value], type_) for value, type_ in zip(line, types, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=["task", "rows", "error", "message"])

    def _picked(self, task: int) -> bytes:
        start = sum(_length(spans) for spans in self.spans[:task])
        found: list[pa.RecordBatch] = []
        schema = None
        for span in self.spans[task]:
            file = self.opened(span.path)
            schema = pa.schema([file.working.field(name) for name in self.columns])
            first, last = np.searchsorted(self.positions, [start, start + span.stop - span.start])
            own = self.positions[first:last] - start + span.start
            found += [cut_text(batch) for batch in file.rows_at(own, self.columns)]
            start += span.stop - span.start
        assert schema is not None
        return Packer(schema).pack(pa.Table.from_batches(found, schema=found[0].schema if found else schema))


def _length(spans: Sequence[RowSpan]) -> int:
    return sum(span.stop - span.start for span in spans)
