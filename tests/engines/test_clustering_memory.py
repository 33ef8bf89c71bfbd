"""Rewriting and clustering of data eight times as large as the memory they may use."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import ENGINES, REWRITERS, even_rows

from parqlake.core.maintenance import FileInfo
from parqlake.engines.arrow import clustering as arrow_clustering
from parqlake.engines.duck import clustering as duck_clustering
from parqlake.stores import FsspecStore, open_store

MEGABYTE = 1024 * 1024
LIMIT = 64 * MEGABYTE
TIMES = 8
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("k", pa.int32()), ("payload", pa.binary())])
PAYLOAD = 200
ROW_BYTES = 8 + 8 + 4 + PAYLOAD + 4
CLUSTERERS: dict[str, Callable[..., list[FileInfo]]] = {
    "pyarrow": arrow_clustering.cluster_files,
    "duckdb": duck_clustering.cluster_files,
}


def rows(count: int, random: np.random.Generator, *, alike: bool) -> pa.Table:
    offsets = np.arange(0, (count + 1) * PAYLOAD, PAYLOAD, dtype=np.int32)
    payload = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(random.bytes(count * PAYLOAD))]
    )
    keys = np.full(count, 7) if alike else random.integers(0, 1000, count)
    x = np.full(count, 1.5) if alike else random.random(count)
    ids = random.integers(0, 2**40, count)
    return pa.table([pa.array(ids), pa.array(x), pa.array(keys.astype(np.int32)), payload], schema=SCHEMA)


def fill(store: FsspecStore, total: int, *, alike: bool) -> list[str]:
    """Eight files, written in steps, so that making the data is not what takes the memory."""
    random = np.random.default_rng(1)
    paths = [f"d/{number}.parquet" for number in range(8)]
    store.make_folders(["d"])
    for path, count in zip(paths, even_rows(total, len(paths)), strict=True):
        with pq.ParquetWriter(store.full_path(path), SCHEMA, compression="none") as writer:
            for start in range(0, count, 10_000):
                writer.write_table(rows(min(10_000, count - start), random, alike=alike))
    return paths


def main(engine: str, way: str, folder: str) -> None:
    """Prints by how many bytes the call raised the peak of this process."""
    import resource

    alike = way == "alike"

    def run(url: str, total: int) -> int:
        store = open_store(url)
        store.prepare_root()
        sources = fill(store, total, alike=alike)
        names = (f"o/{number}.tmp" for number in itertools.count())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        options = {"schema": SCHEMA, "compression": "zstd", "memory_bytes": LIMIT, "rows": even_rows(total, 4)}
        if way != "rewrite":
            options["columns"] = ["x", "k"] if alike else way.split(",")
        call = REWRITERS[engine] if way == "rewrite" else CLUSTERERS[engine]
        made = call(store, sources, lambda: next(names), **options)
        assert sum(file.num_rows for file in made) == total
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before

    run(folder + "/small", 5000)  # loads what is loaded lazily, so that it does not count
    print(run(folder + "/large", TIMES * LIMIT // ROW_BYTES))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read by getrusage")
@pytest.mark.parametrize("way", ["rewrite", "x", "x,k", "alike"])
@pytest.mark.parametrize("engine", ENGINES)
def test_memory_stays_within_the_budget(engine: str, way: str, tmp_path: Path) -> None:
    """512 MB of rows with 64 MB; all alike, they are one range that does not fit."""
    command = [sys.executable, __file__, engine, way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT, f"{int(done.stdout):,} bytes"


if __name__ == "__main__":
    main(*sys.argv[1:])
