"""A unit of work: one row of the transaction registry, the files written under it, and how it ends."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from types import TracebackType

import uuid_utils

from parqlake.core.errors import CatalogError, ParqlakeError, StoreError, UnknownOutcomeError
from parqlake.core.model import DataFile, Snapshot, TransactionRecord, TransactionStatus
from parqlake.core.ports import Engine, IdempotencyKeyUsed, ReadPlan, WriteSpec, WrittenFile
from parqlake.table.commit import TableChange, commit
from parqlake.table.context import LakeContext, now
from parqlake.table.lease import LEASES
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
    ) -> None:
        """Prepares the unit; the registry hears of it on entering."""
        self.txn_id = str(uuid_utils.uuid7())
        self._context = context
        self._table_ids = tuple(table_ids)
        self._written: set[str] = set()
        self._ended = False
        started = now()
        self._record = TransactionRecord(
            txn_id=self.txn_id,
            status=TransactionStatus.OPEN,
            who=who(),
            started_at=started,
            lease_until=started + context.lease,
            operation=operation,
            engine=engine,
            message=message,
            idempotency_key=idempotency_key,
        )
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

    def rewrite(self, plan: ReadPlan, spec: WriteSpec, engine: Engine) -> list[DataFile]:
        """Writes rows that are in files already to new ones."""
        return engine.rewrite(plan, self._tracked(spec), self._context.store)

    def discard(self, location: str, files: Iterable[DataFile]) -> None:
        """Deletes files of a failed attempt; the unit goes on."""
        paths = [f"{location}/{file.path}" for file in files]
        self._delete(paths)
        self._written.difference_update(paths)

    def commit(self, changes: Sequence[TableChange]) -> dict[int, Snapshot]:
        """Publishes all changes or none. After a `ConflictError` the unit may try again with other changes."""
        try:
            snapshots = commit(self._context, self.txn_id, changes)
        except IdempotencyKeyUsed:
            LEASES.stop(self._lease)
            self._abort(in_doubt=False)
            raise
        self._ended = True
        used = {f"{change.info.location}/{file.path}" for change in changes for file in change.add}
        self._delete(sorted(self._written - used))
        return snapshots

    def _abort(self, *, in_doubt: bool) -> None:
        self._ended = True
        try:
            was_open = self._context.catalog.abort_transaction(self.txn_id)
            if not was_open:
                with self._context.catalog.read() as reader:
                    record = reader.transaction(self.txn_id)
                was_open = record is not None and record.status is TransactionStatus.ABORTED
        except CatalogError:
            return  # nobody knows how it ended: recovery will, once the lease has run out
        if was_open and not in_doubt:
            self._delete(sorted(self._written))

    def _tracked(self, spec: WriteSpec) -> WriteSpec:
        visitor = spec.file_visitor

        def visit(file: WrittenFile) -> None:
            self._written.add(f"{spec.location}/{file.path}")
            if visitor is not None:
                visitor(file)

        return replace(spec, file_visitor=visit)

    def _delete(self, paths: Sequence[str]) -> None:
        try:
            self._context.store.delete(paths)
        except (ParqlakeError, StoreError):
            return  # tombstones: vacuum finds them by the registry and by their names


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
