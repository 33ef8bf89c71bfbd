"""Compaction and optimization of tables that are eight times as large as the memory they may use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import parqlake

LIMIT = 64 * 1024 * 1024
TIMES = 8
PAYLOAD = 100
ROW_BYTES = 8 + 8 + PAYLOAD
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("payload", pa.binary(PAYLOAD))])


def rows(count: int, draw: np.random.Generator) -> pa.Table:
    """Rows that do not compress."""
    payload = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PAYLOAD), count, [None, pa.py_buffer(draw.bytes(count * PAYLOAD))]
    )
    return pa.table([pa.array(draw.integers(0, 2**40, count)), pa.array(draw.random(count)), payload], schema=SCHEMA)


def status(name: str) -> int:
    """Bytes, as the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def main(engine: str, way: str, folder: str) -> None:
    """Prints how many bytes the call took at most, beside what the process had before."""

    def run(name: str, files: int, count: int) -> int:
        with parqlake.connect(f"{folder}/{name}") as lake:
            table = lake.create_table("m.t", SCHEMA)
            draw = np.random.default_rng(1)
            for _ in range(files):
                table.append(rows(count, draw))
            pa.default_memory_pool().release_unused()
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
            before = status("VmRSS")
            if way == "compact":
                stats = table.compact(100, engine=engine, memory_limit=LIMIT)
            else:
                stats = table.optimize(["id", "x"], target_mb_per_file=50, engine=engine, memory_limit=LIMIT)
            peak = status("VmHWM") - before
            assert stats.compacted_file_count == files
            assert table.scan().count() == files * count
            return peak

    run("small", 4, 1000)  # loads what is loaded lazily, so that it does not count
    files = 64
    print(run("large", files, TIMES * LIMIT // ROW_BYTES // files))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("way", ["compact", "optimize"])
@pytest.mark.parametrize("engine", ["pyarrow", "duckdb"])
def test_memory_stays_within_the_limit(engine: str, way: str, tmp_path: Path) -> None:
    command = [sys.executable, __file__, engine, way, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT, f"{int(done.stdout):,} bytes"


if __name__ == "__main__":
    main(*sys.argv[1:])
