"""Maintain: what the policy of a table asks for is done where it is worth it, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from parqlake.core.errors import TableNotFoundError
from parqlake.core.maintenance.health import MANY_SEGMENTS, in_words
from parqlake.core.model import Operation, TableInfo
from parqlake.table import compacting, expiring, optimizing, vacuuming
from parqlake.table.choosing import Chooser, compaction_of, optimization_of
from parqlake.table.clustering import cluster_by, clustering_columns
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.expiring import ExpireResult
from parqlake.table.maintenance_call import memory_of, mode_of
from parqlake.table.maintenance_run import rewriting_engine
from parqlake.table.maintenance_stats import TableMaintenance
from parqlake.table.policy import PREFIX, Policy, policy_of
from parqlake.table.progress import ProgressChoice, check_progress
from parqlake.table.target import newest_target
from parqlake.table.vacuuming import VacuumResult
from parqlake.table.versions import live_head
from parqlake.table.writes import Call


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One part of a table's maintenance.

    Attributes:
        name: `"compact"` or `"optimize"`, `"statistics"`, `"expire"`, `"vacuum"`.
        done: whether it was done, or would be by a run that is not a dry one.
        reason: what was done, or why it was left alone.
        result: what the call of the same name returned; None if there was none.
    """

    name: str
    done: bool
    reason: str
    result: TableMaintenance | ExpireResult | VacuumResult | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Maintained:
    """What the maintenance of a table came to.

    Attributes:
        table: its name.
        version: the newest version afterwards.
        steps: what was done, and what was left alone and why, in order.
        dry_run: True if nothing was done.

    Example:
        >>> print(orders.maintain())     # doctest: +SKIP
        sales.orders, version 42:
          done        compact: 40 files became 2, 12.1 MiB rewritten
          left alone  statistics: 12 small segments are few
          left alone  expire: the policy gives no version up
          left alone  vacuum: no file has been of no use for 7d
    """

    table: str
    version: int
    steps: tuple[MaintenanceStep, ...]
    dry_run: bool = False

    @property
    def done(self) -> tuple[MaintenanceStep, ...]:
        """The steps that were worth it."""
        return tuple(step for step in self.steps if step.done)

    @property
    def left_alone(self) -> tuple[MaintenanceStep, ...]:
        """The steps that were not."""
        return tuple(step for step in self.steps if not step.done)

    def step(self, name: str) -> MaintenanceStep | None:
        """The step of that name, if it belongs to the table's maintenance."""
        return next((step for step in self.steps if step.name == name), None)

    def __str__(self) -> str:
        words = ("would do  ", "left alone") if self.dry_run else ("done      ", "left alone")
        lines = [f"  {words[0] if step.done else words[1]}  {step}" for step in self.steps]
        return "\n".join([f"{self.table}, version {self.version}:", *lines])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        steps = []
        for step in self.steps:
            result = step.result
            found = (
                None if result is None else result.to_dict() if isinstance(result, TableMaintenance) else asdict(result)
            )
            steps.append({"name": step.name, "done": step.done, "reason": step.reason, "result": found})
        return {"table": self.table, "version": self.version, "dry_run": self.dry_run, "steps": steps}


@dataclass(frozen=True, slots=True)
class LakeMaintained:
    """What the maintenance of all tables of a lake came to.

    Attributes:
        tables: the tables that went well, by name.
        errors: what went wrong with others, by the table's name.
        dry_run: True if nothing was done.
    """

    tables: tuple[Maintained, ...]
    errors: Mapping[str, Exception] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.errors

    def raise_errors(self) -> None:
        """Raises what went wrong, if anything did, as one `ExceptionGroup`."""
        if self.errors:
            raise ExceptionGroup(f"maintenance of {', '.join(self.errors)} failed", list(self.errors.values()))

    def __str__(self) -> str:
        failed = [f"{name}: failed: {type(error).__name__}: {error}" for name, error in self.errors.items()]
        return "\n".join([*map(str, self.tables), *failed])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "tables": [table.to_dict() for table in self.tables],
            "errors": {name: f"{type(error).__name__}: {error}" for name, error in self.errors.items()},
            "dry_run": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How maintenance is to be carried out, checked as far as that can be done without a table."""

    dry_run: bool
    engine: EngineChoice
    memory_limit: int | str | None
    commit: str
    progress: ProgressChoice


def upkeep(
    context: LakeContext,
    *,
    dry_run: bool,
    engine: EngineChoice,
    memory_limit: int | str | None,
    commit: str,
    progress: ProgressChoice,
) -> Upkeep:
    """Checks what a call asks for; raises `InputError` for what makes no sense."""
    mode_of(dry_run=dry_run, commit=commit, idempotency_key=None)
    memory_of(memory_limit)
    check_progress(progress)
    rewriting_engine(context.engine(engine))
    return Upkeep(dry_run, engine, memory_limit, commit, progress)


def maintain(context: LakeContext, info: TableInfo, asked: Upkeep) -> Maintained:
    """See `Table.maintain`. What the policy says is checked before anything is done."""
    with context.catalog.read() as reader:
        target = newest_target(reader, info, context.default_engine)
        policy = policy_of(target.info)
        columns = clustering_columns(None, target) if cluster_by(target.info) else []
    info = target.info
    steps = [
        _laid_out(context, info, policy, columns, asked),
        _statistics(context, info, asked),
        _expired(context, info, policy, asked),
        _vacuumed(context, info, policy, asked),
    ]
    with context.catalog.read() as reader:
        version = live_head(reader, info).version
    return Maintained(str(info.name), version, tuple(steps), asked.dry_run)


def maintain_all(context: LakeContext, infos: Iterable[TableInfo], asked: Upkeep) -> LakeMaintained:
    """See `Lake.maintain`."""
    done: list[Maintained] = []
    errors: dict[str, Exception] = {}
    for info in infos:
        try:
            done.append(maintain(context, info, asked))
        except TableNotFoundError:
            continue  # dropped meanwhile
        except Exception as error:  # what is wrong with one table is no reason to neglect the others
            errors[str(info.name)] = error
    return LakeMaintained(tuple(done), errors, asked.dry_run)


def _laid_out(
    context: LakeContext, info: TableInfo, policy: Policy, columns: list[str], asked: Upkeep
) -> MaintenanceStep:
    """Lays files out by `cluster_by` if the table has one, which also minds their sizes; else compacts them."""
    operation = Operation.OPTIMIZE if columns else Operation.COMPACT
    if not policy.rewrite:
        return MaintenanceStep(str(operation), False, f"{PREFIX}rewrite is false")
    chooser = Chooser(policy)
    mode = mode_of(dry_run=asked.dry_run, commit=asked.commit, idempotency_key=None)
    mode = replace(mode, choose=chooser)
    call = Call(operation, asked.engine, "maintain", None, asked.progress)
    if columns:
        result = optimizing.optimize(context, info, optimization_of(policy, asked.memory_limit), call=call, mode=mode)
    else:
        result = compacting.compact(context, info, compaction_of(policy, asked.memory_limit), call=call, mode=mode)
    if result.compacted_file_count:
        left = f"{result.after_file_count:,} {'file' if result.after_file_count == 1 else 'files'}"
        reason = (
            f"{result.compacted_file_count:,} of {result.before_file_count:,} files rewritten, "
            f"{in_words(result.rewritten_bytes)}; {left} now"
        )
        return MaintenanceStep(str(operation), True, reason, result)
    return MaintenanceStep(str(operation), False, _why_not(chooser, policy, columns), result)


def _why_not(chooser: Chooser, policy: Policy, columns: list[str]) -> str:
    left = chooser.left_out
    if not left:
        laid = f"laid out by {', '.join(columns)}" if columns else f"of about {policy.target_mb_per_file:g} MiB"
        return f"files are {laid}, as far as that is to be had"
    files, saved, size = chooser.describe(left)
    return (
        f"rewriting {files:,} files ({in_words(size)}) would save {max(saved, 0):,}, which is not worth it "
        f"({PREFIX}min_files is {policy.min_files})"
    )


def _statistics(context: LakeContext, info: TableInfo, asked: Upkeep) -> MaintenanceStep:
    """Packs small segments of statistics together, if there are many; no version is made."""
    with context.catalog.read() as reader:
        counts = reader.segment_counts(info.table_id)
    if counts.small < MANY_SEGMENTS:
        return MaintenanceStep("statistics", False, f"{counts.small:,} small segments are few")
    if not asked.dry_run:

        def merge() -> None:
            with context.catalog.write() as writer:
                if writer.lock([info.table_id]):
                    writer.merge_segments(info.table_id)

        expiring.while_busy(context, merge)
    return MaintenanceStep("statistics", True, f"{counts.small:,} small segments put together")


def _expired(context: LakeContext, info: TableInfo, policy: Policy, asked: Upkeep) -> MaintenanceStep:
    if not policy.expires:
        return MaintenanceStep("expire", False, "the policy gives no version up")
    rule = expiring.expiry_rule(policy.expire_older_than, policy.keep_last, keep_tags=True)
    result = expiring.expire(context, info, rule, dry_run=asked.dry_run)
    if not result.versions:
        return MaintenanceStep("expire", False, f"all {result.kept:,} versions are to be kept", result)
    reason = (
        f"{len(result.versions):,} versions given up, {result.kept:,} kept; {result.files:,} files "
        f"({in_words(result.size_bytes)}) are of no use any more"
    )
    return MaintenanceStep("expire", True, reason, result)


def _vacuumed(context: LakeContext, info: TableInfo, policy: Policy, asked: Upkeep) -> MaintenanceStep:
    age = policy.vacuum_age
    if age is None:
        return MaintenanceStep("vacuum", False, f"{PREFIX}vacuum_older_than is never")
    result = vacuuming.vacuum_table(context, info, age, dry_run=asked.dry_run, progress=asked.progress)
    if not result.files:
        held = f"; {result.held:,} wait" if result.held else ""
        reason = f"no file has been of no use for {policy.vacuum_older_than}{held}"
        return MaintenanceStep("vacuum", False, reason, result)
    return MaintenanceStep("vacuum", True, f"{result.files:,} files deleted, {in_words(result.size_bytes)}", result)
