"""Compaction and optimization of a dataset: one implementation, whoever carries it out.

Survey, plan, stage in a swap, let the backend write, commit, count. A dry run stops after the plan, and so does a run
that has nothing to do: then nothing is touched.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import uuid_utils

from parqlake.core.clustering import Curve, clustering_mark
from parqlake.core.errors import ConflictError
from parqlake.core.maintenance import (
    DEFAULT_TARGET_MB,
    CompactionGroup,
    FileInfo,
    MaintenanceStats,
    check_columns,
    make_targets,
    plan_compaction_groups,
    plan_optimize_groups,
)
from parqlake.datasets.backends import Backend
from parqlake.datasets.clustered import is_laid_out
from parqlake.datasets.conformed import conformed
from parqlake.datasets.naming import FilenameStrategy, Naming
from parqlake.datasets.options import checked_codec, memory_bytes, rewrite_bytes
from parqlake.datasets.place import Place
from parqlake.datasets.survey import PartitionFilter, Survey, recover_if_needed, take_survey
from parqlake.datasets.swap import Swap

COMPACTED = Naming("compacted-{}.parquet", FilenameStrategy.UUID)
OPTIMIZED = Naming("optimized-{}.parquet", FilenameStrategy.UUID)
_CURVE = Curve.HILBERT

_Targets = tuple[float | None, int | None]


class _Kind(Protocol):
    """What a compaction and an optimization do each in their own way."""

    naming: Naming

    def plan(self, survey: Survey) -> dict[str, Any]:
        """Which files to rewrite."""

    def write(self, survey: Survey, group: CompactionGroup, codec: str, stage: _Stage) -> list[FileInfo]:
        """Has the backend write one group."""


class _Stage:
    """Where the files of one group are written before they get their names. Safe in several threads."""

    def __init__(self, swap: Swap, naming: Naming, folder: str) -> None:
        self._swap, self._naming, self._folder = swap, naming, folder
        self._guard = threading.Lock()

    def new_path(self) -> str:
        """The path of a new file, which will get a name in the folder."""
        with self._guard:
            return self._swap.stage_new(self._naming, self._folder).path

    def copy_path(self) -> str:
        """The path of a file that goes when the swap ends, whatever comes of it."""
        return f"{self._swap.folder}/{uuid_utils.uuid7().hex}.copy"


class _Compaction:
    naming = COMPACTED

    def __init__(self, place: Place, backend: Backend, targets: _Targets, *, codec: str | None, memory: int) -> None:
        self._place, self._backend, self._targets, self._codec, self._memory = place, backend, targets, codec, memory

    def plan(self, survey: Survey) -> dict[str, Any]:
        again = survey.with_other_codec(self._codec)
        return joined(
            [plan_compaction_groups(infos, *self._targets, recompress=again) for infos in survey.by_columns()]
        )

    def write(self, survey: Survey, group: CompactionGroup, codec: str, stage: _Stage) -> list[FileInfo]:
        return self._backend.rewrite(
            self._place.store,
            [file.path for file in survey.chosen(group.files)],
            stage.new_path,
            schema=survey.schema_of(group.files),
            rows=group.output_rows,
            compression=codec,
            memory_bytes=self._memory,
        )


class _Optimization(_Compaction):
    naming = OPTIMIZED

    def __init__(
        self, place: Place, backend: Backend, targets: _Targets, *, codec: str | None, memory: int, columns: list[str]
    ) -> None:
        super().__init__(place, backend, targets, codec=codec, memory=memory)
        self._columns = columns

    def plan(self, survey: Survey) -> dict[str, Any]:
        schema, _ = survey.schema()
        check_columns(self._columns, schema)  # before a row is looked at
        clustered = [folder for folder in survey.folders if self._is_laid_out(survey, folder)]
        return plan_optimize_groups(
            survey.infos,
            self._columns,
            *self._targets,
            sample_schema=schema,
            clustered=clustered,
            recompress=survey.with_other_codec(self._codec),
        )

    def write(self, survey: Survey, group: CompactionGroup, codec: str, stage: _Stage) -> list[FileInfo]:
        schema = survey.schema_of(group.files)
        columns = [name for name in self._columns if name in schema.names]
        if not columns:  # they are the folder's own: all rows are the same in them
            return super().write(survey, group, codec, stage)
        mark = clustering_mark(columns, _CURVE, run=uuid_utils.uuid7().hex, files=len(group.output_rows))
        return self._backend.cluster(
            self._place.store,
            [conformed(self._place, file, schema, stage.copy_path()) for file in survey.chosen(group.files)],
            stage.new_path,
            columns=columns,
            schema=schema,
            rows=group.output_rows,
            compression=codec,
            memory_bytes=self._memory,
            curve=_CURVE,
            metadata=mark,
        )

    def _is_laid_out(self, survey: Survey, folder: str) -> bool:
        files = survey.folders[folder]
        schema = survey.schema_of([file.info for file in files])
        columns = [name for name in self._columns if name in schema.names]
        return is_laid_out(self._place, files, columns, schema)


def compact(
    place: Place,
    backend: Backend,
    *,
    target_mb_per_file: float | None,
    target_rows_per_file: int | None,
    partition_filter: PartitionFilter,
    compression: str | None,
    dry_run: bool,
    memory_limit: int | str | None,
) -> dict[str, Any]:
    """Puts small files of each folder together, splits those with too many rows, and returns the canonical stats."""
    make_targets(target_mb_per_file, target_rows_per_file)  # wrong ones are refused before anything is read
    codec = None if compression is None else checked_codec(compression)
    targets = (target_mb_per_file, target_rows_per_file)
    kind = _Compaction(place, backend, targets, codec=codec, memory=_memory(backend, memory_limit))
    return _maintain(place, kind, partition_filter, codec=codec, dry_run=dry_run)


def optimize(
    place: Place,
    backend: Backend,
    *,
    zorder_columns: Sequence[str],
    target_mb_per_file: float | None,
    target_rows_per_file: int | None,
    partition_filter: PartitionFilter,
    compression: str | None,
    dry_run: bool,
    memory_limit: int | str | None,
) -> dict[str, Any]:
    """Lays the rows of each folder out along a curve over the columns, and returns the canonical stats."""
    columns = check_columns(zorder_columns)
    make_targets(target_mb_per_file, target_rows_per_file, default_mb=DEFAULT_TARGET_MB)
    codec = None if compression is None else checked_codec(compression)
    targets = (target_mb_per_file, target_rows_per_file)
    memory = _memory(backend, memory_limit)
    kind = _Optimization(place, backend, targets, codec=codec, memory=memory, columns=columns)
    return _maintain(place, kind, partition_filter, codec=codec, dry_run=dry_run)


def joined(plans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Plans over files that have nothing to do with one another, as one."""
    if len(plans) == 1:
        return plans[0]
    stats: list[MaintenanceStats] = [plan["planned_stats"] for plan in plans]
    groups = sorted((group for plan in plans for group in plan["groups"]), key=lambda group: group.files[0].path)
    return {
        "groups": groups,
        "untouched_files": [file for plan in plans for file in plan["untouched_files"]],
        "planned_stats": MaintenanceStats(
            before_file_count=sum(one.before_file_count for one in stats),
            after_file_count=sum(one.after_file_count for one in stats),
            before_total_bytes=sum(one.before_total_bytes for one in stats),
            after_total_bytes=sum(one.after_total_bytes for one in stats),
            compacted_file_count=sum(one.compacted_file_count for one in stats),
            rewritten_bytes=sum(one.rewritten_bytes for one in stats),
            dry_run=True,
        ),
        "planned_groups": [group.file_paths() for group in groups],
    }


def _memory(backend: Backend, memory_limit: int | str | None) -> int:
    """The limit in bytes; that of Spark is for the rows of each task, not for the process that runs it."""
    return memory_bytes(memory_limit) if backend.name == "spark" else rewrite_bytes(memory_limit)


def _maintain(
    place: Place, kind: _Kind, partition_filter: PartitionFilter, *, codec: str | None, dry_run: bool
) -> dict[str, Any]:
    place.require()
    recover_if_needed(place)
    survey = take_survey(place, partition_filter)
    plan = kind.plan(survey)
    if dry_run or not plan["groups"]:
        return _stats(survey, plan, None, codec, dry_run=dry_run)
    with Swap(place) as swap:
        stored = {file.path: file for file in swap.files()}
        if not survey.still_holds(stored.values()):  # others wrote meanwhile
            survey = take_survey(place, partition_filter)
            plan = kind.plan(survey)
        made = _write_groups(swap, kind, survey, plan["groups"], codec or survey.usual_codec())
        rewritten = [file.path for group in plan["groups"] for file in survey.chosen(group.files)]
        swap.commit(remove=[stored[path] for path in rewritten])
    return _stats(survey, plan, made, codec, dry_run=False)


def _write_groups(
    swap: Swap, kind: _Kind, survey: Survey, groups: Sequence[CompactionGroup], codec: str
) -> list[FileInfo]:
    made: list[FileInfo] = []
    for group in groups:
        folder = survey.chosen(group.files[:1])[0].path.rpartition("/")[0]
        new = kind.write(survey, group, codec, _Stage(swap, kind.naming, folder))
        if sum(file.num_rows for file in new) != group.total_rows:
            raise ConflictError(
                f'"{group.files[0].path}", or another file of its folder, changed while it was read; run this again'
            )
        made += new
    return made


def _stats(
    survey: Survey, plan: dict[str, Any], made: list[FileInfo] | None, codec: str | None, *, dry_run: bool
) -> dict[str, Any]:
    """What was done or, without files that were made, would be done."""
    planned: MaintenanceStats = plan["planned_stats"]
    untouched: list[FileInfo] = plan["untouched_files"]
    after_files, after_bytes = planned.after_file_count, planned.after_total_bytes
    if made is not None:
        after_files = len(untouched) + len(made)
        after_bytes = sum(file.size_bytes for file in [*untouched, *made])
    return MaintenanceStats(
        before_file_count=planned.before_file_count,
        after_file_count=after_files,
        before_total_bytes=planned.before_total_bytes,
        after_total_bytes=after_bytes,
        compacted_file_count=planned.compacted_file_count,
        rewritten_bytes=planned.rewritten_bytes,
        compression_codec=codec or survey.usual_codec(),
        dry_run=dry_run,
        zorder_columns=planned.zorder_columns,
        planned_groups=plan["planned_groups"] if dry_run else None,
    ).to_dict()
