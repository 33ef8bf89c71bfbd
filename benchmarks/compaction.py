"""Many small files to files of 128 MB, beside deltalake, DuckLake, plain DuckDB and Polars on the same rows.

    python benchmarks/compaction.py             # 1,000 files, 6M rows of TPC-H lineitem
    python benchmarks/compaction.py --full      # 10,000 files
    python benchmarks/compaction.py --smoke     # 100 files, 600,000 rows
    python benchmarks/compaction.py --files 12  # files of 12 MB

Each run is a process of its own on fresh files, each peer in an environment of its own. Memory is what the process grew
by over what it held before. Bytes written are those of files that were not there before; their share of the bytes that
were to be compacted is the write amplification. DuckDB and Polars have no tables: they read the files and write
one, which nobody publishes. All sides must end with the same rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from merge import stored, watched
from peers import PeerMissing, peer_python
from report import Report, machine
from tpch import tpch

KEY = "l_orderkey"
TARGET_MB = 128
COMMON = ("pyarrow>=26,<27", "numpy", "psutil")
PEERS = {
    "deltalake": ("deltalake==1.6.6", *COMMON),
    "DuckLake": (
        "duckdb==1.5.5",
        "duckdb-extension-ducklake==1.5.5",
        "duckdb-extension-sqlite-scanner==1.5.5",
        *COMMON,
    ),
    "Polars": ("polars", *COMMON),
}


class Side:
    """Small files with one of the libraries."""

    def __init__(self, folder: Path, rows: pa.Table, files: int) -> None:
        """Writes the files, one append for each where there are tables."""
        self.folder = folder
        step = -(-rows.num_rows // files)
        self.begin(rows.schema)
        for start in range(0, rows.num_rows, step):
            self.append(rows.slice(start, step))

    def begin(self, schema: pa.Schema) -> None:
        """Makes an empty table."""

    def append(self, rows: pa.Table) -> None:
        """Adds a file."""
        (self.folder / "small").mkdir(exist_ok=True)
        number = len(list((self.folder / "small").iterdir()))
        pq.write_table(rows, self.folder / "small" / f"{number:06}.parquet", compression="zstd")

    def compact(self) -> None:
        """Makes large files of small ones."""
        raise NotImplementedError

    def read(self) -> pa.Table:
        """Keys and prices, all rows."""
        return pq.read_table(self.folder / "large", columns=[KEY, "l_extendedprice"])


class Parqlake(Side):
    """Ours."""

    engine = "pyarrow"

    def begin(self, schema: pa.Schema) -> None:
        """An empty table."""
        import parqlake

        self.lake = parqlake.connect(self.folder / "lake", engine=self.engine)
        self.table = self.lake.create_table("bench.lines", schema)

    def append(self, rows: pa.Table) -> None:
        """One commit."""
        self.table.append(rows, engine="pyarrow")

    def compact(self) -> None:
        """Its own way."""
        self.table.compact(TARGET_MB)

    def read(self) -> pa.Table:
        """From the table."""
        return self.table.scan(columns=[KEY, "l_extendedprice"]).to_arrow()


class Deltalake(Side):
    """delta-rs."""

    def append(self, rows: pa.Table) -> None:
        """One commit."""
        from deltalake import write_deltalake

        write_deltalake(str(self.folder / "delta"), rows, mode="append")

    def compact(self) -> None:
        """Its own way."""
        from deltalake import DeltaTable

        DeltaTable(str(self.folder / "delta")).optimize.compact(target_size=TARGET_MB * 1024 * 1024)

    def read(self) -> pa.Table:
        """From the table."""
        from deltalake import DeltaTable

        return DeltaTable(str(self.folder / "delta")).to_pyarrow_table(columns=[KEY, "l_extendedprice"])


class DuckLake(Side):
    """DuckDB's lake, with its catalog in SQLite."""

    def begin(self, schema: pa.Schema) -> None:
        """An empty table."""
        import duckdb
        import duckdb_extension_ducklake
        import duckdb_extension_sqlite_scanner

        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for package in (duckdb_extension_sqlite_scanner, duckdb_extension_ducklake):
            found = next(Path(next(iter(package.__path__))).rglob("*.duckdb_extension"))
            self.connection.execute(f"LOAD '{found}'")
        place = f"'ducklake:sqlite:{self.folder}/meta.db' AS lake (DATA_PATH '{self.folder}/data/')"
        self.connection.execute(f"ATTACH {place}")
        self.connection.execute(f"CALL lake.set_option('target_file_size', '{TARGET_MB}MB')")
        rows = schema.empty_table()  # noqa: F841 (DuckDB finds it by its name)
        self.connection.execute("CREATE TABLE lake.lines AS SELECT * FROM rows")

    def append(self, rows: pa.Table) -> None:  # noqa: ARG002 (DuckDB finds it by its name)
        """One commit."""
        self.connection.execute("INSERT INTO lake.lines SELECT * FROM rows")

    def compact(self) -> None:
        """Its own way."""
        self.connection.execute("CALL ducklake_merge_adjacent_files('lake')")

    def read(self) -> pa.Table:
        """From the table."""
        return self.connection.execute(f"SELECT {KEY}, l_extendedprice FROM lake.lines").to_arrow_table()


class DuckDB(Side):
    """Files in, a file out."""

    def compact(self) -> None:
        """Its own way."""
        import duckdb

        (self.folder / "large").mkdir()
        duckdb.sql(
            f"COPY (FROM '{self.folder}/small/*.parquet') TO '{self.folder}/large/0.parquet' "
            "(FORMAT parquet, COMPRESSION zstd)"
        )


class Polars(Side):
    """Files in, a file out, streaming."""

    def compact(self) -> None:
        """Its own way."""
        import polars

        (self.folder / "large").mkdir()
        polars.scan_parquet(self.folder / "small" / "*.parquet").sink_parquet(
            self.folder / "large" / "0.parquet", compression="zstd"
        )


SIDES: dict[str, type[Side]] = {
    "parqlake": Parqlake,
    "deltalake": Deltalake,
    "DuckLake": DuckLake,
    "DuckDB": DuckDB,
    "Polars": Polars,
}


def lines(scale: float) -> pa.Table:
    """The rows, with plain strings."""
    table = pa.concat_tables([pq.read_table(path) for path in tpch("lineitem", scale, 8)])
    plain = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))


def child(side: str, scale: float, files: int) -> None:
    """One run; prints what it took."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as warm:
        rows = lines(scale)
        SIDES[side](Path(warm), rows.slice(0, 400), 4).compact()  # loads what is loaded once
        table = SIDES[side](Path(name), rows, files)
        del rows
        pa.default_memory_pool().release_unused()
        before = stored(Path(name))
        result: dict[str, Any] = {}
        with watched(result):
            table.compact()
        new = {path: size for path, size in stored(Path(name)).items() if path not in before}
        result["files"], result["written"] = len(new), sum(new.values()) / 1e6
        result["amplification"] = sum(new.values()) / sum(before.values())
        left = table.read()
        result["rows"] = left.num_rows
        result["sum"] = float(pc.sum(left[KEY]).as_py() + int(pc.sum(left["l_extendedprice"]).as_py()))
    print(json.dumps(result))


def main() -> None:
    """Runs all sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a tenth of files and rows")
    parser.add_argument("--full", action="store_true", help="10,000 files")
    parser.add_argument("--files", type=int, help="how many files the rows are in, instead")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--child", nargs=3, metavar="WHAT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        side, scale, files = arguments.child
        child(side, float(scale), int(files))
        return
    scale, files = (0.1, 100) if arguments.smoke else (1, 10_000 if arguments.full else 1000)
    files = arguments.files or files
    report = Report(f"compaction of {files:,} files of TPC-H lineitem", machine())
    pythons = {side: sys.executable for side in SIDES if side not in PEERS}
    for peer, requirements in PEERS.items():
        try:
            pythons[peer] = peer_python(peer.lower(), *requirements)
        except PeerMissing as missing:
            report.skip(peer, str(missing))
    tpch("lineitem", scale, 8)
    results: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
    for _ in range(arguments.repeat):
        for side, python in pythons.items():
            command = [python, __file__, "--child", side, f"{scale:g}", str(files)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{side}: {done.stderr[-2000:]}")
            results[side].append(json.loads(done.stdout.splitlines()[-1]))
    expected = {(run["rows"], run["sum"]) for runs in results.values() for run in runs}
    if len(expected) != 1:
        raise RuntimeError(f"the sides do not agree: {expected}")
    for side, runs in results.items():
        middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        note = (
            f"{middle['cpu']:.2f} s CPU, +{middle['grown']:.0f} MB memory, {middle['files']:.0f} files, "
            f"{middle['written']:.1f} MB written ({middle['amplification']:.2f}×)"
        )
        report.add(side, f"compact {files:,} files", middle["wall"], "s", note=note)
    report.show(arguments.json)


if __name__ == "__main__":
    main()
