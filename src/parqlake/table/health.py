"""Health: what could be better about a table, what mends it, and what that costs, by the catalog alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import InvalidOptionError, TableNotFoundError
from parqlake.core.findings import Severity
from parqlake.core.maintenance.health import (
    Cost,
    HealthFinding,
    HealthKind,
    in_words,
    judge_partitions,
    judge_schemas,
    judge_segments,
)
from parqlake.core.model import LIVE, TableInfo
from parqlake.table import expiring
from parqlake.table.clustering import CLUSTER_BY
from parqlake.table.context import LakeContext
from parqlake.table.health_files import clustering_findings, compaction_findings
from parqlake.table.health_look import Look, look, sampled_depth
from parqlake.table.policy import DEFAULT_VACUUM_AGE, PREFIX, Policy, policy_of
from parqlake.table.target import newest_target


@dataclass(frozen=True, slots=True)
class Health:
    """How a table is, and what could be better.

    Attributes:
        table: its name.
        version: the newest version, which this is about.
        file_count: its files.
        row_count: its rows.
        size_bytes: the bytes of its files.
        target_bytes: about how large files shall be, by the table's policy.
        small_files: files smaller than half of that.
        partitions: partitions that have files; 1 for a table without partitions.
        depth: how many files a file lies over in the columns of `cluster_by`, itself included; None if the table has
            none, or if everything is laid out, so that it was not measured.
        old_files: files that only older versions hold.
        old_bytes: of those files.
        tombstone_files: files that no kept version holds; `vacuum` deletes them when their time has come.
        tombstone_bytes: of those files, as far as the catalog knows them.
        segments: segments of statistics in the catalog.
        small_segments: those that could be put together.
        findings: what could be better, warnings first.
    """

    table: str
    version: int
    file_count: int
    row_count: int
    size_bytes: int
    target_bytes: int
    small_files: int
    partitions: int
    depth: float | None
    old_files: int
    old_bytes: int
    tombstone_files: int
    tombstone_bytes: int
    segments: int
    small_segments: int
    findings: tuple[HealthFinding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing ought to be done; what is only good to know does not count."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    @property
    def small_share(self) -> float:
        """The share of files that are small, from 0 to 1."""
        return self.small_files / self.file_count if self.file_count else 0.0

    def of(self, kind: HealthKind | str) -> HealthFinding | None:
        """The finding of that kind, if there is one."""
        return next((finding for finding in self.findings if finding.kind == kind), None)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        named = [name for name in self.__slots__ if name != "findings"]
        return {
            **{name: getattr(self, name) for name in named},
            "small_share": self.small_share,
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def __str__(self) -> str:
        depth = "" if self.depth is None else f", overlap depth {self.depth:.2f}"
        partitions = f" in {self.partitions:,} partitions" if self.partitions > 1 else ""
        lines = [
            f"{self.table}, version {self.version}: {'in good health' if self.ok else 'needs care'}",
            f"  {self.file_count:,} files{partitions}, {in_words(self.size_bytes)}, {self.row_count:,} rows; "
            f"{self.small_share:.0%} of the files have less than half of {in_words(self.target_bytes)}{depth}",
            f"  {self.old_files:,} files ({in_words(self.old_bytes)}) are held by older versions only, "
            f"{self.tombstone_files:,} ({in_words(self.tombstone_bytes)}) by none",
            *(f"  {finding}" for finding in self.findings),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class LakeHealth:
    """How the tables of a lake are, by name."""

    tables: tuple[Health, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing ought to be done for any table."""
        return all(table.ok for table in self.tables)

    @property
    def findings(self) -> tuple[tuple[str, HealthFinding], ...]:
        """What could be better, with the table's name."""
        return tuple((table.table, finding) for table in self.tables for finding in table.findings)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {"ok": self.ok, "tables": [table.to_dict() for table in self.tables]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.tables)) or "no tables"


def lake_health(context: LakeContext, infos: Iterable[TableInfo]) -> LakeHealth:
    """See `Lake.health`."""
    found = []
    for info in infos:
        try:
            found.append(health(context, info))
        except TableNotFoundError:
            continue  # dropped meanwhile
    return LakeHealth(tuple(found))


def health(context: LakeContext, info: TableInfo) -> Health:
    """See `Table.health`."""
    with context.catalog.read() as reader:
        target = newest_target(reader, info, context.default_engine)
        policy, policy_error = _policy(target.info)
        seen = look(reader, target, policy)
        files = (
            reader.brief_files(info.table_id, below_bytes=LIVE, above_bytes=LIVE, above_rows=LIVE)
            if seen.asks_for_all
            else []
        )
        sampled = sampled_depth(reader, seen, files) if seen.may_be_stale and files else None
    targets = policy.targets
    small = sum(not targets.is_full(file.size_bytes, file.row_count) for file in seen.brief)
    if seen.cluster_columns:
        depth, findings = clustering_findings(context, seen, policy, small, files, sampled=sampled)
    else:
        depth, findings = None, compaction_findings(seen, policy, small)
    findings += judge_partitions(
        seen.totals,
        partition_by=target.info.partition_by,
        target_bytes=policy.target_bytes,
        call=_without_partitions(target.info),
    )
    findings += [
        found
        for found in (
            judge_schemas(seen.totals, older=seen.older_schemas, call="t.compact(old_schemas=True)"),
            _old_versions(context, seen, policy),
            _tombstones(seen, policy),
            judge_segments(seen.segments),
            _lapsed(seen),
            _bad_policy(seen, policy_error),
        )
        if found is not None
    ]
    order = list(Severity)
    return Health(
        table=str(target.info.name),
        version=target.head.version,
        file_count=seen.files,
        row_count=sum(total.row_count for total in seen.totals),
        size_bytes=seen.size_bytes,
        target_bytes=policy.target_bytes,
        small_files=small,
        partitions=len({total.partition for total in seen.totals}),
        depth=depth,
        old_files=seen.old_files,
        old_bytes=seen.old_bytes,
        tombstone_files=seen.tombstone_files,
        tombstone_bytes=seen.tombstone_bytes,
        segments=seen.segments.all,
        small_segments=seen.segments.small,
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
    )


def _old_versions(context: LakeContext, seen: Look, policy: Policy) -> HealthFinding | None:
    """Versions that the policy gives up, or else a history that holds more than the table does."""
    info = seen.target.info
    if not policy.expires and seen.old_bytes <= seen.size_bytes:
        return None
    rule = expiring.expiry_rule(policy.expire_older_than, policy.keep_last, keep_tags=True)
    going = expiring.expire(context, info, rule, dry_run=True)
    if not going.versions or not (policy.expires or going.files):
        return None
    options = [] if policy.expires else [repr(expiring.DEFAULT_AGE)]
    if policy.expire_older_than is not None:
        options.append(repr(policy.expire_older_than))
    if policy.keep_last is not None:
        options.append(f"keep_last={policy.keep_last}")
    message = (
        f"{len(going.versions):,} of {len(going.versions) + going.kept:,} versions can be given up, and "
        f"{going.files:,} files ({in_words(going.size_bytes)}) with them, which vacuum deletes later"
    )
    severity = Severity.WARNING if policy.expires else Severity.INFO
    return HealthFinding(HealthKind.OLD_VERSIONS, severity, message, f"t.expire({', '.join(options)})")


def _tombstones(seen: Look, policy: Policy) -> HealthFinding | None:
    if not seen.due:
        return None
    age = policy.vacuum_older_than or DEFAULT_VACUUM_AGE
    message = f"{len(seen.due):,} files ({in_words(sum(seen.due.values()))}) have been of no use to anybody for {age}"
    call = "t.vacuum()" if age == DEFAULT_VACUUM_AGE else f"t.vacuum({age!r})"
    severity = Severity.INFO if policy.vacuum_older_than is None else Severity.WARNING
    return HealthFinding(HealthKind.TOMBSTONES, severity, message, call, Cost(files=len(seen.due)))


def _lapsed(seen: Look) -> HealthFinding | None:
    if not seen.lapsed:
        return None
    who = ", ".join(sorted({record.who for record in seen.lapsed})[:3])
    message = f"{len(seen.lapsed):,} transactions have not been heard of since their leases ran out (of {who})"
    return HealthFinding(HealthKind.LAPSED_TRANSACTIONS, Severity.WARNING, message, "lake.recover()")


def _policy(info: TableInfo) -> tuple[Policy, InvalidOptionError | None]:
    try:
        return policy_of(info), None
    except InvalidOptionError as error:  # as another version of this package may have left it
        return Policy(), error


def _bad_policy(seen: Look, error: InvalidOptionError | None) -> HealthFinding | None:
    if seen.cluster_error is None and error is None:
        return None
    bad = CLUSTER_BY if error is None else PREFIX
    rest = {name: value for name, value in seen.target.info.properties.items() if not name.startswith(bad)}
    message = f"the table cannot be maintained by its properties: {error or seen.cluster_error}"
    return HealthFinding(HealthKind.POLICY, Severity.ERROR, message, f"t.set_properties({rest!r})")


def _without_partitions(info: TableInfo) -> str:
    """How to write a table anew that is clustered by what it was partitioned by."""
    columns = json.dumps(list(info.partition_by), ensure_ascii=False)
    properties = {**info.properties, CLUSTER_BY: columns}
    return f'lake.write(t.scan(), "{info.name}_even", mode="error", properties={properties!r})'
