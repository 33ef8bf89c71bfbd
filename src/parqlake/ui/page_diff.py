"""What changed from one version to another: columns, files, and some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parqlake.core.errors import InvalidOptionError, ParqlakeError
from parqlake.core.model import FileEntry
from parqlake.core.ports import CatalogReader
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.plain import first_rows, plain_rows

MOST_ROWS = 60
_MOST_BYTES = 200_000_000
"""Rows are only compared if the files that came and went have no more bytes than this."""
_MOST_FILES = 50_000
"""Of more files that came or went, none is looked at."""
_CHANGE = "_change"


def diff_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The difference of two versions, `before` and `after`; of the newest and the one before it if none is named.

    With the names of columns in `keys`, a row that is there before and after with the same key is told as an update.
    """
    keys = [name for part in ask.many("keys") if (name := part.strip())]
    with explorer.read() as reader:
        subject = explorer.subject(reader, Ask(ask.table))
        kept = reader.kept_versions(subject.info.table_id)
        after = ask.integer("after", subject.head.version)
        before = ask.integer("before", max([v for v in kept if v < after], default=0))
        if before > after:
            before, after = after, before
        found: dict[str, Any] = {
            "table": explorer.counts(subject),
            "before": before,
            "after": after,
            "kept": kept[::-1][:200],
            "keys": keys,
            "column_names": subject.schema.names,
        }
        if not subject.head.version:
            return {**found, "empty": True}
        sides = [_side(reader, subject, version) for version in (before, after)]
        snapshots = [
            snapshot for snapshot in reader.snapshots(subject.info.table_id, after=before) if snapshot.version <= after
        ]
        files = None
        if sum(snapshot.added_files + snapshot.removed_files for snapshot in snapshots) <= _MOST_FILES:
            files = _files(reader, subject, before, after)
    steps = [
        {
            "version": snapshot.version,
            "operation": str(snapshot.operation),
            "data_change": snapshot.data_change,
            "added_rows": snapshot.added_rows,
            "removed_rows": snapshot.removed_rows,
        }
        for snapshot in snapshots
    ]
    schema = subject.table.schema_diff(before, after)
    paired = f", keys={keys}" if keys else ""
    involved = None if files is None else sum(side["size_bytes"] for side in files.values())
    return {
        **found,
        "empty": False,
        "sides": sides,
        "schema": [
            {"kind": str(c.kind), "column": c.column, "before": c.before, "after": c.after} for c in schema.changes
        ],
        "files": files,
        "steps": steps,
        "rows": _rows(subject, (before, after), keys, involved, changed=any(step["data_change"] for step in steps)),
        "call": f'lake.table("{subject.name}").changes({before}, {after}{paired}).to_pandas()',
    }


def _side(reader: CatalogReader, subject: Subject, version: int) -> dict[str, Any]:
    snapshot = reader.snapshot(subject.info.table_id, version) if version else None
    if version and snapshot is None:
        raise InvalidOptionError(f"version {version} of {subject.name} is not there, or was expired; see its history")
    return {
        "version": version,
        "row_count": snapshot.row_count if snapshot else 0,
        "file_count": snapshot.file_count if snapshot else 0,
        "size_bytes": snapshot.size_bytes if snapshot else 0,
        "committed_at": snapshot.committed_at if snapshot else None,
    }


def _files(reader: CatalogReader, subject: Subject, before: int, after: int) -> dict[str, dict[str, int]]:
    """The files that one of the versions holds and the other does not."""
    added = reader.files_added(subject.info.table_id, after=before, until=after)
    removed = reader.files_removed(subject.info.table_id, after=before, until=after)
    return {
        "added": _sum([entry for entry in added if entry.removed > after]),
        "removed": _sum([entry for entry in removed if entry.added <= before]),
    }


def _sum(entries: Sequence[FileEntry]) -> dict[str, int]:
    return {
        "files": len(entries),
        "size_bytes": sum(entry.size_bytes for entry in entries),
        "row_count": sum(entry.row_count for entry in entries),
    }


def _rows(
    subject: Subject, versions: tuple[int, int], keys: Sequence[str], involved: int | None, *, changed: bool
) -> dict[str, Any]:
    """The first rows that differ; none are compared where that would read too much."""
    found: dict[str, Any] = {"compared": False, "columns": [], "rows": [], "more": False, "note": None}
    if not changed or versions[0] == versions[1]:
        return {**found, "compared": True}
    if involved is None or involved > _MOST_BYTES:
        return {**found, "note": "too large"}
    try:
        changes = subject.table.changes(*versions, keys=list(keys) or None, before=bool(keys))
        table, more = first_rows(changes.to_batches(), MOST_ROWS)
    except ParqlakeError as error:
        return {**found, "note": str(error)}
    names = [_CHANGE, *(name for name in table.schema.names if not name.startswith("_change") and name != "_version")]
    rows = plain_rows(table.select(names))
    return {"compared": True, "columns": names[1:], "rows": rows, "more": more, "note": None}
