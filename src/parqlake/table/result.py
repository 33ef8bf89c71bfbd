"""What a writing call returns."""

from __future__ import annotations

from dataclasses import dataclass

from parqlake.core.model import FileEntry
from parqlake.core.ports import CatalogReader


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The version that a write made, and what it consists of.

    Attributes:
        version: the new version of the table.
        row_count: rows that were added.
        removed_rows: rows that were removed.
        files: the files that were added, as the catalog describes them.
        transaction_id: the transaction, as `history` shows it.
        replayed: True if an earlier call with the same idempotency key did the work.
    """

    version: int
    row_count: int
    removed_rows: int
    files: tuple[FileEntry, ...]
    transaction_id: str
    replayed: bool = False


def result_of(reader: CatalogReader, table_id: int, version: int, *, replayed: bool = False) -> WriteResult:
    """The result of the commit that made the version, from the catalog."""
    snapshot = reader.snapshot(table_id, version)
    if snapshot is None:  # expired since: the key still answers, the details are gone
        return WriteResult(version, 0, 0, (), "", replayed)
    files = reader.files_added(table_id, after=version - 1, until=version)
    return WriteResult(version, snapshot.added_rows, snapshot.removed_rows, tuple(files), snapshot.txn_id, replayed)
