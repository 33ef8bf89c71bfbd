"""A table in a catalog, and short ways to commit to it; files are made up, since a catalog never opens one."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.core.model import (
    ColumnStatistics,
    DataFile,
    FileEntry,
    Operation,
    Snapshot,
    TableInfo,
    TransactionRecord,
    TransactionStatus,
)
from parqlake.core.names import TableName
from parqlake.core.pages import Key, KeyRange
from parqlake.core.ports import CatalogReader, NewSnapshot
from parqlake.core.schema import assign_field_ids

START = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
SCHEMA = assign_field_ids(pa.schema([("id", pa.int64()), ("name", pa.string())]))
ID, NAME = 1, 2
Bounds = tuple[Key, Key] | None
"""Bounds of one row group; None: unknown."""

_numbers = itertools.count()


def statistics(
    column_id: int, bounds: Sequence[tuple[Key, Key]], nulls: Sequence[int] | None = None
) -> ColumnStatistics:
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    counts = np.array(nulls if nulls is not None else [0] * len(bounds), dtype=np.int64)
    if any(isinstance(low, bytes) for low in lows):
        return ColumnStatistics(column_id, lows, highs, counts)  # type: ignore[arg-type]
    return ColumnStatistics(column_id, np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64), counts)


def data_file(
    *columns: ColumnStatistics,
    path: str | None = None,
    groups: int | None = None,
    partition: Mapping[str, Any] | None = None,
) -> DataFile:
    """A file with as many row groups as its columns have bounds, each of 10 rows and 100 bytes."""
    count = len(columns[0].nulls) if groups is None else groups
    return DataFile(
        path=path if path is not None else f"part-{next(_numbers)}.parquet",
        size_bytes=100 * count + 8,
        row_count=10 * count,
        row_group_rows=np.full(count, 10, dtype=np.int64),
        row_group_bytes=np.full(count, 100, dtype=np.int64),
        row_group_offsets=np.arange(count, dtype=np.int64) * 100 + 4,
        partition=partition or {},
        statistics=columns,
    )


def id_file(*bounds: tuple[int, int], **options: Any) -> DataFile:
    """A file that knows the bounds of `id` in each row group."""
    return data_file(statistics(ID, bounds or [(1, 9)]), **options)


def record(key: str | None = None, *, txn_id: str | None = None, started_at: datetime = START) -> TransactionRecord:
    return TransactionRecord(
        txn_id=txn_id or str(uuid.uuid4()),
        status=TransactionStatus.OPEN,
        who="me@here:1",
        started_at=started_at,
        lease_until=started_at + timedelta(minutes=5),
        operation="append",
        engine="pyarrow",
        message="a message",
        idempotency_key=key,
    )


@dataclass
class Lab:
    """A catalog with one table."""

    catalog: SqlCatalog
    table: TableInfo = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.new_table()

    @property
    def table_id(self) -> int:
        return self.table.table_id

    def new_table(self, name: TableName | None = None, schema: pa.Schema = SCHEMA) -> TableInfo:
        unique = uuid.uuid4().hex[:12]
        with self.catalog.write() as writer:
            return writer.create_table(
                uuid=uuid.uuid4().hex,
                name=name or TableName("main", f"t{unique}"),
                location=f"main/t{unique}",
                schema=schema,
                partition_by=["name"],
                sort_by=["id"],
                properties={"a": "b"},
                created_at=START,
            )

    def begin(self, key: str | None = None, *table_ids: int) -> str:
        made = record(key)
        self.catalog.begin_transaction(made, table_ids or [self.table_id])
        return made.txn_id

    def change(
        self,
        add: Sequence[DataFile] = (),
        remove: Sequence[FileEntry] = (),
        *,
        table_id: int | None = None,
        at: datetime = START,
        key: str | None = None,
        txn_id: str | None = None,
        **options: Any,
    ) -> Snapshot:
        """One whole commit: register, lock, write, finish."""
        chosen = self.table_id if table_id is None else table_id
        txn = txn_id or self.begin(key, chosen)
        with self.catalog.write() as writer:
            base = writer.lock([chosen])[chosen]
            new = NewSnapshot(
                table_id=chosen,
                base=base,
                operation=options.pop("operation", Operation.APPEND),
                data_change=options.pop("data_change", True),
                add=add,
                remove=remove,
                **options,
            )
            snapshot = writer.add_snapshot(new, txn_id=txn, committed_at=at)
            writer.finish_transaction(txn, versions={chosen: snapshot.version}, at=at)
            return snapshot

    def files(self, version: int) -> list[FileEntry]:
        with self.catalog.read() as reader:
            return reader.files(self.table_id, version)


def planned(reader: CatalogReader, table_id: int, version: int, ranges: Sequence[KeyRange]) -> set[tuple[str, int]]:
    """What a plan reads, as (path, row group), by way of segments and pages."""
    segment_ids = reader.segment_ids(table_id, version, ranges)
    pages = {range_.column_id: reader.pages(table_id, range_.column_id, segment_ids) for range_ in ranges}
    kept: dict[int, set[int]] = {}
    for segment in reader.segments(table_id, segment_ids):
        mask = np.ones(segment.row_group_count, dtype=np.bool_)
        for range_ in ranges:
            page = pages[range_.column_id].get(segment.segment_id)
            if page is not None:
                mask &= page.overlaps(range_.low, range_.high)
        owners = np.repeat(segment.file_ids, segment.row_group_counts)
        numbers = np.concatenate([np.arange(count) for count in segment.row_group_counts]) if len(owners) else owners
        for owner, number in zip(owners[mask].tolist(), numbers[mask].tolist(), strict=True):
            kept.setdefault(owner, set()).add(number)
    entries = reader.files(table_id, version, sorted(kept))
    return {(entry.path, number) for entry in entries for number in kept[entry.file_id]}


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
