"""What happened to a table: its versions, newest first, and how large each left it."""

from __future__ import annotations

from typing import Any

from parqlake.core.model import Operation, Snapshot
from parqlake.core.ports import CatalogReader
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.page_runs import runs_by_version

PER_PAGE = 30
_RUNS = 500
"""Runs that are looked through for those that made the versions shown."""
_TIMELINE = 90
"""Versions in the picture; of more, some are left out evenly."""
_KINDS = {
    Operation.APPEND: "added",
    Operation.IMPORT: "added",
    Operation.OVERWRITE: "changed",
    Operation.UPDATE: "changed",
    Operation.MERGE: "changed",
    Operation.DELETE: "removed",
    Operation.COMPACT: "layout",
    Operation.OPTIMIZE: "layout",
    Operation.RESTORE: "schema",
    Operation.EVOLVE: "schema",
}
"""What an operation is about, which gives it its colour."""


def history_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The versions, some at a time, and a picture of all of them."""
    page = ask.integer("page", 1, least=1)
    with explorer.read() as reader:
        subject = explorer.subject(reader, Ask(ask.table))
        kept = reader.kept_versions(subject.info.table_id)[::-1]
        tags: dict[int, list[str]] = {}
        for tag in reader.tags(subject.info.table_id):
            tags.setdefault(tag.version, []).append(tag.name)
        shown = kept[(page - 1) * PER_PAGE : page * PER_PAGE]
        entries = [entry for version in shown if (entry := _entry(reader, subject, version, tags)) is not None]
        step = max(1, -(-len(kept) // _TIMELINE))
        timeline = [_point(found) for v in kept[::step][::-1] if (found := _snapshot(reader, subject, v)) is not None]
    runs = runs_by_version(explorer.lake.runs(table=subject.name, limit=_RUNS), subject.name)
    for entry in entries:
        entry["run"] = runs.get(entry["version"])
    return {
        "table": explorer.counts(subject),
        "versions": entries,
        "kept": len(kept),
        "expired": subject.head.version - len(kept),
        "timeline": timeline,
        "timeline_step": step,
        "page": page,
        "pages": max(1, -(-len(kept) // PER_PAGE)),
    }


def kind_of(operation: str) -> str:
    """What an operation is about: `added`, `changed`, `removed`, `layout` or `schema`."""
    return _KINDS.get(Operation(operation), "changed")


def _snapshot(reader: CatalogReader, subject: Subject, version: int) -> Snapshot | None:
    return reader.snapshot(subject.info.table_id, version)


def _entry(reader: CatalogReader, subject: Subject, version: int, tags: dict[int, list[str]]) -> dict[str, Any] | None:
    snapshot = _snapshot(reader, subject, version)
    if snapshot is None:
        return None
    record = reader.transaction(snapshot.txn_id)
    return {
        **_point(snapshot),
        "committed_at": snapshot.committed_at,
        "data_change": snapshot.data_change,
        "added_rows": snapshot.added_rows,
        "removed_rows": snapshot.removed_rows,
        "added_files": snapshot.added_files,
        "removed_files": snapshot.removed_files,
        "who": record.who if record else None,
        "engine": record.engine if record else None,
        "message": record.message if record else None,
        "transaction": snapshot.txn_id,
        "tags": tags.get(version, []),
        "summary": dict(snapshot.summary),
    }


def _point(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "operation": str(snapshot.operation),
        "kind": kind_of(snapshot.operation),
        "row_count": snapshot.row_count,
        "file_count": snapshot.file_count,
        "size_bytes": snapshot.size_bytes,
    }
