"""Writing the catalog: one SQL transaction, which the catalog commits or rolls back as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from parqlake.catalogs.cache import Cache
from parqlake.catalogs.commits import write_snapshot
from parqlake.catalogs.dialect import Session
from parqlake.catalogs.health import HealthWrites
from parqlake.catalogs.reader import SqlReader
from parqlake.catalogs.records import RecordWrites
from parqlake.catalogs.retention import RetentionWrites
from parqlake.catalogs.rows import HEAD_COLUMNS, checked_text, head_of, json_text, table_row
from parqlake.catalogs.storing import schema_row
from parqlake.catalogs.tables import (
    IDEMPOTENCY,
    LAKE_TABLE,
    SCHEMA_VERSION,
    TABLE_HEAD,
    TABLE_NAME,
    TAG,
    TOMBSTONE,
    TXN,
)
from parqlake.core.errors import (
    CatalogError,
    ConcurrentDropError,
    TableExistsError,
    TableNotFoundError,
    TransactionExpiredError,
    VersionNotFoundError,
)
from parqlake.core.model import Head, Snapshot, TableInfo, Tag, TransactionStatus, to_micros
from parqlake.core.names import TableName
from parqlake.core.ports import IdempotencyKeyUsed, NewSnapshot

_LOCK = TABLE_HEAD.select("WHERE table_id = ANY_OF(?) AND live = 1 ORDER BY table_id FOR UPDATE", *HEAD_COLUMNS)
_LOCK_ANY = TABLE_HEAD.select("WHERE table_id = ? FOR UPDATE", "live")
_DRAW_TABLE = "UPDATE lake SET next_table = next_table + 1 RETURNING next_table"
_TAKE_NAME = TABLE_NAME.insert("ON CONFLICT DO NOTHING")
_GIVE_NAME_UP = "DELETE FROM table_name WHERE table_id = ?"
_GIVE_OTHER_NAMES_UP = "DELETE FROM table_name WHERE table_id = ? AND NOT (namespace = ? AND name = ?)"
_SET_LIVE = "UPDATE table_head SET live = ? WHERE table_id = ?"
_SET_DROPPED = "UPDATE lake_table SET dropped_at = ? WHERE table_id = ?"
_SET_NAME = "UPDATE lake_table SET namespace = ?, name = ? WHERE table_id = ?"
_SET_PROPERTIES = "UPDATE lake_table SET properties = ? WHERE table_id = ?"
_SET_TAG = TAG.insert(
    "ON CONFLICT (table_id, name) DO UPDATE SET version = excluded.version, created_at = excluded.created_at"
)
_DELETE_TAG = "DELETE FROM tag WHERE table_id = ? AND name = ?"
_FINISH = (
    "UPDATE txn SET status = 'committed', ended_at = ?, versions = ? WHERE txn_id = ? AND status = 'open'"
    " RETURNING idempotency_key"
)
_TAKE_KEY = IDEMPOTENCY.insert("ON CONFLICT DO NOTHING")
_KEY_OWNER = IDEMPOTENCY.select("WHERE idempotency_key = ?", "txn_id")
_STATUS = TXN.select("WHERE txn_id = ?", "status")
# A file found to be of no use again counts from now, so that it is not deleted too early.
_ADD_TOMBSTONE = TOMBSTONE.insert(
    "ON CONFLICT (table_id, path) DO UPDATE"
    " SET since = excluded.since, reason = excluded.reason, txn_id = excluded.txn_id"
)


class SqlWriter(SqlReader, RetentionWrites, HealthWrites, RecordWrites):
    """The port `CatalogWriter` over a session in a write transaction."""

    def __init__(self, session: Session, cache: Cache, *, merge_segments_at: int) -> None:
        """Merges a table's small segments when there are more than `merge_segments_at`."""
        super().__init__(session, cache, fills_cache=False)
        self._merge_segments_at = merge_segments_at
        self._broken: BaseException | None = None

    def check_can_commit(self) -> None:
        """Refuses to commit what a failed call left half written, should the caller have swallowed its error."""
        if self._broken is not None:
            raise CatalogError("a write of this transaction failed, so nothing of it was committed") from self._broken

    # ---- tables

    def lock(self, table_ids: Iterable[int]) -> dict[int, Head]:
        """Locks the heads, in sorted order, until the end; returns them as they now are.

        Ids of dropped or unknown tables are missing from the answer.
        """
        ids = sorted({int(i) for i in table_ids})
        if not ids:
            return {}
        return {row[0]: head_of(row) for row in self._session.rows(_LOCK, (self._session.ids(ids),))}

    def create_table(
        self,
        *,
        uuid: str,
        name: TableName,
        location: str,
        schema: pa.Schema,
        partition_by: Sequence[str],
        sort_by: Sequence[str],
        properties: Mapping[str, str],
        created_at: datetime,
    ) -> TableInfo:
        """Adds a table with head version 0; `TableExistsError` if the name is taken."""
        info = TableInfo(0, uuid, name, location, tuple(partition_by), tuple(sort_by), dict(properties), created_at)
        table_row(info)  # Refuses what cannot be stored before anything is written.
        row = self._session.row(_DRAW_TABLE)
        assert row is not None
        info = replace(info, table_id=row[0] - 1)
        self._take_name(info.table_id, name)
        micros = to_micros(created_at)
        self._session.insert(LAKE_TABLE, [table_row(info)])
        self._session.insert(SCHEMA_VERSION, [schema_row(info.table_id, 1, micros, schema)])
        # Head 0, schema 1, files and segments numbered from 1, next schema 2, nothing counted, live.
        self._session.insert(TABLE_HEAD, [(info.table_id, 0, 1, 1, 1, 2, 0, 0, 0, 0, 0, micros, 1)])
        return info

    def drop_table(self, table_id: int, at: datetime) -> None:
        """Takes the table's name away and marks it as dropped; its files stay."""
        if not self._lock_known(table_id):
            raise ConcurrentDropError(f"table {table_id} is dropped already")
        self._session.change(_GIVE_NAME_UP, (table_id,))
        self._session.change(_SET_LIVE, (0, table_id))
        self._session.change(_SET_DROPPED, (to_micros(at), table_id))

    def undrop_table(self, table_id: int, name: TableName) -> None:
        """Gives a dropped table a name again; `TableExistsError` if it is taken."""
        if self._lock_known(table_id):
            raise TableExistsError(f"table {table_id} is not dropped, so there is nothing to undo")
        if self._retention(table_id)[1]:
            raise TableNotFoundError(f"table {table_id} cannot be brought back: a vacuum has deleted its files")
        self._take_name(table_id, name)
        self._session.change(_SET_NAME, (name.namespace, name.name, table_id))
        self._session.change(_SET_LIVE, (1, table_id))
        self._session.change(_SET_DROPPED, (None, table_id))

    def rename_table(self, table_id: int, name: TableName) -> None:
        """Changes the name; `TableExistsError` if it is taken. The location stays."""
        if not self._lock_known(table_id):
            raise ConcurrentDropError(f"table {table_id} was dropped; restore it with undrop_table")
        info = self.table_by_id(table_id)
        if info is not None and info.name == name:
            return
        self._take_name(table_id, name)
        self._session.change(_GIVE_OTHER_NAMES_UP, (table_id, name.namespace, name.name))
        self._session.change(_SET_NAME, (name.namespace, name.name, table_id))

    def set_properties(self, table_id: int, properties: Mapping[str, str]) -> None:
        """Replaces the table's properties."""
        if not self._session.change(_SET_PROPERTIES, (json_text(dict(properties)), table_id)):
            raise _unknown(table_id)

    def set_tag(self, tag: Tag) -> None:
        """Creates the tag, or moves it; `VersionNotFoundError` if the version is expired."""
        name = checked_text(tag.name, "tag")
        self._lock_known(tag.table_id)  # takes turns with those who expire versions
        if self.is_expired(tag.table_id, tag.version):
            raise VersionNotFoundError(
                f"version {tag.version} of table {tag.table_id} was expired and cannot be tagged"
            )
        self._session.change(_SET_TAG, (tag.table_id, name, tag.version, to_micros(tag.created_at)))

    def delete_tag(self, table_id: int, name: str) -> bool:
        """Deletes the tag; False if there was none."""
        return self._session.change(_DELETE_TAG, (table_id, checked_text(name, "tag"))) > 0

    # ---- versions and transactions

    def add_snapshot(self, new: NewSnapshot, *, txn_id: str, committed_at: datetime) -> Snapshot:
        """Writes version `new.base.version + 1`.

        Compare-and-swap on the head and on each file's `removed` mark: `ConflictError` if either is not
        as expected. The commit time is moved up if needed, so that times rise with versions.
        """
        try:
            return write_snapshot(
                self._session,
                new,
                txn_id=checked_text(txn_id, "transaction id"),
                committed_at=committed_at,
                merge_segments_at=self._merge_segments_at,
            )
        except BaseException as error:
            self._broken = error
            raise

    def finish_transaction(self, txn_id: str, *, versions: Mapping[int, int], at: datetime) -> None:
        """Marks the open transaction as committed and binds its idempotency key.

        `TransactionExpiredError` if it is not open any more; `IdempotencyKeyUsed` if the key is taken.
        """
        try:
            made = json_text({str(table_id): version for table_id, version in versions.items()})
            row = self._session.row(_FINISH, (to_micros(at), made, checked_text(txn_id, "transaction id")))
            if row is None:
                raise self._expired(txn_id)
            key = row[0]
            if key is not None and not self._session.change(_TAKE_KEY, (key, txn_id)):
                owner = self._session.row(_KEY_OWNER, (key,))
                raise IdempotencyKeyUsed(txn_id if owner is None else owner[0])
        except BaseException as error:
            self._broken = error
            raise

    def add_tombstones(self, table_id: int, paths: Sequence[str], *, txn_id: str, reason: str, at: datetime) -> None:
        """Records files that no version refers to."""
        why = (to_micros(at), checked_text(reason, "reason"), checked_text(txn_id, "transaction id"))
        for path in [checked_text(path, "path") for path in dict.fromkeys(paths)]:
            self._session.change(_ADD_TOMBSTONE, (table_id, path, *why))

    # ---- shared

    def _take_name(self, table_id: int, name: TableName) -> None:
        namespace, last = checked_text(name.namespace, "namespace"), checked_text(name.name, "table name")
        if not self._session.change(_TAKE_NAME, (namespace, last, table_id)):
            raise TableExistsError(f'table "{name}" exists already; choose another name or drop it first')

    def _lock_known(self, table_id: int) -> bool:
        """Locks the table's head and says whether the table is live."""
        row = self._session.row(_LOCK_ANY, (table_id,))
        if row is None:
            raise _unknown(table_id)
        return bool(row[0])

    def _expired(self, txn_id: str) -> Exception:
        row = self._session.row(_STATUS, (txn_id,))
        if row is None:
            return TransactionExpiredError(f"transaction {txn_id} is not registered, or was cleaned up; run it again")
        if row[0] == TransactionStatus.COMMITTED:
            return TransactionExpiredError(f"transaction {txn_id} is committed already")
        return TransactionExpiredError(
            f"transaction {txn_id} was ended by a recovery because its lease had run out; run it again"
        )


def _unknown(table_id: int) -> TableNotFoundError:
    return TableNotFoundError(f"the catalog has no table with id {table_id}")
