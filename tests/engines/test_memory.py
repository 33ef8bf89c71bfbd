"""Memory is bounded by row groups and options, not by the data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("memory_probe.py")
MEGABYTE = 1024 * 1024


def peak(engine: str, mode: str, rows: int) -> int:
    command = [sys.executable, str(PROBE), engine, mode, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("mode", ["plain", "random", "clustered", "read"])
def test_the_pyarrow_engine_stays_flat(mode: str) -> None:
    least = 1_600_000 if mode == "read" else 800_000  # fewer rows are read file by file, in half the memory
    small = peak("pyarrow", mode, least)
    limit = min(max(small * 1.5, 6 * MEGABYTE), 24 * MEGABYTE)
    # How far reading gets ahead depends on what else the machine does; what grows with the rows does so each time.
    found: list[int] = []
    while not found or (found[-1] >= limit and len(found) < 3):
        found.append(peak("pyarrow", mode, 3_200_000))  # 90 MB of rows, and 22 or 45 before
    assert found[-1] < limit, f"{small:,} and {found} bytes"


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read by getrusage")
def test_the_duckdb_engine_stays_below_its_limit() -> None:
    assert peak("duckdb", "plain", 3_000_000) < 60 * MEGABYTE  # 84 MB of rows
