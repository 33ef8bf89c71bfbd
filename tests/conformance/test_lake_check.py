"""Check finds what is missing, short, or not as the catalog says, and nothing in a sound lake."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fsspec
import pyarrow as pa
import pytest

from parqlake import Lake, Table
from parqlake.core.model import Operation, TransactionRecord, TransactionStatus
from parqlake.table.checking import CheckReport
from parqlake.table.commit import TableChange
from parqlake.table.options import write_spec
from parqlake.table.unit import Unit
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import TypeCase, orders, state


def found(report: CheckReport) -> list[tuple[str, int | None, str | None]]:
    return [(finding.severity.value, finding.version, finding.file) for finding in report.findings]


@pytest.fixture
def filled(table: Table) -> Table:
    """Four versions of files, one of them restored."""
    table.append(orders(50))
    table.overwrite(orders(30, first=100))
    table.append(orders(30, first=200))
    table.restore(1)
    return table


def test_a_sound_lake_of_all_types_has_no_findings(filled: Table, lake: Lake, types: tuple[TypeCase, ...]) -> None:
    for case in types:
        made = lake.create_table(f"types.{case.name}", case.schema)
        made.append(case.table())
        made.append(case.table().slice(1, 1))  # NULL alone
    filled.add_column("note", pa.string())
    filled.append(orders(3).append_column("note", pa.array(["a", None, "b"])))
    filled.delete("id = 7")
    filled.expire(keep_last=2)
    lake.create_table("empty.table", filled.schema())
    before = state(lake)
    report = lake.check(full=True)
    assert report.findings == ()
    assert report.ok
    assert (report.tables, report.files_read) == (len(types) + 2, report.files)
    assert state(lake) == before


def test_files_that_are_gone_short_or_others_are_named(filled: Table, lake: Lake, place: LakePlace) -> None:
    for _ in range(3):
        filled.append(orders(20, first=300), compression="none")
    filesystem, root = fsspec.core.url_to_fs(place.root)
    paths = [f"{filled.location}/{path}" for path in filled.files().column("path").to_pylist()]
    first, gone, short, torn = paths
    filesystem.rm(f"{root}/{gone}")
    content = filesystem.cat_file(f"{root}/{short}")
    filesystem.pipe_file(f"{root}/{short}", content[:-1])
    filesystem.pipe_file(f"{root}/{torn}", b"x" * len(filesystem.cat_file(f"{root}/{torn}")))
    report = lake.check()
    assert sorted(found(report)) == sorted(("error", 7, path) for path in (gone, short, torn))
    messages = {finding.file: str(finding) for finding in report.findings}
    assert "is missing" in messages[gone]
    assert f"has {len(content) - 1} bytes instead of {len(content)}" in messages[short]
    assert "footer cannot be read" in messages[torn]
    assert "restore(version=4)" in messages[gone]
    filled.restore(version=4)
    filled.expire(keep_last=1)
    assert lake.check(full=True).findings == ()
    filesystem.rm(f"{root}/{first}")
    assert [finding.version for finding in lake.check().findings] == [8]


def test_changed_values_and_statistics_that_miss_rows_are_found(filled: Table, lake: Lake, backend: Backend) -> None:
    engine, info = lake.context.engine(None), filled.info
    with lake.context.catalog.read() as reader:
        head = reader.head(info.table_id)
        schema = reader.schema(info.table_id, head.schema_id)
    unit = Unit(lake.context, operation="append", engine="", table_ids=[info.table_id])
    with unit:
        rows = orders(10).select(schema.names).cast(schema)
        spec = write_spec(info, schema, {}, txn_id=unit.txn_id)
        (file,) = engine.write(pa.RecordBatchReader.from_batches(schema, rows.to_batches()), spec, lake.context.store)
        number, *others = file.statistics
        wrong = replace(number, maxs=number.maxs - 1)  # type: ignore[operator]
        unit.commit([TableChange(info, head, Operation.APPEND, add=(replace(file, statistics=(wrong, *others)),))])
    report = lake.check(full=True)
    assert found(report) == [("error", 5, f"{filled.location}/{file.path}")]
    assert 'column "id"' in report.findings[0].message
    assert not report.ok


def test_abandoned_transactions_and_gaps_are_found(filled: Table, lake: Lake, place: LakePlace) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    record = TransactionRecord("dead", TransactionStatus.OPEN, "me", past, past, "append", "pyarrow")
    lake.context.catalog.begin_transaction(record)
    report = lake.check()
    assert report.ok
    assert [(finding.severity.value, finding.fix) for finding in report.findings] == [
        ("warning", "lake.recover() ends it")
    ]
    lake.recover()
    assert lake.check().findings == ()
    if place.backend.catalog != "sqlite":
        return  # the same rows in every database; here they can be changed by hand
    with sqlite3.connect(place.catalog.removeprefix("sqlite:///")) as raw:
        raw.execute("DELETE FROM snapshot WHERE version = 2")
        raw.execute("UPDATE snapshot SET row_count = row_count + 1 WHERE version = 3")
    raw.close()
    assert found(lake.check()) == [("error", 2, None), ("error", 3, None)]
