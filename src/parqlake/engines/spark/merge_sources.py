"""The source of a merge on Spark: checked and packed where its rows are, with its size and the bounds of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.merging.conforming import conform, working_schema
from parqlake.core.merging.model import MergeRule, MergeTarget, TargetFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.arrow.merge_files import Candidate, TargetReader, reading
from parqlake.engines.arrow.merge_source import Bounds, KeyBounds, bounded, checked, checked_for_clauses
from parqlake.engines.spark.packing import SMALL_BATCHES, Packer
from parqlake.engines.spark.reports import error_of
from parqlake.engines.spark.settings import SAME_ROWS, row_batches, settings
from parqlake.engines.spark.tasks import FINAL

_SOURCE = "place long, count long, size long, bounds binary, rows binary, error string, message string"
_SUMMARY = "count long, size long, bounds binary, error string, message string"
_FILE_ROWS = 1 << 40
"""Places of one file's rows are below this, and those of the next begin there."""
_MOST_TASKS = 1024


@dataclass(frozen=True, slots=True)
class FrameRows:
    """The rows of a Spark data frame, which have no order."""

    frame: Any
    schema: pa.Schema
    """The frame's columns as Arrow has them."""

    def to_arrow_reader(self) -> Self:
        """These rows: who asks for a stream passes them on as they are."""
        return self


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of Parquet files, in the order of the files; executors read them."""

    store: Store
    files: tuple[TargetFile, ...]
    schema: pa.Schema
    """All columns, those that only folders name too."""

    def to_arrow_reader(self) -> Self:
        """These rows: who asks for a stream passes them on as they are."""
        return self


SourceRows: TypeAlias = "pa.RecordBatchReader | pa.Table | FrameRows | FileRows"


@dataclass(frozen=True, slots=True)
class PackedSource:
    """A source that is ready to be matched."""

    frame: Any
    """A Spark data frame of `place` and `rows`: packs of the working schema, in the order of their places."""
    rows: int
    size_bytes: int
    bounds: Bounds
    is_ordered: bool
    """Whether places say which rows come later."""
    release: Callable[[], Any]
    """Lets go of what Spark keeps."""


def packed_source(spark: Any, source: SourceRows, rule: MergeRule, schema: pa.Schema, memory: int) -> PackedSource:
    """Checks all rows of a source and packs them, in the working schema; raises before anything is written."""
    if isinstance(source, FrameRows):
        # mapInArrow takes a dot or a backtick in a column's name for syntax: rows travel under plain names.
        plain = source.frame.toDF(*(f"c{number}" for number in range(len(source.schema))))
        packs = plain.mapInArrow(_FrameTask(rule, schema, tuple(source.schema.names)), _SOURCE)
        return _kept(packs, rule, schema, is_ordered=False)
    if isinstance(source, FileRows):
        numbers = spark.range(0, len(source.files), 1, max(1, min(len(source.files), _MOST_TASKS)))
        packs = numbers.mapInArrow(_FilesTask(rule, schema, source, memory), _SOURCE)
        return _kept(packs, rule, schema, is_ordered=True)
    return _from_driver(spark, source.to_batches() if isinstance(source, pa.Table) else source, rule, schema)


def _from_driver(spark: Any, batches: Iterable[pa.RecordBatch], rule: MergeRule, schema: pa.Schema) -> PackedSource:
    """Rows that are on the driver already: packed there, in its memory."""
    packer, bounds = Packer(schema), KeyBounds(rule)
    places: list[int] = []
    packs: list[bytes] = []
    rows = 0
    for batch in _checked(batches, rule, schema):
        bounds.note(batch)
        for count, data in packer.pieces(batch):
            places.append(rows)
            packs.append(data)
            rows += count
    table = pa.table(
        {"place": pa.array(places, pa.int64()), "rows": pa.chunked_array([[p] for p in packs], pa.binary())}
    )
    with settings(spark, SMALL_BATCHES):
        frame = spark.createDataFrame(table, "place long, rows binary")
    return PackedSource(frame, rows, sum(map(len, packs)), bounds.found, is_ordered=True, release=lambda: None)


def _kept(packs: Any, rule: MergeRule, schema: pa.Schema, *, is_ordered: bool) -> PackedSource:
    """Has Spark compute the packs once and keep them, and learns what the driver must know of them."""
    kept = packs.persist()
    try:
        own = _bounds_rule(rule, schema)
        with settings(kept.sparkSession, SAME_ROWS | row_batches(kept.sparkSession, schema)):
            found = kept.drop("place", "rows").mapInArrow(_SummaryTask(own, schema), _SUMMARY).collect()
        bounds = KeyBounds(own)
        for row in found:
            if row["error"] is not None:
                raise error_of(row)
            _note(bounds, row["bounds"], own, schema)
    except BaseException:
        kept.unpersist()
        raise
    rows, size = sum(row["count"] for row in found), sum(row["size"] for row in found)
    return PackedSource(kept.select("place", "rows"), rows, size, bounds.found, is_ordered, kept.unpersist)


@dataclass(frozen=True, slots=True)
class _FrameTask:
    """Packs the rows of one partition of a data frame."""

    rule: MergeRule
    schema: pa.Schema
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the packs, or the error that ended the task."""
        named = (batch.rename_columns(self.names) for batch in batches)
        yield from _packs(((0, batch) for batch in _checked(named, self.rule, self.schema)), self.rule, self.schema)


@dataclass(frozen=True, slots=True)
class _FilesTask:
    """Packs the rows of the files whose numbers one Spark partition holds."""

    rule: MergeRule
    schema: pa.Schema
    source: FileRows
    memory_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives the packs, or the error that ended the task."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        yield from _packs(self._rows(numbers), self.rule, self.schema)

    def _rows(self, numbers: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        store = self.source.store
        whole = pa.schema([field.with_nullable(True) for field in working_schema(self.source.schema)])
        for number in numbers:
            file = self.source.files[number]
            target = MergeTarget(store, (file,), WriteSpec("", whole), new_path=str)
            reader = TargetReader(target, self.rule, whole, memory_bytes=self.memory_bytes)
            with reading(file):
                own = pq.read_schema(store.full_path(file.path), filesystem=store.arrow_filesystem())
            place = number * _FILE_ROWS
            for batch in checked(reader.rows(Candidate(file, frozenset(own.names))), self.rule, self.schema):
                yield place, batch
                place += batch.num_rows


@dataclass(frozen=True, slots=True)
class _SummaryTask:
    """Adds up what packs say of themselves."""

    rule: MergeRule
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one line, and one for each error."""
        count = size = 0
        bounds = KeyBounds(self.rule)
        for batch in batches:
            for row in batch.to_pylist():
                if row["error"] is not None:
                    yield _line(error=row["error"], message=row["message"])
                    continue
                count, size = count + row["count"], size + row["size"]
                _note(bounds, row["bounds"], self.rule, self.schema)
        yield _line(count=count, size=size, bounds=_packed_bounds(bounds, self.rule, self.schema))


def _checked(batches: Iterable[pa.RecordBatch], rule: MergeRule, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return checked(batches, rule, schema) if rule.clauses is None else checked_for_clauses(batches, rule.clauses)


def _packs(rows: Iterator[tuple[int, pa.RecordBatch]], rule: MergeRule, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    packer, own = Packer(schema), _bounds_rule(rule, schema)
    try:
        for place, batch in rows:
            start = 0
            for count, data in packer.pieces(batch):
                bounds = KeyBounds(own)
                bounds.note(batch.slice(start, count))
                found = _packed_bounds(bounds, own, schema)
                yield _line(place=place + start, count=count, size=len(data), bounds=found, rows=data)
                start += count
    except FINAL as error:
        yield _line(place=0, rows=None, error=type(error).__name__, message=str(error))


def _line(**values: Any) -> pa.RecordBatch:
    names = [column.split()[0] for column in (_SOURCE if "rows" in values else _SUMMARY).split(", ")]
    types = {"bounds": pa.binary(), "rows": pa.binary(), "error": pa.string(), "message": pa.string()}
    columns = []
    for name in names:
        type_ = types.get(name, pa.int64())
        empty = 0 if type_ == pa.int64() else None
        columns.append(pa.array([values.get(name, empty)], type_))
    return pa.RecordBatch.from_arrays(columns, names=names)


def _bounds_rule(rule: MergeRule, schema: pa.Schema) -> MergeRule:
    """The rule with only those keys that have bounds."""
    return replace(rule, keys=tuple(name for name in rule.keys if bounded(schema.field(name).type)))


def _packed_bounds(bounds: KeyBounds, rule: MergeRule, schema: pa.Schema) -> bytes | None:
    """The bounds as two rows, the lowest keys and the highest."""
    if len(bounds.found) < len(rule.keys) or not bounds.found:  # a key that is always NULL matches nothing
        return None
    wanted = pa.schema([schema.field(name) for name in rule.keys])
    ends = [pa.concat_arrays([pa.repeat(end, 1) for end in bounds.found[name]]) for name in rule.keys]
    return Packer(wanted).pack(conform(pa.RecordBatch.from_arrays(ends, list(rule.keys)), wanted))


def _note(bounds: KeyBounds, data: bytes | None, rule: MergeRule, schema: pa.Schema) -> None:
    if data is not None:
        wanted = pa.schema([schema.field(name) for name in rule.keys])
        for batch in Packer(wanted).unpack(bytes(data)).to_batches():
            bounds.note(batch)
