"""Writes whose parts run in different processes: begun in one, their files written in others, committed in a third.

That is how Spark runs the writers of a data source. Nothing keeps the lease up while the job runs, so it is a long one;
and whoever ends the write asks the registry, not its memory, whether it was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from parqlake.core.errors import CatalogError
from parqlake.core.evolution.write_modes import Merged, schema_mode
from parqlake.core.model import DataFile, Head, Operation, Snapshot, TableInfo, TransactionStatus
from parqlake.core.ports import IdempotencyKeyUsed, WriteSpec
from parqlake.table.commit import TableChange, commit
from parqlake.table.context import LakeContext
from parqlake.table.options import OPERATION_KEY, WriteOptions, write_spec
from parqlake.table.unit import abort, delete_quietly, new_record
from parqlake.table.versions import live_head
from parqlake.table.write_schemas import merged_schema
from parqlake.table.writes import check_key

LEASE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class DetachedWrite:
    """What the processes of one write hand to each other."""

    txn_id: str
    info: TableInfo
    head: Head
    merged: Merged
    """The schema that the rows are written by, and whether it is new."""
    spec: WriteSpec
    replace_all: bool


def check(context: LakeContext, info: TableInfo, data_schema: pa.Schema, options: WriteOptions) -> WriteSpec:
    """Checks that data of this schema can be written, and returns how; nothing is registered."""
    _, merged = _merged(context, info, data_schema, options)
    return write_spec(info, merged.schema, options, evolves=True)


def begin(
    context: LakeContext,
    info: TableInfo,
    data_schema: pa.Schema,
    *,
    replace_all: bool,
    engine: str,
    options: WriteOptions,
    message: str | None = None,
    idempotency_key: str | None = None,
) -> DetachedWrite:
    """Checks that the data fits, and registers the transaction before the first file is written."""
    check_key(idempotency_key)
    head, merged = _merged(context, info, data_schema, options)
    operation = Operation.OVERWRITE if replace_all else Operation.APPEND
    record = new_record(operation, engine, lease=LEASE, message=message, idempotency_key=idempotency_key)
    spec = write_spec(info, merged.schema, options, txn_id=record.txn_id, evolves=True)
    spec = replace(spec, footer={**spec.footer, OPERATION_KEY: str(operation)})
    context.catalog.begin_transaction(record, [info.table_id])
    return DetachedWrite(record.txn_id, info, head, merged, spec, replace_all)


def finish(context: LakeContext, write: DetachedWrite, files: Sequence[DataFile]) -> Snapshot | None:
    """Publishes the files as one version; None if the idempotency key was used before, and nothing is to be done."""
    operation = Operation.OVERWRITE if write.replace_all else Operation.APPEND
    schema = write.merged.schema if write.merged.is_new else None
    change = TableChange(
        write.info, write.head, operation, add=tuple(files), replace_all=write.replace_all, schema=schema
    )
    try:
        return commit(context, write.txn_id, [change])[write.info.table_id]
    except IdempotencyKeyUsed:
        abandon(context, write, files)
        return None


def abandon(context: LakeContext, write: DetachedWrite, files: Sequence[DataFile]) -> TransactionStatus | None:
    """Ends the write without a version, unless it has one: files are deleted only if the registry says aborted.

    Returns how it ended; None if the catalog cannot be asked, and everything is left to recovery.
    """
    try:
        status = abort(context, write.txn_id)
    except CatalogError:
        return None
    if status is TransactionStatus.ABORTED:
        delete_quietly(context, [f"{write.spec.location}/{file.path}" for file in files])
    return status


def _merged(
    context: LakeContext, info: TableInfo, data_schema: pa.Schema, options: WriteOptions
) -> tuple[Head, Merged]:
    """The table as it is, and the schema of the write by its `schema_mode`; raises if the data cannot be had in."""
    with context.catalog.read() as reader:
        head = live_head(reader, info)
        schema = reader.schema(info.table_id, head.schema_id)
        mode = schema_mode(options.get("schema_mode"))
        return head, merged_schema(reader, info, head, schema, data=data_schema, mode=mode)
