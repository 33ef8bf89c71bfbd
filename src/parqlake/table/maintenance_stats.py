"""What a compaction or an optimization of a table came to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from parqlake.core.maintenance import MaintenanceStats
from parqlake.core.model import Snapshot
from parqlake.core.ports import CatalogReader

COUNTS = (
    "before_file_count",
    "after_file_count",
    "before_total_bytes",
    "after_total_bytes",
    "compacted_file_count",
    "rewritten_bytes",
)
"""What a snapshot's summary keeps of the statistics."""


@dataclass(frozen=True, slots=True)
class TableMaintenance(MaintenanceStats):
    """The statistics of a run, as all engines give them, and the version that it made.

    Files and bytes are those of the files that `where` left in view, all of the table without it.

    Example:
        >>> stats = orders.compact()                                # doctest: +SKIP
        >>> stats.before_file_count, stats.after_file_count         # doctest: +SKIP
        (1000, 3)
    """

    version: int = 0
    """The version that the run made, the last one if it made several; the newest there was, if it made none."""
    transaction_id: str = ""
    """The transaction, as `history` shows it; empty if nothing was rewritten."""
    replayed: bool = False
    """True if an earlier call with the same idempotency key did the work."""


def with_version(
    stats: MaintenanceStats, version: int, transaction_id: str = "", *, replayed: bool = False
) -> TableMaintenance:
    """The statistics, and what they led to."""
    values: dict[str, Any] = {item.name: getattr(stats, item.name) for item in fields(MaintenanceStats)}
    return TableMaintenance(**values, version=version, transaction_id=transaction_id, replayed=replayed)


def summary_of(stats: MaintenanceStats) -> dict[str, int]:
    """What a snapshot keeps of the statistics."""
    return {name: getattr(stats, name) for name in COUNTS}


def from_summary(
    reader: CatalogReader, table_id: int, version: int | None, planned: MaintenanceStats, *, replayed: bool
) -> TableMaintenance:
    """The result of a run, from the catalog; without a version nothing was rewritten.

    `planned` says what the call alone knows: codec and columns.
    """
    if version is None:
        head = reader.head(table_id).version
        return with_version(_untouched(planned), head, replayed=replayed)
    snapshot: Snapshot | None = reader.snapshot(table_id, version)
    if snapshot is None:  # expired since
        return with_version(_untouched(planned), version, replayed=replayed)
    kept: dict[str, Any] = {name: int(snapshot.summary.get(name, 0)) for name in COUNTS}
    stats = MaintenanceStats(**kept, compression_codec=planned.compression_codec, zorder_columns=planned.zorder_columns)
    return with_version(stats, version, snapshot.txn_id, replayed=replayed)


def _untouched(planned: MaintenanceStats) -> MaintenanceStats:
    return MaintenanceStats(
        before_file_count=planned.before_file_count,
        after_file_count=planned.before_file_count,
        before_total_bytes=planned.before_total_bytes,
        after_total_bytes=planned.before_total_bytes,
        compacted_file_count=0,
        rewritten_bytes=0,
        compression_codec=planned.compression_codec,
        zorder_columns=planned.zorder_columns,
    )
