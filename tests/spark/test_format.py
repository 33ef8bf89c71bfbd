"""`format("parqlake")`: read and written as naturally as Parquet, with versions, and never less than all rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812
from spark_support import SCHEMA, keyed, rows

import parqlake
from parqlake.core.model import TransactionStatus
from parqlake.formats.spark.batch_write import BatchWriter, FilesMessage
from parqlake.formats.spark.options import read_options
from parqlake.table.lake import Lake

DATA = pa.Table.from_pylist(rows(300), schema=SCHEMA)
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


def reading(spark: Any, at: Lake, **options: Any) -> Any:
    return spark.read.format("parqlake").option("lake", at.url).options(**options)


def writing(frame: Any, lake: Lake, mode: str = "append", **options: Any) -> Any:
    return frame.write.format("parqlake").option("lake", lake.url).options(**options).mode(mode)


def open_transactions(lake: Lake) -> int:
    with lake.context.catalog.read() as reader:
        return len(reader.transactions(status=TransactionStatus.OPEN))


def test_a_frame_goes_in_and_comes_out_unchanged(spark: Any, lake: Lake) -> None:
    lake.create_table("a.t", SCHEMA).append(DATA)
    frame = reading(spark, lake).load("a.t")
    writing(frame, lake, create="true", partition_by="region").save("a.copy")
    copy = lake.table("a.copy")
    assert copy.partition_by == ("region",)
    assert keyed(copy.scan().to_arrow()) == keyed(DATA)
    assert copy.history()[0].engine == "spark"
    writing(frame.where("id < 7"), lake, "overwrite", message="seven").save("a.copy")
    assert (copy.scan().count(), copy.history()[0].message, copy.version) == (7, "seven", 2)
    assert open_transactions(lake) == 0


def test_versions_moments_conditions_and_columns(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for start in (0, 10, 20):
        table.append(pa.table({"id": range(start, start + 10), "name": [f"n{n}" for n in range(start, start + 10)]}))
    table.tag("first", 1)
    assert reading(spark, lake, version=2).load("a.t").count() == 20
    assert reading(spark, lake, version="first").load("a.t").count() == 10
    assert reading(spark, lake, as_of=table.history()[0].committed_at.isoformat()).load("a.t").count() == 30
    pruned = reading(spark, lake, where="id >= 25").load("a.t")
    assert pruned.rdd.getNumPartitions() == 1
    assert sorted(row.id for row in pruned.collect()) == [25, 26, 27, 28, 29]
    only = reading(spark, lake).schema("name string").load("a.t")
    assert only.where("name = 'n3'").collect() == [("n3",)]
    empty = reading(spark, lake, where="id > 1000").load("a.t")
    assert (empty.count(), empty.columns) == (0, ["id", "name"])


def test_a_loaded_frame_stays_at_its_version(spark: Any, lake: Lake) -> None:
    table = lake.create_table("a.t", IDS)
    table.append(pa.table({"id": [1, 2]}))
    frame = reading(spark, lake).load("a.t")
    table.append(pa.table({"id": [3]}))
    assert frame.count() == 2
    writing(frame, lake, "overwrite").save("a.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_frame_that_was_filtered_once_still_has_all_rows(spark: Any, lake: Lake, pushdown: str) -> None:
    """Spark 4.3 reuses the plan of a pushed filter for other queries of the frame, so nothing may hang on it."""
    table = lake.create_table("a.t", IDS)
    for start in (0, 10, 20):
        table.append(pa.table({"id": range(start, start + 10)}))
    key = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(key, pushdown)
    try:
        frame = reading(spark, lake).load("a.t")
        assert frame.where("id = 15").count() == 1
        assert frame.count() == 30
        assert frame.where("id = 25 or id = 3").count() == 2
        assert frame.where("id = 5").union(frame.where("id = 25")).union(frame).count() == 32
    finally:
        spark.conf.unset(key)


def test_sql_reads_and_inserts_through_a_view(spark: Any, lake: Lake) -> None:
    lake.create_table("a.t", IDS).append(pa.table({"id": [1, 2, 3]}))
    options = f"OPTIONS (lake '{lake.url}', path 'a.t')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW through_sql USING parqlake {options}")
    assert spark.sql("SELECT sum(id) FROM through_sql").first()[0] == 6
    spark.sql("INSERT INTO through_sql VALUES (4)")
    assert lake.table("a.t").scan().count() == 4


@pytest.mark.parametrize(
    ("options", "table", "words"),
    [
        ({"verison": 1}, "a.t", 'no option "verison"; did you mean "version"'),
        ({}, "a.x", 'no table "a.x"; did you mean "a.t"'),
        ({"version": 9}, "a.t", "has no version 9"),
        ({"where": "idd > 1"}, "a.t", 'no column "idd"'),
        ({"storage_options": "x"}, "a.t", "must be a JSON object"),
        ({"lake": "/nowhere/at/all"}, "a.t", "there is no lake at"),
    ],
)
def test_wrong_reads_say_what_is_wrong(spark: Any, lake: Lake, options: dict[str, Any], table: str, words: str) -> None:
    lake.create_table("a.t", IDS).append(pa.table({"id": [1]}))
    with pytest.raises(AnalysisException, match="parqlake") as caught:
        reading(spark, lake, **options).load(table).collect()
    assert words in str(caught.value)


def test_wrong_writes_leave_nothing(spark: Any, lake: Lake, tmp_path: Path) -> None:
    strict = lake.create_table("a.t", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    frame = spark.range(100)
    cases = [
        (writing(frame, lake), "a.missing", 'option("create", "true") makes it'),
        (writing(frame.select(F.col("id").cast("string").alias("id")), lake), "a.t", "the data has"),
        (writing(frame, lake, row_group_size="many"), "a.t", "is no number"),
        (writing(frame, lake, version=1), "a.t", "options for reading"),
        (writing(frame.select(F.when(F.col("id") != 50, F.col("id")).alias("id")), lake), "a.t", "NOT NULL"),
    ]
    for writer, table, words in cases:
        with pytest.raises(PySparkException) as caught:
            writer.save(table)
        assert words in str(caught.value)
    assert strict.version == 0
    assert lake.tables() == ["a.t"]
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    assert open_transactions(lake) == 0


def test_an_idempotency_key_counts_once(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("a.t", IDS)
    for _ in range(3):
        writing(spark.range(10), lake, idempotency_key="load-7").save("a.t")
    assert (table.version, table.scan().count()) == (1, 10)
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == table.history()[0].file_count


def test_abort_after_a_commit_that_went_through_deletes_nothing(lake: Lake, tmp_path: Path) -> None:
    """Spark aborts when it did not hear of a commit; the registry knows better."""
    table = lake.create_table("a.t", IDS)
    writer = _begun(lake)
    message = writer.write(iter(pa.table({"id": [1, 2, 3]}).to_batches()))
    writer.commit([message, None])
    writer.abort([message, None])
    assert table.scan().count() == 3
    assert table.version == 1


def test_abort_before_a_commit_deletes_its_files_and_no_commit_can_follow(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("a.t", IDS)
    writer = _begun(lake)
    message = writer.write(iter(pa.table({"id": [1, 2, 3]}).to_batches()))
    assert isinstance(message, FilesMessage)
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    writer.abort([message])
    assert not list((tmp_path / "lake").rglob("*.parquet"))
    with pytest.raises(parqlake.ParqlakeError):
        writer.commit([message])
    assert table.version == 0


def _begun(lake: Lake) -> BatchWriter:
    from pyspark.sql.types import LongType, StructField, StructType

    options = read_options({"lake": lake.url, "path": "a.t"})
    return BatchWriter.begin(options, StructType([StructField("id", LongType())]), overwrite=False)
