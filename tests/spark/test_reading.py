"""Spark reads exactly the version that was asked for, with the same rows as every other reader."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_support import SCHEMA, keyed, rows

import parqlake
from parqlake.core.errors import InvalidOptionError, UnsupportedTypeError
from parqlake.spark.reading import _through_python
from parqlake.table.lake import Lake
from parqlake.table.table import Table

PREDICATES = [
    None,
    "id < 50",
    "region = 'eu'",
    "region = 'a/b' and id >= 100",
    "region is null",
    "region != 'eu'",
    "region in ('eu', 'us')",
    "region not in ('eu')",
    "region like 'a%'",
    "amount > 1",
    "not (amount > 1)",
    "isnan(amount)",
    "not isnan(amount)",
    "price >= 10.25",
    "at < '2026-01-01T00:01:00Z'",
    "local < '1970-01-01'",
    "day = '1950-01-01'",
    "place.lat > 300 or id = 1",
    "id % 7 = 3",
    "7 % id = 1",
    "1 / id > 0.01",
    "upper(region) = 'EU'",
]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    lake: Lake = parqlake.connect(tmp_path / "lake")
    made = lake.create_table("a.read", SCHEMA, partition_by=["region"])
    data = pa.Table.from_pylist(rows(400), schema=SCHEMA)
    made.append(data.slice(0, 200), row_group_size=20)
    made.append(data.slice(200), engine="duckdb")
    yield made
    lake.close()


@pytest.mark.parametrize("where", PREDICATES, ids=str)
def test_each_predicate_selects_the_same_rows(spark: Any, table: Table, where: str | None) -> None:
    scan = table.scan(where)
    assert keyed(scan.to_spark(spark).toArrow()) == keyed(scan.to_arrow())


def test_workers_read_where_the_jvm_cannot(spark: Any, table: Table) -> None:
    scan = table.scan("region = 'a/b' or place.lat > 300", columns=["id", "tags", "place", "marks", "at", "local"])
    store = table._context.store
    assert keyed(_through_python(scan.plan, store, spark).toArrow()) == keyed(scan.to_arrow())


def test_projection_limit_and_versions(spark: Any, table: Table) -> None:
    assert table.scan(columns=["day", "id"]).to_spark(spark).columns == ["day", "id"]
    assert table.scan(limit=7).to_spark(spark).count() == 7
    assert table.scan(version=1).to_spark(spark).count() == 200
    assert table.scan(version=0).to_spark(spark).count() == 0
    assert table.scan("id = -1").to_spark(spark).schema == table.scan("id = 1").to_spark(spark).schema


def test_only_planned_files_are_read(spark: Any, table: Table) -> None:
    scan = table.scan("region = 'us'")
    names = {Path(name.removeprefix("file://")).name for name in scan.to_spark(spark).inputFiles()}
    assert names == {Path(file.path).name for file in scan.plan.files}
    assert len(names) < table.files().num_rows


def test_many_files_are_listed_without_a_job(spark: Any, tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "many") as lake:
        many = lake.create_table("a.many", pa.schema([("id", pa.int64())]))
        many.append(pa.table({"id": range(200)}), max_rows_per_file=2)
        before = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")
        tracker = spark.sparkContext.statusTracker()
        jobs = set(tracker.getJobIdsForGroup(None))
        frame = many.scan().to_spark(spark)
        assert set(tracker.getJobIdsForGroup(None)) == jobs
        assert frame.count() == 200
        assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == before


def test_what_spark_cannot_hold_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "odd") as lake:
        odd = lake.create_table("a.odd", pa.schema([("u", pa.uint64()), ("t", pa.time64("us"))]))
        odd.append(pa.table({"u": pa.array([1], pa.uint64()), "t": pa.array([dt.time(1)], pa.time64("us"))}))
        with pytest.raises(UnsupportedTypeError, match='column "u"'):
            odd.scan().to_spark(spark)


def test_a_store_that_only_this_process_sees_is_refused(spark: Any, tmp_path: Path) -> None:
    with parqlake.connect("memory://only-here", catalog=f"sqlite:///{tmp_path / 'c.sqlite'}") as lake:
        table = lake.create_table("a.t", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
        with pytest.raises(InvalidOptionError, match="only this process sees"):
            table.scan().to_spark(spark)
        assert table.scan().explain().spark_reads == "through Python workers"
