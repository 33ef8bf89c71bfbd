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
    small, large = peak("pyarrow", mode, 800_000), peak("pyarrow", mode, 3_200_000)  # 22 and 90 MB of rows
    assert large < max(small * 1.5, 6 * MEGABYTE), f"{small:,} and {large:,} bytes"
    assert large < 24 * MEGABYTE


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is read by getrusage")
def test_the_duckdb_engine_stays_below_its_limit() -> None:
    assert peak("duckdb", "plain", 3_000_000) < 60 * MEGABYTE  # 84 MB of rows
