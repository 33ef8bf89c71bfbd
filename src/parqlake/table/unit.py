"""A unit of work: one row of the transaction registry, the files written under it, and how it ends."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from types import TracebackType
from typing import cast

import uuid_utils

from parqlake.core.errors import CatalogError, InvalidOptionError, ParqlakeError, StoreError, UnknownOutcomeError
from parqlake.core.model import DataFile, Snapshot, TransactionRecord, TransactionStatus
from parqlake.core.ports import CatalogWriter, Engine, IdempotencyKeyUsed, ReadPlan, WriteSpec, WrittenFile
from parqlake.core.updating import ChangingEngine, RowChange
from parqlake.table.commit import SettleRecords, TableChange, commit, publish
from parqlake.table.context import LakeContext, now
from parqlake.table.lease import LEASES
from parqlake.table.options import OPERATION_KEY
from parqlake.table.progress import SILENT, Report
from parqlake.table.sources import Source


class Unit:
    """Registers a transaction, writes files under its lease, and commits or aborts.

    Use as a context manager: leaving without a commit aborts, and deletes the files that are certainly this unit's own
    and certainly in no version. Where that is in doubt, files are kept for recovery to judge.
    """

    def __init__(
        self,
        context: LakeContext,
        *,
        operation: str,
        engine: str,
        table_ids: Sequence[int],
        message: str | None = None,
        idempotency_key: str | None = None,
        report: Report = SILENT,
    ) -> None:
        """Prepares the unit; the registry hears of it on entering."""
        self._context = context
        self.report = report
        self._table_ids = tuple(table_ids)
        self._written: set[str] = set()
        self._ended = False
        self._record = new_record(
            operation, engine, lease=context.lease, message=message, idempotency_key=idempotency_key
        )
        self.txn_id = self._record.txn_id
        self._lease = 0

    def __enter__(self) -> Unit:
        self._context.catalog.begin_transaction(self._record, self._table_ids)
        catalog, lease = self._context.catalog, self._context.lease
        self._lease = LEASES.start(lambda: catalog.renew_lease(self.txn_id, lease), seconds=lease.total_seconds() / 3)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        LEASES.stop(self._lease)
        if not self._ended:
            self._abort(in_doubt=isinstance(error, UnknownOutcomeError))

    def write(self, source: Source, spec: WriteSpec, engine: Engine) -> list[DataFile]:
        """Writes new rows to final files; no version refers to them until the commit."""
        return source.write(engine, self._tracked(spec), self._context.store)

    def rewrite(
        self, plan: ReadPlan, spec: WriteSpec, engine: Engine, change: RowChange | None = None
    ) -> list[DataFile]:
        """Writes rows that are in files already to new ones, changed on the way if a change is given."""
        if change is None:
            return engine.rewrite(plan, self._tracked(spec), self._context.store)
        if not hasattr(engine, "rewrite_changed"):
            raise InvalidOptionError(f'engine="{engine.name}" cannot update rows; use "pyarrow", "duckdb" or "spark"')
        return cast("ChangingEngine", engine).rewrite_changed(plan, change, self._tracked(spec), self._context.store)

    def track(self, paths: Iterable[str]) -> None:
        """Takes down files that were written for this unit by other ways; paths are relative to the store's root."""
        self._written.update(paths)

    def discard(self, location: str, files: Iterable[DataFile]) -> None:
        """Deletes files of a failed attempt; the unit goes on."""
        paths = [f"{location}/{file.path}" for file in files]
        delete_quietly(self._context, paths)
        self._written.difference_update(paths)

    def commit(self, changes: Sequence[TableChange], settle: SettleRecords = lambda _made: ()) -> dict[int, Snapshot]:
        """Publishes all changes or none. After a `ConflictError` the unit may try again with other changes."""
        snapshots = self._published(lambda: commit(self._context, self.txn_id, changes, settle))
        used = {f"{change.info.location}/{file.path}" for change in changes for file in change.add}
        delete_quietly(self._context, sorted(self._written - used))
        return snapshots

    def publish(self, apply: Callable[[CatalogWriter], dict[int, Snapshot]]) -> dict[int, Snapshot]:
        """Carries out in one SQL transaction what makes versions, and finishes the transaction, or nothing of it."""
        return self._published(lambda: publish(self._context, self.txn_id, apply))

    def _published(self, run: Callable[[], dict[int, Snapshot]]) -> dict[int, Snapshot]:
        try:
            snapshots = run()
        except IdempotencyKeyUsed:
            LEASES.stop(self._lease)
            self._abort(in_doubt=False)
            raise
        self._ended = True
        return snapshots

    def _abort(self, *, in_doubt: bool) -> None:
        self._ended = True
        try:
            status = abort(self._context, self.txn_id)
        except CatalogError:
            return  # nobody knows how it ended: recovery will, once the lease has run out
        if status is TransactionStatus.ABORTED and not in_doubt:
            delete_quietly(self._context, sorted(self._written))

    def _tracked(self, spec: WriteSpec) -> WriteSpec:
        visitor = spec.file_visitor

        def visit(file: WrittenFile) -> None:
            self._written.add(f"{spec.location}/{file.path}")
            self.report.advance(file.size)
            if visitor is not None:
                visitor(file)

        return replace(spec, file_visitor=visit, footer={**spec.footer, OPERATION_KEY: self._record.operation})


def new_record(
    operation: str,
    engine: str,
    *,
    lease: timedelta,
    message: str | None = None,
    idempotency_key: str | None = None,
) -> TransactionRecord:
    """What the registry is told of a transaction that begins now."""
    started = now()
    return TransactionRecord(
        txn_id=str(uuid_utils.uuid7()),
        status=TransactionStatus.OPEN,
        who=who(),
        started_at=started,
        lease_until=started + lease,
        operation=operation,
        engine=engine,
        message=message,
        idempotency_key=idempotency_key,
    )


def abort(context: LakeContext, txn_id: str) -> TransactionStatus | None:
    """Ends an open transaction for good, and returns how it ended, be it now or before."""
    if context.catalog.abort_transaction(txn_id):
        return TransactionStatus.ABORTED
    with context.catalog.read() as reader:
        record = reader.transaction(txn_id)
    return None if record is None else record.status


def delete_quietly(context: LakeContext, paths: Sequence[str]) -> None:
    """Deletes files that no version refers to; what cannot be deleted now is a tombstone."""
    try:
        context.store.delete(paths)
    except (ParqlakeError, StoreError):
        return  # vacuum finds them by the registry and by their names


@lru_cache(maxsize=1)
def _user_and_host() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def who() -> str:
    """The user, machine and process that this is."""
    return f"{_user_and_host()}:{os.getpid()}"
