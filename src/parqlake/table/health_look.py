"""What the catalog knows of a table's health, looked up in one consistent view: sums, and the few files that matter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.clustering import Curve, overlap_depth
from parqlake.core.clustering.stale import MAX_RUNS
from parqlake.core.errors import ParqlakeError
from parqlake.core.health_port import BriefFile, FileTotals, SegmentCounts
from parqlake.core.model import LIVE, TransactionRecord, TransactionStatus
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates.sql_text import identifier, string
from parqlake.core.retention import Guard, cutoff, parse_age, plan_removal
from parqlake.table.choosing import settled_versions
from parqlake.table.clustering import cluster_by, clustering_columns
from parqlake.table.clustering_bounds import Bounds
from parqlake.table.context import now
from parqlake.table.optimizing import layout_id
from parqlake.table.planning import stored_schemas
from parqlake.table.policy import DEFAULT_VACUUM_AGE, Policy
from parqlake.table.recovering import GRACE
from parqlake.table.target import Target

EXACT_FILES = 2_000
"""A clustering of more files than that is judged by a sample of them: a plan compares each file with each other."""
_SAMPLE = 1_000
_FEW_PARTITIONS = 5


@dataclass(frozen=True, slots=True)
class Look:
    """All that findings are made of, from one moment."""

    target: Target
    totals: Sequence[FileTotals]
    brief: Sequence[BriefFile]
    """Files that are not as large as they shall be."""
    older_schemas: Collection[int]
    tombstone_files: int
    tombstone_bytes: int
    due: Mapping[str, int]
    """Tombstones that a vacuum would delete now, and their sizes."""
    old_files: int
    old_bytes: int
    segments: SegmentCounts
    lapsed: Sequence[TransactionRecord]
    cluster_columns: Sequence[str]
    cluster_error: ParqlakeError | None
    unsettled: tuple[int, int]
    """Files that were not laid out by `cluster_by` yet, and their bytes."""
    runs: int
    """How many clusterings have files in the newest version."""
    resizable: bool
    """Whether a partition's files are so small on average that a clustering may make fewer of them."""

    @property
    def files(self) -> int:
        """Files of the newest version."""
        return sum(total.files for total in self.totals)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(total.size_bytes for total in self.totals)

    @property
    def may_be_stale(self) -> bool:
        """Whether there can be anything to lay out: else no plan is worth making."""
        return bool(self.cluster_columns) and (self.unsettled[0] > 0 or self.runs > MAX_RUNS)

    @property
    def asks_for_all(self) -> bool:
        """Whether the sums are not enough to judge a clustering, and a plan of its own is not to be had quickly."""
        if not self.cluster_columns:
            return False
        return self.files > EXACT_FILES if self.may_be_stale else self.resizable


def look(reader: CatalogReader, target: Target, policy: Policy) -> Look:
    """Looks a table over."""
    table_id, targets = target.info.table_id, policy.targets
    size = policy.target_bytes
    columns, error = _cluster_columns(target)
    totals = reader.file_totals(table_id)
    brief = reader.brief_files(
        table_id,
        below_bytes=-(-size // 2),
        above_bytes=int(size * (targets.oversize_factor or 1)),
        above_rows=targets.max_rows or LIVE,
    )
    unsettled, runs = _unsettled(reader, target, columns) if columns else ((0, 0), 0)
    tombstones, tombstone_bytes, known, due = _tombstones(reader, table_id, policy)
    removed_files, removed_bytes = reader.removed_totals(table_id)
    limit = cutoff(now(), GRACE)
    return Look(
        target,
        totals,
        brief,
        _older_schemas(reader, target, totals),
        tombstones,
        tombstone_bytes,
        due,
        max(removed_files - known, 0),
        max(removed_bytes - tombstone_bytes, 0),
        reader.segment_counts(table_id),
        [
            record
            for record in reader.transactions(status=TransactionStatus.OPEN)
            if record.lease_until < limit and table_id in reader.transaction_tables(record.txn_id)
        ],
        columns,
        error,
        unsettled,
        runs,
        _resizable(totals, size),
    )


def sampled_depth(reader: CatalogReader, found: Look, files: Sequence[BriefFile]) -> float:
    """About how many files a file lies over in all clustering columns, by a sample of the largest partition."""
    table_id, version = found.target.info.table_id, found.target.head.version
    by_partition: dict[str, list[int]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file.file_id)
    largest = max(by_partition.values(), key=len)
    picked = np.unique(np.linspace(0, len(largest) - 1, min(len(largest), _SAMPLE)).astype(np.int64))
    entries = reader.files(table_id, version, [largest[place] for place in picked])
    depth = overlap_depth(Bounds(reader, found.target, found.cluster_columns).of_files(entries))
    return 1 + (depth - 1) * len(largest) / len(entries)


def where_text(
    totals: Sequence[FileTotals], partitions: Collection[str], partition_by: Sequence[str], schema: pa.Schema
) -> str | None:
    """A predicate that selects some partitions; None if it would have to be long, or they are all there are."""
    known = {total.partition: total.values for total in totals}
    if len(partitions) > _FEW_PARTITIONS or len(partitions) == len(known) or not partition_by:
        return None
    values = [known[key] for key in partitions]
    if len(values) > 1 and len(partition_by) > 1:
        return None
    parts = []
    for name in partition_by:
        texts = sorted({_literal(value[name], schema.field(name).type) for value in values if value[name] is not None})
        column = name if name.isidentifier() else identifier(name)
        options = (
            [f"{column} = {texts[0]}"] if len(texts) == 1 else [f"{column} in ({', '.join(texts)})"] if texts else []
        )
        if any(value[name] is None for value in values):
            options.append(f"{column} is null")
        parts.append(" or ".join(options))
    return " and ".join(parts)


def _literal(text: str, type_: pa.DataType) -> str:
    t = pa.types
    bare = t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_) or t.is_boolean(type_)
    return text if bare else string(text)


def _cluster_columns(target: Target) -> tuple[list[str], ParqlakeError | None]:
    try:
        return (clustering_columns(None, target) if cluster_by(target.info) else []), None
    except ParqlakeError as error:  # a column that was dropped since, for instance
        return [], error


def _unsettled(reader: CatalogReader, target: Target, columns: Sequence[str]) -> tuple[tuple[int, int], int]:
    """Files that no clustering by these columns made, their bytes, and how many clusterings made the others."""
    table_id = target.info.table_id
    settled = settled_versions(reader, table_id, layout_id(target, columns, Curve.HILBERT))
    sums = reader.added_totals(table_id)
    new = [(files, size) for version, files, size in sums if version not in settled]
    return (sum(files for files, _ in new), sum(size for _, size in new)), len(sums) - len(new)


def _resizable(totals: Sequence[FileTotals], target_bytes: int) -> bool:
    sums: dict[str, tuple[int, int]] = {}
    for total in totals:
        files, size = sums.get(total.partition, (0, 0))
        sums[total.partition] = files + total.files, size + total.size_bytes
    return any(files > 1 and 4 * size < files * target_bytes for files, size in sums.values())


def _older_schemas(reader: CatalogReader, target: Target, totals: Sequence[FileTotals]) -> Collection[int]:
    files: Any = totals  # nothing but their schemas is asked for
    return frozenset(stored_schemas(reader, target.info, target.schema, files))


def _tombstones(reader: CatalogReader, table_id: int, policy: Policy) -> tuple[int, int, int, Mapping[str, int]]:
    """How many there are, their bytes, how many of them stand among the files, and which a vacuum would delete."""
    found = reader.tombstones(table_id)
    if not found:
        return 0, 0, 0, {}
    at = now()
    spans = reader.file_spans(table_id)
    sizes = {span.path: span.size_bytes for span in spans}
    age: timedelta = policy.vacuum_age or parse_age(DEFAULT_VACUUM_AGE)
    leases = [lease for lease in reader.reader_leases(at) if lease.table_id == table_id]
    open_since = min((record.started_at for record in reader.transactions(status=TransactionStatus.OPEN)), default=None)
    listed = {tombstone.path: sizes.get(tombstone.path, 0) for tombstone in found}
    removal = plan_removal(listed, spans, found, reader.kept_versions(table_id), Guard(at, age, leases, open_since))
    known = sum(tombstone.path in sizes for tombstone in found)
    return len(found), sum(listed.values()), known, removal.expired
