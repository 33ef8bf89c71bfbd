"""What an engine offers that can rewrite a table's files: groups of files in, described files out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from parqlake.core.clustering.curves import Curve
from parqlake.core.model import DataFile
from parqlake.core.ports import Engine, ReadPlan, Store, WriteSpec


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files of one partition that are rewritten together, and the files that come of it."""

    plan: ReadPlan
    """The files, whole and in order."""
    rows: tuple[int, ...]
    """Rows of each new file, in order; together as many as the old ones hold."""
    folder: str
    """Where the new files go, relative to the table's location; empty for an unpartitioned table."""
    partition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def read_bytes(self) -> int:
        """Bytes of the old files."""
        return sum(file.size_bytes for file in self.plan.files)


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order that rows are brought into, across all new files of a group."""

    columns: tuple[str, ...]
    curve: Curve | None = None
    """Along which curve over the columns; None is a plain sort, NULLs last."""


class RewritingEngine(Engine, Protocol):
    """An engine that rewrites files of a table; the rows stay the same, and nothing is published."""

    def rewrite_groups(
        self,
        groups: Sequence[RewriteGroup],
        spec: WriteSpec,
        store: Store,
        *,
        order: RowOrder | None,
        memory_bytes: int,
    ) -> list[list[DataFile]]:
        """Writes the rows of each group to new files of exactly the rows planned, and describes these.

        The new files are durable on return. If it raises, those that `spec.file_visitor` was told of are the caller's
        to delete, and no others are left.

        Args:
            groups: what to rewrite.
            spec: how files are made; what it says of partitions and lengths of files does not count here.
            store: where all files lie.
            order: how rows are ordered; None keeps them in the order of the plan.
            memory_bytes: how much to hold in memory; what does not fit goes to local disk.

        Returns:
            The new files of each group, in the order of the groups.
        """
