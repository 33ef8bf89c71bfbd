"""Recover: transactions whose writers are gone are ended, and what they left is taken down for vacuum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from parqlake.core.model import TableInfo, TransactionRecord, TransactionStatus
from parqlake.core.ports import Store
from parqlake.core.retention import ABORTED, CLOCK_SLACK, birth_of, cutoff
from parqlake.table.context import LakeContext, now
from parqlake.table.options import TRANSACTION_KEY

GRACE = timedelta(minutes=1)
"""A lease has to be over for so long: the writer's clock may be a little behind."""


@dataclass(frozen=True, slots=True)
class RecoverReport:
    """What recovery found.

    Attributes:
        aborted: transactions whose lease had run out, and which can never commit now.
        running: transactions that are at work, and were left alone.
        files: files of the aborted ones that vacuum will delete.
        size_bytes: of those files.
    """

    aborted: tuple[TransactionRecord, ...]
    running: tuple[TransactionRecord, ...]
    files: int
    size_bytes: int


def recover(context: LakeContext) -> RecoverReport:
    """See `Lake.recover`."""
    aborted, running = abort_lapsed(context)
    found: dict[int, dict[str, tuple[int, str]]] = {}
    if aborted:
        with context.catalog.read() as reader:
            tables = {info.table_id: info for info in reader.tables_on_record()}
        for info in tables.values():
            found[info.table_id] = _files_of(context, info, aborted)
    for table_id, files in found.items():
        by_transaction: dict[str, list[str]] = {}
        for path, (_, txn_id) in files.items():
            by_transaction.setdefault(txn_id, []).append(path)
        for txn_id, paths in by_transaction.items():
            with context.catalog.write() as writer:
                writer.add_tombstones(table_id, sorted(paths), txn_id=txn_id, reason=ABORTED, at=now())
    sizes = [size for files in found.values() for size, _ in files.values()]
    return RecoverReport(aborted, running, len(sizes), sum(sizes))


def abort_lapsed(context: LakeContext) -> tuple[tuple[TransactionRecord, ...], tuple[TransactionRecord, ...]]:
    """Ends open transactions whose lease has run out; returns those that were ended, and those that are at work.

    Aborting is a compare-and-swap with the commit on the same row: a writer that is only slow is refused when it
    commits, and one that commits in this instant wins.
    """
    with context.catalog.read() as reader:
        records = reader.transactions(status=TransactionStatus.OPEN)
    limit = cutoff(now(), GRACE)
    aborted = [r for r in records if r.lease_until < limit and context.catalog.abort_transaction(r.txn_id)]
    ended = {record.txn_id for record in aborted}
    running = [r for r in records if r.lease_until >= limit and r.txn_id not in ended]
    return tuple(aborted), tuple(running)


def _files_of(
    context: LakeContext, info: TableInfo, aborted: Iterable[TransactionRecord]
) -> dict[str, tuple[int, str]]:
    """Files in the table's folder whose footer names one of the transactions: path to size and transaction.

    A file that was not finished has no footer; vacuum finds it by its age.
    """
    ids = {record.txn_id for record in aborted}
    since = cutoff(min(record.started_at for record in aborted), CLOCK_SLACK)
    start = len(info.location) + 1
    young = {}
    for file in context.store.list_files(info.location):
        birth = birth_of(file.path)
        if birth is not None and birth >= since:
            young[file.path[start:]] = file.size_bytes
    if not young:
        return {}
    with context.catalog.read() as reader:
        known = {span.path for span in reader.file_spans(info.table_id)}
    found = {}
    for path, size_bytes in young.items():
        if path not in known and (txn_id := transaction_of(context.store, f"{info.location}/{path}")) in ids:
            found[path] = (size_bytes, txn_id)
    return found


def transaction_of(store: Store, path: str) -> str:
    """The transaction that a file's footer names; empty if it names none, or cannot be read."""
    try:
        footer = read_footer(store, path).metadata or {}
    except (OSError, pa.ArrowException):
        return ""
    return bytes(footer.get(TRANSACTION_KEY.encode(), b"")).decode(errors="replace")


def read_footer(store: Store, path: str) -> Any:
    """The file's `pyarrow.parquet.FileMetaData`; raises what the file system or Arrow raise."""
    import pyarrow.parquet as pq  # loads pandas where it is installed, and few calls need it

    with store.arrow_filesystem().open_input_file(store.full_path(path)) as file:
        return pq.read_metadata(file)
