"""TPC-H lineitem laid out by (l_shipdate, l_partkey), beside deltalake's z-order and a plain sort by DuckDB.

    python benchmarks/clustering.py             # 6M rows in 64 files
    python benchmarks/clustering.py --smoke     # a tenth of it

Each run is a process of its own on fresh files, each peer in an environment of its own. Twenty random boxes then ask
for a range of days and a range of parts, each of 1 to 10 % of the rows. Files and row groups count as read if the
minima and maxima of both columns in their footers meet the box, whoever wrote them; files have four row groups on all
sides. Memory is what the process grew by over what it held before. Afterwards the same call is made again, then once
more after an append of 1 %: what it rewrites is counted in bytes of new files. DuckDB has no tables: it sorts the files
into others, which nobody publishes. All sides must hold the same rows at the end, and find the same in each box.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from compaction import COMMON, lines
from merge import stored, watched
from peers import PeerMissing, peer_python
from report import Report, machine
from tpch import tpch

COLUMNS = ["l_shipdate", "l_partkey"]
SUMMED = "l_extendedprice"
SOURCES, FILES, GROUPS_OF_A_FILE, BOXES = 32, 64, 4, 20
EPOCH = date(1970, 1, 1)
VECTOR = 2048
"""DuckDB's row groups are multiples of this."""
PEERS = {"deltalake": ("deltalake==1.6.6", *COMMON)}


class Side:
    """Rows in the order of their keys, with one of the libraries."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.file_rows = -(-rows // FILES)
        self.group_rows = -(-self.file_rows // GROUPS_OF_A_FILE)

    def append(self, rows: pa.Table) -> None:
        """Adds a file."""
        (self.folder / "before").mkdir(exist_ok=True)
        number = len(list((self.folder / "before").iterdir()))
        pq.write_table(rows, self.folder / "before" / f"{number:06}.parquet", compression="zstd")

    def cluster(self) -> None:
        """Lays the rows out."""
        raise NotImplementedError

    def files(self) -> list[str]:
        """The files that hold the rows now."""
        raise NotImplementedError


class Parqlake(Side):
    """Ours."""

    engine = "pyarrow"

    def append(self, rows: pa.Table) -> None:
        """One commit."""
        import parqlake

        with parqlake.connect(self.folder / "lake") as lake:
            if not lake.tables():
                properties = {"row_group_size": self.group_rows}
                lake.create_table("bench.lines", rows.schema, cluster_by=COLUMNS, properties=properties)
            lake.table("bench.lines").append(rows)

    def cluster(self) -> None:
        """Its own way, by the table's policy."""
        import parqlake

        with parqlake.connect(self.folder / "lake", engine=self.engine) as lake:
            lake.table("bench.lines").optimize(target_rows_per_file=self.file_rows)

    def files(self) -> list[str]:
        """From the catalog."""
        import parqlake

        with parqlake.connect(self.folder / "lake") as lake:
            table = lake.table("bench.lines")
            found = {Path(path).name for path in table.files().column("path").to_pylist()}
        return [str(path) for path in (self.folder / "lake").rglob("*.parquet") if path.name in found]


class ParqlakeDuckDB(Parqlake):
    """Ours, with DuckDB."""

    engine = "duckdb"


class Deltalake(Side):
    """delta-rs."""

    def append(self, rows: pa.Table) -> None:
        """One commit."""
        from deltalake import write_deltalake

        write_deltalake(str(self.folder / "delta"), rows, mode="append")

    def cluster(self) -> None:
        """Its own way; it takes the size of files in bytes."""
        from deltalake import DeltaTable, WriterProperties

        table = DeltaTable(str(self.folder / "delta"))
        size = sum(Path(path).stat().st_size for path in self.files()) // FILES
        writing = WriterProperties(compression="ZSTD", max_row_group_size=self.group_rows)
        table.optimize.z_order(COLUMNS, target_size=size, writer_properties=writing)

    def files(self) -> list[str]:
        """From the log."""
        from deltalake import DeltaTable

        return [path.removeprefix("file://") for path in DeltaTable(str(self.folder / "delta")).file_uris()]


class Sort(Side):
    """Files in, files out, by DuckDB's ORDER BY."""

    def cluster(self) -> None:
        """By one column after the other."""
        import duckdb

        group_rows = -(-self.group_rows // VECTOR) * VECTOR
        duckdb.sql(
            f"COPY (FROM '{self.folder}/before/*.parquet' ORDER BY {', '.join(COLUMNS)}) TO '{self.folder}/after' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group_rows}, "
            f"ROW_GROUPS_PER_FILE {max(1, self.file_rows // group_rows)}, PER_THREAD_OUTPUT false)"
        )

    def files(self) -> list[str]:
        """In the folder."""
        return sorted(map(str, (self.folder / "after").glob("*.parquet")))


SIDES: dict[str, type[Side]] = {
    "parqlake, PyArrow": Parqlake,
    "parqlake, DuckDB": ParqlakeDuckDB,
    "deltalake": Deltalake,
    "DuckDB, sorted": Sort,
}


@dataclass(frozen=True, slots=True)
class Box:
    """A range of days, counted from 1970, and one of parts, ends included."""

    days: tuple[int, int]
    parts: tuple[int, int]

    def meets(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which lines of first day, last day, first part, last part overlap the box."""
        days, parts = self.days, self.parts
        inside = (ends[:, 0] <= days[1]) & (ends[:, 1] >= days[0]) & (ends[:, 2] <= parts[1]) & (ends[:, 3] >= parts[0])
        return np.asarray(inside)

    def rows(self) -> pc.Expression:
        """The rows inside."""
        day, part = map(pc.field, COLUMNS)
        first, last = (pa.scalar(EPOCH + timedelta(end), pa.date32()) for end in self.days)
        return (day >= first) & (day <= last) & (part >= self.parts[0]) & (part <= self.parts[1])


def boxes(rows: pa.Table) -> list[Box]:
    """Random boxes, whose sides hold 1 to 10 % of the rows each."""
    chance = np.random.default_rng(7)
    days, parts = (
        np.sort(pc.cast(rows[name].combine_chunks().view(kind), pa.int64()).to_numpy())
        for name, kind in zip(COLUMNS, (pa.int32(), pa.int64()), strict=True)
    )

    def side(values: npt.NDArray[np.int64]) -> tuple[int, int]:
        share = chance.uniform(0.01, 0.1)
        start = chance.uniform(0, 1 - share)
        first, last = values[[int(end * (len(values) - 1)) for end in (start, start + share)]].tolist()
        return first, last

    return [Box(side(days), side(parts)) for _ in range(BOXES)]


def shares_read(files: list[str], asked: list[Box]) -> tuple[float, float, int]:
    """The share of files and of row groups that a box meets, on average, by the footers; and the row groups."""
    groups: list[list[int]] = []
    firsts: list[int] = []
    for path in files:
        footer = pq.read_metadata(path)
        places = [footer.schema.names.index(name) for name in COLUMNS]
        firsts.append(len(groups))
        for number in range(footer.num_row_groups):
            day, part = (footer.row_group(number).column(place).statistics for place in places)
            groups.append([(day.min - EPOCH).days, (day.max - EPOCH).days, part.min, part.max])
    ends = np.array(groups, dtype=np.int64)
    low, high = np.minimum.reduceat(ends, firsts), np.maximum.reduceat(ends, firsts)
    of_files = np.stack([low[:, 0], high[:, 1], low[:, 2], high[:, 3]], axis=1)
    by_file, by_group = (float(np.mean([box.meets(lines) for box in asked])) for lines in (of_files, ends))
    return by_file, by_group, len(groups)


def fill(side: str, scale: float, folder: Path) -> None:
    """Writes the files that are to be laid out, and the boxes."""
    rows = lines(scale)
    table = SIDES[side](folder, rows.num_rows)
    step = -(-rows.num_rows // SOURCES)
    for start in range(0, rows.num_rows, step):
        table.append(rows.slice(start, step))


def run(side: str, scale: float, folder: Path) -> None:
    """Lays the rows out; prints what it took and what came of it."""
    sources = tpch("lineitem", scale, 8)
    with tempfile.TemporaryDirectory() as warm:  # loads what is loaded once
        fill(side, 0.001, Path(warm))
        SIDES[side](Path(warm), 6005).cluster()
    table = SIDES[side](folder, sum(pq.read_metadata(path).num_rows for path in sources))
    result: dict[str, Any] = {}
    before = stored(folder)
    with watched(result):
        table.cluster()
    done = stored(folder)
    result["written"] = sum(size for path, size in done.items() if path not in before) / 1e6
    rows = lines(scale)
    asked = boxes(rows)
    files = table.files()
    result["files"] = len(files)
    result["files read"], result["row groups read"], result["row groups"] = shares_read(files, asked)
    found = ds.dataset(files)
    result["rows"] = found.count_rows()
    result["sum"] = str(pc.sum(found.to_table(columns=[SUMMED])[SUMMED]).as_py())
    result["boxes"] = [found.count_rows(filter=box.rows()) for box in asked]
    if isinstance(table, Sort):
        print(json.dumps(result))
        return
    again: dict[str, float] = {}
    with watched(again):
        table.cluster()
    result["again"], result["again wall"] = rewritten(table, done), again["wall"]
    picked = np.random.default_rng(9).permutation(rows.num_rows)[: rows.num_rows // 100]
    table.append(rows.take(pa.array(np.sort(picked))))
    before = stored(folder)
    with watched(again):
        table.cluster()
    result["appended"], result["appended wall"] = rewritten(table, before), again["wall"]
    result["appended read"], _, _ = shares_read(table.files(), asked)
    print(json.dumps(result))


def rewritten(table: Side, before: dict[Path, int]) -> float:
    """Bytes of new files as a share of the bytes of the table."""
    new = sum(size for path, size in stored(table.folder).items() if path not in before)
    return new / sum(Path(path).stat().st_size for path in table.files())


def child(python: str, *what: str) -> str:
    """What a process of its own prints last."""
    done = subprocess.run([python, __file__, "--child", *what], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what}: {done.stderr[-2000:]}")
    return (done.stdout.splitlines() or [""])[-1]


def main() -> None:
    """Runs all sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--child", nargs=4, metavar="WHAT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        work, side, scale, folder = arguments.child
        {"fill": fill, "run": run}[work](side, float(scale), Path(folder))
        return
    scale = 0.1 if arguments.smoke else 1
    for each in (0.001, scale):
        tpch("lineitem", each, 8)
    report = Report(f"TPC-H lineitem (scale {scale:g}) laid out by {' and '.join(COLUMNS)}", machine())
    pythons = {side: sys.executable for side in SIDES if side not in PEERS}
    for peer, requirements in PEERS.items():
        try:
            pythons[peer] = peer_python(peer.lower(), *requirements)
        except PeerMissing as missing:
            report.skip(peer, str(missing))
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in pythons}
    for _ in range(arguments.repeat):
        for side, python in pythons.items():
            with tempfile.TemporaryDirectory() as folder:
                child(python, "fill", side, f"{scale:g}", folder)
                results[side].append(json.loads(child(python, "run", side, f"{scale:g}", folder)))
    expected = {(run["rows"], run["sum"], *run["boxes"]) for runs in results.values() for run in runs}
    if len(expected) != 1:
        raise RuntimeError(f"the sides do not agree: {expected}")
    for side, runs in results.items():
        show(report, side, runs)
    report.show(arguments.json)


def show(report: Report, side: str, runs: list[dict[str, Any]]) -> None:
    """The medians of a side's runs."""
    middle = {
        name: statistics.median(run[name] for run in runs)
        for name, value in runs[0].items()
        if name not in ("sum", "boxes")
    }
    note = f"{middle['cpu']:.2f} s CPU, +{middle['grown']:.0f} MB memory, {middle['written']:.1f} MB written"
    report.add(side, "lay out", middle["wall"], "s", note=note)
    report.add(side, "files read by a box", 100 * middle["files read"], "%", note=f"of {middle['files']:.0f}")
    report.add(
        side, "row groups read by a box", 100 * middle["row groups read"], "%", note=f"of {middle['row groups']:.0f}"
    )
    if "again" in middle:
        report.add(side, "rewritten by a second run", 100 * middle["again"], "%", note=f"{middle['again wall']:.2f} s")
        note = f"{middle['appended wall']:.2f} s; a box then reads {100 * middle['appended read']:.1f} % of files"
        report.add(side, "rewritten after an append of 1 %", 100 * middle["appended"], "%", note=note)


if __name__ == "__main__":
    main()
