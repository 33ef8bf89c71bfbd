"""Figures of a benchmark: collected, printed as one table, and kept as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    subject: str
    what: str
    value: float
    unit: str
    note: str = ""


@dataclass(slots=True)
class Report:
    """All figures of one run."""

    title: str
    machine: str
    figures: list[Figure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, subject: str, what: str, value: float, unit: str, *, note: str = "") -> None:
        """Keeps a figure, and says at once that it was measured."""
        self.figures.append(Figure(subject, what, value, unit, note))
        print(f"  {subject:<12} {what:<48} {value:>12,.2f} {unit:<8} {note}", flush=True)

    def skip(self, subject: str, reason: str) -> None:
        """Says what was not measured, and why."""
        self.skipped.append(f"{subject}: {reason}")

    def show(self, path: Path | None = None) -> None:
        """Prints the table, and writes JSON if a path is given."""
        print(f"\n{self.title}\n{self.machine}\n")
        for figure in self.figures:
            print(f"| {figure.subject} | {figure.what} | {figure.value:,.2f} {figure.unit} | {figure.note} |")
        for line in self.skipped:
            print(f"skipped: {line}")
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(asdict(self), indent=2))


def machine() -> str:
    """What the figures were measured on."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
