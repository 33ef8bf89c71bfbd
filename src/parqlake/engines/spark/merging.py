"""Merging on Spark: keys meet by hash on executors, which then write just the files that hold a match.

The driver sees counts, bounds of keys, and one record for each new file; never a row. Files without a match are not
read beyond their keys, and not at all where their statistics rule a match out. Rows move as packs of Arrow, so that
all types are kept and the JVM takes no row apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from parqlake.core.merging.conforming import working_schema
from parqlake.core.merging.model import (
    DEFAULT_MEMORY_BYTES,
    AddedFile,
    MergeOutcome,
    MergeRule,
    MergeTarget,
    TargetFile,
)
from parqlake.core.merging.validation import check_merge_options, check_merge_schemas
from parqlake.core.predicates.tree import TRUE
from parqlake.core.wire import decode
from parqlake.engines.arrow.merge_files import BATCH_ROWS
from parqlake.engines.arrow.merge_output import MergeOutput
from parqlake.engines.arrow.merge_source import warn_of_duplicates
from parqlake.engines.arrow.merging import outcome
from parqlake.engines.spark.merge_clauses import ClauseTask
from parqlake.engines.spark.merge_matching import KeysTask, Kind, MatchPlan, MatchTask, SplitTask
from parqlake.engines.spark.merge_sources import FrameRows, PackedSource, SourceRows, packed_source
from parqlake.engines.spark.merge_writing import WriteTask
from parqlake.engines.spark.packing import PACKED, SMALL_BATCHES
from parqlake.engines.spark.reports import (
    REPORT_SCHEMA,
    Record,
    check_shared,
    collect,
    error_of,
    take_back,
)
from parqlake.engines.spark.settings import SAME_ROWS, settings
from parqlake.engines.spark.types import arrow_schema

_SOURCE_SHARE = 8
_SPAN_SHARE = 16
_WAVES = 4
"""More tasks than Spark is set to use at a time, so that uneven ones even out."""
_ROWS_FOR_A_PART = 256 * 1024
_ROWS_FOR_A_TASK = 1024 * 1024
_SHORTEST_SPAN, _LONGEST_SPAN = 1024, 1024 * 1024


def merge(
    spark: Any,
    source: SourceRows,
    target: MergeTarget,
    rule: MergeRule,
    *,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    batch_rows: int = BATCH_ROWS,
    stacklevel: int = 1,
) -> MergeOutcome:
    """Merges the source into the target: writes new files, and says which files they replace.

    Promises what `parqlake.engines.arrow.merging.merge` does, with the same rows, counts, warnings and errors; new
    rows may lie in more files. Of source rows with one key the last is taken; those of a data frame have no order, so
    that of them the highest by all plain columns is taken, after those of `dedup_order_by`.

    Args:
        spark: a session.
        source: a Spark data frame, files as `FileRows`, or Arrow data, which the driver holds.
        target: its files, and how new ones are made, on a store that executors see too.
        rule: from `merge_rule`.
        memory_bytes: how much each task may hold in memory.
        batch_rows: how many rows of a file are worked on at a time.
        stacklevel: whom a warning of duplicate keys points at: 1 is the caller.

    Raises:
        InputError: the call is wrong; nothing was written.
        DataCorruptionError: a file of the target is damaged; new files were deleted.
        ConflictError: a data frame gives other rows each time it is computed; nothing was written.
        pyspark.errors.PySparkException: a task failed in every attempt.
    """
    check_shared(target.store)
    if hasattr(source, "mapInArrow"):
        source = FrameRows(source, arrow_schema(source.schema))
    if rule.clauses is None:
        check_merge_schemas(rule, source=source.schema, target=target.spec.schema)
    check_merge_options(compression=target.spec.compression, memory_bytes=memory_bytes, batch_rows=batch_rows)
    merging = _Merge(spark, target, rule, memory_bytes=memory_bytes, batch_rows=batch_rows)
    return merging.run(source, stacklevel + 1)


@dataclass(frozen=True, slots=True)
class _Found:
    """What matching came to, before anything was written."""

    hits: dict[int, int]
    """Rows that match, by the number of the file."""
    inserted: int
    duplicates: int
    read: dict[int, int]
    """Files whose keys were looked at, and how many of their rows may be changed."""
    touched: frozenset[int]
    """Files that lose or change rows, as far as they were looked at."""
    deleted: int | None = None
    """Rows that clauses delete."""


class _Merge:
    """One merge under way."""

    def __init__(self, spark: Any, target: MergeTarget, rule: MergeRule, *, memory_bytes: int, batch_rows: int) -> None:
        self._spark = spark
        self._target = target
        self._rule = rule
        self._schema = working_schema(target.spec.schema)
        self._memory_bytes = memory_bytes
        self._batch_rows = batch_rows

    def run(self, source: SourceRows, stacklevel: int) -> MergeOutcome:
        clauses = self._rule.clauses
        schema = self._schema if clauses is None else clauses.row_schema
        packs = packed_source(self._spark, source, self._rule, schema, self._memory_bytes)
        try:
            plan = self._plan(packs)
            matched = self._matched(packs, plan).persist()
            try:
                found = self._found(matched, plan)
                warn_of_duplicates(self._rule, found.duplicates, stacklevel + 1)
                added = self._write(matched, plan, found)
            finally:
                matched.unpersist()
        finally:
            packs.release()
        return self._outcome(found, added, packs)

    def _plan(self, source: PackedSource) -> MatchPlan:
        """How finely the work is divided: by what the source takes, and by how much there is to do."""
        spec = replace(self._target.spec, file_visitor=None)
        # Workers get their paths in another way, and what is remembered here may not be sent anywhere.
        target = replace(self._target, spec=spec, new_path=str)
        tasks = int(self._spark.conf.get("spark.sql.shuffle.partitions"))
        rows = source.rows + sum(file.row_count for file in self._target.files)
        width = max(1, source.size_bytes // max(1, source.rows))
        return MatchPlan(
            target,
            _reading(self._rule),
            self._schema,
            source.bounds,
            parts=max(
                1 + source.size_bytes * _SOURCE_SHARE // self._memory_bytes, min(tasks, 1 + rows // _ROWS_FOR_A_PART)
            ),
            inserts=1 + source.size_bytes // spec.target_file_bytes,
            span_rows=max(_SHORTEST_SPAN, min(_LONGEST_SPAN, self._memory_bytes // _SPAN_SHARE // width)),
            memory_bytes=self._memory_bytes,
            batch_rows=self._batch_rows,
        )

    def _matched(self, source: PackedSource, plan: MatchPlan) -> Any:
        packs = source.frame.mapInArrow(SplitTask(plan), PACKED)
        groups = _grouped(self._target.files)
        if groups:
            numbers = self._spark.range(0, len(groups), 1, len(groups))
            packs = packs.union(numbers.mapInArrow(KeysTask(plan, groups), PACKED))
        sorted_packs = packs.repartitionById(plan.parts, "dest").sortWithinPartitions("dest", "kind", "place")
        if self._rule.clauses is not None:
            return sorted_packs.mapInArrow(ClauseTask(plan), PACKED)
        choice = self._rule if source.is_ordered else _by_all_columns(self._rule, self._schema)
        return sorted_packs.mapInArrow(MatchTask(plan, choice), PACKED)

    def _found(self, matched: Any, plan: MatchPlan) -> _Found:
        with settings(self._spark, SAME_ROWS | SMALL_BATCHES):
            rows = matched.groupBy("kind", "dest").sum("count").collect()
            counts = {(row[0], row[1]): int(row[2]) for row in rows}
            if any(kind == Kind.ERROR for kind, _ in counts):
                said = matched.where(f"kind = {int(Kind.ERROR)}").select("rows").first()
                raise error_of(json.loads(bytes(said["rows"])))
        hits = {dest: count for (kind, dest), count in sorted(counts.items()) if kind == Kind.HITS}
        read = {dest: count for (kind, dest), count in sorted(counts.items()) if kind == Kind.READ}
        if self._rule.clauses is not None:
            deletes = {dest: count for (kind, dest), count in sorted(counts.items()) if kind == Kind.DELETES}
            return _Found(
                hits,
                inserted=sum(count for (kind, _), count in counts.items() if kind == Kind.INSERTS),
                duplicates=0,
                read=read,
                touched=frozenset(hits) | frozenset(deletes),
                deleted=sum(deletes.values()),
            )
        return _Found(
            hits,
            inserted=sum(count for (kind, _), count in counts.items() if kind == Kind.INSERTS),
            duplicates=sum(count for (kind, _), count in counts.items() if kind == Kind.DUPLICATES),
            read=read,
            touched=frozenset(hits) | {number for number, count in read.items() if count and plan.deletes_some},
        )

    def _write(self, matched: Any, plan: MatchPlan, found: _Found) -> list[AddedFile]:
        if not found.touched and not found.inserted:
            return []
        tasks = int(self._spark.conf.get("spark.sql.shuffle.partitions"))
        slots = len(found.touched) + (plan.inserts if found.inserted else 0)
        wanted = f"kind in ({int(Kind.HITS)}, {int(Kind.INSERTS)}, {int(Kind.DELETES)})"
        if plan.deletes_some and self._rule.clauses is None:
            wanted += f" or (kind = {int(Kind.READ)} and count > 0)"
        own = matched.where(wanted)
        own = own.repartitionById(min(slots, _WAVES * tasks), "dest").sortWithinPartitions("dest", "place")
        records, error = collect(own.mapInArrow(WriteTask(plan), REPORT_SCHEMA))
        if error is not None:
            take_back(self._target.store, [record["path"] for record in records])
            raise error
        return [_added(record) for record in records]

    def _outcome(self, found: _Found, added: Sequence[AddedFile], source: PackedSource) -> MergeOutcome:
        target, strategy = self._target, self._rule.strategy
        output = MergeOutput(target, memory_bytes=self._memory_bytes)
        try:
            for file in added:
                output.note(file)
            everything = strategy.deletes and self._rule.where is None and self._rule.clauses is None
            removed = [file for number, file in enumerate(target.files) if everything or number in found.touched]
            updated = sum(found.hits.values())
            changeable = sum(file.row_count for file in target.files) if everything else sum(found.read.values())
            deleted = changeable - updated if strategy.deletes else 0
            deleted = deleted if found.deleted is None else found.deleted
            made = outcome(target, self._rule, output, removed, (found.inserted, updated, deleted))
        except BaseException:
            take_back(target.store, [file.path for file in added])
            raise
        read = tuple(target.files[number] for number in found.read)
        return replace(made, read=read, key_bounds=source.bounds)


def _reading(rule: MergeRule) -> MergeRule:
    """The rule by which files are looked into: all of them, if clauses may change rows without a match."""
    return rule if rule.clauses is None or not rule.strategy.deletes else replace(rule, where=TRUE)


def _added(record: Record) -> AddedFile:
    return AddedFile(
        record["path"],
        record["rows"],
        record["size"],
        record["partition"],
        record["replaces"],
        None,
        data_file=None if record["described"] is None else decode(record["described"]),
    )


def _grouped(files: Sequence[TargetFile]) -> tuple[tuple[int, ...], ...]:
    """The files, by their numbers, in groups that are worth a task."""
    groups: list[list[int]] = []
    rows = _ROWS_FOR_A_TASK
    for number, file in enumerate(files):
        if rows >= _ROWS_FOR_A_TASK:
            groups.append([])
            rows = 0
        groups[-1].append(number)
        rows += file.row_count
    return tuple(map(tuple, groups))


def _by_all_columns(rule: MergeRule, schema: pa.Schema) -> MergeRule:
    """Chooses among rows without an order by all columns that have one: the same row however often Spark asks."""
    t = pa.types
    more = [
        field.name
        for field in schema
        if field.name not in (*rule.keys, *rule.dedup_order_by)
        and not (t.is_nested(field.type) or t.is_null(field.type) or t.is_duration(field.type))
    ]
    return replace(rule, dedup_order_by=(*rule.dedup_order_by, *more))
