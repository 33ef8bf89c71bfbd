"""Commit: from what was prepared to a new version, in one SQL transaction over all tables.

Heads are locked first; then conflicts are decided on what is really there, and the commit goes ahead or is refused. So
there is nothing to race for and nothing to retry but a busy database. If the answer is lost on the way, the registry
of transactions says what happened.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from parqlake.core.conflicts import Changes, Intent, ReadSet, check
from parqlake.core.errors import (
    CatalogBusyError,
    CatalogError,
    ConcurrentDropError,
    ConcurrentRemoveError,
    ConflictError,
    TableExistsError,
    TransactionExpiredError,
    UnknownOutcomeError,
    VersionNotFoundError,
)
from parqlake.core.model import DataFile, FileEntry, Head, Operation, Snapshot, TableInfo, TransactionStatus
from parqlake.core.ports import CatalogReader, CatalogWriter, NewSnapshot
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.core.records_port import NewRecord
from parqlake.table.cluster_policy import follow_schema
from parqlake.table.context import LakeContext, now
from parqlake.table.planning import select

SettleRecords = Callable[[Mapping[int, Snapshot]], Sequence[NewRecord]]
"""Gives the records of a commit, once it knows the versions that it makes; may be asked again."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a transaction does to one table, prepared on the version `base`."""

    info: TableInfo
    base: Head
    operation: Operation
    data_change: bool = True
    add: tuple[DataFile, ...] = ()
    remove: tuple[FileEntry, ...] = ()
    replace_all: bool = False
    """Remove whatever is live at the moment of the commit, too."""
    restore_version: int | None = None
    """Make the files of this version the live ones."""
    carried_rows: int = 0
    """Rows of removed files that stand in added ones again."""
    reads: ReadSet = field(default_factory=ReadSet)
    schema: pa.Schema | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)
    writes: bool = True
    """Whether the table gets a new version; False for a table that was only read."""
    is_new: bool = False
    """Whether the table was made unseen for this transaction, and gets its name by the commit."""


def commit(
    context: LakeContext, txn_id: str, changes: Sequence[TableChange], settle: SettleRecords = lambda _made: ()
) -> dict[int, Snapshot]:
    """Publishes all changes and records or none, and returns the new versions by table id.

    Raises:
        ConflictError: another commit changed what this one relied on; nothing was committed.
        IdempotencyKeyUsed: the key belongs to an earlier transaction; nothing was committed.
        CatalogBusyError: the catalog stayed busy for longer than the lake's `retry_for`.
        UnknownOutcomeError: the catalog cannot be asked whether the commit went through.
    """
    return publish(context, txn_id, lambda writer: _apply(writer, txn_id, changes, settle))


def publish(
    context: LakeContext, txn_id: str, apply: Callable[[CatalogWriter], dict[int, Snapshot]]
) -> dict[int, Snapshot]:
    """Carries out in one SQL transaction what makes versions and ends the transaction; raises as `commit` does."""
    pauses = _pauses(context.retry_for.total_seconds())
    while True:
        try:
            with context.catalog.write() as writer:
                return apply(writer)
        except CatalogBusyError:
            pause = next(pauses, None)
            if pause is None:
                raise
            time.sleep(pause)
        except UnknownOutcomeError:
            return _resolve(context, txn_id, pauses)


def _apply(
    writer: CatalogWriter, txn_id: str, changes: Sequence[TableChange], settle: SettleRecords
) -> dict[int, Snapshot]:
    for change in changes:
        if change.is_new:
            _name(writer, change.info)
    heads = writer.lock(sorted(change.info.table_id for change in changes))
    at = now()
    snapshots: dict[int, Snapshot] = {}
    for change in sorted(changes, key=lambda change: change.info.table_id):
        head = heads.get(change.info.table_id)
        if head is None:
            raise ConcurrentDropError(f"table {change.info.name} was dropped meanwhile; undrop it to write to it")
        _check_conflicts(writer, change, head)
        if change.writes:
            new = _decided(writer, change, head)
            snapshots[head.table_id] = writer.add_snapshot(new, txn_id=txn_id, committed_at=at)
            if new.schema is not None:
                follow_schema(writer, head, new.schema)
    records = settle(snapshots)
    if records:
        writer.put_records(records, txn_id=txn_id, at=at)
    versions = {table_id: snapshot.version for table_id, snapshot in snapshots.items()}
    writer.finish_transaction(txn_id, versions=versions, at=at)
    return snapshots


def _name(writer: CatalogWriter, info: TableInfo) -> None:
    """Makes a table visible that was made unseen; it is to the catalog what a dropped one is."""
    try:
        writer.undrop_table(info.table_id, info.name)
    except TableExistsError as error:
        raise ConflictError(
            f"table {info.name} was created by another commit meanwhile; repeat the operation"
        ) from error


def _check_conflicts(reader: CatalogReader, change: TableChange, head: Head) -> None:
    if head.version == change.base.version:
        return
    table_id, base = head.table_id, change.base.version
    intent = Intent(
        table=str(change.info.name),
        base_version=base,
        schema_id=change.base.schema_id,
        writes=bool(change.add) or change.schema is not None,
        reads=change.reads,
        removes=frozenset(entry.file_id for entry in change.remove),
    )
    if not (intent.reads.predicates or intent.reads.file_ids or intent.removes):
        check(intent, Changes(head.version, head.schema_id, (), (), frozenset()), _nothing)
        return
    if base < reader.forgotten_until(table_id):
        raise ConcurrentRemoveError(
            f"vacuum has forgotten files of {change.info.name} that were removed after version {base}, so that nobody "
            "can tell whether this operation met another; repeat it on the newest version"
        )
    snapshots = (*reader.snapshots(table_id, after=base), *reader.expired_snapshots(table_id, after=base))
    quiet = {snapshot.version for snapshot in snapshots if not snapshot.data_change}
    added = reader.files_added(table_id, after=base, until=head.version)
    removed = reader.files_removed(table_id, after=base, until=head.version)
    changes = Changes(
        head_version=head.version,
        schema_id=head.schema_id,
        added=[entry for entry in added if entry.added not in quiet],
        removed=[entry for entry in removed if entry.removed not in quiet],
        removed_ids=frozenset(entry.file_id for entry in removed),
    )

    def may_match(predicate: Predicate, files: Sequence[FileEntry]) -> Sequence[FileEntry]:
        if predicate == TRUE:
            return files
        met = select(reader, table_id, head.version, predicate)
        return [entry for entry in files if entry.file_id in met]

    check(intent, changes, may_match)


def _nothing(_predicate: Predicate, _files: Sequence[FileEntry]) -> Sequence[FileEntry]:
    return ()


def _decided(reader: CatalogReader, change: TableChange, head: Head) -> NewSnapshot:
    """The change with everything settled that depends on what is live now."""
    remove: Sequence[FileEntry] = change.remove
    readd: Sequence[FileEntry] = ()
    schema = change.schema
    if change.replace_all:
        remove = reader.files(head.table_id, head.version) if head.version else ()
    if change.restore_version is not None:
        remove, readd, schema = _restoration(reader, change, head)
    return NewSnapshot(
        table_id=head.table_id,
        base=head,
        operation=change.operation,
        data_change=change.data_change,
        add=change.add,
        remove=remove,
        schema=schema,
        readd=readd,
        carried_rows=change.carried_rows,
        summary=change.summary,
    )


def _restoration(
    reader: CatalogReader, change: TableChange, head: Head
) -> tuple[list[FileEntry], list[FileEntry], pa.Schema | None]:
    assert change.restore_version is not None
    target = reader.snapshot(head.table_id, change.restore_version)
    if target is None:
        raise VersionNotFoundError(f"version {change.restore_version} of {change.info.name} is not kept any more")
    wanted = {entry.path: entry for entry in reader.files(head.table_id, target.version)}
    live = {entry.path: entry for entry in reader.files(head.table_id, head.version)}
    remove = [entry for path, entry in live.items() if path not in wanted]
    readd = [entry for path, entry in wanted.items() if path not in live]
    same_schema = target.schema_id == head.schema_id
    return remove, readd, None if same_schema else reader.schema(head.table_id, target.schema_id)


def _resolve(context: LakeContext, txn_id: str, pauses: Iterator[float]) -> dict[int, Snapshot]:
    """Finds out whether a commit went through whose answer was lost.

    Aborting is a compare-and-swap on the same row that the commit changes, and waits for it: afterwards the row
    says for good which of the two happened.
    """
    last: Exception | None = None
    for pause in pauses:
        try:
            context.catalog.abort_transaction(txn_id)
            with context.catalog.read() as reader:
                record = reader.transaction(txn_id)
                if record is not None and record.status is TransactionStatus.COMMITTED:
                    found = {t: reader.snapshot(t, version) for t, version in record.versions.items()}
                    return {table_id: snapshot for table_id, snapshot in found.items() if snapshot is not None}
            raise TransactionExpiredError(
                f"transaction {txn_id} was not committed: the catalog's connection broke; repeat the operation"
            )
        except CatalogError as error:
            last = error
            time.sleep(pause)
    raise UnknownOutcomeError(
        f"the connection to the catalog broke while transaction {txn_id} was committing, and it cannot be reached to "
        "ask how that ended; its files are kept. Repeat the call with the same idempotency_key, or look at history()"
    ) from last


def _pauses(seconds: float) -> Iterator[float]:
    """Growing, jittered pauses that end when the time is up."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while time.monotonic() < deadline:
        yield random.uniform(pause / 2, pause)  # noqa: S311 (jitter, not cryptography)
        pause = min(pause * 2, 1.0)
