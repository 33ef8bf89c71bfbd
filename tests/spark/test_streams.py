"""Streams into and out of tables: every batch once, also when the query is stopped, killed or run again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import LongType, StructField, StructType

import parqlake
from parqlake.formats.spark.batch_write import FilesMessage
from parqlake.formats.spark.options import read_options
from parqlake.formats.spark.stream_write import StreamWriter
from parqlake.table.lake import Lake
from parqlake.table.table import Table

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


def put(folder: Path, number: int, start: int, count: int = 10) -> None:
    """One more file for a stream to find; complete when it appears."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps({"id": n}) + "\n" for n in range(start, start + count)))
    hidden.rename(folder / f"{number}.json")


def into_table(spark: Any, lake: Lake, folder: Path, checkpoint: Path, **options: Any) -> Any:
    source = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(folder))
    sink = source.writeStream.format("parqlake").option("lake", lake.url).options(**options)
    return sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start("s.t")


def out_of_table(spark: Any, lake: Lake, checkpoint: Path, target: str, **options: Any) -> Any:
    source = spark.readStream.format("parqlake").option("lake", lake.url).options(**options).load("s.t")
    sink = source.writeStream.format("parqlake").option("lake", lake.url).option("create", "true")
    return sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(target)


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_each_batch_is_one_version_also_after_a_restart(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", SCHEMA)
    for number in range(3):
        put(tmp_path / "in", number, number * 10)
    into_table(spark, lake, tmp_path / "in", tmp_path / "check").awaitTermination()
    assert ids(table) == list(range(30))
    assert table.version == 3
    put(tmp_path / "in", 3, 30)
    into_table(spark, lake, tmp_path / "in", tmp_path / "check").awaitTermination()
    assert ids(table) == list(range(40))
    assert table.version == 4
    assert table.history()[0].message == "stream batch 3"


def test_a_batch_whose_commit_spark_never_heard_of_is_not_repeated(spark: Any, lake: Lake, tmp_path: Path) -> None:
    """What a crash between our commit and Spark's own note of it leaves behind."""
    table = lake.create_table("s.t", SCHEMA)
    for number in range(3):
        put(tmp_path / "in", number, number * 10)
    into_table(spark, lake, tmp_path / "in", tmp_path / "check").awaitTermination()
    for forgotten in (2, 1):
        for name in (str(forgotten), f".{forgotten}.crc"):
            (tmp_path / "check" / "commits" / name).unlink(missing_ok=True)
        into_table(spark, lake, tmp_path / "in", tmp_path / "check").awaitTermination()
        assert ids(table) == list(range(30))
        assert table.version == 3


def test_a_batch_without_rows_is_no_version(lake: Lake) -> None:
    table = lake.create_table("s.t", SCHEMA)
    writer = StreamWriter.begin(
        read_options({"lake": lake.url, "path": "s.t"}), StructType([StructField("id", LongType())]), complete=False
    )
    writer.commit([], 0)
    writer.commit([None, FilesMessage(query_id="q")], 1)
    assert table.version == 0


def test_output_mode_complete_replaces_what_was_there(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", pa.schema([("parity", pa.int64()), ("count", pa.int64())]))
    for number in range(2):
        put(tmp_path / "in", number, number * 10)
    source = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    counted = source.selectExpr("id % 2 as parity").groupBy("parity").count()
    sink = counted.writeStream.outputMode("complete").format("parqlake").option("lake", lake.url)
    sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start("s.t").awaitTermination()
    assert sorted(table.scan().to_arrow().to_pylist(), key=str) == [
        {"parity": 0, "count": 10},
        {"parity": 1, "count": 10},
    ]
    assert {entry.operation for entry in table.history()} == {"overwrite"}


def test_another_query_is_another_stream(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", SCHEMA)
    put(tmp_path / "in", 0, 0)
    into_table(spark, lake, tmp_path / "in", tmp_path / "one").awaitTermination()
    into_table(spark, lake, tmp_path / "in", tmp_path / "two").awaitTermination()
    assert ids(table) == sorted([*range(10), *range(10)])


def test_a_table_is_followed_from_its_rows_on(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", SCHEMA)
    table.append(pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    out_of_table(spark, lake, tmp_path / "check", "s.copy").awaitTermination()
    copy = lake.table("s.copy")
    assert ids(copy) == [1, 2, 3]
    out_of_table(spark, lake, tmp_path / "check", "s.copy").awaitTermination()
    assert ids(copy) == [1, 2, 3]
    table.append(pa.table({"id": [4]}))
    table.append(pa.table({"id": [5, 6]}))
    out_of_table(spark, lake, tmp_path / "check", "s.copy").awaitTermination()
    assert ids(copy) == [1, 2, 3, 4, 5, 6]


def test_a_stream_may_begin_at_a_version(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", SCHEMA)
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    out_of_table(spark, lake, tmp_path / "one", "s.late", from_version=1).awaitTermination()
    assert ids(lake.table("s.late")) == [1, 2]
    out_of_table(spark, lake, tmp_path / "two", "s.latest", from_version="latest").awaitTermination()
    assert ids(lake.table("s.latest")) == []
    table.append(pa.table({"id": [7]}))
    out_of_table(spark, lake, tmp_path / "two", "s.latest", from_version="latest").awaitTermination()
    assert ids(lake.table("s.latest")) == [7]


def test_rows_that_are_replaced_stop_the_stream_and_say_so(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", SCHEMA)
    table.append(pa.table({"id": [1]}))
    out_of_table(spark, lake, tmp_path / "check", "s.copy").awaitTermination()
    table.overwrite(pa.table({"id": [2]}))
    with pytest.raises(StreamingQueryException, match=r"version 2 of s\.t \(overwrite\) removed 1 rows"):
        out_of_table(spark, lake, tmp_path / "check", "s.copy").awaitTermination()
    assert ids(lake.table("s.copy")) == [1]
    out_of_table(spark, lake, tmp_path / "check", "s.copy", allow_removals="true").awaitTermination()
    assert ids(lake.table("s.copy")) == [1, 2]


def test_rows_that_do_not_fit_stop_the_stream_before_a_version(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    put(tmp_path / "in", 0, 0)
    (tmp_path / "in" / "1.json").write_text('{"id": null}\n')
    with pytest.raises(StreamingQueryException, match="NOT NULL"):
        into_table(spark, lake, tmp_path / "in", tmp_path / "check").awaitTermination()
    assert table.version <= 1
    assert set(ids(table)) <= set(range(10))
