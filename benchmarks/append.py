"""Bulk append against a bare `ParquetWriter` loop that writes the same files, and memory as the input grows.

    python benchmarks/append.py                 # 10M rows
    python benchmarks/append.py --smoke         # 1M rows

Both sides write the same batches in the same row groups with the same codec, checksums and encodings, alternating in
one run, and fsync their files. A second bare loop leaves the encodings to PyArrow, as most programs do. Each run is a
process of its own, so that peak memory is its own too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from report import Report, machine

BATCH_ROWS = 128 * 1024
_CHOSEN = {"DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.int64()),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("quantity", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Orders, made batch by batch so that the source takes no memory of its own."""
    rng = np.random.default_rng(1)
    regions = pa.array(["eu", "us", "apac", "latam"])
    words = pa.array([f"note number {n}" for n in range(5000)])
    for start in range(0, rows, BATCH_ROWS):
        size = min(BATCH_ROWS, rows - start)
        ids = np.arange(start, start + size)
        yield pa.record_batch(
            [
                pa.array(ids),
                pa.array(rng.integers(0, 1_000_000, size)),
                regions.take(pa.array(rng.integers(0, 4, size))),
                pa.array(rng.gamma(2.0, 50.0, size).round(2)),
                pa.array(rng.integers(1, 10, size, dtype=np.int32)),
                pa.array(1_700_000_000_000_000 + ids * 1_000_000, SCHEMA.field("at").type),
                words.take(pa.array(rng.integers(0, 5000, size))),
            ],
            schema=SCHEMA,
        )


def ours(folder: Path, rows: int, engine: str) -> None:
    import parqlake

    lake = parqlake.connect(folder / "lake", engine=engine)
    table = lake.create_table("bench.append", SCHEMA)
    begun = time.perf_counter()
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches(rows)))
    taken = time.perf_counter() - begun
    assert table.scan().count() == rows
    print(json.dumps({"seconds": taken, "bytes": sum(table.files()["size_bytes"].to_pylist()), **usage()}))


def bare(folder: Path, rows: int, like: Path, *, defaults: bool) -> None:
    """Writes the same rows to files with the same row groups as the lake's files, as a hand-written loop would."""
    shapes = json.loads(like.read_text())
    begun = time.perf_counter()
    source = batches(rows)
    held: list[pa.RecordBatch] = []
    count = total = 0
    for number, (groups, encodings) in enumerate(shapes):
        path = folder / f"bare-{number}.parquet"
        chosen = {} if defaults else encodings
        with pq.ParquetWriter(
            path, SCHEMA, compression="zstd", compression_level=1, write_page_checksum=True, **chosen
        ) as writer:
            for size in groups:
                while count < size:
                    batch = next(source)
                    held.append(batch)
                    count += batch.num_rows
                table = pa.Table.from_batches(held)
                writer.write_table(table.slice(0, size), row_group_size=size)
                held = table.slice(size).to_batches()
                count -= size
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
        total += path.stat().st_size
    print(json.dumps({"seconds": time.perf_counter() - begun, "bytes": total, **usage()}))


def usage() -> dict[str, float]:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu": use.ru_utime + use.ru_stime, "peak_mb": use.ru_maxrss / 1024}


def run(*arguments: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def shapes_of(folder: Path) -> Path:
    """The rows of each row group of each file of the lake, in the order in which they were written; its encodings."""
    import parqlake

    table = parqlake.connect(folder / "lake").table("bench.append")
    root = folder / "lake" / table.location
    shapes = []
    for path in sorted(table.files()["path"].to_pylist()):
        metadata = pq.read_metadata(root / path)
        groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        used = {name: set(metadata.row_group(0).column(n).encodings) for n, name in enumerate(SCHEMA.names)}
        plain = {name: found & _CHOSEN for name, found in used.items() if "RLE_DICTIONARY" not in found}
        encodings = {
            "use_dictionary": [name for name in used if name not in plain],
            "column_encoding": {name: found.pop() for name, found in plain.items() if found},
        }
        shapes.append((groups, encodings))
    target = folder / "shapes.json"
    target.write_text(json.dumps(shapes))
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="1M rows instead of 10M")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--child", nargs=4, metavar=("KIND", "FOLDER", "ROWS", "MORE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        kind, folder, count, more = arguments.child
        if kind == "ours":
            ours(Path(folder), int(count), more)
        else:
            bare(Path(folder), int(count), Path(more), defaults=kind == "defaults")
        return
    rows = arguments.rows or (1_000_000 if arguments.smoke else 10_000_000)
    report = Report(f"Append of {rows:,} rows × {len(SCHEMA)} columns", machine())
    taken: dict[str, list[dict[str, float]]] = {"bare": [], "defaults": [], "pyarrow": [], "duckdb": []}
    for _ in range(arguments.repeat):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            taken["pyarrow"].append(run("--child", "ours", name, str(rows), "pyarrow"))
            like = shapes_of(folder)
            for kind in ("bare", "defaults"):
                taken[kind].append(run("--child", kind, name, str(rows), str(like)))
        with tempfile.TemporaryDirectory() as name:
            taken["duckdb"].append(run("--child", "ours", name, str(rows), "duckdb"))
    floor = statistics.median(run["seconds"] for run in taken["bare"])
    floor_cpu = statistics.median(run["cpu"] for run in taken["bare"])
    for kind, runs in taken.items():
        seconds = statistics.median(run["seconds"] for run in runs)
        cpu = statistics.median(run["cpu"] for run in runs)
        note = f"{seconds / floor:.3f}× bare wall, {cpu / floor_cpu:.3f}× CPU, {runs[0]['bytes'] / 1e6:.0f} MB"
        what = {"bare": "bare ParquetWriter loop", "defaults": "the same, PyArrow's own encodings"}.get(kind, "append")
        report.add(kind, what, seconds, "s", note=note)
    for kind in ("pyarrow", "duckdb"):
        peaks = []
        for size in (rows // 10, rows):
            with tempfile.TemporaryDirectory() as name:
                peaks.append(run("--child", "ours", name, str(size), kind)["peak_mb"])
        note = f"{peaks[0]:.0f} MB at a tenth of the rows: {peaks[1] / peaks[0]:.2f}× for 10× the input"
        report.add(kind, "peak memory", peaks[1], "MB", note=note)
    report.show(arguments.json)


if __name__ == "__main__":
    main()
