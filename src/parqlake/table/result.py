"""What a writing call returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parqlake.core.model import FileEntry, Snapshot
from parqlake.core.ports import CatalogReader

BYTES_REWRITTEN = "bytes_rewritten"
"""In a snapshot's summary: bytes of new files that carry on rows of old ones."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """What changing rows came to.

    Attributes:
        version: the version that the change made; the newest one there was, if it changed nothing.
        files_removed: files that the version no longer has.
        files_added: files that it has instead.
        bytes_rewritten: bytes of new files that carry on rows of old ones: what copy-on-write cost.
        transaction_id: the transaction, as `history` shows it; empty if nothing was changed.
        replayed: True if an earlier call with the same idempotency key did the work.
    """

    version: int
    files_removed: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    transaction_id: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult(ChangeResult):
    """What a delete came to.

    Attributes:
        deleted: rows that were taken away.
    """

    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult(ChangeResult):
    """What an update came to.

    Attributes:
        updated: rows that the predicate selected, and that were written anew.
    """

    updated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(ChangeResult):
    """What a merge came to.

    Attributes:
        inserted: source rows that were added.
        updated: rows of the table that got the source's values.
        deleted: rows of the table that were taken away.
        total: rows of the table afterwards.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    total: int = 0


def result_of(reader: CatalogReader, table_id: int, version: int, *, replayed: bool = False) -> WriteResult:
    """The result of the commit that made the version, from the catalog."""
    snapshot = reader.snapshot(table_id, version)
    if snapshot is None:  # expired since: the key still answers, the details are gone
        return WriteResult(version, 0, 0, (), "", replayed)
    files = reader.files_added(table_id, after=version - 1, until=version)
    return WriteResult(version, snapshot.added_rows, snapshot.removed_rows, tuple(files), snapshot.txn_id, replayed)


def delete_result(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> DeleteResult:
    """The result of a delete, from the catalog; no version if nothing was deleted."""
    made, summary, _ = _told(reader, table_id, version, replayed=replayed)
    return DeleteResult(**made, deleted=summary.get("deleted", 0))


def update_result(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> UpdateResult:
    """The result of an update, from the catalog; no version if nothing was updated."""
    made, summary, _ = _told(reader, table_id, version, replayed=replayed)
    return UpdateResult(**made, updated=summary.get("updated", 0))


def merge_result(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> MergeResult:
    """The result of a merge, from the catalog; no version if nothing was changed."""
    made, summary, rows = _told(reader, table_id, version, replayed=replayed)
    inserted, updated, deleted = (summary.get(name, 0) for name in ("inserted", "updated", "deleted"))
    return MergeResult(**made, inserted=inserted, updated=updated, deleted=deleted, total=rows)


def _told(
    reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool
) -> tuple[dict[str, Any], dict[str, int], int]:
    """What all results have in common, the counts of this one, and the table's rows."""
    if version is None:
        head = reader.head(table_id)
        rows = _rows(reader.snapshot(table_id, head.version) if head.version else None)
        return {"version": head.version, "replayed": replayed}, {}, rows
    snapshot = reader.snapshot(table_id, version)
    if snapshot is None:  # expired since
        return {"version": version, "replayed": replayed}, {}, 0
    made = {
        "version": version,
        "files_removed": snapshot.removed_files,
        "files_added": snapshot.added_files,
        "bytes_rewritten": int(snapshot.summary.get(BYTES_REWRITTEN, 0)),
        "transaction_id": snapshot.txn_id,
        "replayed": replayed,
    }
    return made, {name: int(value) for name, value in snapshot.summary.items()}, snapshot.row_count


def _rows(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else snapshot.row_count
