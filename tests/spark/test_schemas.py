"""`format("parqlake")` and schemas that change: options, views, and streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import parqlake
from parqlake import errors
from parqlake.formats.spark.batch_write import write_rows
from parqlake.formats.spark.options import read_options
from parqlake.formats.spark.stream_write import StreamWriter
from parqlake.table.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


def writing(frame: Any, lake: Lake, **options: Any) -> Any:
    return frame.write.format("parqlake").option("lake", lake.url).options(**options).mode("append")


def put(folder: Path, number: int, row: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number}"
    hidden.write_text(json.dumps(row) + "\n")
    hidden.rename(folder / f"{number}.json")


def stream(spark: Any, lake: Lake, at: Path, schema: str, **options: Any) -> Any:
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(at / "in"))
    sink = source.writeStream.format("parqlake").option("lake", lake.url).options(**options)
    return sink.option("checkpointLocation", str(at / "check"))


def rows(table: Any, *names: str) -> list[tuple[Any, ...]]:
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    return [tuple(row[name] for name in names) for row in found]


@pytest.mark.slow  # merges of frames, and of old files, are in the conformance suite too, each by itself
def test_frames_are_merged_and_old_files_read(spark: Any, lake: Lake) -> None:
    table = lake.create_table("s.t", pa.schema([("id", pa.int64()), ("n", pa.int32())]), checks={"small": "n < 9"})
    table.append(pa.table({"id": [1], "n": [1]}, table.schema()))
    with pytest.raises(PySparkException, match='break the check "small"'):
        writing(spark.sql("select 2L id, 12 n, 'x' extra"), lake, schema_mode="merge").save("s.t")
    writing(spark.sql("select 2L id, 'x' extra"), lake, schema_mode="merge").save("s.t")
    table.drop_check("small")
    table.rename_column("n", "m")
    found = spark.read.format("parqlake").option("lake", lake.url).option("where", "m = 1").load("s.t").collect()
    assert [tuple(row) for row in found] == [(1, 1, None)]
    lake.register(spark)
    assert spark.sql("select m, extra from s_t order by id").collect() == [(1, None), (None, "x")]
    assert rows(table, "id", "m", "extra") == [(1, 1, None), (2, None, "x")]


def test_a_stream_brings_new_columns_and_follows_the_table(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("s.t", pa.schema([("id", pa.int64())]))
    put(tmp_path / "in", 0, {"id": 0, "n": 0})
    query = stream(spark, lake, tmp_path, "id long, n int", schema_mode="merge").start("s.t")
    query.processAllAvailable()
    table.drop_column("n")
    table.add_column("n", pa.int32(), default=7)  # another column, though it has the same name and type
    put(tmp_path / "in", 1, {"id": 1, "n": 1})
    query.processAllAvailable()
    query.stop()
    assert rows(table, "id", "n") == [(0, 7), (1, 1)]
    assert [entry.operation for entry in table.history()] == ["append", "evolve", "evolve", "append"]


def test_files_of_a_batch_are_never_taken_for_those_of_another_schema(lake: Lake) -> None:
    """The table changes while the tasks of a batch are at work."""
    table = lake.create_table("s.t", pa.schema([("id", pa.int64()), ("n", pa.int32())]))
    options = read_options({"lake": lake.url, "table": "s.t"})
    schema = StructType([StructField("id", LongType()), StructField("n", IntegerType())])
    writer = StreamWriter.begin(options, schema, complete=False)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "n": 1}], schema=table.schema())
    message = write_rows(writer.task, iter([batch]), "query")
    table.drop_column("n")
    table.add_column("n", pa.int32())
    with pytest.raises(errors.ConcurrentSchemaChangeError, match="changed since this batch began"):
        writer.commit([message], 0)
    assert table.scan().count() == 0
    fresh = StreamWriter.begin(options, schema, complete=False)
    fresh.commit([write_rows(fresh.task, iter([batch]), "query")], 0)
    assert rows(table, "id", "n") == [(1, 1)]
