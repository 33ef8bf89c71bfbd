"""Export: what a version holds, handed to whoever writes it down in another format's words. No data file is copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.keys import is_prunable
from parqlake.core.model import TableInfo, Tag
from parqlake.core.names import stored_path
from parqlake.core.pages import Key
from parqlake.core.ports import CatalogReader, Store
from parqlake.core.schema import leaves
from parqlake.table.context import LakeContext, now
from parqlake.table.importing_files import below_root
from parqlake.table.planning import stored_schemas
from parqlake.table.versions import resolve

FORMATS = ("delta", "iceberg")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the catalog knows of a column in one file: order keys (see `core.keys`), None where unknown."""

    low: Key | None
    high: Key | None
    nulls: int | None


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A data file of the version."""

    path: str
    """Relative to the lake's root."""
    size_bytes: int
    row_count: int
    partition: Mapping[str, Any]
    stored: pa.Schema | None
    """How the file is stored, with field ids, if not as the version's schema says."""
    imported: bool
    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """By field id of the leaf."""


@dataclass(frozen=True, slots=True)
class Exportable:
    """A version of a table, and where its description goes."""

    info: TableInfo
    version: int
    committed_at: datetime
    schema: pa.Schema
    """With field ids."""
    files: tuple[ExportFile, ...]
    store: Store
    folder: str | None
    """Relative to the lake's root; None if the caller did not say."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote.

    Attributes:
        format: `"delta"` or `"iceberg"`.
        url: the address that the other engine opens.
        metadata: the file that describes the table: the newest entry of the Delta log, or Iceberg's `metadata.json`.
        version: the table's version that was exported.
        export_version: its number in the other format.
        files: data files, none of which was copied.
        row_count: rows in them.
        changed: False if the same was there already, and nothing was written.
        tag: the tag that keeps the version's files from being vacuumed; None if none was asked for.
    """

    format: str
    url: str
    metadata: str
    version: int
    export_version: int
    files: int
    row_count: int
    changed: bool = True
    tag: str | None = None


def export(
    context: LakeContext, info: TableInfo, format_: str, path: Any, *, version: int | str | None, tag: bool
) -> ExportResult:
    """See `Table.export`."""
    if format_ not in FORMATS:
        raise InvalidOptionError(f'format={format_!r} is unknown; use "delta" or "iceberg"')
    write = context.connect_to(f"{format_}_export")
    folder = None if path is None else below_root(context.store, str(path), must_exist=False)
    with context.catalog.read() as reader:
        number, schema_id = resolve(reader, info, version=version, as_of=None)
        current = reader.table_by_id(info.table_id) or info
        schema = reader.schema(info.table_id, schema_id)
        asked = _exportable(reader, current, number, schema, store=context.store, folder=folder)
    result: ExportResult = write(asked)
    if not tag or not number:
        return result
    name = f"exported-{format_}"
    with context.catalog.write() as writer:
        writer.set_tag(Tag(info.table_id, name, number, now()))
    return replace(result, tag=name)


def _exportable(
    reader: CatalogReader, info: TableInfo, version: int, schema: pa.Schema, *, store: Store, folder: str | None
) -> Exportable:
    entries = reader.files(info.table_id, version) if version else []
    snapshot = reader.snapshot(info.table_id, version)
    stored = stored_schemas(reader, info, schema, entries)
    bounds = _bounds(reader, info.table_id, version, schema) if version else {}
    files = tuple(
        ExportFile(
            stored_path(info.location, entry.path),
            entry.size_bytes,
            entry.row_count,
            entry.partition,
            stored.get(entry.schema_id),
            entry.path.startswith("/"),
            bounds.get(entry.file_id, {}),
        )
        for entry in entries
    )
    committed_at = info.created_at if snapshot is None else snapshot.committed_at
    return Exportable(info, version, committed_at, schema, files, store, folder)


def _bounds(reader: CatalogReader, table_id: int, version: int, schema: pa.Schema) -> dict[int, dict[int, Bounds]]:
    """Of each file and leaf, over all its row groups."""
    found: dict[int, dict[int, Bounds]] = {}
    segment_ids = reader.segment_ids(table_id, version)
    segments = reader.segments(table_id, segment_ids)
    for leaf in leaves(schema):
        if leaf.repeated or not is_prunable(leaf.type):
            continue
        pages = reader.pages(table_id, leaf.field_id, segment_ids)
        for segment in segments:
            page = pages.get(segment.segment_id)
            used = segment.row_group_counts > 0
            if page is None or not used.any():
                continue
            starts = (np.cumsum(segment.row_group_counts) - segment.row_group_counts)[used]
            nulls = np.zeros(len(page.mins), dtype=np.int64) if page.nulls is None else page.nulls
            counts = np.where(np.minimum.reduceat(nulls, starts) < 0, -1, np.add.reduceat(nulls, starts)).tolist()
            whole = replace(
                page, mins=np.minimum.reduceat(page.mins, starts), maxs=np.maximum.reduceat(page.maxs, starts)
            )
            for index, file_id in enumerate(segment.file_ids[used].tolist()):
                low, high = whole.bounds(index) or (None, None)
                count = None if counts[index] < 0 else int(counts[index])
                found.setdefault(file_id, {})[leaf.field_id] = Bounds(low, high, count)
    return found
