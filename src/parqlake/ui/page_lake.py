"""The first page: all tables of the lake, what they hold, and which need care."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from parqlake.core.errors import InvalidOptionError, ParqlakeError
from parqlake.core.findings import Severity
from parqlake.core.model import Head, TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.table.health import Health
from parqlake.ui.explorer import Ask, Explorer

PER_PAGE = 50
_HEALTH_BUDGET = 0.6
"""Seconds that health may take on one page; what is left is shown as not measured, and the next look has it."""
_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["name"],
    "size": lambda row: (-row["size_bytes"], row["name"]),
    "rows": lambda row: (-row["row_count"], row["name"]),
    "files": lambda row: (-row["file_count"], row["name"]),
    "changed": lambda row: (-row["committed_at"].timestamp() if row["committed_at"] else 0, row["name"]),
}


def lake_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The tables, some at a time."""
    wanted, order = ask.text("q").lower(), ask.text("sort") or "name"
    if order not in _SORTS:
        raise InvalidOptionError(f"sort={order!r} is unknown; use one of {', '.join(_SORTS)}")
    page = ask.integer("page", 1, least=1)
    with explorer.read() as reader:
        heads = reader.heads()
        infos = {info.table_id: info for info in reader.tables()}
        rows = [_row(reader, info, heads[info.table_id]) for info in infos.values() if info.table_id in heads]
        chosen = sorted((row for row in rows if wanted in row["name"].lower()), key=_SORTS[order])
        shown = chosen[(page - 1) * PER_PAGE : page * PER_PAGE]
        for row in shown:
            record = reader.transaction(row["transaction"]) if row["transaction"] else None
            row.update(who=record.who if record else None, message=record.message if record else None)
    began = time.monotonic()
    for row in shown:
        left = _HEALTH_BUDGET - (time.monotonic() - began)
        row.update(_health(explorer, infos[row["table_id"]], row["version"], left))
        del row["table_id"]
    return {
        "tables": shown,
        "totals": {
            "tables": len(rows),
            "size_bytes": sum(row["size_bytes"] for row in rows),
            "row_count": sum(row["row_count"] for row in rows),
            "file_count": sum(row["file_count"] for row in rows),
        },
        "found": len(chosen),
        "query_text": ask.text("q"),
        "sort": order,
        "sorts": list(_SORTS),
        "page": page,
        "pages": max(1, -(-len(chosen) // PER_PAGE)),
    }


def health_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What could be better about the tables, some tables at a time: those with warnings first."""
    page = ask.integer("page", 1, least=1)
    with explorer.read() as reader:
        heads = reader.heads()
        infos = [info for info in reader.tables() if info.table_id in heads]
    shown = infos[(page - 1) * PER_PAGE : page * PER_PAGE]
    looked: list[Health] = []
    failed: list[dict[str, str]] = []
    for info in shown:
        try:
            looked.append(explorer.health.of(info, heads[info.table_id].version))
        except ParqlakeError as error:
            failed.append({"table": str(info.name), "error": str(error)})
    looked.sort(key=lambda health: (health.ok, not health.findings, health.table))
    return {
        "ok": all(health.ok for health in looked) and not failed,
        "tables": [health.to_dict() for health in looked],
        "failed": failed,
        "warnings": sum(_warnings(health) for health in looked),
        "page": page,
        "pages": max(1, -(-len(infos) // PER_PAGE)),
    }


def table_health_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What could be better about one table."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
    found = explorer.health.of(subject.info, subject.head.version)
    return {"table": explorer.counts(subject), "health": found.to_dict()}


def _row(reader: CatalogReader, info: TableInfo, head: Head) -> dict[str, Any]:
    snapshot = reader.snapshot(info.table_id, head.version) if head.version else None
    return {
        "table_id": info.table_id,
        "name": str(info.name),
        "version": head.version,
        "row_count": snapshot.row_count if snapshot else 0,
        "file_count": snapshot.file_count if snapshot else 0,
        "size_bytes": snapshot.size_bytes if snapshot else 0,
        "partition_by": list(info.partition_by),
        "committed_at": snapshot.committed_at if snapshot else None,
        "operation": str(snapshot.operation) if snapshot else None,
        "transaction": snapshot.txn_id if snapshot else None,
    }


def _health(explorer: Explorer, info: TableInfo, version: int, seconds: float) -> dict[str, Any]:
    try:
        found = explorer.health.within(info, version, seconds)
    except ParqlakeError as error:
        return {**_unmeasured(), "health": "unknown", "health_note": str(error)}
    if found is None:
        return _unmeasured()
    warnings, notes = _warnings(found), sum(item.severity is Severity.INFO for item in found.findings)
    note = found.findings[0].message if found.findings else None
    state = "warning" if warnings else "ok"
    return {
        "small_share": found.small_share,
        "warnings": warnings,
        "notes": notes,
        "health": state,
        "health_note": note,
    }


def _unmeasured() -> dict[str, Any]:
    return {"small_share": None, "warnings": None, "notes": None, "health": "unmeasured", "health_note": None}


def _warnings(health: Health) -> int:
    return sum(item.severity is not Severity.INFO for item in health.findings)
