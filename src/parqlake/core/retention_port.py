"""What upkeep and records ask of a catalog; part of the ports `CatalogReader` and `CatalogWriter`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from parqlake.core.health_port import HealthReader, HealthWriter
from parqlake.core.model import Snapshot, TableInfo
from parqlake.core.records_port import RecordReader, RecordWriter
from parqlake.core.retention import FileSpan, ReaderLease, Tombstone


class RetentionReader(HealthReader, RecordReader, Protocol):
    """What is kept, what is not, and who needs it. `snapshot` and the like tell of kept versions only."""

    def kept_versions(self, table_id: int, *, first: int = 1, last: int | None = None) -> list[int]:
        """The kept versions from `first` to `last`, sorted."""

    def expired_snapshots(self, table_id: int, *, after: int = 0) -> list[Snapshot]:
        """Versions above `after` that are not kept any more, newest first."""

    def expired_as_of(self, table_id: int, moment: datetime) -> int | None:
        """The newest expired version that was committed at or before the moment."""

    def forgotten_until(self, table_id: int) -> int:
        """Of what was removed in or before this version, not all is known any more; 0 if all is."""

    def file_spans(self, table_id: int) -> list[FileSpan]:
        """All files that the catalog knows, of kept versions or not."""

    def tombstones(self, table_id: int) -> list[Tombstone]:
        """Files that no kept version refers to, and that are still to be deleted or forgotten."""

    def reader_leases(self, at: datetime) -> list[ReaderLease]:
        """Leases of readers that have not run out at the moment."""

    def tables_on_record(self) -> list[TableInfo]:
        """All tables, dropped ones too, but for those whose files a vacuum has begun to delete for good."""

    def purged_tables(self) -> list[TableInfo]:
        """Dropped tables that cannot be brought back, whose files are still to be deleted."""

    def transaction_tables(self, txn_id: str) -> list[int]:
        """The tables that a transaction said it would write to when it began."""


class RetentionWriter(RetentionReader, HealthWriter, RecordWriter, Protocol):
    """What is written down when versions and files go."""

    def expire_versions(
        self, table_id: int, versions: Sequence[int], *, tombstones: Sequence[str], at: datetime
    ) -> None:
        """Makes versions unreadable, and takes down the files that are of no use from now on.

        Lock the table's head first. Tags of these versions go too.
        """

    def forget_files(self, table_id: int, paths: Sequence[str], file_ids: Sequence[int]) -> None:
        """Forgets files that were deleted: tombstones, entries, and segments of which nothing is left."""

    def purge_table(self, table_id: int) -> bool:
        """Makes sure that a dropped table is never brought back; False if it is live, or purged already."""

    def forget_table(self, table_id: int) -> None:
        """Forgets all versions and files of a purged table; its id and name stay on record."""

    def hold_versions(self, lease: ReaderLease) -> None:
        """Takes a reader's lease down, or renews it."""

    def release_versions(self, lease_id: str) -> None:
        """Ends a reader's lease."""

    def clear_leases(self, before: datetime) -> None:
        """Forgets leases of readers that ran out before the moment."""
