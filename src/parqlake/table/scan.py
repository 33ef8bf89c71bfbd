"""Scan: one version of one table, filtered and projected, pruned by the catalog, ready for any reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from parqlake.core.errors import CatalogError, InvalidOptionError
from parqlake.core.model import TableInfo
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.builders import all_of
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.tree import TRUE, Predicate, columns_of
from parqlake.core.retention import parse_age
from parqlake.core.schema import check_columns_exist, without_ids
from parqlake.table.arrow_rows import ArrowRows
from parqlake.table.context import LakeContext
from parqlake.table.explain import Explanation, look_at, spark_way
from parqlake.table.handing_over import HandingOver
from parqlake.table.holding import VersionGuard
from parqlake.table.planning import Staged, by_residual, may_hold_nan, plan_scan, planned, select, select_uncertain

_MOST_FOOTERS = 1_000
"""Reads of more files get the footers from the files' ends: there they are few bytes beside the rows."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to scan, resolved and checked: version pinned, predicate bound, columns known."""

    info: TableInfo
    version: int
    schema: pa.Schema
    predicate: Predicate = TRUE
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    staged: Staged | None = None
    added_after: int | None = None
    """Only what was added after this version, be it still there or not."""


class Scan(ArrowRows, HandingOver):
    """A lazy read of one committed version; every `to_…` gives the same rows.

    The version is pinned when the scan is made: commits that come later do not change what it returns.

    Example:
        >>> scan = orders.scan("amount > 10", columns=["id"])   # doctest: +SKIP
        >>> print(scan.explain())                               # doctest: +SKIP
        >>> scan.to_pandas()                                    # doctest: +SKIP
    """

    def __init__(self, context: LakeContext, request: ScanRequest) -> None:
        """Made by `Table.scan`."""
        self._context = context
        self._request = request
        first = request.version if request.added_after is None else request.added_after + 1
        known = request.staged is None and request.added_after is None  # whoever resolved it has just looked
        self._guard = VersionGuard(context, request.info, first, request.version, known=known)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._request.version

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        full = without_ids(self._request.schema)
        columns = self._request.columns
        return full if columns is None else pa.schema([full.field(name) for name in columns])

    @property
    def table_schema(self) -> pa.Schema:
        """The schema of the whole table at the version, which conditions are bound to."""
        return without_ids(self._request.schema)

    @property
    def limit(self) -> int | None:
        """How many rows are read at most."""
        return self._request.limit

    @property
    def store(self) -> Store:
        """Where the files of the plan are."""
        return self._context.store

    @property
    def lake_id(self) -> str:
        """The identity of the lake."""
        return self._context.catalog.lake_id

    @cached_property
    def nan_ids(self) -> frozenset[int]:
        """The float columns, by field id and outside lists, in which planned files may hold NaN, by the catalog."""
        request = self._request
        files = {file.file_id for file in self.plan.files}
        with self._context.catalog.read() as reader:
            return may_hold_nan(reader, request.info.table_id, request.version, request.schema, files)

    def narrowed(self, where: Any = None, *, columns: Sequence[str] | None = None, limit: int | None = None) -> Scan:
        """The same version, with one more condition, other columns or a lower limit; planned anew.

        Example:
            >>> scan.narrowed("region = 'eu'", columns=["id"]).to_arrow()   # doctest: +SKIP
        """
        request = self._request
        added = bind(parse(where), request.schema)
        if request.limit is not None and added != TRUE:
            raise InvalidOptionError(
                f"a scan of at most {request.limit} rows cannot be filtered further; leave limit out"
            )
        limits = [number for number in (request.limit, check_limit(limit)) if number is not None]
        narrower = replace(
            request,
            predicate=bind(all_of((request.predicate, added)), request.schema),
            columns=request.columns if columns is None else check_columns(columns, request.schema),
            limit=min(limits, default=None),
        )
        return Scan(self._context, narrower)

    @cached_property
    def plan(self) -> ReadPlan:
        """Exactly the row groups to read, decided from the catalog's statistics; no file was opened."""
        return self._guard.planned(self._plan_now)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches; memory is bounded by the batches, not by the table."""
        return self._read(self.plan)

    def read_files(self, files: Sequence[PlannedFile], *, columns: Sequence[str]) -> pa.RecordBatchReader:
        """The rows of some of the plan's files, for those who share the work out."""
        return self._read(replace(self.plan, files=tuple(files), columns=tuple(columns)))

    def to_spark(self, spark: Any = None) -> Any:
        """The rows as a Spark data frame: files pruned by the catalog, rows read by Spark's own reader.

        Args:
            spark: the session; the active one, or one made by `parqlake.spark.session`, if left out.
        """
        frame = self._context.connect_to("spark")(self.plan, self._context.store, spark)
        self._guard.hand_off()
        return frame

    def dataset(self) -> Any:
        """A `pyarrow.dataset.FileSystemDataset` of exactly the surviving row groups.

        Rows inside them are not filtered: pass the filter to the dataset's own methods. Arrow's filters on floats miss
        NaNs in row groups whose other values are all the same number; `to_batches` and `to_arrow` do not.
        """
        dataset = self._context.reader.dataset(self.plan, self._context.store)
        self._guard.hold_while_alive(dataset)
        return dataset

    def hold(self, duration: str | timedelta = "24h") -> None:
        """Keeps the files of the version from being deleted for so long, whoever reads them: one write to the catalog.

        Reads of this scan hold it by themselves. This is for plans that are carried out elsewhere, by other processes.
        """
        self._guard.hold_for(parse_age(duration, "duration"))

    def count(self) -> int:
        """The number of rows; from the catalog alone where that is exact, else by reading what is in doubt."""
        request = self._request
        if request.predicate == TRUE:
            rows = sum(file.row_count for file in self.plan.files)
        elif request.staged is not None or request.added_after is not None:
            rows = self._count_by_reading(self.plan.files)
        else:
            certain, doubtful = self._guard.planned(self._certain_rows)
            rows = certain + self._count_by_reading(doubtful)
        return rows if request.limit is None else min(rows, request.limit)

    def explain(self) -> Explanation:
        """What is read, what was skipped, by the partition or the statistics of which column, and what would help.

        From the catalog alone: no data file is opened. `print` it, or take `to_dict()`.
        """
        request = self._request
        table_id = request.info.table_id
        with self._context.catalog.read() as reader:
            snapshot = reader.snapshot(table_id, request.version) if request.version else None
            files, row_groups = (snapshot.file_count, snapshot.row_group_count) if snapshot else (0, 0)
            whole = [file.file_id for file in self.plan.files if file.row_groups is None and file.file_id > 0]
            entries = reader.files(table_id, request.version, whole) if whole else []
            partial = sum(len(file.row_groups) for file in self.plan.files if file.row_groups is not None)
            look = look_at(reader, request.info, snapshot, request.predicate)
            return Explanation(
                table=str(request.info.name),
                version=request.version,
                where=None if request.predicate == TRUE else describe(request.predicate),
                columns=tuple(self.schema.names),
                files_total=files,
                files_read=len(self.plan.files),
                row_groups_total=row_groups,
                row_groups_read=partial + sum(entry.row_group_count for entry in entries),
                rows_total=snapshot.row_count if snapshot else 0,
                rows_read=sum(file.row_count for file in self.plan.files),
                bytes_total=snapshot.size_bytes if snapshot else 0,
                bytes_read=sum(file.read_bytes for file in self.plan.files),
                conditions=look.conditions,
                skipped=look.skipped,
                suggestion=look.suggestion,
                spark_reads=spark_way(self._context.store, self.plan),
            )

    def __repr__(self) -> str:
        where = "" if self._request.predicate == TRUE else f" where {describe(self._request.predicate)}"
        return f"<Scan of {self._request.info.name} at version {self.version}{where}>"

    def _plan_now(self) -> ReadPlan:
        try:
            return self._planned(settled=True)
        except CatalogError:
            return self._planned(settled=False)

    def _planned(self, *, settled: bool) -> ReadPlan:
        request = self._request
        with self._context.catalog.read(settled=settled) as reader:
            return plan_scan(
                reader,
                request.info,
                version=request.version,
                schema=request.schema,
                predicate=request.predicate,
                columns=request.columns,
                limit=request.limit,
                staged=request.staged,
                added_after=request.added_after,
            )

    def _certain_rows(self) -> tuple[int, tuple[PlannedFile, ...]]:
        request = self._request
        if request.version == 0:
            return 0, ()
        table_id = request.info.table_id
        certain = 0
        doubtful: list[PlannedFile] = []
        with self._context.catalog.read() as reader:
            hits = select(reader, table_id, request.version, request.predicate)
            entries = reader.files(table_id, request.version, sorted(hits)) if hits else []
            for rest, group in by_residual(entries, request.schema, request.predicate).items():
                possible = select(reader, table_id, request.version, rest)
                uncertain = select_uncertain(reader, table_id, request.version, rest)
                for entry in group:
                    if entry.file_id not in possible:
                        continue
                    certain += possible[entry.file_id].rows
                    if entry.file_id in uncertain:
                        certain -= uncertain[entry.file_id].rows
                        doubtful.append(planned(request.info, entry, uncertain[entry.file_id]))
        return certain, tuple(doubtful)

    def _count_by_reading(self, files: tuple[PlannedFile, ...]) -> int:
        if not files:
            return 0
        names = tuple(dict.fromkeys(column.path[0] for column in columns_of(self._request.predicate)))
        columns = names or (self._request.schema.names[0],)
        plan = replace(self.plan, files=files, columns=columns, limit=None)
        return sum(batch.num_rows for batch in self._read(plan))

    def _read(self, plan: ReadPlan) -> pa.RecordBatchReader:
        """The rows of a plan, with the footers that the catalog keeps, if they spare the reader requests."""
        far = not self._context.store.is_local
        ids = [file.file_id for file in plan.files if file.footer is None and file.file_id > 0] if far else []
        if 0 < len(ids) <= _MOST_FOOTERS:
            with self._context.catalog.read() as reader:
                footers = reader.footers(self._request.info.table_id, ids)
            plan = replace(plan, files=tuple(replace(f, footer=footers.get(f.file_id, f.footer)) for f in plan.files))
        self._guard.check()
        return self._guard.stream(self._context.reader.batches(plan, self._context.store))


def check_columns(columns: Sequence[str] | None, schema: pa.Schema) -> tuple[str, ...] | None:
    """Returns the columns to read, and raises for unknown, repeated or no columns."""
    if columns is None:
        return None
    if isinstance(columns, str):
        columns = [columns]
    names = tuple(columns)
    if not names:
        raise InvalidOptionError("columns=[] selects nothing; name at least one column, or use count() to count rows")
    check_columns_exist(names, schema)
    if len(set(names)) != len(names):
        raise InvalidOptionError(f"columns names one twice: {', '.join(names)}")
    return names


def check_limit(limit: int | None) -> int | None:
    """Returns the limit, and raises if it is not a whole number of rows."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise InvalidOptionError(f"limit={limit!r} must be a whole number >= 0")
    return limit
