"""kill -9 on a cluster in the middle of an append: all its rows become a version, or none do."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from append_program import ROWS, SCHEMA
from cluster_support import Program, data_files, referenced, running, until, whole_batches

import parqlake
from parqlake.engines.spark.settings import SAME_ROWS
from parqlake.table.lake import Lake
from parqlake.table.table import Table
from parqlake.testing.spark_cluster import SparkCluster

pytestmark = pytest.mark.slow

# Small Arrow batches, and many tasks for the second stage of a partitioned write although there are few rows.
CONFIG = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "250",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64k",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16k",
    "spark.shuffle.io.retryWait": "1s",  # before what a killed executor held is made again
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(root: Path) -> Iterator[Lake]:
    with parqlake.connect(root) as opened:
        yield opened


@pytest.fixture
def program(cluster: SparkCluster, lake: Lake, root: Path) -> Iterator[Program]:
    with running(cluster, "append_program.py", root, config=CONFIG) as started:
        yield started


class Killing:
    """Appends batches to a table, and checks after each that it is there whole or not at all."""

    def __init__(self, program: Program, root: Path, table: Table, *, frame: str, rows: int) -> None:
        self._program, self._root, self._table, self._rows = program, root, table, rows
        self._order: dict[str, Any] = {"table": table.name, "frame": frame}
        if rows != ROWS:
            self._order["options"] = {"rows": rows}
        self._batch = -1
        self.committed: set[int] = set()

    @property
    def orphans(self) -> set[str]:
        """Files that the newest version does not refer to."""
        return data_files(self._root, self._table) - referenced(self._root, self._table)

    def begin(self) -> None:
        """Orders an append, and returns when its first file has appeared."""
        before = data_files(self._root, self._table)
        self._batch += 1
        self._program.order(batch=self._batch, **self._order)
        assert self._program.answer() == {"begun": True}
        until(lambda: self._program.has_answered or data_files(self._root, self._table) - before, "no file appears")

    def check(self) -> dict[str, Any]:
        """Waits for the end: all rows are there once if the call said so, and none if it failed."""
        answer = self._program.answer()
        if "version" in answer:
            self.committed.add(self._batch)
            assert answer == {"version": len(self.committed), "rows": self._rows}
        assert self._table.version == len(self.committed), answer
        assert whole_batches(self._table, self._rows) == self.committed, answer
        referenced(self._root, self._table)
        return answer


def kill_executors(cluster: SparkCluster, program: Program, appends: Killing, *, kills: int, longest: float) -> str:
    """Kills one executor in the middle of each append; says how that went."""
    moments = random.Random(kills)
    in_time = 0
    for _ in range(kills):
        appends.begin()
        time.sleep(moments.uniform(0, longest))
        in_time += not program.has_answered
        moments.choice(cluster.executors()).kill()
        appends.check()
    assert in_time >= kills / 2, "most kills came when the append was done: no test"
    assert appends.orphans, "no attempt that wrote was ever cut off: no test"
    succeeded = len(appends.committed)
    appends.begin()
    appends.check()
    assert len(appends.committed) == succeeded + 1, "an append that nobody disturbs succeeds"
    return f"{succeeded} of {kills} appends succeeded, {in_time} kills came in time, {len(appends.orphans)} orphans"


def test_killing_executors_at_ten_random_moments(
    cluster: SparkCluster, program: Program, lake: Lake, root: Path
) -> None:
    table = lake.create_table("kills.flat", SCHEMA)
    appends = Killing(program, root, table, frame="slow", rows=ROWS)
    print(kill_executors(cluster, program, appends, kills=10, longest=1.5))
    assert table.scan("attempt > 0").count(), "no task was tried again: no test"
    program.end()


def test_killing_executors_in_the_second_stage_of_a_partitioned_append(
    cluster: SparkCluster, program: Program, lake: Lake, root: Path
) -> None:
    table = lake.create_table("kills.partitioned", SCHEMA, partition_by=["part"])
    # The stage that writes is not the one with the function that sleeps: it takes long by its rows.
    appends = Killing(program, root, table, frame="quick", rows=4 * ROWS)
    print(kill_executors(cluster, program, appends, kills=4, longest=0.6))
    # Rows that change when they are made again: files of the second stage that are done already do not fit to them.
    random_parts = lake.create_table("kills.random", SCHEMA, partition_by=["part"])
    appends = Killing(program, root, random_parts, frame="random_parts", rows=4 * ROWS)
    print(kill_executors(cluster, program, appends, kills=2, longest=0.6))
    program.end()


def test_a_session_that_does_not_watch_over_random_rows_is_watched_for(
    cluster: SparkCluster, lake: Lake, root: Path
) -> None:
    """Left alone, such a session mixes rows of both attempts: some are there twice, others never."""
    table = lake.create_table("kills.careless", SCHEMA, partition_by=["part"])
    with running(cluster, "append_program.py", root, config=CONFIG | dict.fromkeys(SAME_ROWS, "false")) as program:
        appends = Killing(program, root, table, frame="random_parts", rows=4 * ROWS)
        print(kill_executors(cluster, program, appends, kills=3, longest=0.6))
        program.end()


def test_a_kill_that_fails_the_job_leaves_no_version(cluster: SparkCluster, lake: Lake, root: Path) -> None:
    table = lake.create_table("kills.final", SCHEMA)
    with running(cluster, "append_program.py", root, config=CONFIG | {"spark.task.maxFailures": "1"}) as program:
        appends = Killing(program, root, table, frame="slow", rows=ROWS)
        failed = 0
        for number in range(4):  # a kill between two tasks fails nothing
            appends.begin()
            cluster.executors()[number % 2].kill()
            failed += "failed" in appends.check()
            if failed:
                break
        assert failed, "no kill failed the job: no test"
        appends.begin()
        assert "version" in appends.check()
        program.end()


def test_killing_a_worker_with_its_executor(cluster: SparkCluster, program: Program, lake: Lake, root: Path) -> None:
    table = lake.create_table("kills.worker", SCHEMA)
    appends = Killing(program, root, table, frame="slow", rows=ROWS)
    appends.begin()
    victim = cluster.workers[-1]
    assert victim.executors()
    assert not program.has_answered
    victim.kill()
    try:
        assert "version" in appends.check(), "the other worker could have done it"
    finally:
        cluster.start_worker(victim.host)
        cluster.wait_for_workers()
    assert table.scan("attempt > 0").count(), "no task was tried again: no test"
    appends.begin()  # waits for an executor on the new worker
    appends.check()
    assert appends.committed == {0, 1}
    program.end()


@pytest.mark.parametrize("half", ["python", "jvm"])
def test_killing_the_driver(cluster: SparkCluster, program: Program, lake: Lake, root: Path, half: str) -> None:
    table = lake.create_table("kills.driver", SCHEMA)
    appends = Killing(program, root, table, frame="slow", rows=ROWS)
    appends.begin()
    assert not program.has_answered
    jvm = program.jvm()
    if half == "python":
        program.process.kill()
    else:
        jvm.kill()
        assert "failed" in appends.check()
        program.kill()
    psutil.wait_procs([jvm], timeout=60)
    until(lambda: not cluster.executors(), "the executors of a driver that is gone do not end")
    assert (table.version, table.scan().count(), table.history()) == (0, 0, [])
    assert data_files(root, table), "nothing was written: no test"
    with parqlake.connect(root) as again:
        reopened = again.table("kills.driver")
        columns = [[7] * ROWS, list(range(ROWS)), *[[0] * ROWS] * 3, ["x"] * ROWS]
        assert reopened.append(pa.table(columns, schema=SCHEMA)).version == 1
        assert whole_batches(reopened, ROWS) == {7}
        referenced(root, reopened)
