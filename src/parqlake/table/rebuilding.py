"""Rebuild: tables made again from what their files say of themselves, when the catalog is lost.

Each file's footer names its table, transaction, operation, schema and layout. It does not say whether a later version
removed the file, nor whether its transaction was ever committed: that stood in the catalog alone. So what is made
of files that were only ever appended is taken to be the table; where a file shows that others were replaced, all files
together would bring removed rows back and count rewritten ones twice, and somebody has to decide.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from parqlake.core.errors import AmbiguousFilesError, InvalidOptionError
from parqlake.core.model import DataFile, Operation, TableInfo
from parqlake.core.names import TableName, parse_table_name
from parqlake.core.partitioning import partition_text
from parqlake.core.ports import Store
from parqlake.core.retention import birth_of
from parqlake.core.statistics import describe_file
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext, now
from parqlake.table.options import (
    LAYOUT_KEY,
    OPERATION_KEY,
    SCHEMA_KEY,
    TABLE_ID_KEY,
    TABLE_NAME_KEY,
    TRANSACTION_KEY,
)
from parqlake.table.progress import SILENT, Report
from parqlake.table.recovering import read_footer
from parqlake.table.unit import Unit
from parqlake.table.versions import live_head

CHOICES = ("error", "union", "skip")
_LOCATION = re.compile(r"([^/]+/[^/]+-[0-9a-f]{12})/(.+)")
_THREADS = 8


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file, as its footer describes it."""

    path: str
    """Relative to the table's location."""
    location: str
    size_bytes: int
    metadata: Any
    table_uuid: str
    table_name: str
    txn_id: str
    operation: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table, as its files describe it.

    Attributes:
        name: its name when the newest file was written; with a number behind it if a newer table has the name.
        location: its folder.
        files: its files.
        row_count: rows in all files.
        transactions: the transactions that wrote them, oldest first; each becomes a version.
        operations: how many files each kind of operation wrote.
    """

    name: TableName
    location: str
    files: Sequence[FoundFile]
    transactions: Sequence[str]
    operations: Mapping[str, int]

    @property
    def row_count(self) -> int:
        """Rows in all files."""
        return sum(int(file.metadata.num_rows) for file in self.files)

    @property
    def is_certain(self) -> bool:
        """Whether all files were appended, so that none is known to have replaced another."""
        return set(self.operations) == {str(Operation.APPEND)}


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was made again, and what was not.

    Attributes:
        tables: versions and rows of each table that was rebuilt, by name.
        skipped: tables whose files may have replaced one another, and which were left out.
        unreadable: files in table folders that are not whole, or name no table; they stay where they are.
        dry_run: True if nothing was written.
    """

    tables: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    dry_run: bool = False


def survey(store: Store, report: Report = SILENT) -> tuple[list[FoundTable], list[str]]:
    """All tables whose files lie in the store, by name, and files that do not say whose they are."""
    listed = [(file.path, file.size_bytes) for file in store.list_files("") if birth_of(file.path) is not None]
    report.expect(len(listed), "files", "footers")
    found = []
    with ThreadPoolExecutor(_THREADS) as pool:
        for file in pool.map(lambda file: _found(store, *file), listed):
            found.append(file)
            report.advance()
    unreadable = [path for (path, _), file in zip(listed, found, strict=True) if file is None]
    by_table: dict[str, list[FoundFile]] = {}
    for file in found:
        if file is not None:
            by_table.setdefault(file.table_uuid, []).append(file)
    return _named(by_table), unreadable


def choose(tables: Iterable[FoundTable], ambiguous: str) -> tuple[list[FoundTable], list[FoundTable]]:
    """The tables to rebuild, and those to leave out; raises `AmbiguousFilesError` if that is for the caller to say."""
    if ambiguous not in CHOICES:
        raise InvalidOptionError(f"ambiguous={ambiguous!r} is unknown; use one of {', '.join(CHOICES)}")
    certain: list[FoundTable] = []
    doubtful: list[FoundTable] = []
    for table in tables:
        (certain if table.is_certain or ambiguous == "union" else doubtful).append(table)
    if doubtful and ambiguous == "error":
        shown = "; ".join(f"{table.name}: {_told(table.operations)}" for table in doubtful[:10])
        raise AmbiguousFilesError(
            f"files of {len(doubtful)} table(s) may have replaced one another, and only the lost catalog knew which "
            f"are current ({shown}). Bring the catalog back from a copy if there is one; else "
            'ambiguous="skip" leaves these tables out, and ambiguous="union" takes all their files, with removed rows '
            "and rewritten ones twice"
        )
    return certain, doubtful


def refill(context: LakeContext, table: FoundTable) -> int:
    """Makes the table in the catalog, one version for each transaction that wrote files; returns its newest version."""
    by_transaction: dict[str, list[FoundFile]] = {name: [] for name in table.transactions}
    for file in table.files:
        by_transaction[file.txn_id].append(file)
    oldest, newest = by_transaction[table.transactions[0]][0], by_transaction[table.transactions[-1]][-1]
    with context.catalog.write() as writer:
        info = writer.create_table(
            uuid=newest.table_uuid,
            name=table.name,
            location=table.location,
            schema=oldest.schema,
            partition_by=newest.partition_by,
            sort_by=newest.sort_by,
            properties={},
            created_at=now(),
        )
    current = oldest.schema
    for txn_id, files in by_transaction.items():
        schema = None if files[0].schema.equals(current, check_metadata=True) else files[0].schema
        current = files[0].schema
        add = tuple(_described(context.store, info, file) for file in files)
        message = f"rebuilt from the files of transaction {txn_id or '(unknown)'}"
        unit = Unit(context, operation="import", engine="", table_ids=[info.table_id], message=message)
        with context.catalog.read() as reader:
            head = live_head(reader, info)
        with unit:
            unit.commit([TableChange(info, head, Operation.IMPORT, add=add, schema=schema)])
    return len(by_transaction)


def _found(store: Store, path: str, size_bytes: int) -> FoundFile | None:
    place = _LOCATION.fullmatch(path)
    try:
        metadata = read_footer(store, path)
        texts = {key.decode(): value.decode() for key, value in (metadata.metadata or {}).items() if key in _KEYS}
        layout = json.loads(texts[LAYOUT_KEY])
        schema = pa.ipc.read_schema(pa.py_buffer(zlib.decompress(base64.b64decode(texts[SCHEMA_KEY]))))
        uuid, name = texts[TABLE_ID_KEY], texts[TABLE_NAME_KEY]
        parse_table_name(name)
    except (OSError, pa.ArrowException, zlib.error, ValueError, KeyError, TypeError):
        return None
    if place is None or not place[1].endswith(uuid[-12:]):
        return None
    return FoundFile(
        place[2],
        place[1],
        size_bytes,
        metadata,
        uuid,
        name,
        texts.get(TRANSACTION_KEY, ""),
        texts.get(OPERATION_KEY, "unknown") + (" beside imported files" if layout.get("imported") else ""),
        schema,
        tuple(layout["partition_by"]),
        tuple(layout["sort_by"]),
    )


def _named(by_table: Mapping[str, list[FoundFile]]) -> list[FoundTable]:
    """Tables under names of their own: of several that bore one, the newest keeps it."""
    taken: set[TableName] = set()
    tables = []
    for _, files in sorted(by_table.items(), reverse=True):
        files.sort(key=lambda file: (file.txn_id, file.path))
        wanted = name = parse_table_name(files[-1].table_name)
        number = 2
        while name in taken:
            name, number = TableName(wanted.namespace, f"{wanted.name}_{number}"), number + 1
        taken.add(name)
        transactions = list(dict.fromkeys(file.txn_id for file in files))
        operations = Counter(file.operation for file in files)
        tables.append(FoundTable(name, files[0].location, files, transactions, operations))
    return sorted(tables, key=lambda table: table.name)


def _described(store: Store, info: TableInfo, file: FoundFile) -> DataFile:
    partition = {name: _partition_value(store, info, file, name) for name in info.partition_by}
    # Nobody looks for NaNs here: upper bounds of floats stay unknown.
    return describe_file(file.path, file.size_bytes, file.metadata, file.schema, partition=partition, nans=None)


def _partition_value(store: Store, info: TableInfo, file: FoundFile, column: str) -> str | None:
    """The value that all rows of the file share, read from its first row."""
    import pyarrow.parquet as pq  # loads pandas where it is installed, and few calls need it

    with store.arrow_filesystem().open_input_file(store.full_path(f"{info.location}/{file.path}")) as opened:
        first = next(pq.ParquetFile(opened).iter_batches(batch_size=1, row_groups=[0], columns=[column]))
    return partition_text(first.column(0).cast(file.schema.field(column).type)[0])


def _told(operations: Mapping[str, int]) -> str:
    return ", ".join(f"{count} file(s) by {name}" for name, count in sorted(operations.items()))


_KEYS = {key.encode() for key in (LAYOUT_KEY, OPERATION_KEY, SCHEMA_KEY, TABLE_ID_KEY, TABLE_NAME_KEY, TRANSACTION_KEY)}
