"""Rows of the catalog's tables as the values of `core.model`, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from parqlake.catalogs.dialect import Row
from parqlake.core.errors import InputError
from parqlake.core.model import (
    FileEntry,
    Head,
    Operation,
    Snapshot,
    TableInfo,
    Tag,
    TransactionRecord,
    TransactionStatus,
    from_micros,
    to_micros,
)
from parqlake.core.names import TableName

HEAD_COLUMNS = ("table_id", "head", "schema_id", "next_file", "next_segment", "live")
FILE_COLUMNS = (
    "file_id",
    "path",
    "size_bytes",
    "row_count",
    "row_group_count",
    "partition_values",
    "schema_id",
    "added",
    "removed",
)


_LONGEST_KEY = 1024
"""What every database can keep in an index."""


def checked_text(text: str, what: str) -> str:
    """Returns the text if every database can hold it: no NUL, no half of a surrogate pair."""
    if "\0" in text:
        raise InputError(f"the {what} {text[:60]!r} holds a NUL character; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the {what} {text[:60]!r} is not valid Unicode text; rename it") from error
    return text


def json_text(value: object) -> str:
    """The value as JSON in plain ASCII, which every database holds unchanged."""
    return json.dumps(value, separators=(",", ":"))


def head_of(row: Row) -> Head:
    """From `HEAD_COLUMNS`."""
    table_id, version, schema_id, next_file, next_segment, live = row
    return Head(table_id, version, schema_id, next_file, next_segment, bool(live))


def table_of(row: Row) -> TableInfo:
    """From all columns of `lake_table`."""
    table_id, uuid, namespace, name, location, partition_by, sort_by, properties, created_at, dropped_at = row
    return TableInfo(
        table_id,
        uuid,
        TableName(namespace, name),
        location,
        tuple(json.loads(partition_by)),
        tuple(json.loads(sort_by)),
        json.loads(properties),
        from_micros(created_at),
        None if dropped_at is None else from_micros(dropped_at),
    )


def table_row(info: TableInfo) -> Row:
    """All columns of `lake_table`."""
    return (
        info.table_id,
        checked_text(info.uuid, "table's uuid"),
        checked_text(info.name.namespace, "namespace"),
        checked_text(info.name.name, "table name"),
        checked_text(info.location, "table's location"),
        json_text(list(info.partition_by)),
        json_text(list(info.sort_by)),
        json_text(dict(info.properties)),
        to_micros(info.created_at),
        None if info.dropped_at is None else to_micros(info.dropped_at),
    )


def files_of(rows: Iterable[Row]) -> list[FileEntry]:
    """From `FILE_COLUMNS`, sorted by file id; equal partitions share one mapping."""
    parsed: dict[str, Mapping[str, Any]] = {}
    entries = []
    for file_id, path, size_bytes, row_count, row_group_count, text, schema_id, added, removed in rows:
        partition = parsed.get(text)
        if partition is None:
            partition = parsed[text] = json.loads(text)
        entries.append(
            FileEntry(file_id, path, size_bytes, row_count, row_group_count, partition, schema_id, added, removed)
        )
    entries.sort(key=lambda entry: entry.file_id)
    return entries


def snapshot_of(row: Row) -> Snapshot:
    """From all columns of `snapshot`."""
    counts = row[7:15]
    row_count, file_count, row_group_count, size_bytes, added_files, removed_files, added_rows, removed_rows = counts
    return Snapshot(
        table_id=row[0],
        version=row[1],
        schema_id=row[2],
        committed_at=from_micros(row[3]),
        operation=Operation(row[4]),
        txn_id=row[5],
        data_change=bool(row[6]),
        row_count=row_count,
        file_count=file_count,
        row_group_count=row_group_count,
        size_bytes=size_bytes,
        added_files=added_files,
        removed_files=removed_files,
        added_rows=added_rows,
        removed_rows=removed_rows,
        summary=json.loads(row[15]),
    )


def snapshot_row(snapshot: Snapshot, *, next_file: int) -> Row:
    """All columns of `snapshot`."""
    return (
        snapshot.table_id,
        snapshot.version,
        snapshot.schema_id,
        to_micros(snapshot.committed_at),
        str(snapshot.operation),
        snapshot.txn_id,
        int(snapshot.data_change),
        snapshot.row_count,
        snapshot.file_count,
        snapshot.row_group_count,
        snapshot.size_bytes,
        snapshot.added_files,
        snapshot.removed_files,
        snapshot.added_rows,
        snapshot.removed_rows,
        json_text(dict(snapshot.summary)),
        next_file,
    )


def transaction_of(row: Row) -> TransactionRecord:
    """From all columns of `txn`."""
    txn_id, status, who, started_at, lease_until, operation, engine, message, key, ended_at, versions = row
    return TransactionRecord(
        txn_id,
        TransactionStatus(status),
        who,
        from_micros(started_at),
        from_micros(lease_until),
        operation,
        engine,
        message,
        key,
        None if ended_at is None else from_micros(ended_at),
        {int(table_id): version for table_id, version in json.loads(versions).items()},
    )


def transaction_row(record: TransactionRecord) -> Row:
    """All columns of `txn`."""
    optional = (record.message, record.idempotency_key)
    message, key = (None if text is None else checked_text(text, "transaction's text") for text in optional)
    if key is not None and len(key.encode()) > _LONGEST_KEY:
        raise InputError(f"the idempotency key {key[:60]!r}… is too long: at most {_LONGEST_KEY} bytes")
    return (
        checked_text(record.txn_id, "transaction id"),
        str(record.status),
        checked_text(record.who, "transaction's owner"),
        to_micros(record.started_at),
        to_micros(record.lease_until),
        checked_text(record.operation, "operation"),
        checked_text(record.engine, "engine"),
        message,
        key,
        None if record.ended_at is None else to_micros(record.ended_at),
        json_text({str(table_id): version for table_id, version in record.versions.items()}),
    )


def tag_of(row: Row) -> Tag:
    """From all columns of `tag`."""
    table_id, name, version, created_at = row
    return Tag(table_id, name, version, from_micros(created_at))
