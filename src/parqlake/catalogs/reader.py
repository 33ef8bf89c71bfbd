"""Reading the catalog: all answers of one reader come from the same moment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from parqlake.catalogs.cache import Cache
from parqlake.catalogs.cover import Cover, read_cover, with_bounds
from parqlake.catalogs.dialect import Session
from parqlake.catalogs.footers import FooterReads
from parqlake.catalogs.health import HealthReads
from parqlake.catalogs.records import RecordReads
from parqlake.catalogs.retention import RetentionReads
from parqlake.catalogs.rows import (
    FILE_COLUMNS,
    HEAD_COLUMNS,
    checked_text,
    files_of,
    head_of,
    snapshot_of,
    table_of,
    tag_of,
    transaction_of,
)
from parqlake.catalogs.segments import decode_segment
from parqlake.catalogs.tables import (
    FILE,
    LAKE_TABLE,
    SCHEMA_VERSION,
    SEGMENT,
    SNAPSHOT,
    STATISTIC,
    TABLE_HEAD,
    TAG,
    TXN,
)
from parqlake.core.errors import CatalogError, InvalidOptionError, TableNotFoundError, VersionNotFoundError
from parqlake.core.model import (
    LIVE,
    FileEntry,
    Head,
    Segment,
    Snapshot,
    TableInfo,
    Tag,
    TransactionRecord,
    TransactionStatus,
    to_micros,
)
from parqlake.core.names import TableName
from parqlake.core.pages import KeyRange, Page, unpack

_LONG_LIST = 1_500
"""Above this many ids, a range of the key and a look at each row is quicker than a search for each id."""

_NO_LIMIT = 2**53
_ENTRY_BYTES = 500
"""About what the entry of a file takes in memory."""

_TABLE = LAKE_TABLE.select(
    "WHERE table_id = (SELECT table_id FROM table_name WHERE namespace = ? AND name = ?)",
)
_TABLE_BY_ID = LAKE_TABLE.select("WHERE table_id = ?")
_TABLES = LAKE_TABLE.select("WHERE dropped_at IS NULL")
_TABLES_IN = LAKE_TABLE.select("WHERE dropped_at IS NULL AND namespace = ?")
_DROPPED = LAKE_TABLE.select(
    "WHERE namespace = ? AND name = ? AND dropped_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM retention r"
    " WHERE r.table_id = lake_table.table_id AND r.purged > 0) ORDER BY dropped_at DESC, table_id DESC"
)
_HEAD = TABLE_HEAD.select("WHERE table_id = ?", *HEAD_COLUMNS)
_HEADS = TABLE_HEAD.select("WHERE live = 1", *HEAD_COLUMNS)
_SCHEMA = SCHEMA_VERSION.select("WHERE table_id = ? AND schema_id = ?", "arrow_schema")
_SNAPSHOT = SNAPSHOT.select("WHERE table_id = ? AND version = ?")
_SNAPSHOTS = SNAPSHOT.select("WHERE table_id = ? AND version > ? ORDER BY version DESC LIMIT ?")
# Times rise with versions, so the newest time is the newest version, and an index on time finds it at once.
_AS_OF = SNAPSHOT.select("WHERE table_id = ? AND committed_at <= ? ORDER BY committed_at DESC LIMIT 1")
_TAGS = TAG.select("WHERE table_id = ?")
_IDS_AFTER = SNAPSHOT.select("WHERE table_id = ? AND version >= ? ORDER BY version LIMIT 1", "next_file")
_IDS_BEFORE = SNAPSHOT.select("WHERE table_id = ? AND version <= ? ORDER BY version DESC LIMIT 1", "next_file")
# The unary plus keeps an index from being used: here the key's range is the short way, there the index.
_FILES_NOW = FILE.select("WHERE table_id = ? AND removed > ? AND +added <= ?", *FILE_COLUMNS)
_FILES_THEN = FILE.select("WHERE table_id = ? AND file_id < ? AND added <= ? AND +removed > ?", *FILE_COLUMNS)
_FILES_LISTED = FILE.select("WHERE table_id = ? AND file_id = ANY_OF(?) AND added <= ? AND +removed > ?", *FILE_COLUMNS)
_FILES_BETWEEN = FILE.select(
    "WHERE table_id = ? AND file_id BETWEEN ? AND ? AND added <= ? AND +removed > ?", *FILE_COLUMNS
)
_FILES_ADDED = FILE.select(
    "WHERE table_id = ? AND file_id >= ? AND file_id < ? AND added > ? AND added <= ?", *FILE_COLUMNS
)
_FILES_REMOVED = FILE.select("WHERE table_id = ? AND removed > ? AND removed <= ?", *FILE_COLUMNS)
_SEGMENTS = SEGMENT.select("WHERE table_id = ? AND segment_id = ANY_OF(?)", "segment_id", "contents")
_PAGES = STATISTIC.select(
    "WHERE table_id = ? AND segment_id = ANY_OF(?) AND column_id = ?", "segment_id", "data", "nulls"
)
_TRANSACTION = TXN.select("WHERE txn_id = ?")
_BY_KEY = TXN.select("WHERE txn_id = (SELECT txn_id FROM idempotency WHERE idempotency_key = ?)")
_TRANSACTIONS = TXN.select("ORDER BY started_at DESC, txn_id DESC LIMIT ?")
# Written out for each status, since an index on open transactions only serves a query that says so itself.
_TRANSACTIONS_IN = {
    status: TXN.select(f"WHERE status = '{status}' ORDER BY started_at DESC, txn_id DESC LIMIT ?")
    for status in TransactionStatus
}


class SqlReader(RetentionReads, HealthReads, RecordReads, FooterReads):
    """The port `CatalogReader` over a session in a transaction."""

    def __init__(self, session: Session, cache: Cache, *, fills_cache: bool = True) -> None:
        """A reader inside a write transaction must not fill the cache: what it sees may be rolled back."""
        self._session = session
        self._cache = cache
        self._fills_cache = fills_cache

    # ---- tables and versions

    def table(self, name: TableName) -> TableInfo | None:
        """The live table of that name."""
        row = self._session.row(_TABLE, _parts(name))
        return None if row is None else table_of(row)

    def table_by_id(self, table_id: int) -> TableInfo | None:
        """The table, dropped or not."""
        row = self._session.row(_TABLE_BY_ID, (table_id,))
        return None if row is None else table_of(row)

    def tables(self, namespace: str | None = None) -> list[TableInfo]:
        """All live tables, by name."""
        if namespace is None:
            found = self._session.rows(_TABLES)
        else:
            found = self._session.rows(_TABLES_IN, (checked_text(namespace, "namespace"),))
        return sorted((table_of(row) for row in found), key=lambda info: info.name)

    def dropped_tables(self, name: TableName) -> list[TableInfo]:
        """Dropped tables that last bore that name and can be brought back, latest drop first."""
        return [table_of(row) for row in self._session.rows(_DROPPED, _parts(name))]

    def head(self, table_id: int) -> Head:
        """The newest version of one table; `TableNotFoundError` if the id is unknown."""
        row = self._session.row(_HEAD, (table_id,))
        if row is None:
            raise TableNotFoundError(f"the catalog has no table with id {table_id}")
        return head_of(row)

    def heads(self) -> dict[int, Head]:
        """The newest version of every live table, all from one moment."""
        return {row[0]: head_of(row) for row in self._session.rows(_HEADS)}

    def schema(self, table_id: int, schema_id: int) -> pa.Schema:
        """A schema of the table's history, with field ids."""
        key = ("schema", table_id, schema_id)
        known = self._cache.get_many([key])
        if known:
            return known[key]
        row = self._session.row(_SCHEMA, (table_id, schema_id))
        if row is None:
            raise VersionNotFoundError(f"table {table_id} has no schema {schema_id}")
        schema = pa.ipc.read_schema(pa.py_buffer(row[0]))
        self._remember(key, schema, len(row[0]))
        return schema

    def snapshot(self, table_id: int, version: int) -> Snapshot | None:
        """One version."""
        if not 0 < version < LIVE:
            return None
        row = self._session.row(_SNAPSHOT, (table_id, version))
        return None if row is None else snapshot_of(row)

    def snapshots(self, table_id: int, *, limit: int | None = None, after: int = 0) -> list[Snapshot]:
        """Versions above `after`, newest first."""
        rows = self._session.rows(_SNAPSHOTS, (table_id, after, _NO_LIMIT if limit is None else limit))
        return [snapshot_of(row) for row in rows]

    def snapshot_as_of(self, table_id: int, moment: datetime) -> Snapshot | None:
        """The newest version committed at or before the moment."""
        row = self._session.row(_AS_OF, (table_id, to_micros(moment)))
        return None if row is None else snapshot_of(row)

    def tags(self, table_id: int) -> list[Tag]:
        """All tags of a table, by name."""
        return sorted((tag_of(row) for row in self._session.rows(_TAGS, (table_id,))), key=lambda tag: tag.name)

    # ---- files

    def files(self, table_id: int, version: int, file_ids: Sequence[int] | None = None) -> list[FileEntry]:
        """Files that belong to the version (of those ids, if given), by file id."""
        rows = self._session.rows
        if file_ids is None:
            bound = self._ids_until(table_id, version)
            if bound is None:
                return files_of(rows(_FILES_NOW, (table_id, version, version)))
            return files_of(rows(_FILES_THEN, (table_id, bound, version, version)))
        ids = _plain(file_ids)
        if not ids:
            return []
        if len(ids) <= _LONG_LIST:
            return self._listed_files(table_id, version, ids)
        wanted = set(ids)
        found = rows(_FILES_BETWEEN, (table_id, min(ids), max(ids), version, version))
        return files_of(row for row in found if row[0] in wanted)

    def _listed_files(self, table_id: int, version: int, ids: Sequence[int]) -> list[FileEntry]:
        """Whether a file belongs to a version never changes once the version is there, so it is remembered.

        When it was removed may change later, and a writer must know: it asks.
        """
        known = self._cache.get_many(("file", table_id, version, i) for i in ids) if self._fills_cache else {}
        found: dict[int, FileEntry | None] = {key[3]: entry for key, entry in known.items()}  # type: ignore[index]
        missing = [i for i in ids if i not in found]
        if missing:
            rows = self._session.rows(_FILES_LISTED, (table_id, self._session.ids(missing), version, version))
            found.update((entry.file_id, entry) for entry in files_of(rows))
            for i in missing:
                self._remember(("file", table_id, version, i), found.get(i), _ENTRY_BYTES)
        return [entry for i in sorted(found) if (entry := found[i]) is not None]

    def files_added(self, table_id: int, *, after: int, until: int) -> list[FileEntry]:
        """Files with `after < added <= until`, whether or not still live."""
        before = self._session.row(_IDS_BEFORE, (table_id, after))
        end = self._session.row(_IDS_AFTER, (table_id, until))
        bounds = (0 if before is None else before[0], LIVE if end is None else end[0])
        return files_of(self._session.rows(_FILES_ADDED, (table_id, *bounds, after, until)))

    def files_removed(self, table_id: int, *, after: int, until: int) -> list[FileEntry]:
        """Files with `after < removed <= until`."""
        return files_of(self._session.rows(_FILES_REMOVED, (table_id, after, min(until, LIVE - 1))))

    def _ids_until(self, table_id: int, version: int) -> int | None:
        """The first file id above those of the version; None if it is the newest one."""
        row = self._session.row(_HEAD, (table_id,))
        if row is None or row[1] <= version:
            return None
        end = self._session.row(_IDS_AFTER, (table_id, version))
        return LIVE if end is None else int(end[0])

    # ---- segments and statistics

    def segment_ids(self, table_id: int, version: int, ranges: Sequence[KeyRange] = ()) -> list[int]:
        """Segments that may hold row groups of the version inside all ranges, from page bounds alone."""
        columns = {range_.column_id for range_ in ranges}
        key = ("cover", table_id)
        known: Cover | None = self._cache.get_many([key]).get(key)
        if known is not None and version <= known.until:
            cover = with_bounds(self._session, table_id, known, columns, None)
            chosen = cover.chosen(version, ranges)
            # A segment of which bounds were asked for in vain may be gone: then those that took its place have them.
            asked = columns - known.bounds.keys()
            whole = all(len(cover.bounds[column]) == len(cover.added) for column in asked)
            if whole and len(self._load_segments(table_id, chosen)) == len(chosen):
                if len(cover.bounds) > len(known.bounds):
                    self._remember(key, cover, cover.size_bytes)
                return chosen
        cover = with_bounds(self._session, table_id, read_cover(self._session, table_id), columns, known)
        self._remember(key, cover, cover.size_bytes)
        return cover.chosen(version, ranges)

    def segments(self, table_id: int, segment_ids: Sequence[int]) -> list[Segment]:
        """The segments, in the order asked for."""
        ids = _plain(segment_ids)
        found = self._load_segments(table_id, ids)
        try:
            return [found[i] for i in ids]
        except KeyError as error:
            raise CatalogError(f"the catalog has no segment {error} of table {table_id}") from error

    def _load_segments(self, table_id: int, ids: Sequence[int]) -> dict[int, Segment]:
        """Those of the segments that are known or still stored."""
        known = self._cache.get_many(("segment", table_id, i) for i in ids)
        found = {segment.segment_id: segment for segment in known.values()}
        missing = [i for i in ids if i not in found]
        if missing:
            for segment_id, contents in self._session.rows(_SEGMENTS, (table_id, self._session.ids(missing))):
                segment = found[segment_id] = decode_segment(segment_id, contents)
                size = sum(a.nbytes for a in (segment.file_ids, segment.row_group_counts)) + 3 * segment.rows.nbytes
                self._remember(("segment", table_id, segment_id), segment, size)
        return found

    def pages(self, table_id: int, column_id: int, segment_ids: Sequence[int]) -> dict[int, Page]:
        """Statistics pages of a column by segment; a missing one means unknown."""
        ids = _plain(segment_ids)
        known = self._cache.get_many(("page", table_id, column_id, i) for i in ids)
        found: dict[int, Page | None] = {key[3]: page for key, page in known.items()}  # type: ignore[index]
        missing = [i for i in ids if i not in found]
        if missing:
            rows = self._session.rows(_PAGES, (table_id, self._session.ids(missing), column_id))
            found.update((segment_id, unpack(data, nulls)) for segment_id, data, nulls in rows)
            # That there is no page is remembered too: segments never change.
            for i in missing:
                page = found.get(i)
                self._remember(("page", table_id, column_id, i), page, 0 if page is None else page.size_bytes)
        return {i: page for i in ids if (page := found.get(i)) is not None}

    def _remember(self, key: Hashable, value: object, size_bytes: int) -> None:
        if self._fills_cache:
            self._cache.put(key, value, size_bytes)

    # ---- transactions

    def transaction(self, txn_id: str) -> TransactionRecord | None:
        """One row of the registry."""
        row = self._session.row(_TRANSACTION, (checked_text(txn_id, "transaction id"),))
        return None if row is None else transaction_of(row)

    def transaction_by_key(self, idempotency_key: str) -> TransactionRecord | None:
        """The committed transaction that used the key."""
        row = self._session.row(_BY_KEY, (checked_text(idempotency_key, "idempotency key"),))
        return None if row is None else transaction_of(row)

    def transactions(self, *, status: str | None = None, limit: int | None = None) -> list[TransactionRecord]:
        """Rows of the registry, newest first."""
        sql = _TRANSACTIONS
        if status is not None:
            if status not in _TRANSACTIONS_IN:
                raise InvalidOptionError(f"no transaction status {status!r}; there are {', '.join(TransactionStatus)}")
            sql = _TRANSACTIONS_IN[TransactionStatus(status)]
        return [transaction_of(row) for row in self._session.rows(sql, (_NO_LIMIT if limit is None else limit,))]


def _parts(name: TableName) -> tuple[str, str]:
    return checked_text(name.namespace, "namespace"), checked_text(name.name, "table name")


def _plain(ids: Iterable[int]) -> list[int]:
    """The ids as Python's own integers, which drivers can bind."""
    plain: list[int] = ids.tolist() if isinstance(ids, np.ndarray) else [int(i) for i in ids]
    return plain
