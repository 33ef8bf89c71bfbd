"""Which files a merge has to look into, by what the catalog knows of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.keys import has_bytes_keys, is_exact, is_prunable, key_value
from parqlake.core.merging import MergeRule, TargetFile
from parqlake.core.merging.bounds import bounded
from parqlake.core.model import DataFile, FileEntry, Head, TableInfo
from parqlake.core.names import partition_segment, stored_path
from parqlake.core.pages import MAX_KEY
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates import bind
from parqlake.core.predicates.builders import any_of
from parqlake.core.predicates.tree import TRUE, Column, Constant, IsNull, Predicate
from parqlake.core.schema import leaves
from parqlake.table.planning import select, stored_schemas
from parqlake.table.removal import sorted_out


@dataclass(frozen=True, slots=True)
class View:
    """What a merge sees of a table: a version, and what its own transaction did to that."""

    info: TableInfo
    head: Head
    schema: pa.Schema
    staged: tuple[DataFile, ...] = ()
    """Files that the transaction wrote before."""
    gone: frozenset[int] = frozenset()
    """Ids of files that it removed."""
    replaced_all: bool = False
    """Whether it removed all."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The files for an engine to merge into, and those that need no look."""

    files: tuple[TargetFile, ...]
    entries: dict[str, FileEntry] = field(default_factory=dict)
    """Files of the catalog among them, by path."""
    whole: tuple[FileEntry, ...] = ()
    """Files that hold nothing but rows to delete."""


def choose_files(reader: CatalogReader, view: View, rule: MergeRule, sought: Predicate | None) -> Chosen:
    """Chooses the files that may hold a key of the source, or a row to delete.

    Args:
        reader: of the catalog.
        view: the table.
        rule: the merge.
        sought: the source's keys as a bound predicate; None if only the engine will know them: it gets all files, and
            the bounds of their keys.
    """
    staged = tuple(TargetFile(_path(view.info, file), file.row_count, file.partition) for file in view.staged)
    if view.replaced_all or view.head.version == 0:
        return Chosen(staged)
    table_id, version = view.info.table_id, view.head.version
    nullable = set() if rule.clauses is not None else _maybe_null(reader, view, rule)  # NULLs match nothing there
    hits: set[int] | None = None
    if sought is not None and sought != TRUE:
        hits = {*select(reader, table_id, version, sought), *nullable}
    needed = None if hits is None or rule.strategy.deletes else sorted(hits)
    visible = [e for e in _files(reader, table_id, version, needed) if e.file_id not in view.gone]
    wanted = [entry for entry in visible if hits is None or entry.file_id in hits]
    whole, partial = _to_delete(reader, view, rule, visible, {entry.file_id for entry in wanted})
    wanted += partial
    bounds = _key_bounds(reader, view, rule) if sought is None else {}
    stored = stored_schemas(reader, view.info, view.schema, wanted)
    files = tuple(
        TargetFile(
            _path(view.info, entry),
            entry.row_count,
            entry.partition,
            key_bounds=bounds.get(entry.file_id),
            keys_not_null=entry.file_id not in nullable,
            stored_schema=stored.get(entry.schema_id),
            new_folder=_new_folder(view.info, entry),
        )
        for entry in wanted
    )
    return Chosen((*files, *staged), {_path(view.info, entry): entry for entry in wanted}, tuple(whole))


def _path(info: TableInfo, file: FileEntry | DataFile) -> str:
    return stored_path(info.location, file.path)


def _new_folder(info: TableInfo, entry: FileEntry) -> str | None:
    """The folder of the table's own for the rows of an imported file."""
    if not entry.path.startswith("/"):
        return None
    return "/".join([info.location, *(partition_segment(name, entry.partition[name]) for name in info.partition_by)])


def _files(reader: CatalogReader, table_id: int, version: int, ids: list[int] | None) -> list[FileEntry]:
    return reader.files(table_id, version, ids) if ids is None or ids else []


def _maybe_null(reader: CatalogReader, view: View, rule: MergeRule) -> set[int]:
    """Files in which a key column may hold a NULL."""
    keys = [name for name in rule.keys if view.schema.field(name).nullable]
    if not keys:
        return set()
    found = bind(any_of([IsNull(Column((name,))) for name in keys]), view.schema)
    return set(select(reader, view.info.table_id, view.head.version, found))


def _to_delete(
    reader: CatalogReader, view: View, rule: MergeRule, visible: Sequence[FileEntry], wanted: set[int]
) -> tuple[list[FileEntry], list[FileEntry]]:
    """Of the files that hold no key of the source those in which all rows go, and those in which some may."""
    if not rule.strategy.deletes:
        return [], []
    if rule.clauses is not None and not rule.clauses.only_deletes_others:  # some may be updated, or stay
        kept = replace(rule, clauses=None)
        return [], [entry for found in _to_delete(reader, view, kept, visible, wanted) for entry in found]
    if rule.where is None:
        return [entry for entry in visible if entry.file_id not in wanted], []
    if rule.where == Constant(False):
        return [], []
    known = {entry.file_id for entry in visible} - wanted
    whole, partial = sorted_out(reader, view.info, view.head, view.schema, rule.where)
    return (
        [entry for entry in whole if entry.file_id in known],
        [entry for entry in partial if entry.file_id in known],
    )


def _key_bounds(reader: CatalogReader, view: View, rule: MergeRule) -> dict[int, dict[str, tuple[Any, Any]]]:
    """Lowest and highest value of key columns by file, where statistics have them exactly."""
    table_id = view.info.table_id
    segment_ids = reader.segment_ids(table_id, view.head.version)
    segments = reader.segments(table_id, segment_ids)
    found: dict[int, dict[str, tuple[Any, Any]]] = {}
    for leaf in leaves(view.schema):
        name = leaf.path[0]
        if len(leaf.path) > 1 or name not in rule.keys or not _has_values(leaf.type):
            continue
        pages = reader.pages(table_id, leaf.field_id, segment_ids)
        for segment in segments:
            page = pages.get(segment.segment_id)
            if page is None:
                continue
            owners = np.repeat(segment.file_ids, segment.row_group_counts).tolist()
            ends: dict[int, tuple[list[Any], list[Any]]] = {}
            for index, owner in enumerate(owners):
                low, high = page.bounds(index) or (None, None)
                lows, highs = ends.setdefault(owner, ([], []))
                lows.append(low)
                highs.append(high)
            for owner, (lows, highs) in ends.items():
                if all(_is_known(key) for key in (*lows, *highs)):
                    limits = key_value(min(lows), leaf.type), key_value(max(highs), leaf.type)
                    found.setdefault(owner, {})[name] = limits
    return found


def _has_values(type_: pa.DataType) -> bool:
    """Whether a key of the type says exactly which value it is."""
    return bounded(type_) and is_prunable(type_) and is_exact(type_) and not has_bytes_keys(type_)


def _is_known(key: Any) -> bool:
    """Whether the key is that of a value, not one at the ends, where keys are clamped or mean nothing."""
    return isinstance(key, int) and 0 < key < MAX_KEY
