"""Pipeline: steps that are planned and run together, each run one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, Unpack

import uuid_utils

from parqlake.core.errors import InvalidOptionError, TableNotFoundError, suggestion
from parqlake.core.open_lineage import LineageHook
from parqlake.pipeline.graph import Node, ordered
from parqlake.pipeline.place import Place
from parqlake.pipeline.report import Run
from parqlake.pipeline.running import Asked, OnPhase, Runner
from parqlake.pipeline.steps import Mode, Step, StepOptions, make_step
from parqlake.pipeline.windows import Window, backfill_windows, next_window
from parqlake.table.lake import Lake
from parqlake.wiring import connect

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a step would do now.

    Attributes:
        name: of the step.
        target: the table that it writes.
        is_new: whether the table would be made.
        mode: how it is written.
        window: what its cursor would ask for.
        sources: what its sources would take, in words.
        after: the steps that come first because it reads what they write.
    """

    name: str
    target: str
    is_new: bool
    mode: str
    window: str
    sources: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What a run would do now, in order, found out without Spark and without reading rows."""

    pipeline: str
    steps: tuple[PlannedStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        steps = [{name: getattr(step, name) for name in PlannedStep.__dataclass_fields__} for step in self.steps]
        return {"pipeline": self.pipeline, "steps": steps}

    def __str__(self) -> str:
        lines = [f"pipeline {self.pipeline}"]
        for number, step in enumerate(self.steps, start=1):
            new = " (new)" if step.is_new else ""
            lines.append(f"{number}. {step.name}: {step.mode} into {step.target}{new}")
            lines += [f"     from {source}" for source in step.sources]
            lines += [f"     cursor {step.window}"] if step.window else []
            lines += [f"     after {', '.join(step.after)}"] if step.after else []
        return "\n".join(lines)


class Pipeline:
    """Steps that take rows in, check them, and bring them into tables: all of a run, or nothing of it.

    Example:
        >>> p = Pipeline("orders", lake=lake)                                           # doctest: +SKIP
        >>> @p.step(target="silver.orders", mode="merge", keys=["order_id"],            # doctest: +SKIP
        ...         source=new_files("landing/orders", format="json"))
        ... def orders(batch):
        ...     return batch.withColumn("day", F.to_date("updated_at"))
        >>> print(p.run(run_id="2026-11-15").report)                                    # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        *,
        lake: Lake | str | PathLike[str],
        spark: Any = None,
        samples: bool = True,
        lineage: LineageHook | None = None,
    ) -> None:
        """Begins with no steps.

        Args:
            name: under which the catalog remembers watermarks, files and runs; keep it.
            lake: the lake, or where it is.
            spark: a session, or a function that gives one; `parqlake.spark.session()` when the first run needs it.
            samples: whether reports, which the catalog keeps, show some of the rows that break an expectation.
            lineage: is called with OpenLineage's events of each run, to send them to a server for instance.
        """
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST or "/" in name:
            raise InvalidOptionError(f"pipeline name {name!r}: give a short text without a slash")
        self.name = name
        self.lake = lake if isinstance(lake, Lake) else connect(lake)
        self._given = spark
        self._samples = samples
        self._lineage = lineage
        self._steps: dict[str, Step] = {}

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in the order in which they run."""
        nodes = {name: Node(step.tables_written, step.tables_read) for name, step in self._steps.items()}
        return tuple(self._steps[name] for name in ordered(nodes))

    def step(self, **options: Unpack[StepOptions]) -> Callable[[_Function], _Function]:
        """Makes a function a step of the pipeline; the function stays as it is.

        The function returns the rows: a Spark data frame, or anything that `Table.append` takes, or None for nothing.
        It may ask by name for `since` and `until` (the window of its cursor), `spark`, `lake`, `run_id`, and for
        `batch`, the rows of its source (or one parameter for each source, by its name).

        Args:
            options: `target` (a table; made on first use), `name` (the function's if left out), `source` (see
                `parqlake.pipeline.sources`; or a mapping of names to sources), `reads` (tables that the function reads
                by itself), `mode` (`"append"`, `"overwrite"`, `"merge"`, `"snapshot"`: the rows are all there is, or
                `"scd2"`: earlier states are kept), `keys`, `strategy` (of a merge), `effective` (of SCD2: the column
                that says since when a row holds), `where` (of an overwrite), `incremental` (see `cursor`), `dedupe`
                (`"updated_at desc"`: which row of a key is taken), `schema_mode` (`"strict"`, `"merge"`,
                `"promote"`), `expect` (a list of expectations), `maintain` (see `maintain`), `partition_by` and
                `properties` (of a new table).

        Raises:
            InputError: options that make no sense, alone or together; nothing was done.

        Example:
            >>> @p.step(target="gold.daily", mode="overwrite", source=table("silver.orders"))   # doctest: +SKIP
            ... def daily(batch):
            ...     return batch.groupBy("day").count()
        """
        known = StepOptions.__annotations__
        for name in options:
            if name not in known:
                raise InvalidOptionError(
                    f'a step has no option "{name}";{suggestion(name, known)} options: {", ".join(known)}'
                )
        if "target" not in options:
            raise InvalidOptionError("a step writes a table; say which: target='silver.orders'")

        def define(function: _Function) -> _Function:
            self.add(make_step(function, **options))
            return function

        return define

    def add(self, step: Step) -> None:
        """Adds a step that was made by `make_step`."""
        if step.name in self._steps:
            raise InvalidOptionError(f'pipeline "{self.name}" has a step "{step.name}" already; give it another name')
        self._steps[step.name] = step
        try:
            _check_reads(self.steps)
        except Exception:
            del self._steps[step.name]
            raise

    def plan(self) -> PipelinePlan:
        """What a run would do now: nothing is read but the catalog and the lists of new files; Spark is not needed.

        Example:
            >>> print(p.plan())                                     # doctest: +SKIP
            pipeline orders
            1. orders: merge into silver.orders (new)
                 from 3 new files, 48,112 bytes, in landing/orders
        """
        place, there = self._place, set(self.lake.tables())
        steps = self._checked_steps()
        planned = []
        for step in steps:
            window = ""
            if step.incremental is not None:
                known = place.watermark(step.name)
                window = str(next_window(step.incremental, known, now=datetime.now(UTC), by_keys=step.mode.by_keys))
            planned.append(
                PlannedStep(
                    step.name,
                    step.target,
                    step.target not in there,
                    str(step.mode),
                    window,
                    tuple(self._looked(step, place)),
                    tuple(o.name for o in steps if o is not step and o.tables_written & step.tables_read),
                )
            )
        return PipelinePlan(self.name, tuple(planned))

    def run(
        self,
        *,
        run_id: str | None = None,
        backfill: tuple[Any, Any, Any] | None = None,
        on_phase: OnPhase | None = None,
    ) -> Run:
        """Runs all steps in one transaction.

        Args:
            run_id: names the run, the day for instance: the same again does nothing and returns the first report. If
                left out, every call is a run of its own.
            backfill: `(first, last, size)`, as in `("2026-01-01", "2026-02-01", "1d")`: runs the cursors over windows
                of the past instead of what is new, each window a run and a commit of its own, with the steps that read
                what those write. The same backfill again goes on where the last one stopped; to do it anew, give a
                `run_id`.
            on_phase: is told of each phase as it begins, and of the step.

        Raises:
            QualityError: an expectation that must hold does not; its `report` says more. Nothing was committed.
            ConcurrentRunError: another run of the pipeline committed meanwhile. Nothing was committed; run it again.
            InputError: something is wrong with a step.

        Example:
            >>> p.run(run_id="2026-11-15").versions                              # doctest: +SKIP
            {'silver.orders': 3, 'silver.orders_bad': 1}
            >>> p.run(backfill=("2026-01-01", "2026-02-01", "1d"))               # doctest: +SKIP
        """
        steps = self._checked_steps()
        if run_id is not None and (not isinstance(run_id, str) or not run_id or len(run_id) > _LONGEST):
            raise InvalidOptionError(f"run_id={run_id!r} must be a text of 1 to {_LONGEST} characters")
        if backfill is None:
            unnamed = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}-{uuid_utils.uuid7().hex[-6:]}"
            return self._once(run_id or unnamed, on_phase)
        if len(backfill) != 3:
            raise InvalidOptionError(f"backfill={backfill!r}: give the first, the last and the size of a window")
        windows = backfill_windows(*backfill)
        chosen = _going_back(steps, by_number=isinstance(windows[0].since, int))
        if not chosen:
            raise InvalidOptionError(
                f'no step of pipeline "{self.name}" has a cursor that {backfill[0]!r} lies on; a backfill needs '
                "incremental=cursor(…)"
            )
        again = [step.name for step in chosen if step.incremental is not None and step.mode is Mode.APPEND]
        if again:
            raise InvalidOptionError(
                f'a backfill would write rows of step "{again[0]}" again that runs have taken before, since '
                "mode=\"append\" knows no keys; use mode='merge' with keys=[…]"
            )
        label = run_id or "backfill"
        runs = tuple(self._once(f"{label} {window}", on_phase, steps=chosen, window=window) for window in windows)
        return Run(label, all(run.replayed for run in runs), runs[-1].report, runs)

    def stream(
        self,
        *,
        checkpoint: str | PathLike[str],
        available_now: bool = True,
        every: str | None = None,
        step: str | None = None,
    ) -> Any:
        """Runs the pipeline once for each batch of a stream, exactly once; see `parqlake.pipeline.streaming`.

        One step returns a streaming frame (`spark.readStream…`); its batches take the place of its rows, and the other
        steps run with each of them. A batch that Spark repeats after a failure is a run that was done before.

        Args:
            checkpoint: a folder where Spark remembers how far the stream was read; one for each pipeline.
            available_now: takes what there is and stops, for a scheduled catch-up; returns when that is done.
            every: goes on for ever, with a batch so often: `"1 minute"`. Not together with `available_now=True`.
            step: the step that returns the streaming frame. If left out, the functions of all steps that have neither
                a source nor a cursor are called once to find it.

        Returns:
            Spark's `StreamingQuery`.
        """
        from parqlake.pipeline.streaming import stream

        known = [one.name for one in self._checked_steps()]
        if step is not None and step not in known:
            raise InvalidOptionError(f'step={step!r} is none of pipeline "{self.name}";{suggestion(step, known)}')
        return stream(self, str(checkpoint), available_now=available_now and every is None, every=every, only=step)

    def spark(self) -> Any:
        """The session that runs use."""
        if self._given is None:
            from parqlake.spark.session import session

            self._given = session()
        return self._given() if callable(self._given) else self._given

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}, {len(self._steps)} steps>"

    @property
    def _place(self) -> Place:
        return Place(self.lake, self.name)

    def _checked_steps(self) -> tuple[Step, ...]:
        if not self._steps:
            raise InvalidOptionError(f'pipeline "{self.name}" has no steps; make a function one with @p.step(target=…)')
        return self.steps

    def _once(
        self,
        run_id: str,
        on_phase: OnPhase | None,
        *,
        steps: Sequence[Step] | None = None,
        window: Window | None = None,
        frames: Mapping[str, Any] | None = None,
    ) -> Run:
        asked = Asked(
            run_id=run_id,
            steps=self._checked_steps() if steps is None else steps,
            window=window,
            frames=frames or {},
            samples=self._samples,
            on_phase=on_phase or (lambda _phase, _step: None),
            lineage=self._lineage,
        )
        own = next((frame.sparkSession for frame in asked.frames.values()), None)  # a stream's batch brings its own
        return Runner(self._place, self.spark if own is None else lambda: own, asked).run()

    def _looked(self, step: Step, place: Place) -> list[str]:
        told = []
        for source in step.sources.values():
            try:
                told.append(
                    source.look(self.lake, place.files(step.name), lambda table: place.version(step.name, table))
                )
            except TableNotFoundError as error:
                told.append(str(error))
        return told


def _going_back(steps: Sequence[Step], *, by_number: bool) -> list[Step]:
    """The steps of a backfill, in order: those with a cursor of the kind, and those that read what they write."""
    chosen: list[Step] = []
    for step in steps:
        own = step.incremental is not None and step.incremental.counts == by_number
        if own or (step.incremental is None and any(other.tables_written & step.tables_read for other in chosen)):
            chosen.append(step)
    return chosen


def _check_reads(steps: Sequence[Step]) -> None:
    """Refuses `reads` of what the pipeline writes: a function's `lake` shows what is committed, not what a run does."""
    for step in steps:
        for writer in steps:
            for name in sorted(step.reads & writer.tables_written):
                raise InvalidOptionError(
                    f'step "{step.name}": reads=["{name}"], which step "{writer.name}" of the same pipeline writes; '
                    f'to see what the run writes, take it as a source: source={{"rows": table("{name}")}}; to see it '
                    "as it was before, leave it out of reads"
                )


def absolute(folder: str, base: Path) -> str:
    """An address of files: one without a protocol counts from `base`."""
    return folder if "://" in folder or Path(folder).is_absolute() else str(base / folder)
