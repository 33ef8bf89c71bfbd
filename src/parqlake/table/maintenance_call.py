"""A call of maintenance from beginning to end: plan, and carry out, unless there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import Packing
from parqlake.core.merging.memory import memory_bytes
from parqlake.core.model import TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates import bind, parse
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_plan import Planned, planned_run
from parqlake.table.maintenance_run import Group, Job, commit_groups, counted, groups_of, rewriting_engine
from parqlake.table.maintenance_stats import TableMaintenance, from_summary, with_version
from parqlake.table.progress import Report, check_progress, reporting
from parqlake.table.target import Target, newest_target
from parqlake.table.unit import Unit
from parqlake.table.writes import Call, Work, execute

DEFAULT_MEMORY_BYTES = 256 * 1024 * 1024
MakePlan = Callable[[CatalogReader, Target], tuple[Planned, Job]]
Choose = Callable[[CatalogReader, Target, Planned, Job], Packing]
"""Leaves out of a plan what is not worth it to the caller."""


class Commit(StrEnum):
    """How a run is published."""

    PER_RUN = "per_run"
    PER_GROUP = "per_group"


@dataclass(frozen=True, slots=True)
class Mode:
    """How a call wants its plan carried out."""

    dry_run: bool
    commit: Commit
    choose: Choose | None = None


def mode_of(*, dry_run: Any, commit: Any, idempotency_key: str | None) -> Mode:
    """Checks how a plan is to be carried out."""
    if not isinstance(dry_run, bool):
        raise InvalidOptionError(f"dry_run={dry_run!r} must be True or False")
    try:
        chosen = Commit(commit)
    except ValueError:
        raise InvalidOptionError(f'commit={commit!r} is unknown; use "per_run" or "per_group"') from None
    if chosen is Commit.PER_GROUP and idempotency_key is not None:
        raise InvalidOptionError(
            'idempotency_key goes with one commit, and commit="per_group" makes several; leave one of the two out: '
            "a repeat finds what is left to do by itself"
        )
    return Mode(dry_run, chosen)


def memory_of(memory_limit: Any) -> int:
    """How much a run may hold in memory."""
    return DEFAULT_MEMORY_BYTES if memory_limit is None else memory_bytes(memory_limit)


def bound_where(where: Any, target: Target) -> Any:
    """The predicate that says which files a run looks at; all if it is None."""
    return bind(parse(where), target.schema)


def maintain(context: LakeContext, info: TableInfo, make_plan: MakePlan, *, call: Call, mode: Mode) -> TableMaintenance:
    """Runs one call of maintenance; where there is nothing to do, nothing is touched."""
    check_progress(call.progress)
    engine = rewriting_engine(context.engine(call.engine))
    if mode.choose is not None:
        make_plan = _choosing(make_plan, mode.choose)
    with context.catalog.read() as reader:
        target = newest_target(reader, info, engine)
        plan, job = make_plan(reader, target)
    engine.check_schema(target.schema)
    if mode.dry_run:
        return with_version(plan.stats, target.head.version)
    if not plan.packing.groups and call.idempotency_key is None:
        return with_version(counted(plan.stats, ()), target.head.version)
    if mode.commit is Commit.PER_GROUP:
        return _per_group(context, target, plan, job, call)
    return _per_run(context, info, make_plan, plan, call)


def _choosing(make_plan: MakePlan, choose: Choose) -> MakePlan:
    """Makes the same plan, without what is not worth it."""

    def chosen(reader: CatalogReader, target: Target) -> tuple[Planned, Job]:
        plan, job = make_plan(reader, target)
        packing = choose(reader, target, plan, job)
        codec, columns = plan.stats.compression_codec or "none", plan.stats.zorder_columns
        plan = planned_run(plan.entries, packing, codec=codec, zorder_columns=columns)
        return plan, replace(job, planned=plan.stats)

    return chosen


def _per_run(
    context: LakeContext, info: TableInfo, make_plan: MakePlan, first: Planned, call: Call
) -> TableMaintenance:
    def prepare(target: Target) -> Work:
        with context.catalog.read() as reader:
            plan, job = make_plan(reader, target)

        def work(unit: Unit) -> None:
            groups = groups_of(plan.entries, plan.packing.groups)
            _expect(unit.report, groups)
            commit_groups(context, unit, target, groups, job)

        return work

    def told(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> TableMaintenance:
        return from_summary(reader, table_id, version, first.stats, replayed=replayed)

    return execute(context, info, prepare, call=call, options={}, told=told)


def _per_group(context: LakeContext, target: Target, plan: Planned, job: Job, call: Call) -> TableMaintenance:
    """One transaction for each group, each on the newest version: what is committed stays if a later one fails."""
    done: list[Group] = []
    version, txn_id = target.head.version, ""
    groups = groups_of(plan.entries, plan.packing.groups)
    with reporting(call.progress, context.progress, operation=call.operation, table=target.info) as report:
        _expect(report, groups)
        for group in groups:
            unit = Unit(
                context,
                operation=call.operation,
                engine=target.engine.name,
                table_ids=[target.info.table_id],
                message=call.message,
                report=report,
            )
            with unit:
                # Planned on the first version: what changed since then is found as a conflict is.
                made, snapshot = commit_groups(context, unit, target, [group], job)
            done += made
            if snapshot is not None:
                version, txn_id = snapshot.version, unit.txn_id
    return with_version(counted(plan.stats, done), version, txn_id)


def _expect(report: Report, groups: Sequence[Group]) -> None:
    """Says how many rows there are to be rewritten, if any."""
    if groups:
        old, new = sum(len(group.entries) for group in groups), sum(len(group.rows) for group in groups)
        report.expect(sum(sum(group.rows) for group in groups), "rows", f"{old:,} files into {new:,}")
