"""What executors do to lay rows out along a curve: look at samples, count, send rows to their files, sort and write."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.clustering import Curve, part_of
from parqlake.engines.arrow import clustering as arrow_clustering
from parqlake.engines.arrow.cluster_codes import CodePlan
from parqlake.engines.arrow.cluster_ranges import CodeRanges
from parqlake.engines.arrow.cluster_sorting import CODE
from parqlake.engines.arrow.merge_source import split
from parqlake.engines.arrow.rewrite_schema import working_schema
from parqlake.engines.arrow.rewrite_source import SourceFiles
from parqlake.engines.spark.packing import Pack, Packer, packed, unpacked
from parqlake.engines.spark.reports import Record, reported, unnamed
from parqlake.engines.spark.rewriting import FileWriting, RowSpan, rows_of
from parqlake.engines.spark.tasks import FINAL

COUNTS = "part int, task int, count long, only binary, error string, message string"
_HELD_SHARE = 16
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spread:
    """Which files the rows of each range of codes go to."""

    first: Places
    """The first file, for each range."""
    last: Places
    """The last one: a range in which a file ends goes to both, and each takes its rows of it."""
    start: Places
    """How many rows come before each range."""
    ends: Places
    """How many rows come before the end of each file."""
    equal: dict[int, Places]
    """Ranges of equal rows, many of them: these need no sorting, so that each goes to its file alone. By range, how
    many rows come before the first of each task."""

    def ranges_of(self, file: int) -> Places:
        """The ranges whose rows a file gets, or some of whose."""
        return np.flatnonzero((self.first <= file) & (self.last >= file))


@dataclass(frozen=True, slots=True)
class Reading:
    """What each task reads."""

    opened: Callable[[str], SourceFiles]
    spans: tuple[tuple[RowSpan, ...], ...]
    memory_bytes: int

    def batches(self, task: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of one task, in their order."""
        return rows_of(self.spans[task], self.opened, columns)


class Writing(Protocol):
    """How a task writes a new file."""

    @property
    def names(self) -> list[str]:
        """The columns that it takes."""

    @property
    def memory_bytes(self) -> int:
        """What rows may take meanwhile."""

    def write(self, number: int, rows: int, batches: Iterator[pa.RecordBatch]) -> Record:
        """Writes so many rows to the file of that number; leaves nothing if it fails."""


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files at given paths."""

    output: FileWriting
    paths: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The columns of the working schema."""
        return list(working_schema(self.output.schema).names)

    @property
    def memory_bytes(self) -> int:
        """As for the files."""
        return self.output.memory_bytes

    def write(self, number: int, rows: int, batches: Iterator[pa.RecordBatch]) -> Record:
        """Writes to a name beside the path."""
        return self.output.write(number, self.paths[number], rows, batches)


@dataclass(frozen=True, slots=True)
class CountTask:
    """Counts the rows of each range."""

    reading: Reading
    layout: CodePlan
    columns: tuple[str, ...]
    equal: frozenset[int] = frozenset()
    """Ranges to look at more closely: whether all their rows are equal. Without any, all are counted."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one line for each range that has rows."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                try:
                    yield _lines(self._equal(task) if self.equal else self._counted(task))
                except FINAL as error:
                    yield _lines([(0, task, 0, None, type(error).__name__, str(error))])

    def _counted(self, task: int) -> list[tuple[Any, ...]]:
        counts = np.zeros(len(self.layout.cuts) + 1, dtype=np.int64)
        for _, parts in self._parts(task):
            counts += np.bincount(parts, minlength=len(counts))
        return [(part, task, int(counts[part]), None, None, None) for part in np.flatnonzero(counts).tolist()]

    def _equal(self, task: int) -> list[tuple[Any, ...]]:
        found: dict[int, tuple[int, set[bytes]]] = {}
        for rows, parts in self._parts(task):
            packer = Packer(rows.schema)
            for part in self.equal & set(np.unique(parts).tolist()):
                own = rows.filter(pa.array(parts == part))
                values = {packer.pack(own.slice(0, 1))}
                if any(pc.count_distinct(column, mode="all").as_py() > 1 for column in own.columns):
                    values.add(b"")
                count, before = found.get(part, (0, set()))
                found[part] = (count + own.num_rows, before | values)
        return [
            (part, task, count, next(iter(values)) if len(values) == 1 else None, None, None)
            for part, (count, values) in found.items()
        ]

    def _parts(self, task: int) -> Iterator[tuple[pa.RecordBatch, Places]]:
        assert self.layout.model is not None
        for batch in self.reading.batches(task, self.columns):
            yield batch, part_of(self.layout.model.codes(batch, self.layout.curve), self.layout.cuts)


@dataclass(frozen=True, slots=True)
class SendTask:
    """Sends rows, with their codes, to the files they belong to."""

    reading: Reading
    layout: CodePlan
    spread: Spread

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives packs of rows; their places keep the order of the sources."""
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from packed(self._sent(task))

    def _sent(self, task: int) -> Iterator[Pack]:
        packer = Packer(self.layout.schema)
        held: dict[int, list[pa.Table]] = {}
        size, turn = 0, 0
        seen = dict.fromkeys(self.spread.equal, 0)
        for batch, parts in self.layout.coded(self.reading.batches(task)):
            found = np.zeros(batch.num_rows, dtype=np.int64) if parts is None else parts
            rows, dests = self._addressed(task, found, seen)
            table = pa.Table.from_batches([batch])
            for dest, own in split(table.take(pa.array(rows)), dests):
                held.setdefault(dest, []).append(own)
            size += batch.nbytes
            if size > self.reading.memory_bytes // _HELD_SHARE:
                yield from _flushed(held, packer, task, turn)
                held, size, turn = {}, 0, turn + 1
        yield from _flushed(held, packer, task, turn)

    def _addressed(self, task: int, parts: Places, seen: dict[int, int]) -> tuple[Places, Places]:
        """Rows by their numbers, some more than once, and the file of each."""
        spread = self.spread
        first, last = spread.first[parts], spread.last[parts]
        for part, starts in spread.equal.items():
            own = np.flatnonzero(parts == part)
            places = spread.start[part] + starts[task] + seen[part] + np.arange(len(own))
            first[own] = last[own] = np.searchsorted(spread.ends, places, side="right")
            seen[part] += len(own)
        copies = last - first + 1
        rows = np.repeat(np.arange(len(parts)), copies)
        begins = np.cumsum(copies) - copies
        return rows, first[rows] + np.arange(len(rows)) - begins[rows]


@dataclass(frozen=True, slots=True)
class SortTask:
    """Sorts and writes the file whose rows one Spark partition holds."""

    layout: CodePlan
    spread: Spread
    output: Writing

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the record of the file."""
        packs = unpacked(batches)
        first = next(packs, None)
        if first is not None:
            yield from reported(partial(self._written, first, packs))

    def _written(self, first: Pack, packs: Iterator[Pack]) -> list[Record]:
        number, spread, layout = first.dest, self.spread, self.layout
        own = spread.ranges_of(number)
        begin = int(spread.ends[number - 1]) if number else 0
        skip = 0 if int(own[0]) in spread.equal else begin - int(spread.start[own[0]])
        ranges = CodeRanges(
            layout.schema, int(own[-1] - own[0]) + 1, layout.order, memory_bytes=self.output.memory_bytes
        )
        packer = Packer(layout.schema)
        try:
            for pack in itertools.chain([first], packs):
                self._push(ranges, packer, pack, int(own[0]))
            rows = int(spread.ends[number]) - begin
            batches = _slice(ranges.in_order(), skip, rows)
            names = self.output.names
            return [self.output.write(number, rows, (batch.select(names) for batch in batches))]
        finally:
            ranges.close()

    def _push(self, ranges: CodeRanges, packer: Packer, pack: Pack, first: int) -> None:
        layout = self.layout
        assert layout.model is not None
        for batch in packer.unpack(pack.rows).to_batches():
            codes = batch.column(CODE).to_numpy() if layout.order.has_code else layout.model.codes(batch, layout.curve)
            ranges.push(batch, part_of(codes, layout.cuts) - first)


@dataclass(frozen=True, slots=True)
class AloneTask:
    """Lays out everything in one task: what one can sort in memory is not worth a shuffle."""

    output: FileWriting
    sources: tuple[str, ...]
    paths: tuple[str, ...]
    rows: tuple[int, ...]
    columns: tuple[str, ...]
    curve: Curve

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file."""
        for _ in batches:
            yield from reported(self._written)

    def _written(self) -> list[Record]:
        output = self.output
        names = iter([unnamed(path) for path in self.paths])
        made = arrow_clustering.cluster_files(
            output.store,
            self.sources,
            lambda: next(names),
            columns=self.columns,
            schema=output.schema,
            rows=self.rows,
            compression=output.compression,
            memory_bytes=output.memory_bytes,
            curve=self.curve,
            metadata=output.metadata,
        )
        return [
            {"number": number, "path": file.path, "size": file.size_bytes, "rows": file.num_rows}
            for number, file in enumerate(made)
        ]


def _slice(batches: Iterator[pa.RecordBatch], skip: int, rows: int) -> Iterator[pa.RecordBatch]:
    """So many rows after those that are skipped."""
    for batch in batches:
        own = batch.slice(min(skip, batch.num_rows), rows)
        skip -= min(skip, batch.num_rows)
        rows -= own.num_rows
        if own.num_rows:
            yield own


def _flushed(held: dict[int, list[pa.Table]], packer: Packer, task: int, turn: int) -> Iterator[Pack]:
    for dest, tables in held.items():
        for number, (count, data) in enumerate(packer.pieces(pa.concat_tables(tables).combine_chunks())):
            yield Pack(dest, 0, (task << 36) + (turn << 12) + number, count, data)


def _lines(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    types = [pa.int32(), pa.int32(), pa.int64(), pa.binary(), pa.string(), pa.string()]
    names = [column.split()[0] for column in COUNTS.split(", ")]
    columns = zip(*rows, strict=True) if rows else [[] for _ in types]
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), type_) for column, type_ in zip(columns, types, strict=True)], names=names
    )
