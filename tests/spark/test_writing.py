"""Spark data frames become versions: whole, typed, with the same records as any other engine's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import PythonException
from spark_support import SCHEMA, keyed, rows

import parqlake
from parqlake.core.errors import ConstraintError, InvalidOptionError, TypeMismatchError, UnsupportedTypeError
from parqlake.table.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


def frame_of(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def test_rows_and_statistics_are_those_of_the_other_engines(spark: Any, lake: Lake) -> None:
    data = pa.Table.from_pylist(rows(400), schema=SCHEMA)
    by_arrow = lake.create_table("a.arrow", SCHEMA)
    by_spark = lake.create_table("a.spark", SCHEMA)
    by_arrow.append(data)
    result = by_spark.append(frame_of(spark, data).coalesce(1))
    assert result.row_count == 400
    assert keyed(by_spark.scan().to_arrow()) == keyed(by_arrow.scan().to_arrow())
    assert by_spark.history()[0].engine == "spark"
    dropped = ["path", "size_bytes", "offset"]
    assert by_spark.row_groups().drop_columns(dropped).equals(by_arrow.row_groups().drop_columns(dropped))


def test_a_partitioned_write_makes_few_files_in_the_right_folders(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.parts", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"])
    frame = spark.range(0, 20_000, 1, 8).select("id", F.concat(F.lit("p/"), F.col("id") % 10).alias("p"))
    result = table.append(frame)
    assert len(result.files) <= 20
    assert {file.partition["p"] for file in result.files} == {f"p/{n}" for n in range(10)}
    assert table.scan("p = 'p/3'").count() == 2_000
    assert len(table.scan("p = 'p/3'").plan.files) <= 2


def test_an_empty_frame_makes_a_version_without_files(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.empty", pa.schema([("id", pa.int64())]))
    result = table.append(spark.range(0))
    assert (result.version, result.row_count, result.files) == (1, 0, ())


def test_types_that_differ_are_named_before_spark_runs(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.strict", pa.schema([("id", pa.int32())]))
    with pytest.raises(TypeMismatchError, match="the table has int32, the data has int64"):
        table.append(spark.range(5))
    assert table.version == 0


def test_a_null_in_a_not_null_column_is_one_clear_error_and_no_version(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("a.full", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(ConstraintError, match="NOT NULL"):
        table.append(spark.range(100).select(F.when(F.col("id") != 50, F.col("id")).alias("id")))
    assert table.version == 0
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_job_that_fails_leaves_no_version(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.boom", pa.schema([("id", pa.int64())]))

    def boom(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 70 in batch.column(0).to_pylist():
                raise ValueError("this task never succeeds")
            yield batch

    with pytest.raises(PythonException, match="this task never succeeds"):
        table.append(spark.range(0, 100, 1, 4).mapInArrow(boom, "id long"))
    assert table.version == 0
    assert table.scan().count() == 0
    assert table.append(spark.range(3)).row_count == 3


def test_a_task_that_is_tried_again_counts_once(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("a.retry", pa.schema([("id", pa.int64())]))
    marker = str(tmp_path / "failed-once")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 30 in batch.column(0).to_pylist() and not Path(marker).exists():
                Path(marker).touch()
                raise ValueError("only the first attempt fails")

    table.append(spark.range(0, 40, 1, 4).mapInArrow(fails_once, "id long"))
    assert Path(marker).exists()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(40))


def test_overwrite_where_and_transactions_take_frames(spark: Any, lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    table = lake.create_table("a.over", schema, partition_by=["p"])
    frame = spark.range(100).select("id", (F.col("id") % 2).alias("p"))
    table.append(frame)
    assert table.overwrite(frame.where("p = 1").limit(3), where="p = 1").removed_rows == 50
    assert table.scan().count() == 53
    with pytest.raises(ConstraintError, match="do not match"):
        table.overwrite(frame, where="p = 1")
    other = lake.create_table("a.other", pa.schema([("id", pa.int64())]))
    with lake.transaction(idempotency_key="once") as tx:
        tx.table("a.over").append(frame)
        tx.table("a.other").append(spark.range(7))
        assert tx.table("a.other").scan().count() == 7
    assert (table.scan().count(), other.scan().count()) == (153, 7)


def test_a_frame_needs_its_own_engine_and_tables_it_can_hold(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.own", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidOptionError, match="cannot write a Spark data frame"):
        table.append(spark.range(1), engine="pyarrow")
    assert table.append(pa.table({"id": [1]}), engine="spark").row_count == 1
    nanos = lake.create_table("a.nanos", pa.schema([("t", pa.timestamp("ns"))]))
    for odd in ("parse_json('{}')", "array(parse_json('1'))", "named_struct('x', parse_json('1'))", "interval 1 month"):
        with pytest.raises(UnsupportedTypeError, match='column "odd"'):
            lake.write(spark.sql(f"select {odd} as odd"), "a.odd")
    assert "a.odd" not in lake.tables()
    with pytest.raises(UnsupportedTypeError, match='column "t"'):
        nanos.append(spark.range(1))
