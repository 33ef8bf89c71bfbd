"""A driver as a user would write it: loads orders into tables of a lake with Spark, and reads them again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

ROWS = 20_000
TASKS = 8
REGIONS = ("eu", "us", "a/b", "apac")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)


def order_frame(spark: Any, first: int, count: int) -> Any:
    """Orders whose columns all follow from their number; `expected` in the test knows how."""
    return spark.range(first, first + count, 1, TASKS).selectExpr(
        "id",
        f"element_at(array{REGIONS}, int(id % 4) + 1) as region",
        "id / 8.0D as amount",
        "cast(id as decimal(12, 2)) / 4 as quarter",
        "date_add(date'2026-01-01', int(id div 1000)) as day",
        "timestamp'2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) as at",
        "case when id % 3 = 0 then array('a', cast(id as string)) end as tags",
    ).selectExpr("id", "region", "amount", "cast(quarter as decimal(12, 2)) as price", "day", "at", "tags")  # fmt: skip


def traced(frame: Any, folder: Path) -> Any:
    """The same rows; each task leaves a note of the host it ran on."""

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (folder / f"{context.partitionId()}-{context.taskAttemptId()}").write_text(os.environ["SPARK_LOCAL_IP"])
        yield from batches

    return frame.mapInArrow(note, frame.schema)


def failing(frame: Any) -> Any:
    """A frame whose last tasks fail each time."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.withColumn("id", F.expr("if(id < 3900, id, cast(raise_error('no such order') as long))"))


def main() -> None:
    from program_support import begin, say, wait_for_executors

    spark, lake, given = begin()
    wait_for_executors(spark)
    say(ready=True)

    traces = Path(given["traces"])
    flat = lake.create_table("sales.flat", SCHEMA)
    orders = lake.create_table("sales.orders", SCHEMA, partition_by=["region"])
    flat.append(traced(order_frame(spark, 0, ROWS), traces), message="with Spark")
    orders.append(order_frame(spark, 0, ROWS))

    replaced = lake.create_table("sales.replaced", SCHEMA)
    replaced.append(order_frame(spark, 0, 3_000))
    replaced.overwrite(order_frame(spark, 5_000, 2_000))
    replaced.overwrite(order_frame(spark, 6_000, 500).where("id < 6100"), where="id >= 6000")

    lake.create_table("sales.left", SCHEMA)
    lake.create_table("sales.right", SCHEMA, partition_by=["region"])
    with lake.transaction(message="both") as tx:
        tx.table("sales.left").append(order_frame(spark, 0, 1_000))
        tx.table("sales.right").append(order_frame(spark, 1_000, 1_000))
    try:
        with lake.transaction(message="neither") as tx:
            tx.table("sales.left").append(order_frame(spark, 2_000, 1_000))
            tx.table("sales.right").append(failing(order_frame(spark, 3_000, 1_000)))
    except Exception as error:
        say(failed=str(error)[:20_000])

    reads = {}
    for number, (table, where) in enumerate(given["reads"]):
        frame = lake.table(table).scan(where, columns=["id", "region", "price", "at", "tags"]).to_spark(spark)
        pyarrow.feather.write_feather(frame.toArrow(), str(traces / f"{number}.arrow"))
        reads[number] = len(frame.inputFiles())
    say(files_read=json.dumps(reads))
    spark.stop()


if __name__ == "__main__":
    main()
