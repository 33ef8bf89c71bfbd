"""An upsert on Spark, against rewriting the table by a join written by hand, on the same rows in the same run.

    python benchmarks/spark_merge.py                 # 1M rows into 10M
    python benchmarks/spark_merge.py --smoke         # 100,000 rows into 1M

Both sides begin with the same files, and end with the same rows. By hand: rows of the table without a match (an
anti-join) and the source, in one union, written to a new folder with the same codec. Ours writes just the files that
hold a match, makes them durable (fsync), computes statistics, and commits. The sides alternate. Keys come from all over
the table, from a tenth of its files, and with half of the source's rows sharing one key, of which the newest is taken.
The driver's memory is that of this process: counts and records of files pass through it, rows never.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import functions as f

import parqlake
from report import Report, machine
from spark_bench import measured, orders, start

ENGINE = "spark"
FILES = 20
CASES = ("keys from everywhere", "keys from a tenth of the files", "half of the rows with one key")


def changes(spark: Any, rows: int, case: str) -> Any:
    """A tenth of the rows of the table: nine in ten replace one, the others are new."""
    count = rows // 10
    first, step = (rows // 2, 1) if case == CASES[1] else (0, 10)
    frame = spark.range(0, count, 1, 4).selectExpr(
        f"if(id % 10 = 9, {rows} + id, {first} + id * {step}) as id", "id as row"
    )
    if case == CASES[2]:
        frame = frame.selectExpr("if(row % 2 = 0, 0, id) as id", "row")
    values = {"customer": "row", "region": "'eu'", "amount": "row % 1000", "quantity": "1", "part": "0"}
    values |= {"id": "id", "at": "timestamp_seconds(row)", "note": "concat('changed ', row)"}
    return frame.selectExpr(
        *(f"cast({values[name]} as {type_}) as {name}" for name, type_ in orders(spark, 1, 1).dtypes)
    )


def by_hand(spark: Any, table: list[str], source: Path, target: Path, *, newest_only: bool) -> None:
    """What one would write without a lake."""
    new = spark.read.parquet(str(source))
    new = newest(new) if newest_only else new
    old = spark.read.parquet(*table).join(new.select("id"), "id", "left_anti")
    old.unionByName(new).write.mode("overwrite").option("compression", "zstd").parquet(str(target))


def newest(frame: Any) -> Any:
    """Of rows with the same key the one with the latest time."""
    rest = f.struct("at", *(name for name in frame.columns if name not in ("id", "at")))
    return frame.groupBy("id").agg(f.max(rest).alias("newest")).select("id", "newest.*").select(*frame.columns)


def total(frame: Any) -> tuple[int, int]:
    """The number of rows, and a sum over all their values."""
    found = frame.selectExpr("count(*)", f"sum(cast(xxhash64({', '.join(sorted(frame.columns))}) as decimal(38)))")
    rows, hashed = found.first()
    return int(rows), int(hashed)


def run(report: Report, spark: Any, lake: Any, folder: Path, *, rows: int, case: str, repeats: int) -> float:
    """Measures both sides of one case in turn; returns by how much a merge made the driver grow, at most, in MB."""
    table, source, target = lake.table("bench.t"), folder / "source", folder / "by-hand"
    changes(spark, rows, case).write.mode("overwrite").parquet(str(source))
    begin = [str(folder / "lake" / table.location / path) for path in table.files().column("path").to_pylist()]
    first, skewed = table.version, case == CASES[2]
    taken: dict[str, list[tuple[float, float]]] = {"by hand": [], "parqlake": []}
    grown = 0.0
    for _ in range(repeats):
        taken["by hand"].append(measured(lambda: by_hand(spark, begin, source, target, newest_only=skewed)))
        frame = spark.read.parquet(str(source))
        before = psutil.Process().memory_info().rss
        order = ["at", *(name for name in frame.columns if name not in ("id", "at"))] if skewed else None
        merged: list[Any] = []
        taken["parqlake"].append(
            measured(lambda: merged.append(table.merge(frame, on=["id"], dedup_order_by=order, engine=ENGINE)))  # noqa: B023
        )
        grown = max(grown, (psutil.Process().memory_info().rss - before) / 1e6)
        same = total(table.scan().to_spark(spark)), total(spark.read.parquet(str(target)))
        assert same[0] == same[1], f"{case}: the sides do not agree: {same}"
        table.restore(version=first)
    base = [statistics.median(values) for values in zip(*taken["by hand"], strict=True)]
    for name, values in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*values, strict=True))
        note = f"{cpu:.1f} CPU s; {wall / base[0]:.2f}× wall, {cpu / base[1]:.2f}× CPU"
        if name == "parqlake":
            note += f"; {merged[-1].files_removed} of {len(begin)} files, {merged[-1].bytes_rewritten / 1e6:.0f} MB"
        else:
            note += f"; {sum(file.stat().st_size for file in target.glob('*.parquet')) / 1e6:.0f} MB"
        report.add(name, case, wall, "s", note=note)
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="100,000 rows into 1M instead of 1M into 10M")
    parser.add_argument("--rows", type=int, help="of the table")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    rows = arguments.rows or (1_000_000 if arguments.smoke else 10_000_000)
    report = Report(f"Spark: merge of {rows // 10:,} rows into {rows:,}", machine())
    spark = start()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        lake = parqlake.connect(folder / "lake")
        lake.write(orders(spark, 10_000, 2), "bench.warm")
        lake.table("bench.warm").merge(orders(spark, 1_000, 2), on=["id"], engine=ENGINE)
        lake.write(orders(spark, rows, FILES), "bench.t")
        grown = 0.0
        for case in CASES:
            grown = max(grown, run(report, spark, lake, folder, rows=rows, case=case, repeats=arguments.repeats))
        report.add("parqlake", "driver memory, most growth in a merge", grown, "MB")
        lake.close()
    spark.stop()
    report.show(arguments.json)


if __name__ == "__main__":
    main()
