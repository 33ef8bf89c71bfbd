"""What must hold of a table whatever its writers went through, and how to let a writer go."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from parqlake.table.table import Table

ROWS = 200
Start = Callable[..., "subprocess.Popen[str]"]


def begin(process: subprocess.Popen[str]) -> None:
    """Waits until the writer is ready, and lets it go."""
    assert process.stdout is not None
    assert process.stdin is not None
    line = process.stdout.readline()
    assert line == "ready\n", process.stderr.read() if process.stderr else line
    process.stdin.write("go\n")
    process.stdin.flush()


def whole_batches(table: Table, version: int | None = None) -> set[tuple[int, int]]:
    """The batches in the table; fails if any is there in part or more than once."""
    rows = table.scan(version=version).to_arrow()
    sums = rows.group_by(["writer", "batch"]).aggregate([("row", "count"), ("row", "count_distinct"), ("row", "max")])
    found = set()
    for group in sums.to_pylist():
        key = (group["writer"], group["batch"])
        counts = (group["row_count"], group["row_count_distinct"], group["row_max"])
        assert counts == (ROWS, ROWS, ROWS - 1), f"batch {key} is torn or doubled: {group}"
        found.add(key)
    return found
