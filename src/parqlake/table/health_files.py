"""What a compaction or a clustering would make better about a table's files, by their own planners."""

from __future__ import annotations

from collections.abc import Sequence

from parqlake.core.findings import Severity
from parqlake.core.health_port import BriefFile
from parqlake.core.maintenance import DEFAULT_TARGET_MB, Item, lay_out, pack
from parqlake.core.maintenance.health import (
    Cost,
    HealthFinding,
    HealthKind,
    group_cost,
    in_words,
    judge_large,
    judge_small,
)
from parqlake.core.maintenance.worth import worth_clustering, worth_compacting
from parqlake.core.model import Operation
from parqlake.table import optimizing
from parqlake.table.choosing import Chooser, optimization_of
from parqlake.table.clustering import clustering
from parqlake.table.context import LakeContext
from parqlake.table.health_look import Look, where_text
from parqlake.table.maintenance_call import Commit, Mode
from parqlake.table.maintenance_plan import items_of
from parqlake.table.policy import Policy
from parqlake.table.writes import Call

_SORTED_DEPTH = 1.25


def compaction_findings(seen: Look, policy: Policy, small: int) -> list[HealthFinding]:
    """Files that a compaction would put together or split. Full files have no part in its plan, and are not read."""
    items = [Item(file.size_bytes, file.row_count, file.partition) for file in seen.brief]
    packing = pack(items, policy.targets)
    worth = worth_compacting(items, packing, target_bytes=policy.target_bytes, min_files=policy.min_files)
    chosen = worth.groups or packing.groups
    partitions = {str(items[group.members[0]].partition) for group in chosen}
    where = where_text(seen.totals, partitions, seen.target.info.partition_by, seen.target.schema)
    done = [group for group in packing.groups if where is None or items[group.members[0]].partition in partitions]
    call = _call("compact", policy, where)
    found = [
        judge_small(
            done,
            small=small,
            files=seen.files,
            targets=policy.targets,
            worth=bool(worth.groups),
            call=call,
            cost=group_cost(items, done),
        ),
        judge_large(items, done, targets=policy.targets, call=call),
    ]
    return [finding for finding in found if finding is not None]


def clustering_findings(
    context: LakeContext,
    seen: Look,
    policy: Policy,
    small: int,
    files: Sequence[BriefFile],
    *,
    sampled: float | None,
) -> tuple[float | None, list[HealthFinding]]:
    """What a clustering would lay out anew, which minds the sizes of files too."""
    found = _too_large_to_cluster(seen, policy)
    call = f"t.optimize(target_mb_per_file={policy.target_mb_per_file:g}{_rows(policy)})"
    if not seen.may_be_stale:
        return None, found + _settled(seen, policy, small, files, call)
    if sampled is not None:
        count, size = seen.unsettled
        if count and (len(seen.cluster_columns) > 1 or sampled > _SORTED_DEPTH):
            cost = Cost(size, size, count)
            found.append(_clustering_finding(seen, sampled, worth=True, call=call, cost=cost))
        return sampled, found + _settled(seen, policy, small, files, call)
    chooser = Chooser(policy)
    optimizing.optimize(
        context,
        seen.target.info,
        optimization_of(policy),
        call=Call(Operation.OPTIMIZE, None, None, None),
        mode=Mode(True, Commit.PER_RUN, chooser),
    )
    assert chooser.plan is not None
    assert chooser.worth is not None
    groups = chooser.plan.packing.groups
    if not groups:
        return None, found
    items = items_of(chooser.plan.entries)
    cost, worth = group_cost(items, groups), bool(chooser.worth.groups)
    depth = clustering(context, seen.target.info, None).depth
    saving = judge_small(
        groups, small=small, files=seen.files, targets=policy.targets, worth=worth, call=call, cost=cost
    )
    found += [] if saving is None else [saving]
    found.append(_clustering_finding(seen, depth, worth=worth, call=call, cost=cost))
    return depth, found


def _settled(seen: Look, policy: Policy, small: int, files: Sequence[BriefFile], call: str) -> list[HealthFinding]:
    """Files that are far too small, however they lie."""
    items = [Item(file.size_bytes, file.row_count, file.partition) for file in files]
    partitions = {file.partition for file in files}
    packing = lay_out(items, policy.targets, clustered=partitions, resize=True)
    groups, cost = packing.groups, group_cost(items, packing.groups)
    runs = [None if seen.unsettled[0] else 0] * len(items)  # of that many, nobody asks which
    worth = worth_clustering(items, packing, runs=runs, target_bytes=policy.target_bytes, min_files=policy.min_files)
    finding = judge_small(
        groups, small=small, files=seen.files, targets=policy.targets, worth=bool(worth.groups), call=call, cost=cost
    )
    return [] if finding is None else [finding]


def _clustering_finding(seen: Look, depth: float, *, worth: bool, call: str, cost: Cost) -> HealthFinding:
    files, size = seen.unsettled
    message = (
        f"{files:,} of {seen.files:,} files ({in_words(size)}) are not laid out by "
        f"{', '.join(seen.cluster_columns)} yet; a file lies over {depth:.1f} on average, itself included"
    )
    if not files:
        message = (
            f"{seen.runs:,} runs of optimize lie over one another by {', '.join(seen.cluster_columns)}; a file lies "
            f"over {depth:.1f} on average, itself included"
        )
    if not worth:
        message += ", and laying out what is new is not worth much yet"
    return HealthFinding(HealthKind.CLUSTERING, Severity.WARNING if worth else Severity.INFO, message, call, cost)


def _too_large_to_cluster(seen: Look, policy: Policy) -> list[HealthFinding]:
    """Over-large files of a clustered table: to split them alone would undo the layout."""
    limit = int(policy.target_bytes * (policy.targets.oversize_factor or 1))
    large = [file for file in seen.brief if file.size_bytes > limit]
    if not large:
        return []
    rows = min(max(1, file.row_count * policy.target_bytes // file.size_bytes) for file in large)
    largest = max(file.size_bytes for file in large)
    message = f"{len(large):,} files are larger than {in_words(limit)}, the largest has {in_words(largest)}"
    partitions = {file.partition for file in large}
    of_partitions = [total for total in seen.totals if total.partition in partitions]
    size = sum(total.size_bytes for total in of_partitions)
    cost = Cost(size, size, sum(total.files for total in of_partitions))
    call = f"t.optimize(target_rows_per_file={rows})"
    return [HealthFinding(HealthKind.OVER_LARGE_FILES, Severity.INFO, message, call, cost)]


def _call(name: str, policy: Policy, where: str | None) -> str:
    options: list[str] = []
    if policy.target_mb_per_file != DEFAULT_TARGET_MB:
        options.append(f"target_mb_per_file={policy.target_mb_per_file:g}")
    if policy.target_rows_per_file is not None:
        options.append(_rows(policy).removeprefix(", "))
    if where is not None:
        options.append(f"where={where!r}")
    return f"t.{name}({', '.join(options)})"


def _rows(policy: Policy) -> str:
    return "" if policy.target_rows_per_file is None else f", target_rows_per_file={policy.target_rows_per_file}"
