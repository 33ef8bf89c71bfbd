"""Reading a table of 2,000 files with Spark, against Spark's own reader on the same files.

    python benchmarks/spark_read.py                 # 10M rows in 2,000 files
    python benchmarks/spark_read.py --smoke         # 1M rows in 200 files

Both sides read the very same files: ours gets the list and the schema from the catalog, pruned by the predicate, the
other lists the folder, infers the schema and prunes by footers. Each repeat plans anew. The sides alternate.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import parqlake
from report import Report, machine
from spark_bench import measured, start


def table_of(rows: int) -> pa.Table:
    ids = np.arange(rows)
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": ids,
            "customer": rng.integers(0, 1_000_000, rows),
            "amount": rng.gamma(2.0, 50.0, rows).round(2),
            "region": pa.array(["eu", "us", "apac", "latam"]).take(pa.array(rng.integers(0, 4, rows))),
        }
    )


def total(frame: Any) -> tuple[int, float]:
    """Reads three columns of all rows of the frame."""
    found = frame.selectExpr("count(*)", "sum(amount + customer + length(region))").first()
    return int(found[0]), round(float(found[1] or 0), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="1M rows in 200 files instead of 10M in 2,000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    rows = 1_000_000 if arguments.smoke else 10_000_000
    report = Report(f"Spark: reading {rows:,} rows in {rows // 5000:,} files", machine())
    spark = start()
    with tempfile.TemporaryDirectory() as text:
        lake = parqlake.connect(Path(text) / "lake")
        table = lake.create_table("bench.t", table_of(10).schema)
        table.append(table_of(rows), max_rows_per_file=5_000)
        folder = str(Path(text) / "lake" / table.location)
        middle = rows // 2
        one_percent = f"id >= {middle} and id < {middle + rows // 100}"
        cases: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "1 % predicate": (
                lambda: spark.read.parquet(folder).where(one_percent),
                lambda: table.scan(one_percent).to_spark(spark),
            ),
            "full read": (lambda: spark.read.parquet(folder), lambda: table.scan().to_spark(spark)),
        }
        before = psutil.Process().memory_info().rss
        for kind, (native, ours) in cases.items():
            assert total(native()) == total(ours()), kind
            taken: dict[str, list[tuple[float, float]]] = {"native": [], "parqlake": []}
            for _ in range(arguments.repeats):
                taken["native"].append(measured(lambda make=native: total(make())))  # type: ignore[misc]
                taken["parqlake"].append(measured(lambda make=ours: total(make())))  # type: ignore[misc]
            base = [statistics.median(values) for values in zip(*taken["native"], strict=True)]
            for name in ("native", "parqlake"):
                wall, cpu = (statistics.median(values) for values in zip(*taken[name], strict=True))
                note = f"{cpu:.2f} CPU s; {base[0] / wall:.2f}× as fast, {cpu / base[1]:.2f}× CPU"
                report.add(name, kind, wall, "s", note=note)
        grown = (psutil.Process().memory_info().rss - before) / 1e6
        report.add("parqlake", "driver memory, growth over all runs", grown, "MB")
        lake.close()
    spark.stop()
    report.show(arguments.json)


if __name__ == "__main__":
    main()
