"""Planning and commit cost at scale: 1M row groups × 20 columns in one table.

    python benchmarks/planning.py                 # 1M row groups, SQLite and PostgreSQL
    python benchmarks/planning.py --smoke         # 100k row groups

Then tables of other shapes: 10,000 partitions of one file each, 500 columns, and one commit for each of 900 files,
which are as many segments. A plan should cost there what it costs elsewhere.

The table's statistics are committed as a writer would, in commits of 16,384 row groups, without Parquet files behind
them: what is measured is the catalog. Cold means a new connection with empty caches in a new lake handle; the operating
system's cache is warm. Times are medians; the cost of one fsync on the same disk stands beside the commit times.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

import parqlake
from parqlake.core.keys import double_key, integer_key
from parqlake.core.model import ColumnStatistics, DataFile, Operation
from parqlake.table.commit import TableChange
from parqlake.table.table import Table
from parqlake.table.unit import Unit
from parqlake.testing.postgres import PostgresUnavailableError, start_postgres
from report import Report, machine

COLUMNS = 20
GROUPS_PER_FILE = 10
SMALL_FILES = 300
ROWS_PER_GROUP = 100_000
FILES_PER_COMMIT = 1638
OFFSET = np.uint64(2**63)


def schema(columns: int = COLUMNS) -> pa.Schema:
    fields = [("clustered", pa.int64()), ("random", pa.int64()), ("text", pa.string()), ("price", pa.float64())]
    return pa.schema(fields + [(f"c{n}", pa.int64()) for n in range(columns - len(fields))])


def data_files(
    count: int,
    start: int,
    rng: np.random.Generator,
    groups_per_file: int = GROUPS_PER_FILE,
    *,
    columns: int = COLUMNS,
    partitioned: bool = False,
) -> list[DataFile]:
    """Descriptions of files as an engine would return them; `clustered` rises from file to file."""
    groups = count * groups_per_file
    first = (start * groups_per_file + np.arange(groups)) * ROWS_PER_GROUP
    lows = rng.integers(0, 2**40, (columns, groups))
    highs = lows + rng.integers(0, 2**20, (columns, groups))
    lows[0], highs[0] = first, first + ROWS_PER_GROUP - 1
    low_keys, high_keys = lows.astype(np.uint64) + OFFSET, highs.astype(np.uint64) + OFFSET
    files = []
    for number in range(count):
        cut = slice(number * groups_per_file, (number + 1) * groups_per_file)
        nulls = np.zeros(groups_per_file, dtype=np.int64)
        statistics_: list[ColumnStatistics] = []
        partition = {"text": f"part-{start + number:06d}"} if partitioned else {}
        for column in range(columns):
            mins: object = low_keys[column, cut]
            maxs: object = high_keys[column, cut]
            if column == 2 and partitioned:
                mins = maxs = [partition["text"].encode()] * groups_per_file
            elif column == 2:
                mins = [b"customer-%012d" % value for value in lows[column, cut]]
                maxs = [b"customer-%012d" % value for value in highs[column, cut]]
            elif column == 3:
                mins = np.array([double_key(value / 100) for value in lows[column, cut]], dtype=np.uint64)
                maxs = np.array([double_key(value / 100) for value in highs[column, cut]], dtype=np.uint64)
            statistics_.append(ColumnStatistics(column + 1, mins, maxs, nulls))  # type: ignore[arg-type]
        files.append(
            DataFile(
                path=f"part-019a8c5e-0000-7000-8000-{start + number:012x}.parquet",
                size_bytes=64 << 20,
                row_count=groups_per_file * ROWS_PER_GROUP,
                row_group_rows=np.full(groups_per_file, ROWS_PER_GROUP),
                row_group_bytes=np.full(groups_per_file, 6 << 20),
                row_group_offsets=np.arange(groups_per_file) * (6 << 20) + 4,
                partition=partition,
                statistics=tuple(statistics_),
            )
        )
    return files


def commit(table: Table, files: list[DataFile]) -> tuple[float, float]:
    """Seconds that the commit takes, and seconds that it takes together with registering the transaction."""
    context, info = table._context, table._info
    with context.catalog.read() as reader:
        head = reader.head(info.table_id)
    begun = time.perf_counter()
    with Unit(context, operation="append", engine="pyarrow", table_ids=[info.table_id]) as unit:
        registered = time.perf_counter()
        unit.commit([TableChange(info, head, Operation.APPEND, add=tuple(files))])
        done = time.perf_counter()
    return done - registered, time.perf_counter() - begun


def median_ms(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000


def bare_sqlite_ms(folder: Path, times: int) -> tuple[float, float]:
    """One fsync, and one bare transaction of the same durability with a payload of one commit's size."""
    with (folder / "probe").open("wb") as handle:
        handle.write(b"x")

        def sync() -> None:
            handle.write(b"x")
            handle.flush()
            os.fsync(handle.fileno())

        fsync = median_ms(sync, times)
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS file (id INTEGER PRIMARY KEY, path TEXT, data BLOB)")

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO file (path, data) VALUES (?, ?)", ("part.parquet", b"x" * 2000))
        connection.execute("COMMIT")

    insert()
    bare = median_ms(insert, times)
    connection.close()
    return fsync, bare


def measure(kind: str, catalog: str, folder: Path, row_groups: int, report: Report) -> None:
    root, rng = str(folder / "lake"), np.random.default_rng(7)
    total_files = row_groups // GROUPS_PER_FILE
    with parqlake.connect(root, catalog=catalog) as lake:
        table = lake.create_table("bench.planning", schema())
        small = lake.create_table("bench.small", schema())
        ours, bares = [], []
        made = [data_files(1, number, rng, groups_per_file=1) for number in range(SMALL_FILES)]
        for start in range(0, SMALL_FILES, 10):  # blocks of ten on both sides, so that both find the caches alike
            ours += [commit(small, files) for files in made[start : start + 10]]
            bares.append(bare_sqlite_ms(folder, 10))
        fsync, bare = (statistics.median(values) for values in zip(*bares, strict=True))
        one, registered = (statistics.median(values) * 1000 for values in zip(*ours, strict=True))
        report.add(kind, "commit of one file", one, "ms", note=f"{one / bare:.2f}× a bare SQLite transaction")
        report.add(kind, "the same, transaction registered first", registered, "ms", note=f"{registered / bare:.2f}×")
        done, loading = 0, 0.0
        while done < total_files:
            size = min(FILES_PER_COMMIT, total_files - done)
            files = data_files(size, done, rng)
            loading += commit(table, files)[1]
            done += size
        report.add(kind, f"load {total_files:,} files, {row_groups:,} row groups", loading, "s")
        many, _ = commit(lake.create_table("bench.wide", schema()), data_files(10_000, 0, rng))
        report.add(kind, "commit of 10,000 files (100,000 row groups)", many, "s")
    if kind == "SQLite":
        size = sum(path.stat().st_size for path in folder.glob("catalog.sqlite*"))
        report.add(kind, "catalog size, both tables", size / 1e6, "MB")
        report.add(kind, "fsync / bare transaction", fsync, "ms", note=f"bare transaction {bare:.2f} ms")
    middle = total_files // 2 * GROUPS_PER_FILE * ROWS_PER_GROUP + 5
    cases = {
        "point, clustered column": [("clustered", "=", middle)],
        "range of 1 %, clustered": [("clustered", ">=", middle), ("clustered", "<", middle + row_groups * 1000)],
        "point, random column": [("random", "=", 2**39)],
        "point, random text": [("text", "=", "customer-549755813888")],
    }
    for name, where in cases.items():
        cold = []
        for _ in range(5):
            with parqlake.connect(root, catalog=catalog) as lake:
                handle = lake.table("bench.planning")
                cold.append(median_ms(lambda h=handle, w=where: h.scan(w).plan, 1))  # type: ignore[misc]
        with parqlake.connect(root, catalog=catalog) as lake:
            handle = lake.table("bench.planning")
            plan = handle.scan(where).plan
            warm = median_ms(lambda h=handle, w=where: h.scan(w).plan, 50)  # type: ignore[misc]
        kept = sum(len(file.row_groups or range(GROUPS_PER_FILE)) for file in plan.files)
        report.add(
            kind, f"plan: {name}", statistics.median(cold), "ms cold", note=f"{warm:.2f} ms warm, {kept} row groups"
        )
    with parqlake.connect(root, catalog=catalog) as lake:
        handle = lake.table("bench.planning")
        half = [("clustered", "<", middle)]
        taken = median_ms(lambda: handle.scan(half).plan, 3)
        report.add(kind, "plan: 50 % of all files", taken, "ms", note=f"{len(handle.scan(half).plan.files):,} files")
        text = f"clustered = {middle}"
        report.add(kind, "plan: point from SQL text, warm", median_ms(lambda: handle.scan(text).plan, 50), "ms")


def measure_shapes(kind: str, catalog: str, folder: Path, report: Report) -> None:
    """Many partitions, many columns, many segments."""
    root, rng = str(folder / "shapes"), np.random.default_rng(8)
    middle = 450 * ROWS_PER_GROUP + 5
    with parqlake.connect(root, catalog=catalog) as lake:
        parts = lake.create_table("shapes.partitions", schema(), partition_by=["text"])
        took, _ = commit(parts, data_files(10_000, 0, rng, 1, partitioned=True))
        report.add(kind, "commit of 10,000 partitions", took, "s")
        wide = lake.create_table("shapes.columns", schema(500))
        took, _ = commit(wide, data_files(1_000, 0, rng, 1, columns=500))
        report.add(kind, "commit of 1,000 files × 500 columns", took, "s")
        many = lake.create_table("shapes.segments", schema())
        taken = [commit(many, files)[0] for files in (data_files(1, n, rng, 1) for n in range(900))]
        late = statistics.median(taken[-100:]) / statistics.median(taken[:100])
        report.add(
            kind,
            "commit of the 900th file",
            statistics.median(taken[-100:]) * 1000,
            "ms",
            note=f"{late:.2f}× the first",
        )
    cases = {
        "partitions": ("one of 10,000 partitions", [("text", "=", "part-005000")]),
        "columns": ("point, 500 columns", [("clustered", "=", middle)]),
        "segments": ("point, 900 segments", [("clustered", "=", middle)]),
    }
    for table, (name, where) in cases.items():
        cold = []
        for _ in range(5):
            with parqlake.connect(root, catalog=catalog) as lake:
                handle = lake.table(f"shapes.{table}")
                cold.append(median_ms(lambda h=handle, w=where: h.scan(w).plan, 1))  # type: ignore[misc]
        with parqlake.connect(root, catalog=catalog) as lake:
            handle = lake.table(f"shapes.{table}")
            files = len(handle.scan(where).plan.files)
            warm = median_ms(lambda h=handle, w=where: h.scan(w).plan, 50)  # type: ignore[misc]
        report.add(kind, f"plan: {name}", statistics.median(cold), "ms cold", note=f"{warm:.2f} ms warm, {files} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="100,000 row groups instead of 1,000,000")
    parser.add_argument("--row-groups", type=int)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    row_groups = arguments.row_groups or (100_000 if arguments.smoke else 1_000_000)
    report = Report(f"Planning over {row_groups:,} row groups × {COLUMNS} columns", machine())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "sqlite").mkdir()
        measure("SQLite", f"sqlite:///{folder / 'sqlite' / 'catalog.sqlite'}", folder / "sqlite", row_groups, report)
        measure_shapes("SQLite", f"sqlite:///{folder / 'sqlite' / 'shapes.sqlite'}", folder / "sqlite", report)
        (folder / "postgres").mkdir()
        try:
            server = stack.enter_context(start_postgres())
            measure("PostgreSQL", server.dsn("bench"), folder / "postgres", row_groups, report)
            measure_shapes("PostgreSQL", server.dsn("shapes"), folder / "postgres", report)
        except PostgresUnavailableError as error:
            report.skip("PostgreSQL", str(error))
    report.show(arguments.json)


if __name__ == "__main__":
    assert integer_key(0) == int(OFFSET)
    main()
