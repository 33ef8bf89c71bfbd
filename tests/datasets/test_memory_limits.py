"""`memory_limit`: a directory eight times as large is compacted and optimized within it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from handlers_support import Backend, on_both, parquet_files, row_counts
from memory_of_maintenance import make

MEGABYTE = 1024 * 1024
LIMIT = 64 * MEGABYTE
ROWS = 8 * LIMIT // 32


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("operation", ["compact", "optimize"])
def test_maintenance_of_a_dataset_eight_times_the_limit(side: Backend, operation: str, tmp_path: Path) -> None:
    make(tmp_path / "d", ROWS, 16)
    assert sum(path.stat().st_size for path in parquet_files(tmp_path / "d")) > 7 * LIMIT
    script = Path(__file__).with_name("memory_of_maintenance.py")
    done = subprocess.run(
        [sys.executable, str(script), side.name, operation, str(LIMIT), str(tmp_path / "d")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < LIMIT, f"{int(done.stdout):,} bytes"
    assert sum(row_counts(tmp_path / "d")) == ROWS
