"""What is kept, what is not, and who still needs it: the retention side of the reader and the writer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from parqlake.catalogs.dialect import Session
from parqlake.catalogs.footers import drop_footers
from parqlake.catalogs.rows import checked_text, snapshot_of, table_of
from parqlake.catalogs.tables import (
    FILE,
    LAKE_TABLE,
    PAST_SNAPSHOT,
    READER_LEASE,
    RETENTION,
    SNAPSHOT,
    TABLE_HEAD,
    TOMBSTONE,
    TXN_TABLE,
)
from parqlake.core.errors import CatalogError
from parqlake.core.model import LIVE, Snapshot, TableInfo, from_micros, to_micros
from parqlake.core.retention import EXPIRED, FileSpan, ReaderLease, Tombstone

_PURGED, _FORGOTTEN = 1, 2
_SPAN = ("file_id", "path", "size_bytes", "added", "removed")
_ALL = ", ".join(SNAPSHOT.column_names)

_KEPT = SNAPSHOT.select("WHERE table_id = ? AND version BETWEEN ? AND ? ORDER BY version", "version")
_EXPIRED = PAST_SNAPSHOT.select("WHERE table_id = ? AND version > ? ORDER BY version DESC")
_IS_EXPIRED = PAST_SNAPSHOT.select("WHERE table_id = ? AND version = ?", "version")
_EXPIRED_AS_OF = PAST_SNAPSHOT.select(
    "WHERE table_id = ? AND committed_at <= ? ORDER BY version DESC LIMIT 1", "version"
)
_RETENTION = RETENTION.select("WHERE table_id = ?", "forgotten", "purged")
_SPANS = FILE.select("WHERE table_id = ?", *_SPAN)
_TOMBSTONES = TOMBSTONE.select("WHERE table_id = ?", "path", "since", "reason", "txn_id")
_LEASES = READER_LEASE.select("WHERE lease_until > ?")
_ON_RECORD = LAKE_TABLE.select(
    "WHERE NOT EXISTS (SELECT 1 FROM retention r WHERE r.table_id = lake_table.table_id AND r.purged > 0)"
)
_TO_DELETE = LAKE_TABLE.select(
    "WHERE EXISTS (SELECT 1 FROM retention r WHERE r.table_id = lake_table.table_id AND r.purged = 1)"
)
_TXN_TABLES = TXN_TABLE.select("WHERE txn_id = ? ORDER BY table_id", "table_id")

_MOVE_SNAPSHOTS = (
    f"INSERT INTO past_snapshot ({_ALL}) SELECT {_ALL} FROM snapshot WHERE table_id = ? AND version = ANY_OF(?)"  # noqa: S608
)
_DROP_SNAPSHOTS = "DELETE FROM snapshot WHERE table_id = ? AND version = ANY_OF(?)"
_DROP_TAGS = "DELETE FROM tag WHERE table_id = ? AND version = ANY_OF(?)"
# Only entries that some version removed: what is live is needed, whatever the caller says.
_DEAD = FILE.select("WHERE table_id = ? AND file_id = ANY_OF(?) AND removed < ?", "removed", "segment_id")
_DROP_FILES = "DELETE FROM file WHERE table_id = ? AND file_id = ANY_OF(?) AND removed < ?"
_DROP_TOMBSTONE = "DELETE FROM tombstone WHERE table_id = ? AND path = ?"
_USED_SEGMENTS = "SELECT DISTINCT segment_id FROM file WHERE table_id = ? AND segment_id = ANY_OF(?)"
_DROP_PAGES = "DELETE FROM statistic WHERE table_id = ? AND segment_id = ANY_OF(?)"
_DROP_SEGMENTS = "DELETE FROM segment WHERE table_id = ? AND segment_id = ANY_OF(?)"
_SET_FORGOTTEN = RETENTION.insert(
    "ON CONFLICT (table_id) DO UPDATE SET forgotten ="
    " CASE WHEN excluded.forgotten > retention.forgotten THEN excluded.forgotten ELSE retention.forgotten END"
)
_SET_PURGED = RETENTION.insert("ON CONFLICT (table_id) DO UPDATE SET purged = excluded.purged")
_LOCK_HEAD = TABLE_HEAD.select("WHERE table_id = ? FOR UPDATE", "live")
_TABLES_OF_A_TABLE = ("snapshot", "past_snapshot", "file", "footer", "segment", "statistic", "tag", "tombstone")
_HOLD = READER_LEASE.insert("ON CONFLICT (lease_id) DO UPDATE SET lease_until = excluded.lease_until")
_RELEASE = "DELETE FROM reader_lease WHERE lease_id = ?"
_CLEAR = "DELETE FROM reader_lease WHERE lease_until < ?"


class RetentionReads:
    """The port `RetentionReader` over a session."""

    _session: Session

    def kept_versions(self, table_id: int, *, first: int = 1, last: int | None = None) -> list[int]:
        """The kept versions from `first` to `last`, sorted."""
        found = self._session.rows(_KEPT, (table_id, first, LIVE if last is None else last))
        return [version for (version,) in found]

    def expired_snapshots(self, table_id: int, *, after: int = 0) -> list[Snapshot]:
        """Versions above `after` that are not kept any more, newest first."""
        return [snapshot_of(row) for row in self._session.rows(_EXPIRED, (table_id, after))]

    def is_expired(self, table_id: int, version: int) -> bool:
        """Whether there was such a version, and it is not kept any more."""
        return self._session.row(_IS_EXPIRED, (table_id, version)) is not None

    def expired_as_of(self, table_id: int, moment: datetime) -> int | None:
        """The newest expired version that was committed at or before the moment."""
        row = self._session.row(_EXPIRED_AS_OF, (table_id, to_micros(moment)))
        return None if row is None else int(row[0])

    def forgotten_until(self, table_id: int) -> int:
        """Of what was removed in or before this version, not all is known any more; 0 if all is."""
        return self._retention(table_id)[0]

    def file_spans(self, table_id: int) -> list[FileSpan]:
        """All files that the catalog knows, of kept versions or not."""
        return [FileSpan(*row) for row in self._session.rows(_SPANS, (table_id,))]

    def tombstones(self, table_id: int) -> list[Tombstone]:
        """Files that no kept version refers to, and that are still to be deleted or forgotten."""
        rows = self._session.rows(_TOMBSTONES, (table_id,))
        return [Tombstone(path, from_micros(since), reason, txn_id) for path, since, reason, txn_id in rows]

    def reader_leases(self, at: datetime) -> list[ReaderLease]:
        """Leases of readers that have not run out at the moment."""
        rows = self._session.rows(_LEASES, (to_micros(at),))
        return [ReaderLease(row[0], row[1], row[2], row[3], row[4], from_micros(row[5])) for row in rows]

    def tables_on_record(self) -> list[TableInfo]:
        """All tables, dropped ones too, but for those whose files a vacuum has begun to delete for good."""
        return sorted((table_of(row) for row in self._session.rows(_ON_RECORD)), key=lambda info: info.table_id)

    def purged_tables(self) -> list[TableInfo]:
        """Dropped tables that cannot be brought back, whose files are still to be deleted."""
        return sorted((table_of(row) for row in self._session.rows(_TO_DELETE)), key=lambda info: info.table_id)

    def transaction_tables(self, txn_id: str) -> list[int]:
        """The tables that a transaction said it would write to when it began."""
        found = self._session.rows(_TXN_TABLES, (checked_text(txn_id, "transaction id"),))
        return [table_id for (table_id,) in found]

    def _retention(self, table_id: int) -> tuple[int, int]:
        row = self._session.row(_RETENTION, (table_id,))
        return (0, 0) if row is None else (row[0], row[1])


class RetentionWrites(RetentionReads):
    """The port `RetentionWriter` over a session in a write transaction."""

    def expire_versions(
        self, table_id: int, versions: Sequence[int], *, tombstones: Sequence[str], at: datetime
    ) -> None:
        """Makes versions unreadable, and takes down the files that are of no use from now on.

        Lock the table's head first. Tags of these versions go too.
        """
        which = (table_id, self._session.ids(list(versions)))
        moved = self._session.change(_MOVE_SNAPSHOTS, which)
        if moved != len(versions) or self._session.change(_DROP_SNAPSHOTS, which) != moved:
            raise CatalogError(
                f"table {table_id}: versions {list(versions)[:5]} … are not all there; nothing was expired"
            )
        self._session.change(_DROP_TAGS, which)
        since = to_micros(at)
        rows = [(table_id, checked_text(path, "path"), since, EXPIRED, "") for path in tombstones]
        self._session.insert(TOMBSTONE, rows)

    def forget_files(self, table_id: int, paths: Sequence[str], file_ids: Sequence[int]) -> None:
        """Forgets files that were deleted: tombstones, entries, and segments of which nothing is left."""
        if file_ids:
            # With the head, so that commits and this take turns: who looks for conflicts sees all of it or nothing.
            self._session.row(_LOCK_HEAD, (table_id,))
            which = (table_id, self._session.ids(list(file_ids)), LIVE)
            dead = self._session.rows(_DEAD, which)
            if dead:
                self._session.change(_DROP_FILES, which)
                drop_footers(self._session, table_id, file_ids)
                self._session.change(_SET_FORGOTTEN, (table_id, max(removed for removed, _ in dead), 0))
                self._drop_orphans(table_id, sorted({segment_id for _, segment_id in dead}))
        for path in paths:
            self._session.change(_DROP_TOMBSTONE, (table_id, path))

    def purge_table(self, table_id: int) -> bool:
        """Makes sure that a dropped table is never brought back; False if it is live, or purged already."""
        row = self._session.row(_LOCK_HEAD, (table_id,))
        forgotten, purged = self._retention(table_id)
        if row is None or row[0] or purged:
            return False
        self._session.change(_SET_PURGED, (table_id, forgotten, _PURGED))
        return True

    def forget_table(self, table_id: int) -> None:
        """Forgets all versions and files of a purged table; its id and name stay on record."""
        if not self._retention(table_id)[1]:
            raise CatalogError(f"table {table_id} is not purged; nothing of it was forgotten")
        for name in _TABLES_OF_A_TABLE:
            self._session.change(f"DELETE FROM {name} WHERE table_id = ?", (table_id,))  # noqa: S608 (own names)
        self._session.change(_SET_PURGED, (table_id, LIVE, _FORGOTTEN))

    def hold_versions(self, lease: ReaderLease) -> None:
        """Takes a reader's lease down, or renews it."""
        name, who = checked_text(lease.lease_id, "lease"), checked_text(lease.who, "lease's owner")
        until = to_micros(lease.until)
        self._session.change(_HOLD, (name, lease.table_id, lease.first, lease.last, who, until))

    def release_versions(self, lease_id: str) -> None:
        """Ends a reader's lease."""
        self._session.change(_RELEASE, (checked_text(lease_id, "lease"),))

    def clear_leases(self, before: datetime) -> None:
        """Forgets leases of readers that ran out before the moment."""
        self._session.change(_CLEAR, (to_micros(before),))

    def _drop_orphans(self, table_id: int, segment_ids: list[int]) -> None:
        """Drops those of the segments whose files are all forgotten; who has them in mind reads the cover again."""
        used = {row[0] for row in self._session.rows(_USED_SEGMENTS, (table_id, self._session.ids(segment_ids)))}
        orphans = [segment_id for segment_id in segment_ids if segment_id not in used]
        if orphans:
            self._session.change(_DROP_PAGES, (table_id, self._session.ids(orphans)))
            self._session.change(_DROP_SEGMENTS, (table_id, self._session.ids(orphans)))
