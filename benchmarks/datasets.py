"""Merge, optimize and compact of plain directories, beside the obvious code with plain DuckDB and PyArrow.

    python benchmarks/datasets.py               # 1M rows and 100k changes, 5M rows, 1,000 files
    python benchmarks/datasets.py --smoke       # a twentieth of it

Each run is a process of its own on a fresh copy of the data. The plain programs read everything, do the work, write it
to new files and delete the old ones: no journal, no fsync, and a failure in the middle loses rows. fsspeckit runs in an
environment of its own. What each side leaves is checked: the right rows, and fewer files after a compaction.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from peers import PeerMissing, peer_python
from report import Report, machine

FSSPECKIT = ("fsspeckit[datasets]==0.25.0", "duckdb>=2,<3", "pyarrow>=26,<27")
TASKS = {"upsert": (1_000_000, 10), "optimize": (5_000_000, 20), "compact": (1_000_000, 1000)}
"""Rows and files of each task's directory; an upsert brings a tenth of the rows, half of them new."""


def orders(start: int, count: int, seed: int) -> pa.Table:
    """Rows of five columns; customers and amounts are in no order."""
    chance = np.random.default_rng(seed)
    words = pa.array([f"note number {number}" for number in range(5000)])
    return pa.table(
        {
            "id": np.arange(start, start + count),
            "customer": chance.integers(0, 100_000, count),
            "amount": chance.gamma(2.0, 50.0, count),
            "quantity": chance.integers(1, 10, count, dtype=np.int32),
            "note": words.take(pa.array(chance.integers(0, 5000, count))),
        }
    )


def make(folder: Path, rows: int, files: int) -> None:
    """The directory that a task begins with."""
    folder.mkdir(parents=True)
    size = rows // files
    for number in range(files):
        pq.write_table(orders(number * size, size, number), folder / f"in-{number:04}.parquet")


def changes(rows: int) -> pa.Table:
    """A twentieth of the keys from everywhere, and as many new ones."""
    known = np.random.default_rng(7).permutation(rows)[: rows // 20]
    source = orders(0, rows // 10, 8)
    ids = np.append(known, np.arange(rows, rows + rows // 10 - len(known)))
    return source.set_column(0, "id", pa.array(ids))


def replaced(folder: Path, write: Callable[[Path], None]) -> None:
    """What plain programs do: write beside, delete, rename."""
    new = folder.with_name("new")
    new.mkdir()
    write(new)
    shutil.rmtree(folder)
    new.rename(folder)


def ours_duckdb(task: str, folder: Path, rows: int) -> None:
    """Ours, with DuckDB."""
    from parqlake.datasets import DuckDBParquetHandler

    with DuckDBParquetHandler() as handler:
        if task == "upsert":
            handler.merge_parquet_dataset(changes(rows), folder, ["id"])
        elif task == "optimize":
            handler.optimize_parquet_dataset(folder, ["customer", "amount"], target_rows_per_file=rows // 16)
        else:
            handler.compact_parquet_dataset(folder, target_mb_per_file=128)


def ours_pyarrow(task: str, folder: Path, rows: int) -> None:
    """Ours, with PyArrow."""
    from parqlake import datasets

    if task == "upsert":
        datasets.merge_parquet_dataset_pyarrow(changes(rows), folder, ["id"])
    elif task == "optimize":
        datasets.optimize_parquet_dataset_pyarrow(folder, ["customer", "amount"], target_rows_per_file=rows // 16)
    else:
        datasets.compact_parquet_dataset_pyarrow(folder, target_mb_per_file=128)


def plain_duckdb(task: str, folder: Path, rows: int) -> None:
    """One SQL statement; it sorts by the two columns one after the other, which is no z-order."""
    import duckdb

    connection = duckdb.connect()
    read = f"SELECT * FROM read_parquet('{folder}/*.parquet')"
    if task == "upsert":
        connection.register("source", changes(rows))
        read = f"{read} ANTI JOIN source USING (id) UNION ALL SELECT * FROM source"
    elif task == "optimize":
        read = f"{read} ORDER BY customer, amount"
    replaced(folder, lambda new: connection.execute(f"COPY ({read}) TO '{new}/part.parquet'"))


def plain_pyarrow(task: str, folder: Path, rows: int) -> None:
    """Everything in one table in memory."""
    table = pq.read_table(folder)
    if task == "upsert":
        source = changes(rows)
        kept = table.filter(pc.invert(pc.is_in(table["id"], source["id"])))
        table = pa.concat_tables([kept, source])
    elif task == "optimize":
        table = table.sort_by([("customer", "ascending"), ("amount", "ascending")])
    replaced(folder, lambda new: pq.write_table(table, new / "part.parquet"))


def fsspeckit(task: str, folder: Path, rows: int) -> None:
    """The handler of fsspeckit; its optimization knows no z-order."""
    from fsspeckit.datasets.duckdb import DuckDBDatasetIO, create_duckdb_connection

    handler = DuckDBDatasetIO(create_duckdb_connection())
    if task == "upsert":
        handler.merge(changes(rows), str(folder), "upsert", ["id"])
    elif task == "optimize":
        handler.optimize_parquet_dataset(str(folder), target_rows_per_file=rows // 16)
    else:
        handler.compact_parquet_dataset(str(folder), target_mb_per_file=128)


SIDES = {
    "parqlake, DuckDB": ours_duckdb,
    "parqlake, PyArrow": ours_pyarrow,
    "plain DuckDB": plain_duckdb,
    "plain PyArrow": plain_pyarrow,
    "fsspeckit": fsspeckit,
}


def share_read(folder: Path, column: str) -> float:
    """The share of row groups that a lookup of one value in the column has to read, on average."""
    bounds = []
    for path in folder.glob("*.parquet"):
        footer = pq.read_metadata(path)
        place = footer.schema.to_arrow_schema().get_field_index(column)
        for number in range(footer.num_row_groups):
            found = footer.row_group(number).column(place).statistics
            bounds.append((found.min, found.max))
    values = np.quantile(pq.read_table(folder, columns=[column])[column].to_numpy(), np.linspace(0.05, 0.95, 19))
    hits = [sum(low <= value <= high for low, high in bounds) for value in values]
    return float(np.mean(hits)) / len(bounds)


def names(folder: Path) -> set[str]:
    """The files that are there."""
    return {path.name for path in folder.rglob("*.parquet")}


def child(side: str, task: str, folder: Path, rows: int) -> None:
    """One run; prints what it took, without what is loaded once."""
    importlib.import_module("duckdb")
    if side.startswith("parqlake"):
        importlib.import_module("parqlake.datasets.backends").duckdb_backend()
    before = names(folder)
    wall, cpu = time.perf_counter(), time.process_time()
    SIDES[side](task, folder, rows)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    result = {"wall": wall, "cpu": cpu, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    found = pq.read_table(folder, columns=["id"])["id"]
    expected = rows + rows // 20 if task == "upsert" else rows
    assert len(found) == len(found.unique()) == expected, f"{side} left {len(found)} rows of {expected}"
    result["untouched"] = names(folder) == before and task != "upsert"
    if task == "optimize":
        result |= {column: share_read(folder, column) for column in ("customer", "amount")}
    print(json.dumps(result))


def main() -> None:
    """Runs all sides of all tasks, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a twentieth of the rows and files")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--child", nargs=4, metavar=("SIDE", "TASK", "FOLDER", "ROWS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        side, task, folder, rows = arguments.child
        child(side, task, Path(folder), int(rows))
        return
    report = Report("plain directories", machine())
    pythons = dict.fromkeys(SIDES, sys.executable)
    try:
        pythons["fsspeckit"] = peer_python("fsspeckit", *FSSPECKIT)
    except PeerMissing as missing:
        report.skip("fsspeckit", str(missing))
        del pythons["fsspeckit"]
    shrink = 20 if arguments.smoke else 1
    for task, (rows, files) in TASKS.items():
        results: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
        with tempfile.TemporaryDirectory() as place:
            make(Path(place) / "origin", rows // shrink, max(2, files // shrink))
            for _ in range(arguments.repeat):
                for side, python in pythons.items():
                    folder = Path(place) / "d"
                    shutil.copytree(Path(place) / "origin", folder)
                    command = [python, __file__, "--child", side, task, str(folder), str(rows // shrink)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    results[side].append(json.loads(done.stdout))
                    shutil.rmtree(folder)
        what = f"{task} of {rows // shrink:,} rows in {max(2, files // shrink):,} files"
        for side, runs in results.items():
            if runs[0].pop("untouched"):
                report.skip(side, f"{task}: returns without a word and leaves all files as they were")
                continue
            middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            note = f"{middle['cpu']:.2f} s CPU, {middle['peak']:.0f} MB peak"
            if task == "optimize":
                note += f"; a lookup reads {middle['customer']:.0%} by customer, {middle['amount']:.0%} by amount"
            report.add(side, what, middle["wall"], "s", note=note)
    report.show(arguments.json)


if __name__ == "__main__":
    main()
