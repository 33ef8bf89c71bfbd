"""Backends: who carries the plans out. What is planned, staged, committed and counted is the same for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from parqlake.core.clustering import Curve
from parqlake.core.maintenance import FileInfo
from parqlake.core.merging import MergeOutcome, MergeRule, MergeTarget
from parqlake.core.ports import Store

NewPath = Callable[[], str]


class Rewrite(Protocol):
    """Writes the rows of some files, in their order, to new files of so many rows each."""

    def __call__(
        self,
        store: Store,
        sources: Sequence[str],
        new_path: NewPath,
        *,
        schema: pa.Schema,
        rows: Sequence[int] | None,
        compression: str,
        memory_bytes: int = ...,
        metadata: Mapping[bytes, bytes] | None = None,
    ) -> list[FileInfo]:
        """Paths are relative to the store's root; new files come from `new_path`, one call for each."""


class Cluster(Protocol):
    """Writes the rows of some files along a curve over the columns, to new files that do not overlap."""

    def __call__(
        self,
        store: Store,
        sources: Sequence[str],
        new_path: NewPath,
        *,
        columns: Sequence[str],
        schema: pa.Schema,
        rows: Sequence[int],
        compression: str,
        memory_bytes: int = ...,
        curve: Curve = ...,
        metadata: Mapping[bytes, bytes] | None = None,
    ) -> list[FileInfo]:
        """Like `Rewrite`."""


class Merge(Protocol):
    """Merges rows into files; see `parqlake.engines.arrow.merging.merge`."""

    def __call__(
        self,
        source: pa.RecordBatchReader | pa.Table,
        target: MergeTarget,
        rule: MergeRule,
        *,
        memory_bytes: int = ...,
        batch_rows: int = ...,
        stacklevel: int = ...,
    ) -> MergeOutcome:
        """Writes new files and says which ones they replace."""


@dataclass(frozen=True, slots=True)
class Backend:
    """An engine's three ways to write new files from old ones."""

    name: str
    rewrite: Rewrite
    cluster: Cluster
    merge: Merge


def pyarrow_backend() -> Backend:
    """PyArrow alone."""
    from parqlake.engines.arrow.clustering import cluster_files
    from parqlake.engines.arrow.merging import merge
    from parqlake.engines.arrow.rewriting import rewrite_files

    return Backend("pyarrow", rewrite_files, cluster_files, merge)


def duckdb_backend() -> Backend:
    """DuckDB reads, joins and sorts."""
    from parqlake.engines.duck.clustering import cluster_files
    from parqlake.engines.duck.merging import merge
    from parqlake.engines.duck.rewriting import rewrite_files

    return Backend("duckdb", rewrite_files, cluster_files, merge)


def spark_backend(spark: Any) -> Backend:
    """Spark's executors read, match, sort and write; the source of a merge may be a `FrameRows` or `FileRows` too."""
    from parqlake.engines.spark.clustering import cluster_files
    from parqlake.engines.spark.merging import merge
    from parqlake.engines.spark.rewriting import rewrite_files

    return Backend("spark", partial(rewrite_files, spark), partial(cluster_files, spark), partial(merge, spark))
