"""What a run came to, for people, for JSON, and for the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parqlake.core.errors import ParqlakeError
from parqlake.core.runs import RunRecord, RunStatus

_LONGEST_ERROR = 4_000
"""Characters of an error that the catalog keeps; Spark's may be as long as a stack is deep."""


@dataclass(frozen=True, slots=True)
class RuleReport:
    """How an expectation was met.

    Attributes:
        name: of the expectation.
        action: what was done about rows that broke it.
        broken: how many rows, or values, did.
        detail: the condition, or what was found.
        samples: up to a few of them as JSON.
    """

    name: str
    action: str
    broken: int
    detail: str = ""
    samples: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether nothing may be committed because of it."""
        return self.action == "fail" and self.broken > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What a step came to.

    Attributes:
        name: of the step.
        target: the table that it writes.
        mode: how.
        rows: what the step returned, in its window.
        written: what went to the target.
        counts: rows `inserted`, `updated`, `deleted` in the target; before it `quarantined`, `dropped`, `duplicates`.
        rules: how the expectations were met.
        window: of the cursor.
        inputs: what was read.
        left_out: why the step did nothing, if it did nothing.
        maintained: what was done about the target's files after the commit.
    """

    name: str
    target: str
    mode: str
    rows: int = 0
    written: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[RuleReport, ...] = ()
    window: str = ""
    inputs: tuple[str, ...] = ()
    left_out: str = ""
    maintained: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it back."""
        return {
            "name": self.name,
            "target": self.target,
            "mode": self.mode,
            "rows": self.rows,
            "written": self.written,
            "counts": dict(self.counts),
            "rules": [
                {"name": r.name, "action": r.action, "broken": r.broken, "detail": r.detail, "samples": list(r.samples)}
                for r in self.rules
            ],
            "window": self.window,
            "inputs": list(self.inputs),
            "left_out": self.left_out,
            "maintained": dict(self.maintained),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> StepReport:
        """Reads what `to_dict` gave."""
        rules = tuple(RuleReport(**{**rule, "samples": tuple(rule["samples"])}) for rule in value["rules"])
        return cls(**{**value, "rules": rules, "inputs": tuple(value["inputs"])})


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run came to. `print` it, hand it to rich, or take `to_dict`."""

    record: RunRecord
    steps: tuple[StepReport, ...]

    @classmethod
    def of(cls, record: RunRecord) -> RunReport:
        """The report of a run that is on record."""
        return cls(record, tuple(StepReport.from_dict(step) for step in record.report.get("steps", ())))

    def version(self, table: str) -> int | None:
        """The version of a table that the run made; None if it made none."""
        return next((made.version for made in self.record.outputs if made.table == table), None)

    def with_maintenance(self, done: Mapping[str, Mapping[str, Any]]) -> RunReport:
        """The same, with what was done about targets after the commit."""
        steps = (replace(step, maintained=done.get(step.name, {})) for step in self.steps)
        return replace(self, steps=tuple(steps))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.record.to_dict(), "report": {"steps": [step.to_dict() for step in self.steps]}}

    def __str__(self) -> str:
        rows = [("step", "target", "version", "rows", "written", "what happened"), *self._rows()]
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        lines = [self._title()]
        for number, row in enumerate(rows):
            cells = [
                text.rjust(width) if index in (2, 3, 4) else text.ljust(width)
                for index, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
            if not number:
                lines.append("  ".join("-" * width for width in widths))
        return "\n".join([*lines, *self._notes()])

    def __rich__(self) -> Any:
        """The report as a table, where rich is installed."""
        from rich.console import Group
        from rich.table import Table

        table = Table(title=self._title(), title_justify="left")
        for name in ("step", "target", "version", "rows", "written", "what happened"):
            table.add_column(name, justify="right" if name in ("version", "rows", "written") else "left")
        for row in self._rows():
            table.add_row(*row)
        return Group(table, *self._notes())

    def _title(self) -> str:
        record = self.record
        return f"{record.pipeline}, run {record.run_id}: {record.status} in {record.seconds:.1f} s"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for step in self.steps:
            version = self.version(step.target)
            parts = [f"{count:,} {what}" for what, count in step.counts.items() if count]
            what = step.left_out or ", ".join(parts) or "nothing new"
            number = "" if version is None else str(version)
            yield (step.name, step.target, number, f"{step.rows:,}", f"{step.written:,}", what)

    def _notes(self) -> list[str]:
        lines = []
        for step in self.steps:
            for rule in step.rules:
                if rule.broken:
                    lines.append(f"{step.name}: {rule.action} {rule.name}: {rule.broken:,} ({rule.detail})")
                    lines += [f"    {sample}" for sample in rule.samples]
            if step.maintained:
                lines += [f"{step.name}: {what}: {told}" for what, told in step.maintained.items()]
        times = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in self.record.durations.items())
        lines += [times] if times else []
        return [*lines, f"error: {self.record.error}"] if self.record.error else lines


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended, or several windows of a backfill.

    Attributes:
        run_id: names it.
        replayed: True if an earlier run of the same id had done the work, and nothing was done now.
        report: what it came to.
        windows: the runs of a backfill, each committed by itself.
    """

    run_id: str
    replayed: bool
    report: RunReport
    windows: tuple[Run, ...] = ()

    @property
    def status(self) -> RunStatus:
        """How it went."""
        return self.report.record.status

    @property
    def versions(self) -> dict[str, int]:
        """The versions that it made, by table."""
        outputs = self.report.record.outputs
        return {made.table: made.version for made in outputs if made.version is not None}


def on_record(error: BaseException, *, samples: bool) -> str:
    """An error as the catalog keeps it; without samples those of Spark and of users, which may show rows, by name only.

    Example:
        >>> on_record(ValueError("ann owes 7"), samples=False)
        'ValueError'
    """
    kind = type(error).__name__
    if samples or isinstance(error, ParqlakeError):
        return f"{kind}: {error}"[:_LONGEST_ERROR]
    condition = getattr(error, "getCondition", lambda: None)()  # what Spark calls the kind of error
    return kind if condition is None else f"{kind}: {condition}"
