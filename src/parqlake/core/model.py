"""The values that rooms hand to one another. All frozen; none does I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.names import TableName

LIVE = 2**63 - 1
"""The `removed` version of a file that no version has removed."""

UintArray = npt.NDArray[np.uint64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Operation(StrEnum):
    """What made a version."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    COMPACT = "compact"
    OPTIMIZE = "optimize"
    RESTORE = "restore"
    EVOLVE = "evolve"
    IMPORT = "import"


class TransactionStatus(StrEnum):
    """Where a transaction stands. It leaves `open` once, and never comes back."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Order keys of one leaf column, one entry for each row group of one file.

    `mins` and `maxs` are uint64 arrays for fixed-width types, or lists of bytes for strings and binary
    (see `core.keys`). They are bounds, not values. `nulls` counts NULLs; -1 is unknown.
    """

    column_id: int
    mins: UintArray | list[bytes]
    maxs: UintArray | list[bytes]
    nulls: IntArray


@dataclass(frozen=True, slots=True)
class DataFile:
    """One immutable Parquet file, as its writer described it; the catalog gives it an id on commit."""

    path: str
    """See `core.names.stored_path`."""
    size_bytes: int
    row_count: int
    row_group_rows: IntArray
    row_group_bytes: IntArray
    row_group_offsets: IntArray
    partition: Mapping[str, Any] = field(default_factory=dict)
    """Partition column to its value as JSON-able text or None; empty for an unpartitioned table."""
    statistics: tuple[ColumnStatistics, ...] = ()
    schema: pa.Schema | None = None
    """How the file is stored, with field ids, if that is not what the schema of its version says."""
    footer: bytes | None = field(default=None, repr=False)
    """For files on stores that are not local: see `core.footers`."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A data file as the catalog knows it: the versions that it belongs to are [added, removed)."""

    file_id: int
    path: str
    size_bytes: int
    row_count: int
    row_group_count: int
    partition: Mapping[str, Any]
    schema_id: int
    added: int
    removed: int = LIVE


@dataclass(frozen=True, slots=True)
class Segment:
    """A list of row groups that were committed together; never changes once written."""

    segment_id: int
    file_ids: IntArray
    row_group_counts: IntArray
    """Row groups of each file, in the order of `file_ids`."""
    rows: IntArray
    """Rows of each row group."""
    sizes: IntArray
    """Compressed bytes of each row group."""
    offsets: IntArray
    """Where each row group starts in its file."""

    @property
    def row_group_count(self) -> int:
        """Row groups in all files of the segment."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What stays the same over a table's versions, save by rename and property changes."""

    table_id: int
    uuid: str
    name: TableName
    location: str
    """Relative to the lake's root."""
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    properties: Mapping[str, str]
    created_at: datetime
    dropped_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a table, and the counters that its next commit draws ids from."""

    table_id: int
    version: int
    schema_id: int
    next_file: int
    next_segment: int
    live: bool = True
    """False once the table is dropped."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed version of one table."""

    table_id: int
    version: int
    schema_id: int
    committed_at: datetime
    operation: Operation
    txn_id: str
    data_change: bool
    """False for compaction and the like, which change files but no rows."""
    row_count: int
    file_count: int
    row_group_count: int
    size_bytes: int
    added_files: int
    removed_files: int
    added_rows: int
    removed_rows: int
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A row of the transaction registry: who does what, since when, and how it ended."""

    txn_id: str
    status: TransactionStatus
    who: str
    started_at: datetime
    lease_until: datetime
    operation: str
    engine: str
    message: str | None = None
    idempotency_key: str | None = None
    ended_at: datetime | None = None
    versions: Mapping[int, int] = field(default_factory=dict)
    """Table id to the version that this transaction made, once committed."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version, which keeps that version from being expired."""

    table_id: int
    name: str
    version: int
    created_at: datetime


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 of an aware datetime."""
    delta = moment.astimezone(UTC) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_micros(micros: int) -> datetime:
    """The aware datetime of microseconds since 1970."""
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
