"""Drivers as processes of their own, and what must hold of a table whatever happened to a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from parqlake.table.table import Table
from parqlake.testing.spark_cluster import SparkCluster

SECONDS = 180.0


class Program:
    """A driver: takes orders on its standard input, and answers each with one line of JSON."""

    def __init__(self, script: Path, arguments: dict[str, Any], folder: Path) -> None:
        self._errors = folder / "errors"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(script), json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=kept | {"SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def order(self, **order: Any) -> None:
        """Gives the next order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Waits for the next line; fails if the program has ended instead."""
        try:
            line = self._answers.get(timeout=SECONDS)
        except queue.Empty:
            raise AssertionError(f"no answer within {SECONDS} s:\n{self.errors}") from None
        assert line is not None, f"the program has ended:\n{self.errors}"
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def has_answered(self) -> bool:
        """Whether a line is there that nobody has asked for yet."""
        return not self._answers.empty()

    @property
    def errors(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._errors.read_text(errors="replace")[-6000:]

    def jvm(self) -> psutil.Process:
        """The JVM half of the driver."""
        (found,) = [child for child in psutil.Process(self.process.pid).children() if "java" in child.name()]
        return found

    def end(self) -> None:
        """Lets the program end by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0, self.errors

    def kill(self) -> None:
        """Ends both halves of the driver with kill -9, if they are there."""
        if self.process.poll() is None:
            everything = [*psutil.Process(self.process.pid).children(recursive=True)]
            self.process.kill()
            for child in everything:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(everything, timeout=SECONDS)
        self.process.wait(SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self.process.stdout:
                if line.startswith("{"):
                    self._answers.put(line)
        self._answers.put(None)


@contextlib.contextmanager
def running(
    cluster: SparkCluster, script: str, root: Path, *, config: Mapping[str, str] | None = None, **arguments: Any
) -> Iterator[Program]:
    """Runs a driver with a session on the cluster and a lake at `root` for the length of the block."""
    folder = Path(tempfile.mkdtemp(prefix="program-", dir=root.parent))
    given = {"master": cluster.url, "config": cluster.config | dict(config or {}), "root": str(root), **arguments}
    program = Program(Path(__file__).with_name(script), given, folder)
    try:
        assert program.answer() == {"ready": True}
        yield program
    finally:
        program.kill()


def data_files(root: Path, table: Table) -> set[str]:
    """The Parquet files in the table's folder, whether a version refers to them or not."""
    folder = root / table.location
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}


def referenced(root: Path, table: Table) -> set[str]:
    """The files of the newest version; fails if one is named twice or is not there."""
    names = table.files()["path"].to_pylist()
    assert len(names) == len(set(names))
    assert set(names) <= data_files(root, table)
    return set(names)


def until(look: Callable[[], Any], what: str) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS} s"
        time.sleep(0.01)


def whole_batches(table: Table, rows_each: int) -> set[int]:
    """The batches in the table; fails if any is there in part, or a row of it more than once."""
    rows = table.scan(columns=["batch", "row"]).to_arrow()
    sums = rows.group_by("batch").aggregate(
        [("row", "count"), ("row", "count_distinct"), ("row", "min"), ("row", "max")]
    )
    for group in sums.to_pylist():
        counts = (group["row_count"], group["row_count_distinct"], group["row_min"], group["row_max"])
        assert counts == (rows_each, rows_each, 0, rows_each - 1), f"batch {group['batch']} is torn or doubled: {group}"
    return set(sums["batch"].to_pylist())
