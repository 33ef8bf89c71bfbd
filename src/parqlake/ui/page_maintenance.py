"""Maintenance: what compactions and clusterings did, what a vacuum would delete, and the commands for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parqlake.core.errors import ParqlakeError
from parqlake.core.model import FileEntry, Operation, Snapshot
from parqlake.core.ports import CatalogReader
from parqlake.table.cluster_policy import cluster_by
from parqlake.table.vacuuming import DEFAULT_AGE
from parqlake.ui.buckets import histogram
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.page_files import target_bytes
from parqlake.ui.ranges import column_ranges, default_columns, range_columns
from parqlake.ui.snippets import command

_RUNS = 12
_SHOWN_PATHS = 50
_LARGEST = 200_000
"""Versions with more files than that are not drawn before and after: two of them take too long to read."""


def maintenance_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What was done to the files of a table, and what could be done next."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, Ask(ask.table))
        snapshots = _made(reader, subject)
        chosen = ask.integer("run", snapshots[0].version if snapshots else 0)
        run = next((snapshot for snapshot in snapshots if snapshot.version == chosen), None)
        picture = _picture(explorer, reader, subject, run) if run else None
    return {
        "table": explorer.counts(subject),
        "runs": [_run(snapshot) for snapshot in snapshots],
        "run": chosen if run else None,
        "picture": picture,
        "cluster_by": list(cluster_by(subject.info)),
        "vacuum": _vacuum(subject, ask.text("vacuum")) if ask.text("vacuum") else None,
        "vacuum_age": ask.text("vacuum") or DEFAULT_AGE,
        "plan": _plan(subject) if ask.text("plan") else None,
        "commands": _commands(explorer, subject),
    }


def _made(reader: CatalogReader, subject: Subject) -> list[Snapshot]:
    """The newest versions that maintenance made and that are kept."""
    table_id = subject.info.table_id
    versions = {v for name in (Operation.COMPACT, Operation.OPTIMIZE) for v in reader.versions_made_by(table_id, name)}
    found = (reader.snapshot(table_id, version) for version in sorted(versions, reverse=True)[: 4 * _RUNS])
    return [snapshot for snapshot in found if snapshot is not None][:_RUNS]


def _run(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "operation": str(snapshot.operation),
        "committed_at": snapshot.committed_at,
        "files_before": snapshot.removed_files,
        "files_after": snapshot.added_files,
        "table_files": snapshot.file_count,
        "rewritten_bytes": int(snapshot.summary.get("rewritten_bytes", 0)),
    }


def _picture(explorer: Explorer, reader: CatalogReader, subject: Subject, run: Snapshot) -> dict[str, Any]:
    """The files that went and those that came, by size; and for a clustering, how they lie in its columns."""
    table_id, target = subject.info.table_id, target_bytes(subject)
    few = run.removed_files + run.added_files <= _LARGEST
    gone = reader.files_removed(table_id, after=run.version - 1, until=run.version) if few else []
    came = reader.files_added(table_id, after=run.version - 1, until=run.version) if few else []
    before = reader.snapshot(table_id, run.version - 1)
    drawn: list[dict[str, Any]] = []
    if before is not None and max(before.file_count, run.file_count) <= _LARGEST:
        sides = [explorer.footprint(reader, snapshot) for snapshot in (before, run)]
        known = {".".join(leaf.path): leaf for leaf in range_columns(subject)}
        names = [name for name in cluster_by(subject.info) if name in known] or default_columns(subject)[:2]
        drawn = [{"name": n, "sides": [column_ranges(reader, side, known[n]) for side in sides]} for n in names]
    return {
        "operation": str(run.operation),
        "version": run.version,
        "before": _files(gone, target),
        "after": _files(came, target),
        "columns": drawn,
        "before_is_kept": before is not None,
        "few": few,
    }


def _files(entries: Sequence[FileEntry], target: int) -> dict[str, Any]:
    sizes = np.array([entry.size_bytes for entry in entries], dtype=np.int64)
    return {
        "files": len(entries),
        "size_bytes": int(sizes.sum()),
        "average_bytes": int(sizes.mean()) if len(sizes) else 0,
        "histogram": histogram(sizes, target),
    }


def _vacuum(subject: Subject, age: str) -> dict[str, Any]:
    """What a vacuum would delete now; the folder of the table is listed for it."""
    try:
        found = subject.table.vacuum(age, dry_run=True)
    except ParqlakeError as error:
        return {"error": str(error)}
    return {
        "error": None,
        "files": found.files,
        "size_bytes": found.size_bytes,
        "expired": found.expired,
        "leftovers": found.leftovers,
        "held": found.held,
        "strays": len(found.strays),
        "paths": list(found.paths[:_SHOWN_PATHS]),
    }


def _plan(subject: Subject) -> dict[str, Any]:
    """What `maintain` would do now."""
    try:
        found = subject.table.maintain(dry_run=True)
    except ParqlakeError as error:
        return {"error": str(error), "steps": []}
    steps = [{"name": step.name, "done": step.done, "reason": step.reason} for step in found.steps]
    return {"error": None, "steps": steps}


def _commands(explorer: Explorer, subject: Subject) -> list[dict[str, str]]:
    name, columns = subject.name, list(cluster_by(subject.info)) or default_columns(subject)[:2]
    listed = ", ".join(f'"{column}"' for column in columns)
    made = [
        ("Compact small files", ["compact", name, "--dry-run"], "t.compact(dry_run=True)"),
        ("Vacuum", ["vacuum", name, "--dry-run"], "t.vacuum(dry_run=True)"),
        ("All of it, by policy", [], "t.maintain(dry_run=True)"),
    ]
    if columns:
        by = [word for column in columns for word in ("--by", column)]
        made.insert(1, ("Cluster rows", ["zorder", name, *by, "--dry-run"], f"t.optimize([{listed}], dry_run=True)"))
    return [
        {
            "title": title,
            "shell": command(explorer.lake, *words) if words else "",
            "python": call.replace("t.", f'lake.table("{name}").', 1),
        }
        for title, words, call in made
    ]
