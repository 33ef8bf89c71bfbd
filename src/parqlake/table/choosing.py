"""What maintenance asks of compactions and clusterings, by a table's policy, and what of their plans it carries out."""

from __future__ import annotations

from collections.abc import Collection

from parqlake.core.maintenance import Packing, PlannedGroup
from parqlake.core.maintenance.worth import saved_files, worth_clustering, worth_compacting
from parqlake.core.model import Operation
from parqlake.core.ports import CatalogReader
from parqlake.table.compacting import Compaction
from parqlake.table.maintenance_plan import Planned, items_of
from parqlake.table.maintenance_run import Job
from parqlake.table.optimizing import LAYOUT, Optimization
from parqlake.table.policy import Policy
from parqlake.table.target import Target

CURVE = "hilbert"
"""The curve that tables are laid out along by their policy."""


class Chooser:
    """Takes out of a plan what is worth it by the policy, and keeps both for who wants to say why."""

    def __init__(self, policy: Policy) -> None:
        """Chooses when it is called, as `Mode.choose`."""
        self._policy = policy
        self.plan: Planned | None = None
        self.worth: Packing | None = None

    def __call__(self, reader: CatalogReader, target: Target, plan: Planned, job: Job) -> Packing:
        """The groups that are worth carrying out."""
        self.plan = plan
        self.worth = self._worth(reader, target, plan, job)
        return self.worth

    def _worth(self, reader: CatalogReader, target: Target, plan: Planned, job: Job) -> Packing:
        items = items_of(plan.entries)
        target_bytes, min_files = self._policy.target_bytes, self._policy.min_files
        if job.operation is Operation.COMPACT:
            return worth_compacting(items, plan.packing, target_bytes=target_bytes, min_files=min_files)
        settled = settled_versions(reader, target.info.table_id, job.notes[LAYOUT])
        runs = [entry.added if entry.added in settled else None for entry in plan.entries]
        return worth_clustering(items, plan.packing, runs=runs, target_bytes=target_bytes, min_files=min_files)

    @property
    def left_out(self) -> tuple[PlannedGroup, ...]:
        """The groups of the plan that are not worth it."""
        if self.plan is None or self.worth is None:
            return ()
        taken = {group.members for group in self.worth.groups}
        return tuple(group for group in self.plan.packing.groups if group.members not in taken)

    def describe(self, groups: Collection[PlannedGroup]) -> tuple[int, int, int]:
        """Of some groups of the plan: files that are read, files that are saved, and bytes."""
        assert self.plan is not None
        entries = self.plan.entries
        return (
            sum(len(group.members) for group in groups),
            sum(saved_files(group) for group in groups),
            sum(entries[place].size_bytes for group in groups for place in group.members),
        )


def compaction_of(policy: Policy, memory_limit: int | str | None = None) -> Compaction:
    """The compaction that the policy asks for."""
    return Compaction(policy.target_mb_per_file, policy.target_rows_per_file, None, False, memory_limit, None)


def optimization_of(policy: Policy, memory_limit: int | str | None = None) -> Optimization:
    """The clustering that the policy asks for, by the table's own columns."""
    return Optimization(None, CURVE, policy.target_mb_per_file, policy.target_rows_per_file, None, memory_limit, None)


def settled_versions(reader: CatalogReader, table_id: int, layout: int) -> frozenset[int]:
    """Versions that a clustering by the same columns and curve made."""
    made = reader.versions_made_by(table_id, Operation.OPTIMIZE)
    return frozenset(version for version, summary in made.items() if summary.get(LAYOUT) == layout)
