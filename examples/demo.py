"""The main job: a pipeline on Spark, from generated orders to pruned reads by Spark and DuckDB.

Run it with `make demo`. It builds a lake in ./demo-lake, appends a year of orders in three batches with Spark, reads a
week of one region with Spark and with DuckDB, lets a batch fail, and checks every promise that it shows. It exits with
1 if one is broken. The lake stays there to look at; the next run replaces it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from showing import Show, fresh_folder, megabytes, parquet_files

import parqlake
from parqlake.spark import session

BATCHES = 3
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string()),
        pa.field("customer", pa.int32()),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("placed_at", pa.timestamp("us", tz="UTC")),
    ]
)
WEEK = "region = 'eu' and placed_at >= '2026-06-01T00:00:00Z' and placed_at < '2026-06-08T00:00:00Z'"


def make_orders(spark: Any, first: int, last: int, rows: int) -> Any:
    """Orders with ids from `first` up to `last`, of `rows` that fill the year; made by the executors."""
    return spark.range(first, last, 1, 4).selectExpr(
        "id",
        "element_at(array('apac', 'eu', 'latam', 'us'), cast(pmod(hash(id), 4) + 1 as int)) as region",
        "cast(pmod(hash(id, 1), 50000) as int) as customer",
        "cast(pmod(hash(id, 2), 50000) / 100 as decimal(10, 2)) as amount",
        f"timestamp_micros(1767225600000000 + id * {365 * 86_400_000_000 // rows}) as placed_at",
    )


def ingest(show: Show, spark: Any, lake: parqlake.Lake, rows: int) -> None:
    """Appends three batches; each is written by the executors and becomes one version."""
    orders = lake.create_table("sales.orders", SCHEMA, partition_by=["region"], properties={"row_group_size": 16_384})
    for number in range(BATCHES):
        frame = make_orders(spark, rows * number // BATCHES, rows * (number + 1) // BATCHES, rows)
        started = time.perf_counter()
        result = orders.append(frame, message=f"batch {number + 1}", idempotency_key=f"demo/batch-{number + 1}")
        seconds = time.perf_counter() - started
        show.fact(f"version {result.version}: +{result.row_count:,} rows in {len(result.files)} files, {seconds:.1f} s")
    last = orders.history(limit=1)[0]
    show.fact(f"{last.row_count:,} rows, {megabytes(last.size_bytes)} in {last.file_count} files")
    show.check(f"{rows:,} rows are there, each once", orders.scan().count() == rows)
    again = orders.append(make_orders(spark, 0, rows // BATCHES, rows), idempotency_key="demo/batch-1")
    show.check("a batch that is run again changes nothing", again.replayed and orders.version == BATCHES)


def read(show: Show, spark: Any, lake: parqlake.Lake) -> None:
    """Reads a week of one region: with Spark, with DuckDB, and by reading everything."""
    orders = lake.table("sales.orders")
    scan = orders.scan(WEEK)
    show.fact(scan.explain())
    by_spark = scan.to_spark(spark).selectExpr("count(*)", "sum(amount)").first()
    show.fact(f"Spark:  {by_spark[0]:,} orders, {by_spark[1]:,} in all")
    with duckdb.connect() as connection:
        connection.register("week", scan.to_batches())
        (found,) = connection.execute("select count(*), sum(amount) from week").fetchall()
    show.fact(f"DuckDB: {found[0]:,} orders, {found[1]:,} in all")
    lake.register(spark)
    by_sql = spark.sql(
        "select count(*), sum(amount) from sales_orders where region = 'eu'"
        " and placed_at >= timestamp'2026-06-01 00:00:00Z' and placed_at < timestamp'2026-06-08 00:00:00Z'"
    ).first()
    show.check("Spark, DuckDB and Spark SQL agree", tuple(by_spark) == tuple(found) == tuple(by_sql))
    explained = scan.explain()
    show.check("most files were not even opened", explained.files_read * 2 < explained.files_total)


def fail(show: Show, spark: Any, lake: parqlake.Lake, folder: Path) -> None:
    """Writes a batch that breaks a rule in its last row."""
    orders = lake.table("sales.orders")
    version, files = orders.version, len(parquet_files(folder))
    bad = make_orders(spark, 0, 10_000, 10_000).selectExpr(
        "case when id < 9999 then id end as id", "region", "customer", "amount", "placed_at"
    )
    try:
        orders.append(bad)
    except parqlake.errors.ConstraintError as error:
        show.fact(f"{type(error).__name__}: {error}")
    show.check("there is no new version", orders.version == version)
    show.check("and no file was left behind", len(parquet_files(folder)) == files)


def transact(show: Show, spark: Any, lake: parqlake.Lake) -> None:
    """Changes two tables together: the orders, and a summary of them."""
    lake.write(daily(spark, lake), "sales.daily")
    with lake.transaction(message="late orders and their sums") as tx:
        late = spark.createDataFrame(
            [(-1, "eu", 7, 10, "2026-06-03 12:00:00")], "id long, region string, customer int, amount int, at string"
        ).selectExpr(
            "id", "region", "customer", "cast(amount as decimal(10, 2)) as amount", "cast(at as timestamp) as placed_at"
        )
        tx.table("sales.orders").append(late)
        tx.table("sales.daily").overwrite(daily(spark, lake, late))
    show.fact(f"committed together: {tx.versions}")
    total = lake.table("sales.daily").scan().to_spark(spark)
    orders = lake.table("sales.orders").scan().to_spark(spark)
    same = total.selectExpr("sum(amount)").first()[0] == orders.selectExpr("sum(amount)").first()[0]
    show.check("the summary and the orders agree", same)


def daily(spark: Any, lake: parqlake.Lake, late: Any = None) -> Any:
    """The sum of each day."""
    orders = lake.table("sales.orders").scan().to_spark(spark)
    frame = orders if late is None else orders.unionByName(late)
    return frame.selectExpr("to_date(placed_at) as day", "amount").groupBy("day").sum("amount").toDF("day", "amount")


def travel(show: Show, lake: parqlake.Lake, rows: int) -> None:
    """Reads the table as it was, and lists what happened to it."""
    orders = lake.table("sales.orders")
    show.check("version 1 still reads as it was", orders.scan(version=1).count() == rows // BATCHES)
    for entry in reversed(orders.history()):
        show.fact(
            f"version {entry.version}: {entry.operation} by {entry.engine}, {entry.row_count:,} rows; {entry.message}"
        )


def main() -> int:
    """Runs the job; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="The main job of parqlake: a pipeline on Spark.")
    parser.add_argument("--folder", type=Path, default=Path("demo-lake"), help="where to build the lake")
    parser.add_argument("--rows", type=int, default=2_000_000, help="how many orders to generate")
    arguments = parser.parse_args()
    folder, rows, show = arguments.folder, arguments.rows // BATCHES * BATCHES, Show()
    fresh_folder(folder)
    started = time.perf_counter()
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    with show.step("A Spark session, and a lake"):
        try:
            spark = session("parqlake-demo")
        except parqlake.errors.JavaMissingError as error:
            sys.exit(f"{error}\nmake tour shows the same lake without Java")
        lake = parqlake.connect(folder)
        show.fact(f"parqlake {parqlake.__version__} on Spark {spark.version}, {spark.sparkContext.master}: {lake!r}")
    try:
        with show.step(f"{rows:,} orders of a year in {BATCHES} batches, written by Spark"):
            ingest(show, spark, lake, rows)
        with show.step("A week of one region: only what may match is read"):
            read(show, spark, lake)
        with show.step("A batch with a bad row"):
            fail(show, spark, lake, folder)
        with show.step("Two tables in one transaction"):
            transact(show, spark, lake)
        with show.step("What there is now"):
            travel(show, lake, rows)
            for title, seconds in show.timings:
                show.fact(f"{seconds:6.1f} s  {title}")
    finally:
        lake.close()
        spark.stop()
    return show.result(folder, time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
