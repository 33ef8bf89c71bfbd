"""Import: existing Parquet files become a table where they lie, in one commit. They are not moved, copied or changed.

The files stay their owner's: versions refer to them, but vacuum never deletes one, whatever its name. What parqlake
writes later goes to the table's own folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import InvalidOptionError, TableExistsError
from parqlake.core.model import Operation, Snapshot
from parqlake.core.names import TableName, parse_table_name
from parqlake.core.ports import CatalogReader, CatalogWriter, IdempotencyKeyUsed, NewSnapshot
from parqlake.core.schema import without_ids
from parqlake.table.context import LakeContext, now
from parqlake.table.importing_files import FoundFiles, find_files
from parqlake.table.importing_footers import read_footers
from parqlake.table.importing_schemas import Adopted, adopt
from parqlake.table.options import IMPORTED_FROM
from parqlake.table.sources import schema_of
from parqlake.table.unit import Unit
from parqlake.table.writes import check_key


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import made, or would make.

    Attributes:
        table: the table's name.
        version: the version that holds the files: 1; 0 if nothing was written.
        files: data files of the table.
        row_count: rows in them.
        size_bytes: of the files.
        schema: the table's columns.
        partition_by: columns whose values stand in the names of folders.
        schemas: how many kinds of files there are, by their columns and types.
        ignored: files that were left alone: hidden ones, `_SUCCESS`, `_metadata` and the like.
        transaction_id: the transaction, as `history` shows it; empty if nothing was written.
        dry_run: True if nothing was written.
        replayed: True if an earlier call with the same idempotency key did the work.
    """

    table: str
    version: int
    files: int
    row_count: int
    size_bytes: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    schemas: int = 1
    ignored: tuple[str, ...] = ()
    transaction_id: str = ""
    dry_run: bool = False
    replayed: bool = False


def import_parquet(
    context: LakeContext,
    name: str,
    source: Any,
    *,
    partition_by: Sequence[str] | None,
    schema: Any,
    dry_run: bool,
    message: str | None,
    idempotency_key: str | None,
) -> ImportResult:
    """See `Lake.import_parquet`."""
    parsed = parse_table_name(name)
    check_key(idempotency_key)
    given = None if schema is None else schema_of(schema)
    with context.catalog.read() as reader:
        earlier = _earlier(reader, parsed, idempotency_key)
        if earlier is not None:
            return earlier
        if reader.table(parsed) is not None:
            raise TableExistsError(
                f'table "{parsed}" is there already; import under another name, or drop it first, which deletes no '
                "imported file"
            )
        tables = reader.tables_on_record()
    found = find_files(context.store, source, tables)
    adopted = adopt(read_footers(context.store, found.files), given, partition_by)
    context.default_engine.check_schema(adopted.schema)
    if dry_run:
        return _told(parsed, adopted, found)
    unit = Unit(
        context,
        operation=Operation.IMPORT,
        engine="",
        table_ids=(),
        message=message,
        idempotency_key=idempotency_key,
    )
    try:
        with unit:
            unit.publish(lambda writer: _publish(writer, unit.txn_id, parsed, adopted, found))
    except IdempotencyKeyUsed:
        with context.catalog.read() as reader:
            earlier = _earlier(reader, parsed, idempotency_key)
            assert earlier is not None
            return earlier
    return _told(parsed, adopted, found, txn_id=unit.txn_id)


def _publish(
    writer: CatalogWriter, txn_id: str, name: TableName, adopted: Adopted, found: FoundFiles
) -> dict[int, Snapshot]:
    """The table and its first version, in one SQL transaction."""
    at = now()
    identity = uuid_utils.uuid7().hex
    info = writer.create_table(
        uuid=identity,
        name=name,
        location=f"{name.namespace}/{name.name}-{identity[-12:]}",
        schema=adopted.schema,
        partition_by=adopted.partition_by,
        sort_by=(),
        properties={IMPORTED_FROM: found.source},
        created_at=at,
    )
    new = NewSnapshot(
        table_id=info.table_id,
        base=writer.head(info.table_id),
        operation=Operation.IMPORT,
        data_change=True,
        add=adopted.files,
        remove=(),
        summary={"imported_files": len(adopted.files), "ignored_files": len(found.ignored)},
    )
    snapshot = writer.add_snapshot(new, txn_id=txn_id, committed_at=at)
    writer.finish_transaction(txn_id, versions={info.table_id: snapshot.version}, at=at)
    return {info.table_id: snapshot}


def _told(name: TableName, adopted: Adopted, found: FoundFiles, *, txn_id: str = "") -> ImportResult:
    kinds = {id(file.schema) for file in adopted.files}
    return ImportResult(
        table=str(name),
        version=1 if txn_id else 0,
        files=len(adopted.files),
        row_count=sum(file.row_count for file in adopted.files),
        size_bytes=sum(file.size_bytes for file in adopted.files),
        schema=without_ids(adopted.schema),
        partition_by=adopted.partition_by,
        schemas=max(1, len(kinds)),
        ignored=found.ignored,
        transaction_id=txn_id,
        dry_run=not txn_id,
    )


def _earlier(reader: CatalogReader, name: TableName, key: str | None) -> ImportResult | None:
    """What an import with this key made before."""
    record = None if key is None else reader.transaction_by_key(key)
    if record is None:
        return None
    made = reader.table(name)
    version = None if made is None else record.versions.get(made.table_id)
    if record.operation != Operation.IMPORT or made is None or version is None:
        raise InvalidOptionError(
            f'idempotency_key="{key}" was used by transaction {record.txn_id} for something else; use a key of its own'
        )
    snapshot = reader.snapshot(made.table_id, version)
    schema = reader.schema(made.table_id, 1 if snapshot is None else snapshot.schema_id)
    return ImportResult(
        table=str(name),
        version=version,
        files=0 if snapshot is None else snapshot.added_files,
        row_count=0 if snapshot is None else snapshot.added_rows,
        size_bytes=0 if snapshot is None else snapshot.size_bytes,
        schema=without_ids(schema),
        partition_by=made.partition_by,
        transaction_id=record.txn_id,
        replayed=True,
    )
