"""Runs of pipelines: what they read and made, how their expectations fared, and where a table comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parqlake.core.lineage import Lineage, LineageStep
from parqlake.core.runs import RunRecord
from parqlake.ui.explorer import Ask, Explorer

_RUNS = 60
"""Runs that are shown, the newest."""
_DEEPEST = 4
"""Steps of lineage to either side that are drawn."""


def runs_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The newest runs of all pipelines, or of one."""
    pipeline = ask.text("pipeline")
    found = explorer.lake.runs(pipeline or None, limit=_RUNS)
    return {"pipeline": pipeline, **_shown(found)}


def table_runs_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The runs that read or wrote one table, and its lineage."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
    found = explorer.lake.runs(table=subject.name, limit=_RUNS)
    lineage = subject.table.lineage()
    return {
        "table": explorer.counts(subject),
        **_shown(found),
        "lineage": lineage.to_dict(),
        "graph": graph_of(lineage),
    }


def graph_of(lineage: Lineage) -> dict[str, Any]:
    """The lineage as nodes in columns, sources at the left, and the edges between them."""
    nodes: dict[str, dict[str, Any]] = {lineage.table: _node(lineage.table, 0, True, None)}
    edges: dict[tuple[str, str], dict[str, Any]] = {}

    def walk(name: str, steps: Sequence[LineageStep], side: int, depth: int) -> None:
        if depth > _DEEPEST:
            return
        for step in steps:
            if step.name not in nodes:
                nodes[step.name] = _node(step.name, side * depth, step.version is not None, step.version)
            pair = (step.name, name) if side < 0 else (name, step.name)
            edges.setdefault(pair, {"from": pair[0], "to": pair[1], "pipeline": step.pipeline, "run_id": step.run_id})
            walk(step.name, step.steps, side, depth + 1)

    walk(lineage.table, lineage.upstream, -1, 1)
    walk(lineage.table, lineage.downstream, 1, 1)
    first = min(node["column"] for node in nodes.values())
    for node in nodes.values():
        node["column"] -= first
    return {"nodes": list(nodes.values()), "edges": list(edges.values()), "centre": lineage.table}


def runs_by_version(found: Sequence[RunRecord], table: str) -> dict[int, dict[str, str]]:
    """Which run made which version of a table."""
    return {
        made.version: {"pipeline": run.pipeline, "run_id": run.run_id}
        for run in found
        for made in run.outputs
        if made.table == table and made.version is not None
    }


def _node(name: str, column: int, is_table: bool, version: int | None) -> dict[str, Any]:
    return {"name": name, "column": column, "is_table": is_table, "version": version}


def _shown(found: Sequence[RunRecord]) -> dict[str, Any]:
    rules = list(dict.fromkeys(rule for run in found for rule in run.rejects))
    oldest_first = list(reversed(found))
    return {
        "runs": [{**run.to_dict(), "seconds": run.seconds} for run in found],
        "pipelines": sorted({run.pipeline for run in found}),
        "limit": _RUNS,
        "expectations": [
            {
                "rule": rule,
                "rejected": [
                    {"run_id": run.run_id, "rows": run.rejects.get(rule), "status": str(run.status)}
                    for run in oldest_first
                ],
                "most": max(run.rejects.get(rule, 0) for run in found),
            }
            for rule in rules
        ],
    }
