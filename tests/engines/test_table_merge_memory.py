"""A merge into a table holds what its limit allows, whatever the size of source and table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROBE = Path(__file__).with_name("table_merge_probe.py")
MEGABYTE = 1024 * 1024


def _peak(rows: int, memory_limit: str) -> int:
    command = [sys.executable, str(PROBE), str(rows), memory_limit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_stream_of_four_times_the_limit_is_merged_within_it() -> None:
    assert _peak(1_000_000, "8MB") < 16 * MEGABYTE  # 32 MB of rows on either side
