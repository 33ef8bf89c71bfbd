"""Changes: the rows that were inserted, updated and deleted between two versions of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import pyarrow as pa

from parqlake.core.changes import (
    ChangePlan,
    ChangeReader,
    ChangeStep,
    Sides,
    check_names,
    commit_sides,
    net_sides,
    version_sides,
)
from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import FileEntry, TableInfo
from parqlake.core.ports import CatalogReader, ReadPlan
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.table.arrow_rows import ArrowRows
from parqlake.table.context import LakeContext
from parqlake.table.holding import VersionGuard, check_kept
from parqlake.table.planning import planned, select, stored_schemas
from parqlake.table.scan import check_columns
from parqlake.table.versions import resolve


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """What is asked for, resolved and checked."""

    info: TableInfo
    first: int
    last: int
    schema: pa.Schema
    keys: tuple[str, ...]
    columns: tuple[str, ...] | None
    predicate: Predicate
    tells_before: bool
    per_version: bool
    memory_bytes: int


class TableChanges:
    """What `Table` offers to those who follow it."""

    _context: LakeContext
    _info: TableInfo

    def changes(
        self,
        from_version: int | str,
        to_version: int | str | None = None,
        *,
        keys: Sequence[str] | str | None = None,
        columns: Sequence[str] | None = None,
        where: Any = None,
        before: bool = False,
        per_version: bool = False,
        memory_limit: int | str | None = None,
    ) -> ChangeScan:
        """Prepares a read of the rows that differ between two versions; nothing is read yet.

        The rows have the table's columns, `_change` (`"insert"`, `"update"`, `"delete"`) and `_version`. Only files
        that one version has and the other has not are read. What compaction, clustering or copy-on-write moved without
        a change is not told, nor what came and went in between. Rows are compared as a bag: NULL equals NULL, NaN
        equals NaN, and of rows that are there twice one may go.

        Args:
            from_version: the version, or tag, that is known already; 0 is the empty table.
            to_version: up to which to look; the newest if left out. Rows are told by its columns and types.
            keys: columns that say which row is which: an old row and a new one with the same key are an update. If left
                out, an update is a delete and an insert.
            columns: the columns to tell, in this order; a row that changed in others is told all the same.
            where: only of rows that meet it, as `scan` takes it: a row that no longer does is deleted.
            before: tells an updated row as it was, too, just before it, as `"update_before"`; needs keys.
            per_version: what each commit changed, one after the other with its version; else what all of them come to,
                with `to_version`.
            memory_limit: how much to hold in memory before rows are put aside on disk: `"256MB"`, or bytes.

        Raises:
            VersionNotFoundError: a version is not there, or was expired.
            ColumnNotFoundError: a column or key does not exist.
            InvalidOptionError: `from_version` is later than `to_version`, or options that do not go together.

        Example:
            >>> news = orders.changes(seen, keys=["id"])                          # doctest: +SKIP
            >>> news.to_arrow().group_by("_change").aggregate([([], "count_all")])   # doctest: +SKIP
            >>> seen = news.to_version                                            # doctest: +SKIP
        """
        from parqlake.core.merging.memory import memory_bytes

        with self._context.catalog.read() as reader:
            last, schema_id = resolve(reader, self._info, version=to_version, as_of=None)
            first, _ = resolve(reader, self._info, version=from_version, as_of=None)
            schema = reader.schema(self._info.table_id, schema_id)
        if first > last:
            raise InvalidOptionError(f"from_version={first} is later than to_version={last}; changes go forward only")
        named = check_columns(keys, schema) or ()
        told = check_columns(columns, schema)
        check_names(schema, told)
        if before and not named:
            raise InvalidOptionError("before=True needs keys=[…], which say what row an updated one was before")
        request = ChangeRequest(
            info=self._info,
            first=first,
            last=last,
            schema=schema,
            keys=named,
            columns=told,
            predicate=bind(parse(where), schema),
            tells_before=before,
            per_version=per_version,
            memory_bytes=memory_bytes(memory_limit),
        )
        return ChangeScan(self._context, request)


class ChangeScan(ArrowRows):
    """A lazy read of what changed between two versions; every `to_…` gives the same rows, in no order of their own."""

    def __init__(self, context: LakeContext, request: ChangeRequest) -> None:
        """Made by `Table.changes`."""
        self._context = context
        self._request = request
        first, last, info = request.first, request.last, request.info
        # Whoever resolved the two versions has just looked that they are kept.
        self._ends = [VersionGuard(context, info, version, version, known=True) for version in (first, last)]
        self._all = VersionGuard(context, info, max(first, 1), last, known=False)

    @property
    def from_version(self) -> int:
        """The version that is known already."""
        return self._request.first

    @property
    def to_version(self) -> int:
        """The version up to which changes are told: the next `from_version`."""
        return self._request.last

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answer."""
        return self._planned[0].result

    @property
    def plan(self) -> ChangePlan:
        """Exactly the files to compare, decided by the catalog; none was opened."""
        return self._planned[0]

    def to_batches(self) -> pa.RecordBatchReader:
        """The changes as a stream of Arrow batches; memory is bounded by `memory_limit`, not by the table."""
        plan, guards = self._planned
        reader = cast("ChangeReader", self._context.reader)
        for guard in guards:
            guard.check()
        batches = reader.change_batches(plan, self._context.store, memory_bytes=self._request.memory_bytes)
        for guard in guards:
            batches = guard.stream(batches)
        return batches

    def to_polars(self) -> Any:
        """All changes as a Polars data frame."""
        return self._context.connect_to("polars")(self)

    def to_spark(self, spark: Any = None) -> Any:
        """The changes as a Spark data frame: both sides are read and compared by Spark.

        Args:
            spark: the session; the active one, or one made by `parqlake.spark.session`, if left out.
        """
        plan, guards = self._planned
        frame = self._context.connect_to("spark_changes")(plan, self._context.store, spark)
        for guard in guards:
            guard.hand_off()
        return frame

    def __repr__(self) -> str:
        return f"<ChangeScan of {self._request.info.name} from version {self.from_version} to {self.to_version}>"

    @cached_property
    def _planned(self) -> tuple[ChangePlan, list[VersionGuard]]:
        """The plan, and who holds the versions whose files it names."""
        for guard in self._ends:
            guard.check()
        with self._context.catalog.read() as reader:
            plan, uses_all = plan_changes(reader, self._request)
        guards = [self._all] if uses_all else self._ends
        for guard in guards:
            guard.check()
        return plan, guards


def plan_changes(reader: CatalogReader, request: ChangeRequest) -> tuple[ChangePlan, bool]:
    """The plan of a change scan, and whether it reads files of versions between the two."""
    table_id, first, last = request.info.table_id, request.first, request.last
    snapshots = [found for found in reader.snapshots(table_id, after=first) if found.version <= last]
    noisy = {found.version for found in snapshots if found.data_change}
    all_kept = len(snapshots) == last - first
    if request.per_version:
        check_kept(reader, request.info, max(first, 1), last)
    added = reader.files_added(table_id, after=first, until=last)
    removed = reader.files_removed(table_id, after=first, until=last)
    if request.per_version:
        return _plan(reader, request, version_sides(removed, added, noisy)), True

    def ends() -> tuple[list[FileEntry], list[FileEntry]]:
        old, new = (reader.files(table_id, version) if version else [] for version in (first, last))
        return old, new

    # Of versions that were expired nobody knows any more what they did, and files that only they had may be gone.
    commits = commit_sides(removed, added, noisy) if all_kept else None
    return _plan(reader, request, {last: net_sides(commits, ends)}), all_kept


def _plan(reader: CatalogReader, request: ChangeRequest, found: dict[int, Sides]) -> ChangePlan:
    hits = None
    if request.predicate != TRUE and any(sides.before or sides.after for sides in found.values()):
        hits = select(reader, request.info.table_id, request.last, request.predicate)
    entries = [entry for sides in found.values() for entry in (*sides.before, *sides.after)]
    stored = stored_schemas(reader, request.info, request.schema, entries, every_schema=True)

    def side(entries: Sequence[FileEntry]) -> ReadPlan:
        files = [
            planned(request.info, entry, None if hits is None else hits[entry.file_id])
            for entry in entries
            if hits is None or entry.file_id in hits
        ]
        predicate = None if request.predicate == TRUE else request.predicate
        return ReadPlan(request.schema, tuple(files), predicate, file_schemas=stored)

    steps = (ChangeStep(version, side(sides.before), side(sides.after)) for version, sides in found.items())
    return ChangePlan(
        steps=tuple(step for step in steps if step.before.files or step.after.files),
        schema=request.schema,
        keys=request.keys,
        columns=request.columns,
        tells_before=request.tells_before,
    )
