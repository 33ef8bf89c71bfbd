"""Appending a Spark data frame, against Spark's own Parquet writer on the same rows in the same run.

    python benchmarks/spark_write.py                 # 10M rows
    python benchmarks/spark_write.py --smoke         # 1M rows

The rows are read from Parquet by Spark's reader, so that both sides pay little for their input, and written with the
same codec. The sides alternate, after one run of each that does not count: making the input has warmed the JVM
for its own writer only. Ours also makes files durable (fsync), computes statistics and commits.
The driver's memory is that of this process: records of files pass through it, rows never.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import psutil

import parqlake
from report import Report, machine
from spark_bench import measured, orders, start

TASKS = 8


def native(frame: Any, path: Path, partition: str | None) -> None:
    writer = frame.write.mode("overwrite").option("compression", "zstd")
    (writer.partitionBy(partition) if partition else writer).parquet(str(path))


def ours(frame: Any, lake: Any, name: str, partition: str | None) -> None:
    lake.drop_table(name, if_missing="ignore")
    lake.write(frame, name, partition_by=[partition] if partition else [])


def sizes(folder: Path) -> tuple[int, float]:
    files = list(folder.rglob("*.parquet"))
    return len(files), sum(file.stat().st_size for file in files) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="1M rows instead of 10M")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    rows = arguments.rows or (1_000_000 if arguments.smoke else 10_000_000)
    report = Report(f"Spark: append of {rows:,} rows × 8 columns", machine())
    spark = start()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        orders(spark, rows, TASKS).write.parquet(str(folder / "input"))
        frame = spark.read.parquet(str(folder / "input"))
        lake = parqlake.connect(folder / "lake")
        warm = orders(spark, 10_000, 2)
        ours(warm, lake, "bench.warm", None)
        native(warm, folder / "warm", None)
        before = psutil.Process().memory_info().rss
        for kind, partition in (("flat", None), ("100 partitions", "part")):
            taken: dict[str, list[tuple[float, float]]] = {"native": [], "parqlake": []}
            for _ in range(1 + arguments.repeats):
                shutil.rmtree(folder / "native", ignore_errors=True)
                taken["native"].append(measured(lambda p=partition: native(frame, folder / "native", p)))  # type: ignore[misc]
                shutil.rmtree(folder / "lake" / "bench", ignore_errors=True)
                taken["parqlake"].append(measured(lambda p=partition: ours(frame, lake, "bench.t", p)))  # type: ignore[misc]
            taken = {side: times[1:] for side, times in taken.items()}
            table = lake.table("bench.t")
            assert table.scan().count() == rows == spark.read.parquet(str(folder / "native")).count()
            base = [statistics.median(values) for values in zip(*taken["native"], strict=True)]
            for name, where in (("native", folder / "native"), ("parqlake", folder / "lake" / table.location)):
                wall, cpu = (statistics.median(values) for values in zip(*taken[name], strict=True))
                count, size = sizes(where)
                ratios = f"{wall / base[0]:.2f}× wall, {cpu / base[1]:.2f}× CPU"
                note = f"{cpu:.1f} CPU s; {ratios}; {count} files, {size:.0f} MB"
                report.add(name, f"{kind}: append", wall, "s", note=note)
        grown = (psutil.Process().memory_info().rss - before) / 1e6
        report.add("parqlake", "driver memory, growth over all runs", grown, "MB")
        lake.close()
    spark.stop()
    report.show(arguments.json)


if __name__ == "__main__":
    main()
