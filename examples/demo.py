"""The main job: a pipeline on Spark, from daily drops of orders to clustered tables that every engine reads.

Run it with `make demo`. Orders and their lines arrive day by day below ./demo-lake/landing, with bad rows, late rows
and a new column on the way. The pipeline (examples/demo_pipeline.py) takes each day in as one transaction. One run is
killed in the middle, and the next carries on. Then the lines are clustered, which a picture shows, and DuckDB, Polars
and Spark answer the same question. Every promise that is shown is checked; it exits with 1 if one is broken. The lake
stays there to look at; the next run replaces it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
from pictures import Box, boxes, picture
from showing import Show, fresh_folder, megabytes, parquet_files

import parqlake
from parqlake.spark import session

DAYS = 5
NEW_COLUMN_FROM = 3
CRASH_ON = 4
ACROSS, UPWARD = "l_partkey", "l_shipdate"
PIPELINE = Path(__file__).with_name("demo_pipeline.py")
FIRST_DAY = 20_000
"""Of the made-up orders: so many days after the beginning of 1970."""


def make_drop(folder: Path, day: int, rows: int) -> None:
    """Writes the files of one day: new orders and their lines, some orders of the day before again, and bad rows."""
    for name in ("orders", "lines"):
        (folder / "landing" / name).mkdir(parents=True, exist_ok=True)
    first, today = day * rows, f"date '1970-01-01' + interval {FIRST_DAY + day} day"
    late = max(0, first - rows // 20)  # changed or late: they come again, a day after
    order = f"""
        select i as o_orderkey, case when i % 499 = 7 then null else hash(i) % 5000 end as o_custkey,
               case when i % 997 = 5 then -1.0 else round((hash(i * 3) % 5000000) / 100.0, 2) end as o_totalprice,
               cast({today} as date) - cast(case when i < {first} then 1 else 0 end as int) as o_orderdate,
               case when i % 1999 = 3 then 'X' else substr('OFP', cast(hash(i) % 3 as int) + 1, 1) end as o_orderstatus,
               case when i < {first} then 'again' else 'shop' end as o_channel,
               strftime({today} + to_milliseconds(i - {late}), '%Y-%m-%dT%H:%M:%S.%gZ') as updated_at
        from range({late}, {first + rows}) as t(i)"""
    tax = ", cast((hash(i) % 9) / 100 as double) as l_tax" if day >= NEW_COLUMN_FROM else ""
    line = f"""
        select i // 4 as l_orderkey, cast(i % 4 as int) as l_linenumber,
               cast(hash(i * 7) % 20000 as bigint) as l_partkey,
               cast(case when i % 4999 = 11 then 0 else hash(i) % 50 + 1 end as int) as l_quantity,
               cast((hash(i * 5) % 1000000) / 100 as double) as l_extendedprice,
               cast((hash(i * 11) % 10) / 100 as double) as l_discount,
               cast({today} as date) + cast(hash(i * 13) % 90 as int) as l_shipdate{tax}
        from range({first * 4}, {(first + rows) * 4}) as t(i)"""
    with duckdb.connect() as connection:
        target = folder / "landing"
        connection.execute(f"copy ({order}) to '{target}/orders/day-{day}.json' (format json)")
        connection.execute(f"copy ({line}) to '{target}/lines/day-{day}.parquet' (format parquet)")


def take_in(show: Show, pipeline: Any, folder: Path, day: int, rows: int) -> None:
    """One day: the drop, and the run that takes it in."""
    make_drop(folder, day, rows)
    run = pipeline.run(run_id=f"day-{day}")
    record = run.report.record
    bad = record.rejects.get("orders.has_customer", 0) + record.rejects.get("orders.positive_price", 0)
    counts = next(step for step in run.report.steps if step.name == "orders").counts
    show.fact(
        f"day {day}: +{counts['inserted']:,} orders, {counts['updated']:,} changed, {bad:,} quarantined; "
        f"{record.seconds:.1f} s"
    )


def ingest(show: Show, pipeline: Any, folder: Path, rows: int) -> None:
    """The days before the crash."""
    lake = pipeline.lake
    for day in range(CRASH_ON):
        take_in(show, pipeline, folder, day, rows)
    again = pipeline.run(run_id="day-1")
    show.check("a run that is repeated changes nothing, and returns its first report", again.replayed)
    orders = lake.table("silver.orders").scan(columns=["o_orderkey"]).to_arrow()["o_orderkey"]
    bad = lake.table("silver.orders_bad").scan(columns=["o_orderkey"]).to_arrow()["o_orderkey"]
    show.check("every order is there once, or in quarantine", len({*orders.to_pylist()}) == len(orders))
    show.check("and none is missing", {*orders.to_pylist(), *bad.to_pylist()} == set(range(CRASH_ON * rows)))
    show.check("the new column came with its day", "l_tax" in lake.table("silver.lines").schema().names)
    show.fact(f"what the last run says of itself:\n{pipeline.run(run_id=f'day-{CRASH_ON - 1}').report}")


def crash(show: Show, pipeline: Any, folder: Path, rows: int) -> None:
    """A run in a process of its own dies in the middle; the next one carries on."""
    lake = pipeline.lake
    before = {name: lake.table(name).version for name in lake.tables()}
    make_drop(folder, CRASH_ON, rows)
    files = len(parquet_files(folder))
    command = [sys.executable, "-W", "ignore", str(PIPELINE), "--run-id", f"day-{CRASH_ON}", "--die-at", "commit"]
    surroundings = {**os.environ, "DEMO_FOLDER": str(folder)}
    done = subprocess.run(command, env=surroundings, check=False, capture_output=True, text=True)
    show.fact(done.stdout.strip() or done.stderr.strip())
    show.check("the process was killed", done.returncode == -9)
    left = len(parquet_files(folder)) - files
    after = {name: lake.table(name).version for name in lake.tables()}
    show.check(f"its {left} files are in no version: all tables are as before", after == before and left > 0)
    run = pipeline.run(run_id=f"day-{CRASH_ON}")
    show.fact(f"the same run again: {run.status}, versions {run.versions}")
    orders, lines = lake.table("silver.orders"), lake.table("silver.lines")
    bad = lake.table("silver.orders_bad").scan().to_arrow()["o_orderkey"].to_pylist()
    taken = orders.scan().count() + len(set(bad))
    show.check("nothing is lost and nothing is there twice", taken == DAYS * rows)
    dropped = sum(1 for i in range(DAYS * rows * 4) if i % 4999 == 11)
    show.check("each line was taken in exactly once", lines.scan().count() == DAYS * rows * 4 - dropped)


def cluster(show: Show, lake: parqlake.Lake, folder: Path) -> None:
    """Lays the lines out by two columns, and draws what each file covers before and after."""
    lines = lake.table("silver.lines")
    where = f"{ACROSS} between 8000 and 9000 and {UPWARD} between date '2024-11-01' and date '2024-11-10'"
    version, before = lines.version, lines.scan(where).explain()
    made = lines.optimize([ACROSS, UPWARD], target_rows_per_file=max(1_000, lines.scan().count() // 32), engine="spark")
    after = lines.scan(where).explain()
    show.fact(f"{made.before_file_count} files became {made.after_file_count}; where {where}:")
    read = f"before: {before.files_read} of {before.files_total} files to read"
    show.fact(f"{read}, after: {after.files_read} of {after.files_total}")
    asked = Box(8000, 9000, *(float(date.fromisoformat(day).toordinal()) for day in ("2024-11-01", "2024-11-10")))
    drawn = picture(
        boxes(lines, ACROSS, UPWARD, version),
        boxes(lines, ACROSS, UPWARD, lines.version),
        across=ACROSS,
        upward=UPWARD,
        asked=asked,
    )
    (folder / "clustering.svg").write_text(drawn, encoding="utf-8")
    show.fact(f"a picture of it: {folder}/clustering.svg")
    share = after.files_read / after.files_total
    show.check("after it a smaller part of the files has to be read", share < before.files_read / before.files_total)
    rows = lines.scan(where, version=version).count()
    show.check("and no row changed", rows == lines.scan(where).count())


def ask(show: Show, spark: Any, lake: parqlake.Lake) -> None:
    """The same question, asked with three engines."""
    import polars as pl

    scan = lake.table("gold.daily").scan(columns=["day", "revenue"])
    by_spark = [tuple(row) for row in scan.to_spark(spark).orderBy("day").collect()]
    found = lake.sql("select day, revenue from gold.daily order by day").to_arrow()
    by_duckdb = [(row["day"], row["revenue"]) for row in found.to_pylist()]
    by_polars = scan.to_polars().sort("day").rows()
    for day, revenue in by_duckdb:
        show.fact(f"{day}  {revenue:16,.2f}")
    show.check("Spark, DuckDB and Polars agree", by_spark == by_duckdb == by_polars)
    summed = lake.table("silver.lines").scan().scan_polars().select(pl.sum("revenue")).collect().item()
    joined = (
        lake.sql(
            "select sum(l.revenue) as revenue from silver.lines l join silver.orders o on o.o_orderkey = l.l_orderkey"
        )
        .to_arrow()["revenue"][0]
        .as_py()
    )
    show.fact(f"revenue of all lines {summed:,.2f}, of those whose order is not in quarantine {joined:,.2f}")
    gold = sum(revenue for _, revenue in by_duckdb)
    show.check("the summary is what its tables say", abs(gold - joined) < 1e-6 * max(1.0, abs(joined)))


def look_back(show: Show, lake: parqlake.Lake) -> None:
    """What the catalog remembers of it all."""
    for run in reversed(lake.runs("shop")):
        rejects = ", ".join(f"{rule} {count:,}" for rule, count in run.rejects.items())
        show.fact(f"{run.started_at:%H:%M:%S}  {run.run_id}  {run.status}  {run.seconds:5.1f} s  {rejects}")
    show.fact(str(lake.table("gold.daily").lineage()))
    size = sum(lake.table(name).history(limit=1)[0].size_bytes for name in lake.tables())
    show.fact(f"{len(lake.tables())} tables, {megabytes(size)}")
    show.check("the lake is sound", lake.check().findings == ())
    for title, seconds in show.timings:
        show.fact(f"{seconds:6.1f} s  {title}")


def main() -> int:
    """Runs the job; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="The main job of parqlake: a pipeline on Spark.")
    parser.add_argument("--folder", type=Path, default=Path("demo-lake"), help="where to build the lake")
    parser.add_argument("--rows", type=int, default=40_000, help="how many orders come in a day; each has four lines")
    arguments = parser.parse_args()
    folder, rows, show = arguments.folder, arguments.rows, Show()
    fresh_folder(folder)
    started = time.perf_counter()
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    with show.step("A Spark session, a lake and a pipeline"):
        try:
            spark = session("parqlake-demo")
        except parqlake.errors.JavaMissingError as error:
            sys.exit(f"{error}\nmake tour shows the same lake without Java")
        os.environ["DEMO_FOLDER"] = str(folder)
        from demo_pipeline import p

        show.fact(f"parqlake {parqlake.__version__} on Spark {spark.version}, {spark.sparkContext.master}: {p.lake!r}")
        make_drop(folder, 0, rows)
        show.fact(p.plan())
    try:
        with show.step(f"{CRASH_ON} days of {rows:,} orders and {4 * rows:,} lines, each day one transaction"):
            ingest(show, p, folder, rows)
        with show.step("kill -9 in the middle of a run, and the next run"):
            crash(show, p, folder, rows)
        with show.step("Clustering: only what a question may concern is read"):
            cluster(show, p.lake, folder)
        with show.step("The same tables, asked with DuckDB, Polars and Spark"):
            ask(show, spark, p.lake)
        with show.step("What there is now"):
            look_back(show, p.lake)
    finally:
        p.lake.close()
        spark.stop()
    result = show.result(folder, time.perf_counter() - started)
    print(f"look around in it: parqlake ui --lake {folder}")
    return result


if __name__ == "__main__":
    sys.exit(main())
