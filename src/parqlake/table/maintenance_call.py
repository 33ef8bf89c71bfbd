"""A call of maintenance from beginning to end: plan, and carry out, unless there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.merging.memory import memory_bytes
from parqlake.core.model import TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates import bind, parse
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_plan import Planned
from parqlake.table.maintenance_run import Group, Job, commit_groups, counted, groups_of, rewriting_engine
from parqlake.table.maintenance_stats import TableMaintenance, from_summary, with_version
from parqlake.table.target import Target, newest_target
from parqlake.table.unit import Unit
from parqlake.table.writes import Call, Work, execute

DEFAULT_MEMORY_BYTES = 256 * 1024 * 1024
MakePlan = Callable[[CatalogReader, Target], tuple[Planned, Job]]


class Commit(StrEnum):
    """How a run is published."""

    PER_RUN = "per_run"
    PER_GROUP = "per_group"


@dataclass(frozen=True, slots=True)
class Mode:
    """How a call wants its plan carried out."""

    dry_run: bool
    commit: Commit


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
    engine = rewriting_engine(context.engine(call.engine))
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


def _per_run(
    context: LakeContext, info: TableInfo, make_plan: MakePlan, first: Planned, call: Call
) -> TableMaintenance:
    def prepare(target: Target) -> Work:
        with context.catalog.read() as reader:
            plan, job = make_plan(reader, target)

        def work(unit: Unit) -> None:
            commit_groups(context, unit, target, groups_of(plan.entries, plan.packing.groups), job)

        return work

    def told(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> TableMaintenance:
        return from_summary(reader, table_id, version, first.stats, replayed=replayed)

    return execute(context, info, prepare, call=call, options={}, told=told)


def _per_group(context: LakeContext, target: Target, plan: Planned, job: Job, call: Call) -> TableMaintenance:
    """One transaction for each group, each on the newest version: what is committed stays if a later one fails."""
    done: list[Group] = []
    version, txn_id = target.head.version, ""
    for group in groups_of(plan.entries, plan.packing.groups):
        unit = Unit(
            context,
            operation=call.operation,
            engine=target.engine.name,
            table_ids=[target.info.table_id],
            message=call.message,
        )
        with unit:
            # Planned on the first version: what changed since then is found as a conflict is.
            made, snapshot = commit_groups(context, unit, target, [group], job)
        done += made
        if snapshot is not None:
            version, txn_id = snapshot.version, unit.txn_id
    return with_version(counted(plan.stats, done), version, txn_id)
