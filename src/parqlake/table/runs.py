"""Runs of pipelines: put on record with what they commit, and asked for by pipeline or table."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from parqlake.core.errors import InvalidOptionError, RecordConflictError
from parqlake.core.lineage import Lineage, trace
from parqlake.core.model import Snapshot, TableInfo
from parqlake.core.names import parse_table_name
from parqlake.core.ports import CatalogReader
from parqlake.core.records_port import ABSENT, ANY, Record, checked_scope, record_text
from parqlake.core.runs import RUNS, RunRecord, RunStatus
from parqlake.table.context import LakeContext, now
from parqlake.table.records import StagedRecords
from parqlake.table.unit import Unit

_PAGE = 200
_ATTEMPTS = 5


class LakeRuns:
    """What `Lake` offers to look back at runs."""

    _context: LakeContext

    def runs(self, pipeline: str | None = None, table: str | None = None, limit: int | None = 50) -> list[RunRecord]:
        """The runs on record, those that ended last first.

        Args:
            pipeline: only of this pipeline.
            table: only those that read or wrote this table.
            limit: at most so many; None for all.

        Example:
            >>> [(run.run_id, str(run.status)) for run in lake.runs("orders", limit=2)]   # doctest: +SKIP
            [('2026-11-15', 'failed'), ('2026-11-14', 'succeeded')]
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidOptionError(f"limit={limit!r} must be a number of runs, or None")
        name = None if table is None else str(parse_table_name(table))
        with self._context.catalog.read() as reader:
            found = newest_runs(reader, pipeline)
            return list(islice((run for run in found if name is None or run.touches(name)), limit))

    def record_run(self, run: RunRecord) -> bool:
        """Puts a run on record by itself: for runs that failed, and so committed nothing to be recorded with.

        A run that has succeeded is never recorded as failed afterwards; False says that this was so.

        Example:
            >>> lake.record_run(replace(run, status=RunStatus.FAILED, error=str(error)))   # doctest: +SKIP
            True
        """
        checked_run(run)
        for attempt in range(_ATTEMPTS):
            with self._context.catalog.read() as reader:
                there = reader.record(run.scope, run.run_id)
            if there is not None and there.value.get("status") == RunStatus.SUCCEEDED:
                return False
            records = StagedRecords()
            records.put(run.scope, {run.run_id: run.to_dict()}, ABSENT if there is None else there.revision)
            engine = self._context.default_engine.name
            try:
                with Unit(self._context, operation="run record", engine=engine, table_ids=()) as unit:
                    unit.commit((), records.settled)
            except RecordConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return True
        raise AssertionError("unreachable")


class TableLineage:
    """What `Table` offers to follow its rows across runs."""

    _context: LakeContext
    _info: TableInfo

    def lineage(self) -> Lineage:
        """From which tables and addresses this table was made and what was made of it, by the runs on record.

        Follows runs of all pipelines, step by step, in both directions. Of runs that did the same, the newest is told.
        Tables are found by the names that they had when they were read and written.

        Example:
            >>> print(lake.table("silver.orders").lineage())   # doctest: +SKIP
            silver.orders
            ├── made from
            │   └── landing/orders  (orders, run 2026-11-15, 2026-11-15 03:10)
            └── made into
                └── gold.daily @ version 12  (daily, run 2026-11-15, 2026-11-15 04:00)
        """
        with self._context.catalog.read() as reader:
            info = reader.table_by_id(self._info.table_id) or self._info
            return trace(str(info.name), newest_runs(reader))


def stage_run(records: StagedRecords, run: RunRecord, name_of: Callable[[int], str]) -> None:
    """Stages the record of a run; the commit fills in its end, and the versions that it makes, by the tables' names."""

    def made(snapshots: Mapping[int, Snapshot]) -> object:
        ended = replace(run, finished_at=run.finished_at or now())
        return ended.with_versions({name_of(table_id): made for table_id, made in snapshots.items()}).to_dict()

    checked_run(run)
    records.put_late(run.scope, run.run_id, made, ANY)


def checked_run(run: RunRecord) -> RunRecord:
    """The run, if it could be read back; refused before anything is written."""
    if not isinstance(run, RunRecord):
        raise InvalidOptionError(f"a run is recorded as a RunRecord, not as a {type(run).__name__}")
    return RunRecord.from_dict(json.loads(record_text(run.to_dict(), f'of run "{run.run_id}"')))


def newest_runs(reader: CatalogReader, pipeline: str | None = None) -> Iterator[RunRecord]:
    """The runs of a pipeline, or of all, newest record first, read as they are asked for."""
    scopes = reader.record_scopes(RUNS) if pipeline is None else [checked_scope(RUNS + pipeline)]
    merged = heapq.merge(
        *(_paged(reader, scope) for scope in scopes), key=lambda record: record.recorded_at, reverse=True
    )
    return (RunRecord.from_dict(record.value) for record in merged)


def _paged(reader: CatalogReader, scope: str) -> Iterator[Record]:
    last: str | None = None
    while True:
        page = reader.records(scope, after=last, limit=_PAGE, newest_first=True)
        yield from page
        if len(page) < _PAGE:
            return
        last = page[-1].key
