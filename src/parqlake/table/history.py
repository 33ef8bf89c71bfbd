"""What a table is made of and how it came to be so: history, files, row groups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from parqlake.core.keys import key_value
from parqlake.core.model import Operation, TableInfo
from parqlake.core.ports import CatalogReader
from parqlake.core.schema import leaves

_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("row_count", pa.int64()),
        ("row_group_count", pa.int64()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("added_in_version", pa.int64()),
    ]
)
_ROW_GROUPS = pa.schema(
    [
        ("path", pa.string()),
        ("row_group", pa.int64()),
        ("row_count", pa.int64()),
        ("size_bytes", pa.int64()),
        ("offset", pa.int64()),
        ("column", pa.string()),
        ("lower_bound", pa.string()),
        ("upper_bound", pa.string()),
        ("null_count", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version: what was done, by whom, and what the table held afterwards."""

    version: int
    committed_at: datetime
    operation: Operation
    row_count: int
    file_count: int
    size_bytes: int
    added_rows: int
    removed_rows: int
    added_files: int
    removed_files: int
    who: str
    engine: str
    message: str | None
    transaction_id: str
    tags: tuple[str, ...]


def history(reader: CatalogReader, info: TableInfo, *, limit: int | None) -> list[HistoryEntry]:
    """The versions of a table, newest first."""
    tags: dict[int, list[str]] = {}
    for tag in reader.tags(info.table_id):
        tags.setdefault(tag.version, []).append(tag.name)
    entries = []
    for snapshot in reader.snapshots(info.table_id, limit=limit):
        record = reader.transaction(snapshot.txn_id)
        entries.append(
            HistoryEntry(
                version=snapshot.version,
                committed_at=snapshot.committed_at,
                operation=snapshot.operation,
                row_count=snapshot.row_count,
                file_count=snapshot.file_count,
                size_bytes=snapshot.size_bytes,
                added_rows=snapshot.added_rows,
                removed_rows=snapshot.removed_rows,
                added_files=snapshot.added_files,
                removed_files=snapshot.removed_files,
                who=record.who if record else "",
                engine=record.engine if record else "",
                message=record.message if record else None,
                transaction_id=snapshot.txn_id,
                tags=tuple(tags.get(snapshot.version, ())),
            )
        )
    return entries


def files(reader: CatalogReader, info: TableInfo, version: int) -> pa.Table:
    """The files of a version, as an Arrow table."""
    entries = reader.files(info.table_id, version) if version else []
    columns = [
        [entry.path for entry in entries],
        [entry.size_bytes for entry in entries],
        [entry.row_count for entry in entries],
        [entry.row_group_count for entry in entries],
        [list(entry.partition.items()) for entry in entries],
        [entry.added for entry in entries],
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, _FILES, strict=True)], _FILES)


def row_groups(reader: CatalogReader, info: TableInfo, version: int, schema: pa.Schema) -> pa.Table:
    """The row groups of a version and the statistics of each column, one row for each pair, as an Arrow table.

    Bounds are shown as text; those of strings are cut short, and NULL means unknown.
    """
    paths = {entry.file_id: entry.path for entry in reader.files(info.table_id, version)} if version else {}
    segment_ids = reader.segment_ids(info.table_id, version) if version else []
    columns = leaves(schema)
    pages = [reader.pages(info.table_id, leaf.field_id, segment_ids) for leaf in columns]
    rows: list[tuple[object, ...]] = []
    for segment in reader.segments(info.table_id, segment_ids):
        owners = np.repeat(segment.file_ids, segment.row_group_counts).tolist()
        starts = np.repeat(np.cumsum(segment.row_group_counts) - segment.row_group_counts, segment.row_group_counts)
        for index, file_id in enumerate(owners):
            if file_id not in paths:
                continue
            place = (paths[file_id], index - int(starts[index]), int(segment.rows[index]))
            extent = (int(segment.sizes[index]), int(segment.offsets[index]))
            for leaf, found in zip(columns, pages, strict=True):
                page = found.get(segment.segment_id)
                low = high = nulls = None
                if page is not None:
                    bounds = page.bounds(index) or (None, None)
                    low, high = (key_value(bound, leaf.type) for bound in bounds)
                    nulls = 0 if page.nulls is None else int(page.nulls[index])
                    nulls = None if nulls < 0 else nulls
                rows.append((*place, *extent, ".".join(leaf.path), _text(low), _text(high), nulls))
    values = zip(*rows, strict=True) if rows else ([] for _ in _ROW_GROUPS)
    arrays = [pa.array(list(column), field.type) for column, field in zip(values, _ROW_GROUPS, strict=True)]
    return pa.table(arrays, _ROW_GROUPS)


def _text(bound: object) -> str | None:
    return None if bound is None else bound.hex() if isinstance(bound, bytes) else str(bound)
