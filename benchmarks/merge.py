"""Upserts and a delete on TPC-H orders, beside deltalake and DuckLake on the same rows in the same files.

    python benchmarks/merge.py                  # 1.5M orders in 16 files
    python benchmarks/merge.py --smoke          # a tenth of it

Each run is a process of its own on a fresh table, each peer in an environment of its own. An upsert brings new values
for keys from all over the table, and new keys, one for nine. Bytes written are those of files that were not there
before. Memory is what the process grew by over what it held before the operation, also as a share of the table's rows
as Arrow holds them; code that is loaded once was loaded before, on a few rows. Scans read all columns of all rows.
DuckLake writes positions of deleted rows beside the files instead of rewriting them: cheap to write, to be paid
by every scan. All sides must end with the same rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from peers import PeerMissing, peer_python
from report import Report, machine
from tpch import tpch

KEY = "o_orderkey"
DELETED = "1993-01-01"
"""Orders before this day are deleted."""
OPERATIONS = ("nothing", "upsert 1 %", "upsert 10 %", "delete")
COMMON = ("pyarrow>=26,<27", "numpy", "psutil")
PEERS = {
    "deltalake": ("deltalake==1.6.6", *COMMON),
    "DuckLake": (
        "duckdb==1.5.5",
        "duckdb-extension-ducklake==1.5.5",
        "duckdb-extension-sqlite-scanner==1.5.5",
        *COMMON,
    ),
}


class Side:
    """A table of orders with one of the libraries."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        raise NotImplementedError

    def upsert(self, source: pa.Table) -> None:
        """New values for known keys, new rows for others."""
        raise NotImplementedError

    def delete(self, day: str) -> None:
        """Takes out the orders before the day."""
        raise NotImplementedError

    def read(self) -> pa.Table:
        """All rows."""
        raise NotImplementedError


class Parqlake(Side):
    """Ours."""

    engine = "pyarrow"

    def __init__(self, folder: Path, files: list[Path]) -> None:
        import parqlake

        self.lake = parqlake.connect(folder / "lake", engine=self.engine)
        self.table = self.lake.create_table("bench.orders", read(files[0]).schema)
        for path in files:
            self.table.append(read(path))

    def upsert(self, source: pa.Table) -> None:
        """By key."""
        self.table.merge(source, on=[KEY])

    def delete(self, day: str) -> None:
        """By predicate."""
        self.table.delete(f"o_orderdate < DATE '{day}'")

    def read(self) -> pa.Table:
        """Everything."""
        return self.table.scan().to_arrow()


class ParqlakeDuckDB(Parqlake):
    """Ours, with DuckDB."""

    engine = "duckdb"


class Deltalake(Side):
    """delta-rs."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        from deltalake import DeltaTable, write_deltalake

        for path in files:
            write_deltalake(str(folder / "delta"), read(path), mode="append")
        self.table = DeltaTable(str(folder / "delta"))

    def upsert(self, source: pa.Table) -> None:
        """By key."""
        merging = self.table.merge(source, f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, day: str) -> None:
        """By predicate."""
        self.table.delete(f"o_orderdate < '{day}'")

    def read(self) -> pa.Table:
        """Everything."""
        return self.table.to_pyarrow_table()


class DuckLake(Side):
    """DuckDB's lake, with its catalog in SQLite."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        import duckdb
        import duckdb_extension_ducklake
        import duckdb_extension_sqlite_scanner

        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for package in (duckdb_extension_sqlite_scanner, duckdb_extension_ducklake):
            found = next(Path(next(iter(package.__path__))).rglob("*.duckdb_extension"))
            self.connection.execute(f"LOAD '{found}'")
        self.connection.execute(f"ATTACH 'ducklake:sqlite:{folder}/meta.db' AS lake (DATA_PATH '{folder}/data/')")
        for number, path in enumerate(files):
            rows = read(path)  # noqa: F841 (DuckDB finds it by its name)
            how = "INSERT INTO lake.orders" if number else "CREATE TABLE lake.orders AS"
            self.connection.execute(f"{how} SELECT * FROM rows")

    def upsert(self, source: pa.Table) -> None:  # noqa: ARG002 (DuckDB finds it by its name)
        """By key."""
        self.connection.execute(
            f"MERGE INTO lake.orders USING source ON (orders.{KEY} = source.{KEY}) "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )

    def delete(self, day: str) -> None:
        """By predicate."""
        self.connection.execute(f"DELETE FROM lake.orders WHERE o_orderdate < DATE '{day}'")

    def read(self) -> pa.Table:
        """Everything."""
        return self.connection.execute("SELECT * FROM lake.orders").to_arrow_table()


SIDES: dict[str, type[Side]] = {
    "parqlake, PyArrow": Parqlake,
    "parqlake, DuckDB": ParqlakeDuckDB,
    "deltalake": Deltalake,
    "DuckLake": DuckLake,
}


def read(path: Path) -> pa.Table:
    """One file of orders, with plain strings."""
    table = pq.read_table(path)
    plain = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))


def changes(files: list[Path], share: float) -> pa.Table:
    """New values for keys from everywhere, and one new key for nine known ones."""
    rows = pa.concat_tables([read(path) for path in files])
    chance = np.random.default_rng(3)
    count = int(rows.num_rows * share)
    source = rows.take(pa.array(np.sort(chance.permutation(rows.num_rows)[:count])))
    keys = source[KEY].to_numpy().copy()
    new = slice(0, count // 10)
    keys[new] = pc.max(rows[KEY]).as_py() + 1 + np.arange(count // 10)
    comments = pa.array([f"changed {number}" for number in range(count)])
    source = source.set_column(source.schema.get_field_index(KEY), rows.schema.field(KEY), pa.array(keys))
    return source.set_column(source.schema.get_field_index("o_comment"), rows.schema.field("o_comment"), comments)


@contextmanager
def watched(result: dict[str, float]) -> Iterator[None]:
    """Wall, CPU and the most that memory grew by."""
    process, stop = psutil.Process(), threading.Event()
    before = process.memory_info().rss
    peak = [before]

    def look() -> None:
        while not stop.wait(0.005):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        result["wall"], result["cpu"] = time.perf_counter() - wall, time.process_time() - cpu
        stop.set()
        watcher.join()
        result["grown"] = (peak[0] - before) / 1e6


def stored(folder: Path) -> dict[Path, int]:
    """All files and their sizes."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix == ".parquet"}


def fastest(work: Callable[[], Any]) -> float:
    """The best of three."""
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def load(side: type[Side], folder: Path, file: Path) -> None:
    """Does everything once on a few rows, so that code that is loaded once is neither timed nor weighed."""
    folder.mkdir()
    rows = read(file).slice(0, 2000)
    pq.write_table(rows, folder / "few.parquet")
    table = side(folder, [folder / "few.parquet"])
    table.upsert(rows.slice(0, 100))
    table.delete(DELETED)
    table.read()


def child(side: str, operation: str, files: list[Path], source: Path) -> None:
    """One run; prints what it took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        load(SIDES[side], folder / "first", files[0])
        table = SIDES[side](folder, files)
        rows = pq.read_table(source) if operation.startswith("upsert") else None
        before = stored(folder)
        result: dict[str, float] = {}
        with watched(result):
            if rows is not None:
                table.upsert(rows)
            elif operation == "delete":
                table.delete(DELETED)
        result["written"] = sum(size for path, size in stored(folder).items() if path not in before) / 1e6
        result["scan"] = fastest(table.read)
        left = table.read()
        result["rows"] = left.num_rows
        result["sum"] = float(pc.sum(pc.utf8_length(left["o_comment"])).as_py() + pc.sum(left[KEY]).as_py())
    print(json.dumps(result))


def main() -> None:
    """Runs all sides of all operations, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--child", nargs="+", metavar="WHAT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        side, operation, source, *files = arguments.child
        child(side, operation, [Path(file) for file in files], Path(source))
        return
    files = tpch("orders", 0.1 if arguments.smoke else 1, 16)
    report = Report("merge and delete of TPC-H orders", machine())
    pythons = {side: sys.executable for side in SIDES if side not in PEERS}
    for peer, requirements in PEERS.items():
        try:
            pythons[peer] = peer_python(peer.lower(), *requirements)
        except PeerMissing as missing:
            report.skip(peer, str(missing))
    held = sum(read(path).nbytes for path in files) / 1e6
    with tempfile.TemporaryDirectory() as place:
        for operation in OPERATIONS:
            source = Path(place) / "source.parquet"
            if operation.startswith("upsert"):
                pq.write_table(changes(files, int(operation.split()[1]) / 100), source)
            measure(report, operation, pythons, [str(source), *map(str, files)], repeat=arguments.repeat, held=held)
    report.show(arguments.json)


def measure(
    report: Report, operation: str, pythons: dict[str, str], paths: list[str], *, repeat: int, held: float
) -> None:
    """All sides in turn, and the medians of their runs."""
    results: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
    for _ in range(repeat):
        for side, python in pythons.items():
            command = [python, __file__, "--child", side, operation, *paths]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{side}, {operation}: {done.stderr[-2000:]}")
            results[side].append(json.loads(done.stdout.splitlines()[-1]))
    expected = {(run["rows"], run["sum"]) for runs in results.values() for run in runs}
    if len(expected) != 1:
        raise RuntimeError(f"{operation}: the sides do not agree: {expected}")
    for side, runs in results.items():
        middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        if operation == "nothing":
            report.add(side, "scan of the table as it was", middle["scan"], "s")
            continue
        note = (
            f"{middle['cpu']:.2f} s CPU, {middle['written']:.1f} MB written, +{middle['grown']:.0f} MB memory "
            f"({middle['grown'] / held:.2f}× the rows), a scan afterwards {middle['scan']:.2f} s"
        )
        report.add(side, operation, middle["wall"], "s", note=note)


if __name__ == "__main__":
    main()
