"""How well the files of a table are clustered by some columns, as the catalog's statistics show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parqlake.core.clustering import Layout, overlap_depth, overlaps
from parqlake.core.clustering.order_keys import check_orderable
from parqlake.core.clustering.ranks import MAX_COLUMNS
from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import check_columns
from parqlake.core.model import FileEntry, TableInfo
from parqlake.table.cluster_policy import CLUSTER_BY, cluster_by
from parqlake.table.clustering_bounds import Bounds
from parqlake.table.context import LakeContext
from parqlake.table.maintenance_plan import partition_of
from parqlake.table.target import Target, newest_target

_SAMPLE = 512

__all__ = [
    "CLUSTER_BY",
    "Clustering",
    "ColumnClustering",
    "by_partition",
    "check_cluster_columns",
    "cluster_by",
    "clustering",
    "clustering_columns",
]


@dataclass(frozen=True, slots=True)
class ColumnClustering:
    """How files lie to one another in one column.

    Attributes:
        name: the column.
        depth: how many files a file lies over on average, itself included: 1 if none overlap.
        overlap: the share of files that lie over another one, from 0 to 1.
    """

    name: str
    depth: float
    overlap: float


@dataclass(frozen=True, slots=True)
class Clustering:
    """How well a version is clustered; files of different partitions are never compared.

    Attributes:
        version: the version looked at.
        files: its files.
        depth: how many files a file lies over in all columns at once, itself included.
        overlap: the share of files that lie over another one in all columns.
        columns: the same, column by column.
    """

    version: int
    files: int
    depth: float
    overlap: float
    columns: tuple[ColumnClustering, ...]

    def __str__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        lines = [f"version {self.version}, {self.files} files, clustered by {names}:"]
        width = max(len("all columns"), *(len(column.name) for column in self.columns))
        for name, depth, overlap in (
            ("all columns", self.depth, self.overlap),
            *((column.name, column.depth, column.overlap) for column in self.columns),
        ):
            lines.append(f"  {name:<{width}}  depth {depth:8.2f}  overlap {overlap:6.1%}")
        return "\n".join(lines)


def clustering(context: LakeContext, info: TableInfo, columns: Any) -> Clustering:
    """Measures the newest version; see `Table.clustering`."""
    with context.catalog.read() as reader:
        target = newest_target(reader, info, context.default_engine)
        names = clustering_columns(columns, target)
        entries = reader.files(info.table_id, target.head.version) if target.head.version else []
        bounds = Bounds(reader, target, names)
    parts = [bounds.of_files(files) for files in by_partition(entries)]
    alone = [_measured([Layout(part.rows, (part.columns[place],)) for part in parts]) for place in range(len(names))]
    found = tuple(ColumnClustering(name, *measure) for name, measure in zip(names, alone, strict=True))
    return Clustering(target.head.version, len(entries), *_measured(parts), found)


def by_partition(entries: Sequence[FileEntry]) -> list[list[FileEntry]]:
    """The files of each partition."""
    found: dict[object, list[FileEntry]] = {}
    for entry in entries:
        found.setdefault(partition_of(entry), []).append(entry)
    return list(found.values())


def clustering_columns(columns: Any, target: Target) -> list[str]:
    """The columns that a call names, or else the table's own, checked.

    Raises:
        InvalidOptionError: no columns, too many, one twice, or a partition column.
        ColumnNotFoundError: there is no such column.
        UnsupportedTypeError: a column has no order.
    """
    info = target.info
    chosen = cluster_by(info) if columns is None else columns
    if not chosen and columns is None:
        raise InvalidOptionError(
            f'{info.name} has no cluster_by; name columns, for instance ["{target.schema.names[0]}"], or create the '
            "table with cluster_by=[…]"
        )
    return check_cluster_columns([chosen] if isinstance(chosen, str) else chosen, target.schema, info.partition_by)


def check_cluster_columns(columns: Any, schema: Any, partition_by: Sequence[str]) -> list[str]:
    """The columns, if rows can be clustered by them."""
    names = check_columns(columns, schema)
    if len(names) > MAX_COLUMNS:
        raise InvalidOptionError(
            f"{len(names)} columns to cluster by; give 1 to {MAX_COLUMNS}, more cannot be told apart"
        )
    for name in names:
        if name in partition_by:
            raise InvalidOptionError(
                f'"{name}" is a partition column: all rows of a partition have the same value; leave it out'
            )
        check_orderable(name, schema.field(name).type)
    return names


def _measured(parts: Sequence[Layout]) -> tuple[float, float]:
    """Depth and share of overlapping files, over all partitions."""
    files = sum(len(part) for part in parts)
    if not files:
        return 0.0, 0.0
    depth = sum(overlap_depth(part) * len(part) for part in parts) / files
    return depth, sum(_overlapping(part) * len(part) for part in parts) / files


def _overlapping(part: Layout) -> float:
    picked = np.unique(np.linspace(0, len(part) - 1, min(len(part), _SAMPLE)).astype(np.int64))
    return float((overlaps(part, picked).sum(axis=1) > 1).mean())
