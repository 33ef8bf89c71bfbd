"""A user's program on a cluster: what its executors wrote and read is what every other engine sees."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from cluster_support import data_files, referenced, running
from orders_program import REGIONS, ROWS, SCHEMA, TASKS

import parqlake
from parqlake.table.lake import Lake
from parqlake.testing.spark_cluster import SparkCluster, loopback_addresses

pytestmark = pytest.mark.slow

# A table, a predicate, and whether statistics or partitions rule out some of the files, but not all.
READS = [
    ("sales.flat", "id < 1500", True),
    ("sales.flat", "day = '2026-01-07' and amount > 800", True),
    ("sales.orders", "region = 'a/b'", True),
    ("sales.orders", "region in ('eu', 'us') and id between 4000 and 4100", True),
    ("sales.orders", "tags is null and price < 100.25", False),
    ("sales.replaced", None, False),
    ("sales.orders", "id < 0", False),
]


@dataclass(frozen=True)
class Run:
    """What the program left behind."""

    lake: Lake
    root: Path
    traces: Path
    failed: str
    files_read: dict[str, int]


@pytest.fixture(scope="module")
def run(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The program, run once to its end."""
    folder = tmp_path_factory.mktemp("orders")
    root, traces = folder / "lake", folder / "traces"
    traces.mkdir()
    with running(
        cluster, "orders_program.py", root, traces=str(traces), reads=[(table, where) for table, where, _ in READS]
    ) as program:
        failed, read = program.answer(), program.answer()
        program.end()
    with parqlake.connect(root) as lake:
        yield Run(lake, root, traces, failed["failed"], json.loads(read["files_read"]))


def expected(*numbers: range) -> list[dict[str, Any]]:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return [
        {
            "id": n,
            "region": REGIONS[n % 4],
            "amount": n / 8,
            "price": Decimal(n) / 4,
            "day": dt.date(2026, 1, 1) + dt.timedelta(days=n // 1000),
            "at": start + dt.timedelta(seconds=n),
            "tags": ["a", str(n)] if n % 3 == 0 else None,
        }
        for part in numbers
        for n in part
    ]


def rows(run: Run, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.lake.table(table).scan().to_arrow().sort_by("id").to_pylist()
    return found


def test_tasks_ran_on_both_workers_and_every_row_is_there_once(run: Run) -> None:
    notes = [path for path in run.traces.iterdir() if not path.suffix]
    assert {path.name.split("-")[0] for path in notes} == {str(task) for task in range(TASKS)}
    assert {path.read_text() for path in notes} == set(loopback_addresses(2))
    table = run.lake.table("sales.flat")
    assert table.schema().equals(SCHEMA)
    assert rows(run, "sales.flat") == expected(range(ROWS))
    assert len(referenced(run.root, table)) == TASKS
    (entry,) = table.history()
    assert (entry.engine, entry.message) == ("spark", "with Spark")


def test_a_partitioned_append_has_few_files_in_the_right_folders(run: Run) -> None:
    table = run.lake.table("sales.orders")
    assert rows(run, "sales.orders") == expected(range(ROWS))
    files = referenced(run.root, table)
    assert files == data_files(run.root, table)
    assert len(files) <= 2 * len(REGIONS)
    for region in REGIONS:
        assert table.scan(f"region = '{region}'").count() == ROWS // 4


def test_overwrites_replace_all_rows_or_those_selected(run: Run) -> None:
    table = run.lake.table("sales.replaced")
    assert rows(run, "sales.replaced") == expected(range(5_000, 6_100))
    assert [table.scan(version=version).count() for version in (1, 2, 3)] == [3_000, 2_000, 1_100]
    referenced(run.root, table)


def test_a_transaction_over_two_tables_is_one_step(run: Run) -> None:
    left, right = run.lake.table("sales.left"), run.lake.table("sales.right")
    assert "no such order" in run.failed
    assert rows(run, "sales.left") == expected(range(1_000))
    assert data_files(run.root, left) == referenced(run.root, left), "files that are certainly its own were left"
    assert rows(run, "sales.right") == expected(range(1_000, 2_000))
    assert [(entry.version, entry.message) for table in (left, right) for entry in table.history()] == [
        (1, "both"),
        (1, "both"),
    ]


@pytest.mark.parametrize("number", range(len(READS)), ids=[f"{table}: {where}" for table, where, _ in READS])
def test_a_pruned_read_on_the_cluster_gives_the_same_rows(run: Run, number: int) -> None:
    table, where, pruned = READS[number]
    scan = run.lake.table(table).scan(where, columns=["id", "region", "price", "at", "tags"])
    by_arrow: pa.Table = scan.to_arrow().sort_by("id")
    by_spark = pyarrow.feather.read_table(str(run.traces / f"{number}.arrow")).sort_by("id")
    assert by_spark.to_pylist() == by_arrow.to_pylist()
    assert run.files_read[str(number)] == len(scan.plan.files)
    if pruned:
        assert 0 < len(scan.plan.files) < run.lake.table(table).files().num_rows
        assert by_arrow.num_rows
