"""Thirty daily drops into one table: our pipeline, beside the same written by hand with `spark.read/write.parquet`.

    python benchmarks/pipeline.py                 # 30 days of 200,000 rows
    python benchmarks/pipeline.py --smoke         # 6 days of 20,000 rows

Each day brings new rows, and some of the days before again, changed; a few are bad. Both sides take one row for each
key, leave the bad ones out, and end with the same rows, which is checked. By hand: the rows of the table without a
match (an anti-join) and the new ones go to a new folder, which then takes the place of the old one. Ours writes the
files that hold a match, makes them durable, keeps the bad rows, counts, commits, remembers the file, and compacts. The
sides alternate, day by day. Peers with a MERGE of their own need jars; where they cannot be had, they are left out.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as f

import parqlake
from parqlake.pipeline import Pipeline, expect, maintain, new_files
from report import Report, machine
from spark_bench import measured, start

CHANGED = 0.05
BAD = "amount >= 0"


def drop(spark: Any, folder: Path, day: int, rows: int) -> Path:
    """The file of one day: new keys, and some of the last three days' again."""
    again, first = int(rows * CHANGED), day * rows
    back = max(1, min(day, 3) * rows)
    source = spark.range(0, rows + again, 1, 1).selectExpr(
        f"if(id < {rows}, {first} + id, greatest(0, {first} - 1 - (id - {rows}) * 7 % {back})) as id",
        "id as row",
    )
    target = folder / f"day-{day:02}"
    source.selectExpr(
        "id",
        "cast(hash(id) & 65535 as bigint) as customer",
        "if(pmod(hash(id, 9), 1000) = 0, -1.0, pmod(hash(row, id), 100000) / 100.0) as amount",
        f"timestamp_seconds({1_700_000_000 + day * 86_400} + row % 86400) as updated_at",
        "concat('note number ', pmod(hash(id, 4), 5000)) as note",
        f"date_add(date '2026-01-01', {day}) as day",
    ).write.parquet(str(target))
    return target


def by_hand(spark: Any, source: Path, table: Path) -> None:
    """What one would write without a lake."""
    order = Window.partitionBy("id").orderBy(f.col("updated_at").desc(), f.xxhash64("amount"))
    ranked = spark.read.parquet(str(source)).withColumn("n", f.row_number().over(order))
    new = ranked.where("n = 1").drop("n").where(BAD)
    if table.exists():
        old = spark.read.parquet(str(table)).join(new.select("id"), "id", "left_anti")
        new = old.select(*new.columns).unionByName(new)
    fresh = table.with_name("fresh")
    new.write.option("compression", "zstd").parquet(str(fresh))
    if table.exists():
        shutil.rmtree(table)
    fresh.rename(table)


def pipeline(spark: Any, lake: parqlake.Lake, landing: Path) -> Pipeline:
    """The same as a pipeline."""
    p = Pipeline("bench", lake=lake, spark=spark, samples=False)
    p.step(
        target="bench.t",
        name="take_in",
        source=new_files(str(landing), pattern="*.parquet"),
        mode="merge",
        keys=["id"],
        dedupe="updated_at desc",
        expect=[expect("positive", BAD).quarantine("bench.bad")],
        maintain=maintain(compact="128MB"),
    )(lambda batch: batch)
    return p


def size_of(folder: Path) -> tuple[int, int]:
    """Parquet files and their bytes."""
    files = list(folder.rglob("*.parquet"))
    return len(files), sum(file.stat().st_size for file in files)


def run(report: Report, spark: Any, folder: Path, *, days: int, rows: int) -> None:
    landing, hand = folder / "landing", folder / "by-hand"
    landing.mkdir()
    lake = parqlake.connect(folder / "lake", progress=False)
    p = pipeline(spark, lake, landing)
    taken: dict[str, list[tuple[float, float]]] = {"by hand": [], "parqlake": []}
    written = {"by hand": 0, "parqlake": 0}
    for day in range(days):
        source = drop(spark, landing, day, rows)
        sides = [("by hand", lambda: by_hand(spark, source, hand)), ("parqlake", lambda: p.run(run_id=f"day-{day}"))]  # noqa: B023
        before = size_of(folder / "lake")[1]
        for name, work in sides if day % 2 else reversed(sides):
            used = measured(work)
            if day:  # the first warms Spark up, for both
                taken[name].append(used)
        written["by hand"] += size_of(hand)[1]
        written["parqlake"] += size_of(folder / "lake")[1] - before
    ours, theirs = lake.table("bench.t").scan().to_spark(spark), spark.read.parquet(str(hand))
    total = [frame.selectExpr("count(*)", "sum(amount)", "sum(id)").first() for frame in (ours, theirs)]
    assert total[0][0] == total[1][0], f"the sides do not agree: {total}"
    assert total[0][2] == total[1][2], f"the sides do not agree: {total}"
    tail = max(1, days // 6)
    for name, values in taken.items():
        walls, cpus = zip(*values, strict=True)
        first, last = (statistics.median(part) for part in (walls[:tail], walls[-tail:]))
        note = f"{sum(cpus):.1f} CPU s; a day in the beginning {first:.2f} s, in the end {last:.2f} s"
        report.add(name, f"{days - 1} days after the first", sum(walls), "s", note=note)
        report.add(name, "bytes written", written[name] / 1e6, "MB")
    files = lake.table("bench.t").history(limit=1)[0]
    report.add("parqlake", "files left in the newest version", files.file_count, "files")
    report.add("by hand", "files left", size_of(hand)[0], "files")
    lake.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="6 days of 20,000 rows")
    parser.add_argument("--days", type=int)
    parser.add_argument("--rows", type=int, help="of a day")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    days = arguments.days or (6 if arguments.smoke else 30)
    rows = arguments.rows or (20_000 if arguments.smoke else 200_000)
    report = Report(f"Pipeline: {days} daily drops of {rows:,} rows", machine())
    spark = start()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with tempfile.TemporaryDirectory() as text:
        run(report, spark, Path(text), days=days, rows=rows)
    report.skip("Delta", "its jars are not on the Python index")
    spark.stop()
    report.show(arguments.json)


if __name__ == "__main__":
    main()
