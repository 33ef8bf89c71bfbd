"""Writing one version of one table: files, segments, statistics, and the head that makes them visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from parqlake.catalogs.dialect import Row, Session
from parqlake.catalogs.footers import copy_footers, store_footers
from parqlake.catalogs.merging import load_pieces, merge_small_segments
from parqlake.catalogs.rows import FILE_COLUMNS, checked_text, json_text, snapshot_row
from parqlake.catalogs.segments import Piece, piece_of
from parqlake.catalogs.storing import count_small, pack_segments, schema_row, store_segments
from parqlake.catalogs.tables import FILE, SCHEMA_VERSION, SNAPSHOT, TABLE_HEAD
from parqlake.core.errors import ConcurrentDropError, ConcurrentRemoveError, ConflictError, TableNotFoundError
from parqlake.core.model import LIVE, FileEntry, Snapshot, from_micros, to_micros
from parqlake.core.ports import NewSnapshot

# The compare-and-swap: the ids of the new version, its time and the running totals all come from this one row.
_SWAP = (
    "UPDATE table_head SET head = head + 1, next_file = next_file + ?, next_segment = next_segment + ?,"
    " small_segments = small_segments + ?, next_schema = next_schema + ?,"
    " schema_id = CASE WHEN ? = 1 THEN next_schema ELSE schema_id END, row_count = row_count + ?,"
    " file_count = file_count + ?, row_group_count = row_group_count + ?, size_bytes = size_bytes + ?,"
    " committed_at = CASE WHEN ? > committed_at THEN ? ELSE committed_at + 1 END"
    " WHERE table_id = ? AND head = ? AND next_file = ? AND live = 1"
    " RETURNING schema_id, next_schema, next_file, next_segment, small_segments, row_count, file_count,"
    " row_group_count, size_bytes, committed_at"
)
_HEAD_NOW = TABLE_HEAD.select("WHERE table_id = ?", "head", "live")
_REMOVE = "UPDATE file SET removed = ? WHERE table_id = ? AND file_id = ANY_OF(?) AND removed = ?"
_FILES_BY_ID = FILE.select(
    "WHERE table_id = ? AND file_id = ANY_OF(?)", *FILE_COLUMNS[: FILE_COLUMNS.index("added")], "segment_id"
)


@dataclass(frozen=True, slots=True)
class _NewFile:
    """A row of `file` that still lacks version and segment."""

    file_id: int
    path: str
    size_bytes: int
    row_count: int
    row_group_count: int
    partition: str
    schema_id: int | None
    """None: the schema of the new version."""


def write_snapshot(
    session: Session, new: NewSnapshot, *, txn_id: str, committed_at: datetime, merge_segments_at: int
) -> Snapshot:
    """Writes version `new.base.version + 1`, or raises `ConflictError` if the catalog is not as `new` expects."""
    version = new.base.version + 1
    added, pieces = _added(new)
    restored, restored_pieces = _restored(session, new)
    added += restored
    packed = pack_segments(pieces + restored_pieces)
    has_schema = int(new.schema is not None)
    stored_as = list({id(file.schema): file.schema for file in new.add if file.schema is not None}.values())
    added_rows = sum(f.row_count for f in added)
    removed_rows = sum(f.row_count for f in new.remove)
    micros = to_micros(committed_at)
    row = session.row(
        _SWAP,
        (
            len(added),
            len(packed),
            count_small(packed),
            has_schema + len(stored_as),
            has_schema,
            added_rows - removed_rows,
            len(added) - len(new.remove),
            sum(f.row_group_count for f in added) - sum(f.row_group_count for f in new.remove),
            sum(f.size_bytes for f in added) - sum(f.size_bytes for f in new.remove),
            micros,
            micros,
            new.table_id,
            new.base.version,
            new.base.next_file,
        ),
    )
    if row is None:
        raise _moved_on(session, new)
    schema_id, next_schema, next_file, next_segment, small = row[:5]
    row_count, file_count, row_group_count, size_bytes, time = row[5:]
    if new.schema is not None:
        session.insert(SCHEMA_VERSION, [schema_row(new.table_id, schema_id, time, new.schema)])
    numbers = {id(schema): n for n, schema in enumerate(stored_as, next_schema - len(stored_as))}
    if stored_as:
        rows = [schema_row(new.table_id, numbers[id(schema)], time, schema) for schema in stored_as]
        session.insert(SCHEMA_VERSION, rows)
        own = [replace(f, schema_id=numbers.get(id(d.schema))) for f, d in zip(added, new.add, strict=False)]
        added = own + added[len(own) :]
    _remove(session, new.table_id, new.remove, version)
    snapshot = Snapshot(
        table_id=new.table_id,
        version=version,
        schema_id=schema_id,
        committed_at=from_micros(time),
        operation=new.operation,
        txn_id=txn_id,
        data_change=new.data_change,
        row_count=row_count,
        file_count=file_count,
        row_group_count=row_group_count,
        size_bytes=size_bytes,
        added_files=len(added),
        removed_files=len(new.remove),
        added_rows=added_rows - new.carried_rows,
        removed_rows=removed_rows - new.carried_rows,
        summary=dict(new.summary),
    )
    # The snapshot's key is the second guard, should the first one ever fail.
    session.insert(SNAPSHOT, [snapshot_row(snapshot, next_file=next_file)])
    first_segment = next_segment - len(packed)
    segment_of = store_segments(session, new.table_id, packed, first_segment=first_segment, added=version)
    session.insert(
        FILE, [_file_row(new.table_id, file, schema_id, version, segment_of[file.file_id]) for file in added]
    )
    store_footers(session, new.table_id, {i: file.footer for i, file in enumerate(new.add, new.base.next_file)})
    if small > merge_segments_at:
        merge_small_segments(session, new.table_id)
    return snapshot


def _added(new: NewSnapshot) -> tuple[list[_NewFile], list[Piece]]:
    files = []
    pieces = []
    for file_id, file in enumerate(new.add, new.base.next_file):
        piece = piece_of(file, file_id)
        pieces.append(piece)
        path = checked_text(file.path, "path")
        partition = json_text(dict(file.partition)) if file.partition else "{}"
        files.append(_NewFile(file_id, path, file.size_bytes, file.row_count, len(piece.rows), partition, None))
    return files, pieces


def _restored(session: Session, new: NewSnapshot) -> tuple[list[_NewFile], list[Piece]]:
    """Earlier files under new ids; the statistics of their row groups come out of the stored segments."""
    if not new.readd:
        return [], []
    old_ids = [entry.file_id for entry in new.readd]
    stored = {row[0]: row for row in session.rows(_FILES_BY_ID, (new.table_id, session.ids(old_ids)))}
    gone = [entry for entry in new.readd if entry.file_id not in stored]
    if gone:
        raise ConcurrentRemoveError(
            f"{len(gone)} of the files to restore, such as {gone[0].path!r}, are not in the catalog any more"
        )
    files = []
    places: dict[int, dict[int, int]] = {}
    for file_id, old_id in enumerate(old_ids, new.base.next_file + len(new.add)):
        _, path, size_bytes, row_count, row_group_count, partition, schema_id, segment_id = stored[old_id]
        files.append(_NewFile(file_id, path, size_bytes, row_count, row_group_count, partition, schema_id))
        places.setdefault(segment_id, {})[old_id] = file_id
    copy_footers(session, new.table_id, {old: new_id for moved in places.values() for old, new_id in moved.items()})
    return files, load_pieces(session, new.table_id, places)


def _file_row(table_id: int, file: _NewFile, schema_id: int, version: int, segment_id: int) -> Row:
    return (
        table_id,
        file.file_id,
        file.path,
        file.size_bytes,
        file.row_count,
        file.row_group_count,
        file.partition,
        schema_id if file.schema_id is None else file.schema_id,
        version,
        LIVE,
        segment_id,
    )


def _remove(session: Session, table_id: int, entries: Sequence[FileEntry], version: int) -> None:
    if not entries:
        return
    ids = session.ids([entry.file_id for entry in entries])
    removed = session.change(_REMOVE, (version, table_id, ids, LIVE))
    if removed != len(entries):
        raise ConcurrentRemoveError(
            f"table {table_id}: {len(entries) - removed} of the {len(entries)} files that this operation replaces,"
            f" such as {entries[0].path!r}, were removed by another commit; run it again"
        )


def _moved_on(session: Session, new: NewSnapshot) -> Exception:
    row = session.row(_HEAD_NOW, (new.table_id,))
    if row is None:
        return TableNotFoundError(f"the catalog has no table with id {new.table_id}")
    head, live = row
    if not live:
        return ConcurrentDropError(f"table {new.table_id} was dropped meanwhile; restore it with undrop_table")
    return ConflictError(
        f"table {new.table_id} is at version {head}, not at {new.base.version} as expected; run the operation again"
    )
