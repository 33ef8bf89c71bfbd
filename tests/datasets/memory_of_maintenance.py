"""Compacts or optimizes a directory and prints by how much the process grew, in bytes; run as a process of its own."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from handlers_support import SIDES


def make(folder: Path, rows: int, files: int) -> None:
    """Numbers that do not compress, so that files are as large as their rows in memory."""
    folder.mkdir()
    chance = np.random.default_rng(1)
    for number in range(files):
        columns = {name: chance.random(rows // files) for name in "abcd"}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=100_000, use_dictionary=False)


def run(side_name: str, operation: str, folder: Path, limit: int) -> None:
    side = next(side for side in SIDES if side.name == side_name)
    if operation == "compact":
        side.compact(folder, target_mb_per_file=512, memory_limit=limit)
    else:
        side.optimize(folder, ["a", "b"], target_mb_per_file=32, memory_limit=limit)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    side_name, operation, limit, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    with tempfile.TemporaryDirectory() as small:  # loads what is loaded lazily
        make(Path(small) / "d", 20_000, 2)
        run(side_name, operation, Path(small) / "d", limit)
    before = peak()
    run(side_name, operation, folder, limit)
    print(peak() - before)
