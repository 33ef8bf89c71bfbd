"""The catalog's tables, defined once for all databases: columns, keys and indexes.

Times are microseconds since 1970, UTC. `removed` is 2^63-1 for what is live, never NULL, so that one comparison
answers "does it belong to version v". Tables without blobs are small and scanned; blobs stand apart from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a column holds; each database has its own word for it."""

    INTEGER = "integer"
    TEXT = "text"
    BLOB = "blob"
    KEY = "key"
    """Text that is sorted and compared byte by byte, whatever language the database speaks."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; NOT NULL unless said."""

    name: str
    kind: Kind
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index, for the databases that gain by one."""

    name: str
    columns: tuple[str, ...]
    where: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table of the catalog, and the SQL that only depends on its columns."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    covering: tuple[str, ...] = ()
    """Columns to keep beside the key in its index, so that a look at them never touches the blobs."""
    indexes: tuple[Index, ...] = ()

    @property
    def has_blobs(self) -> bool:
        """Whether a column holds blobs."""
        return any(column.kind is Kind.BLOB for column in self.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return tuple(column.name for column in self.columns)

    def select(self, rest: str, *columns: str) -> str:
        """A SELECT of these columns (all, if none are named); values are always parameters."""
        return f"SELECT {', '.join(columns or self.column_names)} FROM {self.name} {rest}"  # noqa: S608 (own names)

    def insert(self, rest: str = "") -> str:
        """An INSERT of one whole row."""
        marks = ", ".join("?" for _ in self.columns)
        return f"INSERT INTO {self.name} ({', '.join(self.column_names)}) VALUES ({marks}) {rest}"  # noqa: S608


def _columns(text: str) -> tuple[Column, ...]:
    """Reads `name kind, name kind?, …`; a question mark allows NULL."""
    pairs = [part.split() for part in text.split(",")]
    return tuple(Column(name, Kind(kind.rstrip("?")), kind.endswith("?")) for name, kind in pairs)


LAKE = Table(
    "lake",
    # One row; `singleton` is always 1, and its key keeps a second lake out of the catalog.
    _columns("singleton integer, lake_id text, format_version integer, created_at integer, next_table integer"),
    key=("singleton",),
)
MIGRATION = Table("migration", _columns("number integer, applied_at integer, applied_by text"), key=("number",))
LAKE_TABLE = Table(
    "lake_table",
    _columns(
        "table_id integer, uuid text, namespace text, name text, location text, partition_by text, sort_by text,"
        " properties text, created_at integer, dropped_at integer?"
    ),
    key=("table_id",),
)
TABLE_NAME = Table("table_name", _columns("namespace text, name text, table_id integer"), key=("namespace", "name"))
TABLE_HEAD = Table(
    "table_head",
    _columns(
        "table_id integer, head integer, schema_id integer, next_file integer, next_segment integer,"
        " next_schema integer, small_segments integer, row_count integer, file_count integer,"
        " row_group_count integer, size_bytes integer, committed_at integer, live integer"
    ),
    key=("table_id",),
)
SCHEMA_VERSION = Table(
    "schema_version",
    _columns("table_id integer, schema_id integer, created_at integer, arrow_schema blob"),
    key=("table_id", "schema_id"),
)
TXN = Table(
    "txn",
    _columns(
        "txn_id text, status text, who text, started_at integer, lease_until integer, operation text, engine text,"
        " message text?, idempotency_key text?, ended_at integer?, versions text"
    ),
    key=("txn_id",),
    indexes=(
        Index("txn_started", ("started_at",)),
        Index("txn_open", ("started_at",), where="status = 'open'"),
    ),
)
TXN_TABLE = Table("txn_table", _columns("txn_id text, table_id integer"), key=("txn_id", "table_id"))
IDEMPOTENCY = Table("idempotency", _columns("idempotency_key text, txn_id text"), key=("idempotency_key",))
SNAPSHOT = Table(
    "snapshot",
    _columns(
        "table_id integer, version integer, schema_id integer, committed_at integer, operation text, txn_id text,"
        " data_change integer, row_count integer, file_count integer, row_group_count integer, size_bytes integer,"
        " added_files integer, removed_files integer, added_rows integer, removed_rows integer, summary text,"
        # Where file ids stood after the version. Ids rise with versions, so that "files added between" is a
        # range of the primary key and needs no index of its own.
        " next_file integer"
    ),
    key=("table_id", "version"),
    indexes=(Index("snapshot_time", ("table_id", "committed_at")),),
)
FILE = Table(
    "file",
    _columns(
        "table_id integer, file_id integer, path text, size_bytes integer, row_count integer,"
        " row_group_count integer, partition_values text, schema_id integer, added integer, removed integer,"
        " segment_id integer"
    ),
    key=("table_id", "file_id"),
    # What is live now is one range of this index, however many dead files the table drags along.
    indexes=(Index("file_removed", ("table_id", "removed")),),
)
SEGMENT = Table(
    "segment",
    # `added` is the first version that any of its files belongs to.
    _columns("table_id integer, segment_id integer, added integer, row_groups integer, contents blob"),
    key=("table_id", "segment_id"),
    covering=("added", "row_groups"),
)
STATISTIC = Table(
    "statistic",
    # By segment first: what a commit adds stands in one place of the index, not in one place for each column.
    _columns(
        "table_id integer, segment_id integer, column_id integer, min_key blob, max_key blob, data blob, nulls blob?"
    ),
    key=("table_id", "segment_id", "column_id"),
    covering=("min_key", "max_key"),
)
TAG = Table(
    "tag", _columns("table_id integer, name text, version integer, created_at integer"), key=("table_id", "name")
)
TOMBSTONE = Table(
    "tombstone",
    _columns("table_id integer, path text, since integer, reason text, txn_id text"),
    key=("table_id", "path"),
)

FIRST_TABLES = (
    LAKE,
    MIGRATION,
    LAKE_TABLE,
    TABLE_NAME,
    TABLE_HEAD,
    SCHEMA_VERSION,
    TXN,
    TXN_TABLE,
    IDEMPOTENCY,
    SNAPSHOT,
    FILE,
    SEGMENT,
    STATISTIC,
    TAG,
    TOMBSTONE,
)
"""The tables of format 1; a later format adds a migration and leaves this list alone."""

PAST_SNAPSHOT = Table("past_snapshot", SNAPSHOT.columns, key=SNAPSHOT.key)
"""Versions that are not kept any more: what conflict detection and questions about a moment need of them."""
RETENTION = Table(
    "retention",
    # `forgotten`: of what was removed up to this version, not all is known any more. `purged`: 1 if a dropped table
    # cannot be brought back, 2 if its files are gone too.
    _columns("table_id integer, forgotten integer, purged integer"),
    key=("table_id",),
)
READER_LEASE = Table(
    "reader_lease",
    _columns(
        "lease_id text, table_id integer, first_version integer, last_version integer, who text, lease_until integer"
    ),
    key=("lease_id",),
)

RETENTION_TABLES = (PAST_SNAPSHOT, RETENTION, READER_LEASE)
"""What format 2 adds."""

RECORD_SCOPE = Table("record_scope", _columns("scope key, last_revision integer"), key=("scope",))
"""Whoever writes records of a scope locks its row first: so revisions rise in the order of commits."""
RECORD = Table(
    "lake_record",
    _columns("scope key, record_key key, revision integer, txn_id text, recorded_at integer, record_value text"),
    key=("scope", "record_key"),
    indexes=(Index("lake_record_revision", ("scope", "revision")),),
)

RECORD_TABLES = (RECORD_SCOPE, RECORD)
"""What format 3 adds."""

FOOTER = Table("footer", _columns("table_id integer, file_id integer, data blob"), key=("table_id", "file_id"))
"""Of files on stores that are not local: see `core.footers`. A file may lack one."""

FOOTER_TABLES = (FOOTER,)
"""What format 4 adds."""
