"""The ports: what the use cases ask of catalogs, stores and engines.

Adapters implement these and know nothing of one another; `wiring.py` brings them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa

from parqlake.core.model import (
    DataFile,
    FileEntry,
    Head,
    Operation,
    Segment,
    Snapshot,
    TableInfo,
    Tag,
    TransactionRecord,
)
from parqlake.core.names import TableName
from parqlake.core.pages import KeyRange, Page
from parqlake.core.predicates.tree import Predicate
from parqlake.core.retention_port import RetentionReader, RetentionWriter
from parqlake.core.store_port import Store as Store  # noqa: PLC0414 (all ports are had from here)
from parqlake.core.store_port import StoredFile as StoredFile  # noqa: PLC0414


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished Parquet file, as handed to `file_visitor`.

    Attributes:
        path: the file's path, relative to the table's location.
        metadata: the writer's own `pyarrow.parquet.FileMetaData`.
        size: bytes on the store.
    """

    path: str
    metadata: Any
    size: int


FileVisitor = Callable[[WrittenFile], None]
BatchCheck = Callable[[pa.RecordBatch], None]
"""Looks at each batch before it is written, and raises if it must not be."""


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """How data becomes files: everything an engine needs to know, and nothing of catalogs."""

    location: str
    """Folder of the table, relative to the store's root."""
    schema: pa.Schema
    """The table's schema, with field ids in the metadata of each field."""
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    target_file_bytes: int = 128 * 1024 * 1024
    max_rows_per_file: int | None = None
    row_group_rows: int = 1024 * 1024
    row_group_bytes: int = 64 * 1024 * 1024
    compression: str = "zstd"
    memory_bytes: int = 256 * 1024 * 1024
    """How much a partitioned write may hold in memory before it spills."""
    footer: Mapping[str, str] = field(default_factory=dict)
    """Key-value metadata for each file's footer."""
    file_visitor: FileVisitor | None = None
    rows_visitor: Callable[[int], object] | None = None  # told how many rows were rewritten just now


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to read: which row groups of it, and the rows and bytes they hold."""

    path: str
    """Relative to the store's root."""
    size_bytes: int
    row_groups: tuple[int, ...] | None
    """None: all of them."""
    row_count: int
    """Rows in the row groups named."""
    read_bytes: int
    """Compressed bytes of the row groups named, all columns."""
    partition: Mapping[str, Any]
    file_id: int
    schema_id: int
    footer: bytes | None = field(default=None, repr=False)
    """Packed by `core.footers`, if the catalog was asked for it; None: it is read from the file."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read: a pure value. Engines carry it out as it stands."""

    schema: pa.Schema
    """The table's schema at the version read."""
    files: tuple[PlannedFile, ...]
    predicate: Predicate | None = None
    """Bound; rows for which it is not TRUE are left out. None keeps all."""
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    file_schemas: Mapping[int, pa.Schema] = field(default_factory=dict)
    """By `PlannedFile.schema_id`, with field ids: how files are stored that have to be read through a projection,
    see `core.evolution.projection`. Files of other schema ids are as `schema` says."""


class Engine(Protocol):
    """Carries plans out; decides nothing, commits nothing."""

    @property
    def name(self) -> str:
        """How users choose it: `engine="…"`."""

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises `UnsupportedTypeError`, naming the column, for what this engine cannot hold."""

    def write(self, data: pa.RecordBatchReader, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Writes the rows, whose schema is exactly `spec.schema`, to final files and describes them.

        Streams: memory is bounded by the open row groups, not by the data. The files are durable on
        return. On an exception files may be left behind; no version refers to them.
        """

    def rewrite(self, plan: ReadPlan, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names and writes it again by the spec, streaming."""


class FrameEngine(Engine, Protocol):
    """An engine that writes data frames of its own kind where their rows are, on many machines perhaps."""

    def frame_schema(self, frame: Any) -> pa.Schema:
        """The Arrow schema of a data frame; nothing is computed."""

    def write_frame(
        self, frame: Any, spec: WriteSpec, store: Store, checks: Sequence[BatchCheck] = ()
    ) -> list[DataFile]:
        """Writes the rows, cast to `spec.schema`, to final files, and describes them; see `Engine.write`."""


class Reader(Protocol):
    """Turns a plan into Arrow data."""

    def dataset(self, plan: ReadPlan, store: Store) -> Any:
        """A `pyarrow.dataset.FileSystemDataset` of exactly the planned row groups, unfiltered within them."""

    def batches(self, plan: ReadPlan, store: Store) -> pa.RecordBatchReader:
        """The rows, filtered, projected, limited, and cast to the plan's schema, as a stream."""


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """What one commit does to one table, with every decision made: the catalog only writes it down."""

    table_id: int
    base: Head
    """The head that was locked; the new version is `base.version + 1`."""
    operation: Operation
    data_change: bool
    add: Sequence[DataFile]
    remove: Sequence[FileEntry]
    """Live files to mark as removed by this version."""
    schema: pa.Schema | None = None
    """A new schema, or None to keep the one of `base`."""
    readd: Sequence[FileEntry] = ()
    """Entries of earlier versions that become live again under a new file id (restore)."""
    carried_rows: int = 0
    """Rows that stand both in removed and in added files: they count neither as removed nor as added."""
    summary: Mapping[str, Any] = field(default_factory=dict)


class CatalogReader(RetentionReader, Protocol):
    """One consistent view of the catalog: all answers come from the same moment."""

    def table(self, name: TableName) -> TableInfo | None:
        """The live table of that name."""

    def table_by_id(self, table_id: int) -> TableInfo | None:
        """The table, dropped or not."""

    def tables(self, namespace: str | None = None) -> list[TableInfo]:
        """All live tables, by name."""

    def dropped_tables(self, name: TableName) -> list[TableInfo]:
        """Dropped tables that last bore that name, latest drop first."""

    def head(self, table_id: int) -> Head:
        """The newest version of one table; `TableNotFoundError` if the id is unknown."""

    def heads(self) -> dict[int, Head]:
        """The newest version of every live table, all from one moment."""

    def schema(self, table_id: int, schema_id: int) -> pa.Schema:
        """A schema of the table's history, with field ids."""

    def snapshot(self, table_id: int, version: int) -> Snapshot | None:
        """One version."""

    def snapshots(self, table_id: int, *, limit: int | None = None, after: int = 0) -> list[Snapshot]:
        """Versions above `after`, newest first."""

    def snapshot_as_of(self, table_id: int, moment: datetime) -> Snapshot | None:
        """The newest version committed at or before the moment."""

    def tags(self, table_id: int) -> list[Tag]:
        """All tags of a table, by name."""

    def files(self, table_id: int, version: int, file_ids: Sequence[int] | None = None) -> list[FileEntry]:
        """Files that belong to the version (of those ids, if given), by file id."""

    def files_added(self, table_id: int, *, after: int, until: int) -> list[FileEntry]:
        """Files with `after < added <= until`, whether or not still live."""

    def files_removed(self, table_id: int, *, after: int, until: int) -> list[FileEntry]:
        """Files with `after < removed <= until`."""

    def segment_ids(self, table_id: int, version: int, ranges: Sequence[KeyRange] = ()) -> list[int]:
        """Segments that may hold row groups of the version inside all ranges, from page bounds alone."""

    def segments(self, table_id: int, segment_ids: Sequence[int]) -> list[Segment]:
        """The segments, in the order asked for."""

    def pages(self, table_id: int, column_id: int, segment_ids: Sequence[int]) -> dict[int, Page]:
        """Statistics pages of a column by segment; a missing one means unknown."""

    def footers(self, table_id: int, file_ids: Sequence[int]) -> dict[int, bytes]:
        """The packed footers of those files that have one in the catalog, by file id; see `core.footers`."""

    def transaction(self, txn_id: str) -> TransactionRecord | None:
        """One row of the registry."""

    def transaction_by_key(self, idempotency_key: str) -> TransactionRecord | None:
        """The committed transaction that used the key."""

    def transactions(self, *, status: str | None = None, limit: int | None = None) -> list[TransactionRecord]:
        """Rows of the registry, newest first."""


class CatalogWriter(CatalogReader, RetentionWriter, Protocol):
    """One SQL transaction that writes. It commits when its context ends well, and rolls back otherwise."""

    def lock(self, table_ids: Iterable[int]) -> dict[int, Head]:
        """Locks the heads, in sorted order, until the end; returns them as they now are.

        Ids of dropped or unknown tables are missing from the answer.
        """

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

    def drop_table(self, table_id: int, at: datetime) -> None:
        """Takes the table's name away and marks it as dropped; its files stay."""

    def undrop_table(self, table_id: int, name: TableName) -> None:
        """Gives a dropped table a name again; `TableExistsError` if it is taken."""

    def rename_table(self, table_id: int, name: TableName) -> None:
        """Changes the name; `TableExistsError` if it is taken. The location stays."""

    def set_properties(self, table_id: int, properties: Mapping[str, str]) -> None:
        """Replaces the table's properties."""

    def set_tag(self, tag: Tag) -> None:
        """Creates the tag, or moves it."""

    def delete_tag(self, table_id: int, name: str) -> bool:
        """Deletes the tag; False if there was none."""

    def add_snapshot(self, new: NewSnapshot, *, txn_id: str, committed_at: datetime) -> Snapshot:
        """Writes version `new.base.version + 1`.

        Compare-and-swap on the head and on each file's `removed` mark: `ConflictError` if either is not
        as expected. The commit time is moved up if needed, so that times rise with versions.
        """

    def finish_transaction(self, txn_id: str, *, versions: Mapping[int, int], at: datetime) -> None:
        """Marks the open transaction as committed and binds its idempotency key.

        `TransactionExpiredError` if it is not open any more; `IdempotencyKeyUsed` if the key is taken.
        """

    def add_tombstones(self, table_id: int, paths: Sequence[str], *, txn_id: str, reason: str, at: datetime) -> None:
        """Records files that no version refers to."""


class Catalog(Protocol):
    """The one source of truth for which files make up which version of which table."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""

    @property
    def lake_id(self) -> str:
        """The identity that the catalog shares with its root."""

    @property
    def is_new(self) -> bool:
        """Whether opening it just created it."""

    def read(self, *, settled: bool = False) -> AbstractContextManager[CatalogReader]:
        """A consistent view. `settled`: cheaper, for what a committed version holds; ask again on `CatalogError`."""

    def newest(self, table_id: int) -> tuple[Head, pa.Schema]:
        """The newest version of a table and its schema, as cheaply as can be."""

    def write(self) -> AbstractContextManager[CatalogWriter]:
        """A SQL transaction.

        Raises on leaving: `CatalogBusyError` if it could not begin in time or was chosen as a victim
        (certainly nothing was committed), `UnknownOutcomeError` if the connection broke during COMMIT.
        """

    def begin_transaction(self, record: TransactionRecord, table_ids: Sequence[int] = ()) -> None:
        """Registers an open transaction, before its first file is written."""

    def renew_lease(self, txn_id: str, lease: timedelta) -> bool:
        """Moves the lease of an open transaction on; False if it is not open any more."""

    def abort_transaction(self, txn_id: str) -> bool:
        """Aborts an open transaction for good, after a COMMIT under way; False if it had ended: look it up then."""

    def close(self) -> None:
        """Closes all connections. Closing twice is no error."""


class IdempotencyKeyUsed(Exception):  # noqa: N818 (not an error: the answer is known)
    """The key belongs to a transaction that is committed; its result is the answer."""

    def __init__(self, txn_id: str) -> None:
        """Carries the id of the transaction that used the key first."""
        super().__init__(txn_id)
        self.txn_id = txn_id
