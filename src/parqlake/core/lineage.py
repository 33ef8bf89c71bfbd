"""Lineage: from which tables and addresses a table was made, and what was made of it, as told by the runs on record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus


@dataclass(frozen=True, slots=True)
class LineageStep:
    """One step along the lineage: something that was read or made, and the newest run that did.

    Attributes:
        name: a table, or the address of what else was read.
        version: the version of the table that the run read (upstream) or made (downstream); None for no table.
        pipeline: the pipeline of the run.
        run_id: the newest run that led from the one to the other.
        at: when that run ended.
        steps: the steps that follow, further from the table that was asked for.
    """

    name: str
    version: int | None
    pipeline: str
    run_id: str
    at: datetime
    steps: tuple[LineageStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "version": self.version,
            "pipeline": self.pipeline,
            "run_id": self.run_id,
            "at": self.at.isoformat(),
            "steps": [step.to_dict() for step in self.steps],
        }

    def __str__(self) -> str:
        version = "" if self.version is None else f" @ version {self.version}"
        return f"{self.name}{version}  ({self.pipeline}, run {self.run_id}, {self.at:%Y-%m-%d %H:%M})"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the rows of a table come from, and where they go to; printing it shows a tree.

    Attributes:
        table: the table that was asked for.
        upstream: what it was made from, each with what that was made from.
        downstream: what was made from it, each with what was made from that.
    """

    table: str
    upstream: tuple[LineageStep, ...]
    downstream: tuple[LineageStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "table": self.table,
            "upstream": [step.to_dict() for step in self.upstream],
            "downstream": [step.to_dict() for step in self.downstream],
        }

    def __str__(self) -> str:
        lines = [self.table]
        for title, steps, last in (("made from", self.upstream, False), ("made into", self.downstream, True)):
            lines.append(f"{'└──' if last else '├──'} {title}{'' if steps else ': nothing on record'}")
            lines += _branches(steps, "    " if last else "│   ")
        return "\n".join(lines)

    def __rich__(self) -> Any:
        """A tree for `rich.print`."""
        from rich.tree import Tree

        def grow(tree: Any, steps: Sequence[LineageStep]) -> None:
            for step in steps:
                grow(tree.add(str(step), highlight=True), step.steps)

        root = Tree(self.table)
        for title, steps in (("made from", self.upstream), ("made into", self.downstream)):
            grow(root.add(title if steps else f"{title}: nothing on record"), steps)
        return root


_Edges = dict[str, dict[str, LineageStep]]


def trace(table: str, runs: Iterable[RunRecord]) -> Lineage:
    """The lineage of a table by the runs that succeeded, newest first; of runs that did the same, the newest is told.

    Example:
        >>> print(trace("sales.orders", []))
        sales.orders
        ├── made from: nothing on record
        └── made into: nothing on record
    """
    up: _Edges = {}
    down: _Edges = {}
    for run in runs:
        if run.status is not RunStatus.SUCCEEDED:
            continue
        for output, read in _pairs(run):
            at = run.finished_at or run.started_at
            source = LineageStep(read.name, read.version, run.pipeline, run.run_id, at)
            product = LineageStep(output.table, output.version, run.pipeline, run.run_id, at)
            up.setdefault(output.table, {}).setdefault(read.name, source)
            if read.is_table:
                down.setdefault(read.name, {}).setdefault(output.table, product)
    return Lineage(table, _walk(table, up.get, frozenset(), {})[0], _walk(table, down.get, frozenset(), {})[0])


def _pairs(run: RunRecord) -> Iterator[tuple[RunOutput, RunInput]]:
    for output in run.outputs:
        for read in run.inputs_of(output):
            if read.name != output.table:  # a merge that looks at its own target says nothing about origins
                yield output, read


def _walk(
    name: str,
    edges: Callable[[str], dict[str, LineageStep] | None],
    passed: frozenset[str],
    known: dict[str, tuple[LineageStep, ...]],
) -> tuple[tuple[LineageStep, ...], bool]:
    """The steps that lead on from a name, and whether they are the same whichever way led to it.

    A table that stands on the way already ends it, so that circles end. What does not depend on the way is worked out
    once: tables that are met again and again make the tree large, but not the work.
    """
    if name in known:
        return known[name], True
    here = passed | {name}
    found, whole = [], True
    for step in sorted((edges(name) or {}).values(), key=lambda step: step.name):
        steps, free = ((), False) if step.name in here else _walk(step.name, edges, here, known)
        whole = whole and free
        found.append(
            LineageStep(step.name, step.version, step.pipeline, step.run_id, step.at, steps) if steps else step
        )
    if whole:
        known[name] = tuple(found)
    return tuple(found), whole


def _branches(steps: Sequence[LineageStep], indent: str) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        last = number == len(steps)
        yield f"{indent}{'└──' if last else '├──'} {step}"
        yield from _branches(step.steps, indent + ("    " if last else "│   "))
