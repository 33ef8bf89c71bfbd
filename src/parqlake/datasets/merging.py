"""Merging rows into a dataset: one implementation, whoever carries it out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.hive import partition_values
from parqlake.core.merging import (
    MergeCounts,
    MergeStrategy,
    MergeTarget,
    TargetFile,
    check_merge_options,
    check_merge_schemas,
    merge_rule,
)
from parqlake.core.ports import StoredFile, WriteSpec
from parqlake.datasets.backends import Backend
from parqlake.datasets.naming import Naming
from parqlake.datasets.options import DEFAULT_CODEC, checked_codec, memory_bytes
from parqlake.datasets.place import Place
from parqlake.datasets.reading import StoredRows
from parqlake.datasets.schemas import common_schema
from parqlake.datasets.survey import Survey, recover_if_needed, take_survey
from parqlake.datasets.swap import Swap
from parqlake.table.sources import to_reader

BATCH_ROWS = 10_000
_NAMING = Naming()


def merge_into(
    place: Place,
    source: Any,
    backend: Backend,
    *,
    key_columns: Sequence[str] | str,
    strategy: str,
    dedup_order_by: Sequence[str] | str | None,
    compression: str | None,
    filesystem: Any,
    memory_limit: int | str | None,
    batch_rows: int = BATCH_ROWS,
    stacklevel: int = 1,
) -> dict[str, int]:
    """Merges the source into the dataset, all or nothing, and returns what was inserted, updated and deleted.

    Args:
        place: the target.
        source: rows, or the path of a file or directory of them.
        backend: who joins and writes.
        key_columns: what tells rows apart.
        strategy: upsert, insert, update, full_merge or deduplicate.
        dedup_order_by: of source rows with one key, the highest by these columns wins.
        compression: of the files that are written.
        filesystem: where a source path is looked for.
        memory_limit: how much to hold in memory.
        batch_rows: rows of a file that are worked on at a time.
        stacklevel: whom a warning points at; 1 is the caller.
    """
    rule = merge_rule(key_columns, strategy, dedup_order_by=dedup_order_by)
    codec = checked_codec(compression or DEFAULT_CODEC)
    memory = memory_bytes(memory_limit)
    check_merge_options(compression=codec, memory_bytes=memory, batch_rows=batch_rows)
    rows = _opened(source, filesystem)
    survey = _survey(place)
    schema = rows.schema if survey is None else survey.schema(_types(rows.schema))[0]
    check_merge_schemas(rule, source=rows.schema, target=schema)  # before a folder is made
    if survey is None and rule.strategy is MergeStrategy.UPDATE:
        return MergeCounts(0, 0, 0, 0).to_dict()
    with Swap(place) as swap:
        stored = {file.path: file for file in swap.files()}
        if not _still_holds(survey, stored):
            survey = _survey(place)
        target = _target(place, swap, survey, rows.schema, codec)
        outcome = backend.merge(
            rows, target, rule, memory_bytes=memory, batch_rows=batch_rows, stacklevel=stacklevel + 1
        )
        for file in outcome.added:
            swap.adopt_new(file.path, _NAMING, WorkerPath(swap.folder).folder_of(file.path))
        swap.commit(remove=[stored[file.path] for file in outcome.removed])
    return outcome.counts.to_dict()


def _opened(source: Any, filesystem: Any) -> pa.Table | pa.RecordBatchReader:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, str | os.PathLike):
        return StoredRows(source, filesystem).reader()
    return to_reader(source)


def _survey(place: Place) -> Survey | None:
    """The target's files; None if there are none yet."""
    if not place.exists():
        return None
    recover_if_needed(place)
    return take_survey(place) if place.files() else None


def _still_holds(survey: Survey | None, stored: dict[str, StoredFile]) -> bool:
    return not stored if survey is None else survey.still_holds(stored.values())


def _target(place: Place, swap: Swap, survey: Survey | None, source: pa.Schema, codec: str) -> MergeTarget:
    """What the engine needs to know; columns that only folders name have the source's types."""
    schema, partition_by = (source, ()) if survey is None else survey.schema(_types(source))
    files = () if survey is None else survey.files
    return MergeTarget(
        store=place.store,
        files=tuple(TargetFile(file.path, file.info.num_rows, partition_values(file.path)) for file in files),
        spec=WriteSpec("", _without_mark(schema), partition_by, compression=codec),
        new_path=lambda folder: swap.stage_new(_NAMING, folder).path,
        partition_in_files=any(set(partition_by) & set(file.schema.names) for file in files),
        worker_path=WorkerPath(swap.folder),
    )


@dataclass(frozen=True, slots=True)
class WorkerPath:
    """Paths for files that other processes write: in the swap's own place, below the folder that they belong in."""

    place: str

    def __call__(self, folder: str) -> str:
        """A path that no other call gives."""
        return "/".join(part for part in (self.place, folder, f"{uuid_utils.uuid7().hex}.staged") if part)

    def folder_of(self, path: str) -> str:
        """The folder that a file belongs in."""
        return path.removeprefix(f"{self.place}/").rpartition("/")[0]


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _without_mark(schema: pa.Schema) -> pa.Schema:
    """The schema without what was true of the files that it came from."""
    return common_schema({"": schema})
