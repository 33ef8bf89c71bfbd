"""What a scan reads, what it skips, and which condition did it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from parqlake.core.evolution.reading import spark_reads
from parqlake.core.ports import CatalogReader, ReadPlan, Store
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.tree import TRUE, Predicate, conjuncts
from parqlake.table.planning import select


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the conditions that must all hold, and the row groups that it alone would leave."""

    text: str
    row_groups_kept: int
    row_groups_skipped: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The figures of a plan; `str()` makes them readable, `to_dict()` keeps them for machines."""

    table: str
    version: int
    where: str | None
    columns: tuple[str, ...]
    files_total: int
    files_read: int
    row_groups_total: int
    row_groups_read: int
    rows_total: int
    rows_read: int
    bytes_total: int
    bytes_read: int
    conditions: tuple[Condition, ...]
    spark_reads: str
    """How `to_spark` reads: `natively`, or `through Python workers` where the JVM cannot open the store or would read
    columns that became text differently."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, lists and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"scan of {self.table} at version {self.version}",
            f"  where       {self.where or '(all rows)'}",
            f"  columns     {', '.join(self.columns)}",
            f"  files       {self._share(self.files_read, self.files_total)}",
            f"  row groups  {self._share(self.row_groups_read, self.row_groups_total)}",
            f"  rows        {self._share(self.rows_read, self.rows_total)}",
            f"  bytes       {self._share(self.bytes_read, self.bytes_total)} (all columns)",
            f"  Spark       would read {self.spark_reads}",
        ]
        if len(self.conditions) > 1 or (self.conditions and self.row_groups_total):
            lines.append("  skipped row groups, by each condition's own statistics:")
            lines += [f"    {c.row_groups_skipped:>9,}  {c.text}" for c in self.conditions]
        return "\n".join(lines)

    def _share(self, part: int, whole: int) -> str:
        percent = f" ({100 * part / whole:.1f} %)" if whole else ""
        return f"{part:,} of {whole:,}{percent}"


def spark_way(store: Store, plan: ReadPlan) -> str:
    """How Spark reads what is planned.

    It has no connector but for local files unless a jar brings one, and spells some values differently when the type
    of a column has changed to text.
    """
    return "natively" if store.is_local and spark_reads(plan) else "through Python workers"


def conditions(
    reader: CatalogReader, table_id: int, version: int, predicate: Predicate, total: int
) -> tuple[Condition, ...]:
    """Asks the statistics for each condition alone."""
    if predicate == TRUE or version == 0:
        return ()
    found = []
    for item in conjuncts(predicate):
        hits = select(reader, table_id, version, item)
        visible = reader.files(table_id, version, sorted(hits)) if hits else []
        kept = sum(len(hits[entry.file_id].row_groups) for entry in visible)
        found.append(Condition(describe(item), kept, max(total - kept, 0)))
    return tuple(found)
