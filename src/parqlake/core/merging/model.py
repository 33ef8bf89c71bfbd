"""The values of a merge: the rule, the target, and what came of it. All frozen; none does I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from parqlake.core.merging.clauses import MergeClauses
from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.core.predicates.tree import Predicate

DEFAULT_MEMORY_BYTES = 512 * 1024 * 1024
"""What a merge may hold in memory before it puts rows aside on disk."""


class MergeStrategy(StrEnum):
    """What happens to rows that match, to source rows that do not, and to target rows that do not."""

    UPSERT = "upsert"
    INSERT = "insert"
    UPDATE = "update"
    FULL_MERGE = "full_merge"
    DEDUPLICATE = "deduplicate"

    @property
    def inserts(self) -> bool:
        """Whether source rows without a match are added."""
        return self is not MergeStrategy.UPDATE

    @property
    def updates(self) -> bool:
        """Whether target rows with a match get the source's values."""
        return self is not MergeStrategy.INSERT

    @property
    def deletes(self) -> bool:
        """Whether target rows without a match are taken away."""
        return self is MergeStrategy.FULL_MERGE


class DuplicateKeysWarning(UserWarning):
    """The source holds a key more than once, and nobody said which row to take."""


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How rows are matched and what is done with them; made by `merge_rule`, which checks it."""

    keys: tuple[str, ...]
    strategy: MergeStrategy
    dedup_order_by: tuple[str, ...] = ()
    """Of source rows with the same key the one with the highest values here is taken; the last one of equals."""
    update_columns: tuple[str, ...] | None = None
    """Columns that a match changes; None is all of them."""
    where: Predicate | None = None
    """Bound; only target rows for which it is TRUE are changed or deleted. A source row whose key another row has
    changes nothing, and is not inserted either. None: all rows."""
    clauses: MergeClauses | None = None
    """What is done instead of what the strategy says, if clauses say it. The strategy then tells whether rows without a
    match may change, and the predicate which of those."""

    @property
    def warns(self) -> bool:
        """Whether duplicate keys in the source deserve a warning: nobody said which row is meant."""
        return self.strategy is not MergeStrategy.DEDUPLICATE and not self.dedup_order_by


@dataclass(frozen=True, slots=True)
class TargetFile:
    """One Parquet file of the target, with whatever is known of it beforehand."""

    path: str
    """Relative to the store's root."""
    row_count: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Partition column to its value as text (see `core.partitioning`), None for NULL."""
    key_bounds: Mapping[str, tuple[Any, Any]] | None = None
    """Lowest and highest value of key columns, both inclusive; None: look into the file's footer."""
    keys_not_null: bool = False
    """Whether it is known that no key column holds a NULL; else the file is asked."""
    stored_schema: pa.Schema | None = None
    """With field ids: what the file was written as, if its rows are to be seen through a projection on the target's
    schema (see `core.evolution.projection`). None: columns are found by their names."""

    new_folder: str | None = None
    """Where a rewritten one goes, if not to the folder of this one: what was imported lies where others write."""

    @property
    def folder(self) -> str:
        """The folder that a rewritten file goes to: that which the file lies in, as a rule."""
        return self.path.rpartition("/")[0] if self.new_folder is None else self.new_folder


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """Where the rows go: the files that are there, and how new ones are made."""

    store: Store
    files: tuple[TargetFile, ...]
    spec: WriteSpec
    """Schema, partition columns, location, compression, sizes. The schema has all columns, partition columns too."""
    new_path: Callable[[str], str]
    """Takes a folder and returns the path of a file to be written there, both relative to the store's root."""
    partition_in_files: bool = True
    """Whether new files hold the partition columns too, or only their folders' names do."""
    keep_schema: bool = True
    """Whether a merge that leaves no row writes one file without rows, so that the columns are not forgotten."""
    worker_path: Callable[[str], str] | None = None
    """Like `new_path`, but called in other processes, more often than there are files: it is sent there, and no two
    calls give the same path. Engines that write in this process need none."""

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of new files."""
        if self.partition_in_files or not self.spec.partition_by:
            return self.spec.schema
        inside = [item for item in self.spec.schema if item.name not in self.spec.partition_by]
        return pa.schema(inside, metadata=self.spec.schema.metadata)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """One new file: written, durable, and known to nobody but the caller."""

    path: str
    row_count: int
    size_bytes: int
    partition: Mapping[str, str | None]
    replaces: str | None
    """Path of the target file whose rows these are; None if they were inserted or came from another partition."""
    metadata: Any
    """The writer's own `pyarrow.parquet.FileMetaData`; None if another process wrote the file."""
    nans: frozenset[tuple[int, int]] = frozenset()
    """Row groups and leaf columns that hold a NaN, as `core.statistics.describe_file` wants them."""
    data_file: DataFile | None = None
    """The catalog's record, its path relative to the location, where another process wrote the file by a schema with
    field ids; else `metadata` tells all."""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What really happened, in rows."""

    inserted: int
    updated: int
    """Target rows that got the source's values; every one, if the target holds a key more than once."""
    deleted: int
    total: int
    """Rows of the target afterwards."""

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "total": self.total,
        }


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """What a caller has to publish, all or nothing: these files go, those come."""

    removed: tuple[TargetFile, ...]
    added: tuple[AddedFile, ...]
    counts: MergeCounts
    read: tuple[TargetFile, ...] = ()
    """Files whose keys were looked at; those that statistics ruled out are not among them."""
    key_bounds: Mapping[str, tuple[pa.Scalar, pa.Scalar]] = field(default_factory=dict)
    """Lowest and highest key of the source, for columns that have an order: what was looked for, found or not."""
