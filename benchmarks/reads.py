"""Point lookups, narrow ranges and full scans over thousands of files, beside directory scans and lakehouse peers.

    python benchmarks/reads.py                  # 1,000 and 10,000 files of 1,000 rows
    python benchmarks/reads.py --smoke          # 200 files

Everybody reads the same Parquet files: parqlake imports them, deltalake, DuckLake and pyiceberg register them, and
PyArrow, DuckDB and Polars scan their folder. `cold` is a new process, from its start to the answer, imports included
(the operating system's cache is warm); `warm` a further query in a process that has asked before, its table being open.
Directory scans list the folder at each query, as they must to see new files. Bytes and read calls are those that the
operating system counts in the warm query; files that are mapped into memory (Polars) do not show there.
All sides must give the same rows. Figures are medians; the sides take turns. Each library is in an environment with
nothing else in it, parqlake too: what else is installed counts, since PyArrow loads pandas if it finds it (0.5 s).
"""

# Nothing but the standard library is imported here: the children are timed from their start.
from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers import PeerMissing, peer_python
from reads_sides import SIDES, Wanted
from report import Report, machine

ROWS = 1_000
"""Rows of a file."""
RANGE_ROWS = 3 * ROWS
LONGEST = 4.0
"""Seconds after which no further query is asked of a warm process."""
COLUMNS = ("id", "amount")
QUERIES = ("point lookup", "narrow range, 2 columns", "full scan")
COMMON = ("pyarrow>=26,<27", "numpy")
PEERS = {
    "deltalake": ("deltalake==1.6.6", *COMMON, "psutil"),
    "DuckLake": (
        "duckdb==1.5.5",
        "duckdb-extension-ducklake==1.5.5",
        "duckdb-extension-sqlite-scanner==1.5.5",
        *COMMON,
        "psutil",
    ),
    "pyiceberg": ("pyiceberg[sql-sqlite,pyarrow]", *COMMON),
}
OURS = ("-e", f"{Path(__file__).resolve().parent.parent}[duckdb,polars]")
"""parqlake as it is here, with the engines that scan the folder, and without pandas."""
NAIVE = ("PyArrow, directory", "DuckDB, directory", "Polars, directory")


def write_files(folder: Path, count: int) -> None:
    """Orders whose ids rise from file to file; everything else is anywhere."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    chance = np.random.default_rng(11)
    for number in range(count):
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        day = dt.date(2020, 1, 1) + dt.timedelta(days=number * 5 // max(1, count // 365))
        rows = {
            "id": pa.array(ids),
            "customer": pa.array(chance.integers(0, 1_000_000, ROWS)),
            "day": pa.array([day] * ROWS, pa.date32()),
            "region": pa.array(np.array(["eu", "us", "asia"])[chance.integers(0, 3, ROWS)]),
            "amount": pa.array(np.round(chance.gamma(2, 50, ROWS), 2)),
            "quantity": pa.array(chance.integers(1, 100, ROWS, dtype=np.int32)),
            "note": pa.array([f"order {value:x} by hand" for value in chance.integers(0, 2**40, ROWS)]),
        }
        pq.write_table(pa.table(rows), folder / f"part-{number:06d}.parquet", compression="zstd")


def question(query: str, files: int, turn: int) -> tuple[Wanted, tuple[str, ...] | None]:
    """The ids and columns of a query, others each turn."""
    if query == "full scan":
        return None, None
    place = (turn * 7919 + 17) * 104_729 % ((files - 4) * ROWS)
    if query == "point lookup":
        return (place, place), None
    return (place, place + RANGE_ROWS - 1), COLUMNS


def counted() -> tuple[int, int]:
    """Bytes that this process has read, and calls; zeros where the system does not say."""
    try:
        lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    except OSError:
        return 0, 0
    return int(lines["rchar"]), int(lines["syscr"])


def answer(table: Any) -> list[int]:
    """What all sides must agree on."""
    import pyarrow.compute as pc

    return [table.num_rows, len(table.column_names), pc.sum(table["id"]).as_py(), int(pc.sum(table["amount"]).as_py())]


def child(name: str, query: str, mode: str, *, folder: Path, files: int, turn: int, repeat: int, begun: float) -> None:
    """One process, begun at that moment; prints what it took."""
    side = SIDES[name](folder)
    if mode == "make":
        side.make()
        print(json.dumps({}))
        return
    side.open()
    if mode == "cold":
        table = side.read(*question(query, files, turn))
        taken = {"wall": time.time() - begun, "cpu": time.process_time()}
        print(json.dumps({**taken, "answers": [answer(table)]}))
        return
    side.read(*question(query, files, turn + 1))
    walls, answers, reads = [], [], (0, 0)
    for number in range(turn, turn + repeat):
        before, start = counted(), time.perf_counter()
        table = side.read(*question(query, files, number))
        walls.append(time.perf_counter() - start)
        reads = tuple(b - a for a, b in zip(before, counted(), strict=True))  # type: ignore[assignment]
        answers.append(answer(table))
        if sum(walls) > LONGEST:
            break
    print(json.dumps({"walls": walls, "answers": answers, "bytes": reads[0], "calls": reads[1]}))


class Runner:
    """Runs children of all sides over one set of files."""

    def __init__(self, pythons: dict[str, str], folder: Path, files: int) -> None:
        """Registers the files with every side."""
        self.pythons, self.folder, self.files = pythons, folder, files
        # Code is compiled once, by all alike, before anything is timed.
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for side in pythons:
            self.run(side, QUERIES[0], "make")
            self.run(side, QUERIES[0], "cold")

    def run(self, side: str, query: str, mode: str, turn: int = 0, repeat: int = 1) -> dict[str, Any]:
        """One child, and what it printed."""
        what = [side, query, mode, str(self.folder), str(self.files), str(turn), str(repeat), str(time.time())]
        command = [self.pythons[side], __file__, "--child", *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{side}, {query}, {mode}: {done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(report: Report, runner: Runner, query: str, *, repeat: int) -> None:
    """All sides of one query, cold and warm, in turn."""
    cold: dict[str, list[dict[str, Any]]] = {side: [] for side in runner.pythons}
    warm: dict[str, list[dict[str, Any]]] = {side: [] for side in runner.pythons}
    inside = 2 if query == "full scan" else 15
    for turn in range(repeat):
        for side in runner.pythons:
            cold[side].append(runner.run(side, query, "cold", turn))
        for side in runner.pythons:
            warm[side].append(runner.run(side, query, "warm", turn, inside))
        for found in (cold, warm):
            answers = {side: runs[-1]["answers"] for side, runs in found.items()}
            least = min(map(len, answers.values()))
            if len({json.dumps(given[:least]) for given in answers.values()}) != 1:
                raise RuntimeError(f"{query}: the sides do not agree: {answers}")
    for side in runner.pythons:
        soon = statistics.median(wall for run in warm[side] for wall in run["walls"]) * 1000
        last = warm[side][-1]
        cpu = statistics.median(run["cpu"] for run in cold[side])
        note = f"cold {statistics.median(run['wall'] for run in cold[side]):.2f} s ({cpu:.2f} s CPU)"
        if last["calls"]:
            note += f", {last['bytes'] / 1e6:,.2f} MB in {last['calls']:,} reads"
        report.add(side, f"{runner.files:,} files, {query}", soon, "ms warm", note=note)


def main() -> None:
    """Runs all sides of all queries, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="200 files")
    parser.add_argument("--files", type=int, nargs="+", help="how many, instead of 1,000 and 10,000")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=QUERIES)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--child", nargs="+", metavar="WHAT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        side, query, mode, folder, files, turn, repeat, begun = arguments.child
        child(
            side,
            query,
            mode,
            folder=Path(folder),
            files=int(files),
            turn=int(turn),
            repeat=int(repeat),
            begun=float(begun),
        )
        return
    report = Report("reads of orders", machine())
    try:
        own = peer_python("reads", *OURS)
    except PeerMissing as missing:
        report.skip("an environment without pandas", str(missing))
        own = sys.executable
    pythons = {side: own for side in SIDES if side not in PEERS}
    for peer, requirements in PEERS.items():
        try:
            pythons[peer] = peer_python(peer.lower(), *requirements)
        except PeerMissing as missing:
            report.skip(peer, str(missing))
    for count in arguments.files or ([200] if arguments.smoke else [1_000, 10_000]):
        with tempfile.TemporaryDirectory() as place:
            write_files(Path(place) / "files", count)
            runner = Runner(pythons, Path(place), count)
            for query in arguments.queries:
                measure(report, runner, query, repeat=1 if arguments.smoke else arguments.repeat)
                compare(report, count, query)
    report.show(arguments.json)


def compare(report: Report, files: int, query: str) -> None:
    """How parqlake stands beside the best of each kind."""
    found = {f.subject: f.value for f in report.figures if f.what == f"{files:,} files, {query}"}
    kinds: dict[str, Callable[[str], bool]] = {"directory scans": NAIVE.__contains__, "peers": PEERS.__contains__}
    for kind, is_one in kinds.items():
        best = min(((value, side) for side, value in found.items() if is_one(side)), default=None)
        if best is not None:
            what = f"{files:,} files, {query}: best of the {kind}"
            report.add("parqlake", what, best[0] / found["parqlake"], "× ours", note=best[1])


if __name__ == "__main__":
    main()
