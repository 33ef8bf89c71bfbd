"""The catalog: one implementation of the port over any of the dialects."""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa

from parqlake.catalogs.cache import Cache
from parqlake.catalogs.dialect import Dialect, Session
from parqlake.catalogs.migrations import Identity, prepare
from parqlake.catalogs.pool import Pool
from parqlake.catalogs.reader import SqlReader
from parqlake.catalogs.rows import checked_text, transaction_row
from parqlake.catalogs.tables import TXN, TXN_TABLE
from parqlake.catalogs.writer import SqlWriter
from parqlake.core.errors import (
    AlreadyExistsError,
    CatalogBusyError,
    CatalogUnavailableError,
    InvalidOptionError,
    UnknownOutcomeError,
)
from parqlake.core.model import Head, TransactionRecord, TransactionStatus, to_micros

_Result = TypeVar("_Result")

MERGE_SEGMENTS_AT = 1_000
"""How many small segments a table may have before a commit merges them."""
_FIRST_PAUSE = 0.01
_RETRY_FOR = 5.0
_REGISTER = TXN.insert("ON CONFLICT DO NOTHING")
_RENEW = "UPDATE txn SET lease_until = ? WHERE txn_id = ? AND status = 'open'"
_ABORT = "UPDATE txn SET status = 'aborted', ended_at = ? WHERE txn_id = ? AND status = 'open'"

_left_by_parents: list[Pool] = []
"""Pools of parent processes: kept, so that no finaliser of a connection runs in the child."""


class SqlCatalog:
    """The port `Catalog` on SQLite, DuckDB or PostgreSQL."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        create: bool = True,
        cache_bytes: int = 256 * 1024 * 1024,
        merge_segments_at: int = MERGE_SEGMENTS_AT,
    ) -> None:
        """Opens the catalog; with `create`, makes it if it is not there."""
        self._dialect = dialect
        self._merge_segments_at = merge_segments_at
        self._pid = os.getpid()
        self._pool = Pool(dialect.connect)
        self._cache = Cache(cache_bytes)
        self._closer = weakref.finalize(self, _close, self._pool, dialect, self._pid)
        try:
            if create:
                dialect.prepare_place()
            identity = self._again(lambda: self._prepare(create=create))
        except BaseException:
            self.close()
            raise
        self._lake_id = identity.lake_id
        self._is_new = identity.is_new

    def __repr__(self) -> str:
        return f"SqlCatalog({self.url!r})"

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._dialect.url

    @property
    def lake_id(self) -> str:
        """The identity that the catalog shares with its root."""
        return self._lake_id

    @property
    def is_new(self) -> bool:
        """Whether opening it just created it."""
        return self._is_new

    @contextmanager
    def read(self, *, settled: bool = False) -> Iterator[SqlReader]:
        """A consistent view; cheap, nestable, safe in many threads.

        `settled` is for those who only ask for what a committed version holds, which never changes: each answer then
        stands alone, which is cheaper. A connection that was cut while idle, and segments that are merged meanwhile,
        give a `CatalogError`: ask again without it.
        """
        self._come_home()
        pool = self._pool
        session = self._begin(pool, Session.begin_single if settled else Session.begin_read)
        try:
            yield SqlReader(session, self._cache)
        finally:
            if not settled:
                session.end_read()
            pool.give_back(session)

    def newest(self, table_id: int) -> tuple[Head, pa.Schema]:
        """The newest version of a table and its schema, as cheaply as can be: one query, without a transaction."""
        self._come_home()
        found: list[Head] = []

        def look(session: Session) -> None:
            session.begin_single()
            found.append(SqlReader(session, self._cache).head(table_id))

        self._pool.give_back(self._begin(self._pool, look))
        (head,) = found
        key = ("schema", table_id, head.schema_id)
        known = self._cache.get_many([key])
        if known:
            return head, known[key]
        with self.read() as reader:
            return head, reader.schema(table_id, head.schema_id)

    @contextmanager
    def write(self) -> Iterator[SqlWriter]:
        """A SQL transaction.

        Raises on leaving: `CatalogBusyError` if it could not begin in time or was chosen as a victim
        (certainly nothing was committed), `UnknownOutcomeError` if the connection broke during COMMIT.
        """
        with self._transaction(Session.begin_write) as session:
            writer = SqlWriter(session, self._cache, merge_segments_at=self._merge_segments_at)
            yield writer
            writer.check_can_commit()

    def begin_transaction(self, record: TransactionRecord, table_ids: Sequence[int] = ()) -> None:
        """Registers an open transaction, before its first file is written."""
        if record.status is not TransactionStatus.OPEN:
            raise InvalidOptionError(f"a transaction begins open, not {record.status}")
        row = transaction_row(record)
        tables = [(record.txn_id, int(table_id)) for table_id in sorted(set(table_ids))]
        in_doubt = False

        def register() -> None:
            nonlocal in_doubt
            try:
                with self._transaction(_begin_registry_write) as session:
                    if session.change(_REGISTER, row):
                        session.insert(TXN_TABLE, tables)
                    elif not (
                        in_doubt and SqlReader(session, self._cache, fills_cache=False).transaction(record.txn_id)
                    ):
                        raise AlreadyExistsError(
                            f"transaction {record.txn_id} is registered already; give each its own id"
                        )
            except UnknownOutcomeError:
                in_doubt = True
                raise

        self._again(register)

    def renew_lease(self, txn_id: str, lease: timedelta) -> bool:
        """Moves the lease of an open transaction on; False if it is not open any more."""
        return self._change_registry(_RENEW, txn_id, lambda: to_micros(datetime.now(UTC) + lease), durable=False)

    def abort_transaction(self, txn_id: str) -> bool:
        """Marks an open transaction as aborted, so that it can never commit.

        Waits for a COMMIT that is under way. False if it had ended already: look it up then.
        """
        return self._change_registry(_ABORT, txn_id, lambda: to_micros(datetime.now(UTC)), durable=True)

    def close(self) -> None:
        """Closes all connections. Closing twice is no error."""
        self._come_home()
        self._closer()

    # ---- how transactions run

    def _prepare(self, *, create: bool) -> Identity:
        session, _ = self._pool.take()
        try:
            return prepare(self._dialect, session, create=create)
        finally:
            self._pool.give_back(session)

    def _change_registry(self, sql: str, txn_id: str, moment: Callable[[], int], *, durable: bool) -> bool:
        begin = Session.begin_write if durable else _begin_registry_write
        checked = checked_text(txn_id, "transaction id")

        def change() -> bool:
            with self._transaction(begin) as session:
                return session.change(sql, (moment(), checked)) > 0

        return self._again(change)

    @contextmanager
    def _transaction(self, begin: Callable[[Session], None]) -> Iterator[Session]:
        self._come_home()
        pool = self._pool
        session = self._begin(pool, begin)
        try:
            try:
                yield session
            except BaseException:
                session.rollback()
                raise
            session.commit()
        finally:
            pool.give_back(session)

    def _begin(self, pool: Pool, begin: Callable[[Session], None]) -> Session:
        """A connection after its first statement; connections that were cut while idle are passed over."""
        while True:
            session, used_before = pool.take()
            try:
                begin(session)
            except CatalogUnavailableError:
                session.reusable = False
                pool.give_back(session)
                if not used_before:
                    raise
            except BaseException:
                session.rollback()
                pool.give_back(session)
                raise
            else:
                return session

    def _again(self, action: Callable[[], _Result]) -> _Result:
        """Runs an action that may be repeated until it is not chosen as a victim, nor its answer lost.

        An attempt that has waited long for others was no victim: then the time is up.
        """
        pause = _FIRST_PAUSE
        deadline = time.monotonic() + _RETRY_FOR
        while True:
            try:
                return action()
            except (CatalogBusyError, UnknownOutcomeError):
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 (jitter)
            pause *= 2

    def _come_home(self) -> None:
        """In a forked child: leaves the parent's connections alone and starts with none."""
        pid = os.getpid()
        if pid != self._pid:
            _left_by_parents.append(self._pool)
            self._closer.detach()
            self._pid = pid
            self._pool = Pool(self._dialect.connect)
            self._cache = Cache(self._cache.limit_bytes)
            self._closer = weakref.finalize(self, _close, self._pool, self._dialect, pid)


def _begin_registry_write(session: Session) -> None:
    # A row of an open transaction that a crash of the machine takes away costs nothing: the crash has ended the
    # writer too, and without its row a transaction can never commit. So these writes need not wait for the disk.
    session.begin_write(durable=False)


def _close(pool: Pool, dialect: Dialect, pid: int) -> None:
    if os.getpid() == pid:
        pool.close()
        dialect.close()
