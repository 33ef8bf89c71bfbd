"""One run: read, write, audit, commit in one transaction; then upkeep of the targets.

All targets, quarantines, watermarks, the ledger of files and the record of the run are one commit. Two things keep runs
apart: the idempotency key, made of the pipeline and the run's id, and a record that every run reads first and replaces
at its commit. So a repeat does nothing, and of two runs at once one commits and the other is told.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import Any

from parqlake.core.errors import (
    ConcurrentRunError,
    ConflictError,
    ParqlakeError,
    QualityError,
    TableExistsError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from parqlake.core.open_lineage import LineageHook, end_event, start_event
from parqlake.core.records_port import ABSENT, ANY
from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus
from parqlake.engines.spark import SparkEngine
from parqlake.pipeline import modes
from parqlake.pipeline.checking import Ask, Audit, Counted, ask_table, broken, check_empty, windowed
from parqlake.pipeline.dedupe import deduplicated
from parqlake.pipeline.expectations import TableCheck
from parqlake.pipeline.maintain import carry_out
from parqlake.pipeline.place import Place
from parqlake.pipeline.reading import Reading, Taken
from parqlake.pipeline.report import RuleReport, Run, RunReport, StepReport, on_record
from parqlake.pipeline.steps import Mode, Step, lacking
from parqlake.pipeline.windows import Point, Window, moved, next_window
from parqlake.table.sources import is_spark_frame, to_reader
from parqlake.table.transaction import Transaction

OnPhase = Callable[[str, str], None]
"""Is told that a phase (`read`, `write`, `expectations`, `commit`, `maintenance`) begins, and of which step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one run is asked to do."""

    run_id: str
    steps: Sequence[Step]
    """In order."""
    window: Window | None = None
    """Of a backfill: what cursors ask for instead of what is new."""
    frames: Mapping[str, Any]
    """Rows of a step that are there already, by its name: a batch of a stream."""
    samples: bool
    on_phase: OnPhase
    lineage: LineageHook | None = None
    """Takes OpenLineage's events of the run."""


class Runner:
    """Carries one run out."""

    def __init__(self, place: Place, spark: Callable[[], Any], asked: Asked) -> None:
        """Prepares the run; nothing is read yet."""
        self._place = place
        self._lake = place.lake
        self._spark_of = spark
        self._asked = asked
        self._started = datetime.now(UTC)
        self._durations: dict[str, float] = {}
        self._phase: tuple[str, float] | None = None
        self._kept: list[Any] = []
        self._steps: list[StepReport] = []
        self._inputs: list[RunInput] = []
        self._outputs: dict[str, RunOutput] = {}
        self._written: set[str] = set()
        self._versions: dict[str, int] = {}
        self._spark: Any = None

    def run(self) -> Run:
        """Runs everything, or finds that it was done before.

        Raises:
            QualityError: an expectation that must hold does not; nothing was committed.
            ConcurrentRunError: another run of the pipeline committed meanwhile; nothing was committed.
        """
        earlier = self._place.report(self._asked.run_id)
        if earlier is not None:
            return Run(self._asked.run_id, replayed=True, report=earlier)
        head = self._lake.record(self._place.scope, "head")
        self._tell(start_event, self._record(RunStatus.RUNNING))
        try:
            try:
                tx = self._transaction(ABSENT if head is None else head.revision)
            finally:
                self._timed(None)
                with suppress(Exception):  # of Spark; what was committed is committed all the same
                    for frame in self._kept:
                        frame.unpersist()
        except UnknownOutcomeError:
            raise  # it may have been committed: the next run of the same id finds out
        except (ConflictError, TableExistsError) as error:
            earlier = self._place.report(self._asked.run_id)
            if earlier is not None:  # who was in the way was this very run, started twice
                return Run(self._asked.run_id, replayed=True, report=earlier)
            told = self._told_apart(error, None if head is None else head.revision)
            self._record_failure(told)
            raise told from (None if told is error else error)
        except BaseException as error:
            failed = self._record_failure(error)
            if isinstance(error, QualityError):
                error.report = failed
            raise
        report = self._place.report(self._asked.run_id)
        assert report is not None, self._asked.run_id
        self._tell(end_event, report.record)
        if tx.replayed:
            return Run(self._asked.run_id, replayed=True, report=report)
        return Run(self._asked.run_id, replayed=False, report=self._with_maintenance(report))

    def _told_apart(self, error: ParqlakeError, revision: int | None) -> ParqlakeError:
        """The conflict as it was, or, if another run of the pipeline was in the way, the error that says so."""
        head = self._lake.record(self._place.scope, "head")
        if head is None or head.revision == revision:
            return error
        return ConcurrentRunError(
            f'run "{head.value["run_id"]}" of pipeline "{self._place.pipeline}" committed while run '
            f'"{self._asked.run_id}" was at work; nothing of this one was committed: run it again'
        )

    def _transaction(self, expected: Any) -> Transaction:
        asked, place = self._asked, self._place
        key = f"pipeline/{place.pipeline}/{asked.run_id}"
        message = f"pipeline {place.pipeline}, run {asked.run_id}"
        with self._lake.transaction(message=message, idempotency_key=key) as tx:
            if tx.replayed:
                return tx
            there = set(self._lake.tables())
            read = {name for step in asked.steps for name in step.tables_read | step.tables_written}
            self._versions = {name: self._lake.table(name).version for name in sorted(read & there)}
            self._timed("read")
            self._spark = self._spark_of()
            for step in asked.steps:
                self._step(tx, step)
            self._begin("commit", "")
            self._timed(None)
            tx.record(place.scope, "head", {"run_id": asked.run_id}, expect=expected)
            tx.record_run(self._record(RunStatus.SUCCEEDED))
        return tx

    def _step(self, tx: Transaction, step: Step) -> None:
        self._begin("read", step.name)
        place = self._place
        window = self._window(step)
        taken: dict[str, Taken] = {}
        if step.name not in self._asked.frames:
            reading = self._reading(tx, step)
            taken = {name: source.take(reading) for name, source in step.sources.items()}
        self._inputs += [read for one in taken.values() for read in one.inputs if read not in self._inputs]
        told = StepReport(
            name=step.name,
            target=step.target,
            mode=str(step.mode),
            window="" if window is None else str(window),
            inputs=tuple(dict.fromkeys(read.name for one in taken.values() for read in one.inputs)),
        )
        why = lacking(step, taken)
        if why:
            self._leave_out(step, replace(told, left_out=why))
            return
        frame = self._frame(step, taken, window)
        if frame is None:
            self._leave_out(step, replace(told, left_out="the step returned nothing"))
            return
        told, counted = self._write(tx, step, frame, window, told)
        for one in taken.values():
            if one.files:
                files = {key: {"run_id": self._asked.run_id, **entry} for key, entry in one.files.items()}
                tx.record_many(place.files(step.name), files, expect=ABSENT)
            for table, seen in one.versions.items():
                tx.record(place.watermarks, f"changes/{step.name}/{table}", seen, expect=ANY)
        if window is not None and step.incremental is not None:
            known = place.watermark(step.name)
            reached = moved(known, window, counted.highest, start=step.incremental.start)
            if reached is not None:
                tx.record(place.watermarks, f"cursor/{step.name}", reached.to_dict(), expect=ANY)
        self._steps.append(told)

    def _leave_out(self, step: Step, told: StepReport) -> None:
        """Takes down that a step does nothing, and asks the rules that are about just that."""
        asked = []
        ask: Ask = lambda name, columns: self._lake.table(name).scan(columns=columns).to_spark(self._spark)  # noqa: E731
        for rule in step.table_rules:
            if rule.check is TableCheck.FRESH and step.target not in self._versions:
                asked.append(RuleReport(rule.name, str(rule.action), 1, "no table yet"))
            elif rule.check in (TableCheck.FRESH, TableCheck.ROW_COUNT):
                asked.append(ask_table(rule, step, ask=ask, batch=None, kept=0, at=self._started, samples=False))
        self._check(step, told, Counted(0, 0, 0, None, ()), asked)
        self._steps.append(replace(told, rules=tuple(asked)))

    def _window(self, step: Step) -> Window | None:
        if step.incremental is None or step.name in self._asked.frames:
            return None
        if self._asked.window is not None:
            return self._asked.window
        known = self._place.watermark(step.name)
        return next_window(step.incremental, known, now=self._started, by_keys=step.mode.by_keys)

    def _reading(self, tx: Transaction, step: Step) -> Reading:
        def scan(name: str) -> tuple[Any, int]:
            return self._scan(tx, step, name, None), self._versions.get(name, 0)

        place = self._place
        others = (other.tables_written for other in self._asked.steps if other is not step)
        return Reading(
            spark=self._spark,
            lake=self._lake,
            scope=place.files(step.name),
            scan=scan,
            known_version=lambda table: place.version(step.name, table),
            made=frozenset().union(*others),
        )

    def _scan(self, tx: Transaction, step: Step, name: str, columns: list[str] | None) -> Any:
        """A table as the run sees it: with its own changes, or else as it was when the run began.

        What a step reads of a table that it writes itself is read in the transaction, whose commit fails if somebody
        else changed it meanwhile: else their rows would be replaced by what was made of the older ones.
        """
        if name in self._written or (name in step.tables_written and name in self._versions):
            return tx.table(name).scan(columns=columns)
        if name not in self._versions:
            raise TableNotFoundError(f'no table "{name}", and no step before this one writes it; check the name')
        return self._lake.table(name).scan(version=self._versions[name] or None, columns=columns)

    def _frame(self, step: Step, taken: Mapping[str, Taken], window: Window | None) -> Any:
        given: dict[str, Any] = {name: one.frame for name, one in taken.items()}
        since: Point | None = None if window is None else window.since
        until: Point | None = self._started if window is None else window.until
        run = {"spark": self._spark, "lake": self._lake, "run_id": self._asked.run_id}
        given |= {"since": since, "until": until, **run}
        if step.name in self._asked.frames:
            found = self._asked.frames[step.name]
        else:
            found = step.function(**{name: given[name] for name in step.parameters})
        if found is None:
            return None
        if isinstance(found, str | PathLike):
            found = self._spark.read.parquet(str(found))
        frame = found if is_spark_frame(found) else self._spark.createDataFrame(to_reader(found).read_all())
        if window is not None and step.incremental is not None:
            frame = windowed(frame, step.incremental, window, by_keys=step.mode.by_keys)
        return modes.checked_columns(frame, step)

    def _write(
        self, tx: Transaction, step: Step, frame: Any, window: Window | None, told: StepReport
    ) -> tuple[StepReport, Counted]:
        checked = step if window is not None else replace(step, incremental=None)
        audit = Audit(frame, checked, samples=self._asked.samples)
        # What is looked at more than once is kept, so that the source is read once and cannot change in between.
        refers = any(rule.check is TableCheck.REFERENCES for rule in step.table_rules)
        again = step.mode.by_keys or step.quarantines or step.dedupe or refers
        if again:
            audit.frame = self._keep(audit.frame)
            audit.frame.count()
            counted = audit.counted()
            self._check(step, told, counted, counted.rules)
        rows, duplicates = audit.kept, 0
        if again and step.dedupe:  # among the rows that are good: a bad one must not take the place of a good one
            rows = self._keep(deduplicated(rows, step.keys, step.dedupe))
            duplicates = counted.kept - rows.count()
            counted = replace(counted, kept=counted.kept - duplicates)
        if again and step.target in self._versions:
            check_empty(step, self._place.pipeline, counted)
        self._begin("write", step.name)
        # Where it is known that there is no row, none is written; the table is made all the same.
        none = again and not counted.kept and step.mode in (Mode.APPEND, Mode.MERGE, Mode.SCD2)
        counts = modes.write_rows(tx, rows, step, at=self._started, keep=self._keep, none=none)
        self._written.add(step.target)
        counts_of = zip(step.row_rules, counted.rules, strict=True) if again else ()
        sent = {rule.table for rule, found in counts_of if found.broken}
        for table in step.quarantines:
            if table in sent:
                bad = audit.rejected(table, run_id=self._asked.run_id, at=self._started)
                if modes.write_rejected(tx, bad, table, seen_again=window is not None, keep=self._keep):
                    self._written.add(table)
        self._begin("expectations", step.name)
        if not again:
            counted = audit.counted()
        asked = [
            ask_table(
                rule,
                step,
                ask=lambda name, columns: self._scan(tx, step, name, columns).to_spark(self._spark),
                batch=rows,
                kept=counted.kept,
                at=self._started,
                samples=self._asked.samples,
            )
            for rule in step.table_rules
        ]
        counts = {**(counts or {"inserted": counted.kept}), "dropped": counted.dropped}
        counts["quarantined"] = counted.rows - counted.kept - duplicates - counted.dropped
        if step.dedupe:
            counts["duplicates"] = duplicates
        told = replace(told, rows=counted.rows, written=counted.kept, counts=counts, rules=(*counted.rules, *asked))
        self._check(step, told, counted, told.rules)
        self._outputs[step.target] = RunOutput(step.target, operation=str(step.mode), counts=counts, inputs=told.inputs)
        for table in sorted(self._written & set(step.quarantines)):
            self._outputs.setdefault(table, RunOutput(table, operation="quarantine", inputs=told.inputs))
        return told, counted

    def _check(self, step: Step, told: StepReport, counted: Counted, rules: Sequence[RuleReport]) -> None:
        if any(rule.failed for rule in rules):
            self._steps.append(replace(told, rows=counted.rows, rules=tuple(rules)))
            raise broken(step, self._place.pipeline, rules)

    def _keep(self, frame: Any) -> Any:
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def _with_maintenance(self, report: RunReport) -> RunReport:
        """Follows the targets' policies, and adds what was done to the report and to the record of the run."""
        done = self._maintained()
        told = report.with_maintenance(done)
        if any(done.values()):
            steps = {"steps": [step.to_dict() for step in told.steps]}
            with suppress(ParqlakeError), self._lake.transaction(message="upkeep of a run, on record") as tx:
                tx.record_run(replace(report.record, report=steps))
        return told

    def _maintained(self) -> dict[str, Mapping[str, Any]]:
        done: dict[str, Mapping[str, Any]] = {}
        for step in self._asked.steps:
            if step.maintain is not None and step.target in self._written:
                self._begin("maintenance", step.name)
                engine = SparkEngine(self._spark)
                done[step.name] = carry_out(self._lake.table(step.target), step.maintain, engine=engine)
        return done

    def _record(self, status: RunStatus, error: BaseException | None = None) -> RunRecord:
        rejects = {f"{step.name}.{r.name}": r.broken for step in self._steps for r in step.rules if r.broken}
        return RunRecord(
            run_id=self._asked.run_id,
            pipeline=self._place.pipeline,
            status=status,
            started_at=self._started,
            finished_at=None if error is None else datetime.now(UTC),
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs.values()) if error is None else (),
            rejects=rejects,
            durations={phase: round(seconds, 3) for phase, seconds in self._durations.items()},
            spark_application_id=_application_id(self._spark),
            error=None if error is None else on_record(error, samples=self._asked.samples),
            report={"steps": [step.to_dict() for step in self._steps]},
        )

    def _record_failure(self, error: BaseException) -> RunReport:
        """Puts the failure on record; if even that fails, the error that there was is the one to be told."""
        record = self._record(RunStatus.FAILED, error)
        with suppress(ParqlakeError):
            self._lake.record_run(record)
        self._tell(end_event, record)
        return RunReport.of(record)

    def _tell(self, make: Callable[..., dict[str, Any]], record: RunRecord) -> None:
        """Hands an event to the hook; that a server for lineage is away does not stop a run."""
        if self._asked.lineage is None:
            return
        try:
            self._asked.lineage(make(record, namespace=self._lake.url))
        except Exception as error:
            warnings.warn(f"the hook for lineage failed: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)

    def _begin(self, phase: str, step: str) -> None:
        self._timed(phase)
        self._asked.on_phase(phase, step)

    def _timed(self, phase: str | None) -> None:
        now = time.perf_counter()
        if self._phase is not None:
            before, since = self._phase
            self._durations[before] = self._durations.get(before, 0.0) + now - since
        self._phase = None if phase is None else (phase, now)


def _application_id(spark: Any) -> str | None:
    try:
        return None if spark is None else str(spark.sparkContext.applicationId)
    except Exception:  # Spark Connect has no context to ask; a run is recorded without it
        return None
