"""Runs of pipelines as they are put on record: what was read, what was made of it, and how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from parqlake.core.errors import DataCorruptionError, InputError
from parqlake.core.model import Snapshot

RUNS = "runs/"
"""Where the scopes of run records begin; the name of the pipeline follows."""


class RunStatus(StrEnum):
    """How a run stands. What was committed has succeeded: the record is part of the same commit."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunInput:
    """Something that a run read.

    Attributes:
        name: a table of the lake, or the address of what else was read, without secrets.
        version: the version of the table; None for what is no table.
        from_version: the version from which on changes were read; None if all was.
        detail: in words or numbers what was read of it: a window of time, how many files.
    """

    name: str
    version: int | None = None
    from_version: int | None = None
    detail: str = ""

    @property
    def is_table(self) -> bool:
        """Whether it is a table of the lake."""
        return self.version is not None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "version": self.version,
            "from_version": self.from_version,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class RunOutput:
    """A table that a run wrote.

    Attributes:
        table: its name.
        version: the version that the run made; filled in by the commit, None if the table was left as it was.
        operation: what was done, for instance `merge`.
        added_rows: rows that the version has more in added files, as `history` counts them.
        removed_rows: rows that it has no more.
        counts: whatever else was counted: `inserted`, `updated`, `deleted`, `quarantined`.
        inputs: names of the inputs that went into it; all of the run's if empty.
    """

    table: str
    version: int | None = None
    operation: str = ""
    added_rows: int = 0
    removed_rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "table": self.table,
            "version": self.version,
            "operation": self.operation,
            "added_rows": self.added_rows,
            "removed_rows": self.removed_rows,
            "counts": dict(self.counts),
            "inputs": list(self.inputs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of a pipeline.

    Attributes:
        run_id: names the run within its pipeline; the same again is the same run.
        pipeline: the pipeline's name.
        status: how it went.
        started_at: with a time zone.
        finished_at: with a time zone; None while it runs.
        inputs: what was read.
        outputs: what was written.
        rejects: rows that did not meet an expectation, by rule.
        durations: seconds, by phase.
        spark_application_id: as Spark's own pages show it.
        error: the message, if it failed.
        report: whatever else the pipeline wants to be reminded of; JSON.

    Example:
        >>> from datetime import UTC, datetime
        >>> at = datetime(2026, 11, 15, tzinfo=UTC)
        >>> run = RunRecord(run_id="1", pipeline="orders", status=RunStatus.SUCCEEDED, started_at=at)
        >>> RunRecord.from_dict(run.to_dict()) == run
        True
    """

    run_id: str
    pipeline: str
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None = None
    inputs: tuple[RunInput, ...] = ()
    outputs: tuple[RunOutput, ...] = ()
    rejects: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)
    spark_application_id: str | None = None
    error: str | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("started_at", "finished_at"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise InputError(f"{name}={moment!r} of a run has no time zone; use datetime.now(UTC)")

    @property
    def scope(self) -> str:
        """Where the records of its pipeline are."""
        return RUNS + self.pipeline

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it runs."""
        return 0.0 if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()

    def touches(self, table: str) -> bool:
        """Whether it read or wrote the table."""
        return any(made.table == table for made in self.outputs) or any(
            read.is_table and read.name == table for read in self.inputs
        )

    def inputs_of(self, output: RunOutput) -> tuple[RunInput, ...]:
        """What went into one of its outputs."""
        wanted = set(output.inputs)
        return tuple(read for read in self.inputs if not wanted or read.name in wanted)

    def with_versions(self, made: Mapping[str, Snapshot]) -> RunRecord:
        """The same, with the versions that its commit made, by table; tables that it does not name are added."""
        known = {output.table for output in self.outputs}
        outputs = [_completed(output, made.get(output.table)) for output in self.outputs]
        outputs += [_completed(RunOutput(table), made[table]) for table in sorted(set(made) - known)]
        return replace(self, outputs=tuple(outputs))

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` reads it back."""
        return {
            "run_id": self.run_id,
            "pipeline": self.pipeline,
            "status": str(self.status),
            "started_at": self.started_at.isoformat(),
            "finished_at": None if self.finished_at is None else self.finished_at.isoformat(),
            "inputs": [read.to_dict() for read in self.inputs],
            "outputs": [made.to_dict() for made in self.outputs],
            "rejects": dict(self.rejects),
            "durations": dict(self.durations),
            "spark_application_id": self.spark_application_id,
            "error": self.error,
            "report": dict(self.report),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RunRecord:
        """Reads what `to_dict` gave; what a newer parqlake wrote beside it is left out."""
        try:
            finished = value.get("finished_at")
            return cls(
                run_id=value["run_id"],
                pipeline=value["pipeline"],
                status=RunStatus(value["status"]),
                started_at=datetime.fromisoformat(value["started_at"]),
                finished_at=None if finished is None else datetime.fromisoformat(finished),
                inputs=tuple(RunInput(**_known(RunInput, read)) for read in value.get("inputs", ())),
                outputs=tuple(_output(made) for made in value.get("outputs", ())),
                rejects=dict(value.get("rejects", {})),
                durations=dict(value.get("durations", {})),
                spark_application_id=value.get("spark_application_id"),
                error=value.get("error"),
                report=dict(value.get("report", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataCorruptionError(f"this is no record of a run: {str(value)[:200]} ({error!r})") from error


def _completed(output: RunOutput, snapshot: Snapshot | None) -> RunOutput:
    if snapshot is None:
        return output
    return replace(
        output,
        version=snapshot.version,
        operation=output.operation or str(snapshot.operation),
        added_rows=snapshot.added_rows,
        removed_rows=snapshot.removed_rows,
    )


def _output(value: Mapping[str, Any]) -> RunOutput:
    known = _known(RunOutput, value)
    return RunOutput(**{**known, "inputs": tuple(known.get("inputs", ()))})


def _known(kind: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    names: Iterable[str] = kind.__dataclass_fields__
    return {name: value[name] for name in names if name in value}
