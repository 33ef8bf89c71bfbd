"""The page of a table: columns and their statistics, some rows, and how to read it elsewhere."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pyarrow as pa

from parqlake.core.errors import ParqlakeError
from parqlake.core.evolution.constraints import checks_of
from parqlake.core.keys import is_prunable, key_value
from parqlake.core.ports import CatalogReader, ReadPlan
from parqlake.core.schema import Leaf, leaves, without_ids
from parqlake.table.cluster_policy import cluster_by
from parqlake.table.planning import planned, stored_schemas
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.footprint import Footprint
from parqlake.ui.plain import plain_rows
from parqlake.ui.snippets import snippets

_BUDGET = 0.35
"""Seconds that statistics may take; columns that are left are shown when one asks for all."""
_SAMPLE_ROWS = 10
_SAMPLE_COLUMNS = 60
_LARGEST_GROUP = 256_000_000
"""No row group larger than that is read just to show some rows."""


def overview_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What one version of a table is like."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
        footprint = explorer.footprint(reader, subject.snapshot) if subject.snapshot else None
        columns = _columns(reader, subject, footprint, everything=bool(ask.text("statistics")))
        sample = _sample_plan(reader, subject, footprint) if footprint else None
        tags = {tag.name: tag.version for tag in reader.tags(subject.info.table_id)}
    clustering = list(cluster_by(subject.info))
    for column in columns:
        column["roles"] = _roles(column["name"], subject, clustering)
    return {
        "table": explorer.counts(subject),
        "columns": columns,
        "unmeasured": sum(column["state"] == "unmeasured" for column in columns),
        "sample": _sample(explorer, subject, sample),
        "cluster_by": clustering,
        "tags": tags,
        "checks": checks_of(subject.schema),
        "properties": dict(subject.info.properties),
        "created_at": subject.info.created_at,
        "location": subject.info.location,
        "snippets": snippets(explorer.lake, subject),
    }


def _columns(
    reader: CatalogReader, subject: Subject, footprint: Footprint | None, *, everything: bool
) -> list[dict[str, Any]]:
    """One row for each column, and below a nested one, one for each of its leaves."""
    known = {leaf.path: leaf for leaf in leaves(subject.schema)}
    plain_schema = without_ids(subject.schema)
    began = time.monotonic()
    rows = []
    for field in plain_schema:
        leaf = known.get((field.name,))
        inner = [] if leaf else [found for path, found in known.items() if path[0] == field.name]
        rows.append(_column(field.name, field.type, nullable=field.nullable, depth=0))
        for measured in [leaf] if leaf else inner:
            if measured is not leaf:
                rows.append(_column(".".join(measured.path), measured.type, nullable=True, depth=1))
            in_time = everything or time.monotonic() - began < _BUDGET
            rows[-1] |= _statistics(reader, footprint, measured) if in_time else {"state": "unmeasured"}
    return rows


def _column(name: str, type_: pa.DataType, *, nullable: bool, depth: int) -> dict[str, Any]:
    empty = {"state": "none", "low": None, "high": None, "null_count": None, "null_share": None}
    return {"name": name, "type": str(type_), "nullable": nullable, "depth": depth, **empty}


def _statistics(reader: CatalogReader, footprint: Footprint | None, leaf: Leaf) -> dict[str, Any]:
    if footprint is None or not footprint.row_count:
        return {"state": "empty"}
    if not is_prunable(leaf.type):
        return {"state": "none"}
    bounds, nulls = footprint.whole_bounds(footprint.pages(reader, leaf.field_id))
    low, high = (key_value(key, leaf.type) for key in bounds or (None, None))
    return {
        "state": "nulls" if bounds is None else "known",
        "low": low,
        "high": high,
        "null_count": None if leaf.repeated else nulls,
        "null_share": None if nulls is None or leaf.repeated else nulls / footprint.row_count,
    }


def _roles(name: str, subject: Subject, clustering: list[str]) -> list[str]:
    roles = {"partition": subject.info.partition_by, "sort": subject.info.sort_by, "cluster": clustering}
    return [role for role, names in roles.items() if name in names]


def _sample_plan(reader: CatalogReader, subject: Subject, footprint: Footprint) -> ReadPlan | None:
    """The first row group of the newest file that has rows."""
    for place in range(len(footprint) - 1, max(-1, len(footprint) - 20), -1):
        entry = footprint.entries(reader, [place]).get(place)
        if entry is None or not entry.row_count or entry.size_bytes // max(1, entry.row_group_count) > _LARGEST_GROUP:
            continue
        whole = planned(subject.info, entry)
        one = replace(whole, row_groups=(0,))
        columns = tuple(subject.schema.names[:_SAMPLE_COLUMNS])
        stored = stored_schemas(reader, subject.info, subject.schema, [one])
        return ReadPlan(subject.schema, (one,), None, columns, _SAMPLE_ROWS, stored)
    return None


def _sample(explorer: Explorer, subject: Subject, plan: ReadPlan | None) -> dict[str, Any]:
    names = subject.schema.names
    found: dict[str, Any] = {"columns": names[:_SAMPLE_COLUMNS], "rows": [], "error": None}
    found["more_columns"] = max(0, len(names) - _SAMPLE_COLUMNS)
    if plan is None:
        return found
    context = explorer.lake.context
    try:
        table = context.reader.batches(plan, context.store).read_all()
    except ParqlakeError as error:  # a file may be gone or damaged; the rest of the page is still true
        return {**found, "error": str(error)}
    return {**found, "rows": plain_rows(table.slice(0, _SAMPLE_ROWS))}
