"""Tasks that fail, die or straggle on a cluster: each row counts once, whatever ran twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from append_program import ROWS, SCHEMA
from cluster_support import Program, data_files, referenced, running, whole_batches

import parqlake
from parqlake.table.lake import Lake
from parqlake.testing.spark_cluster import SparkCluster

pytestmark = pytest.mark.slow

# A copy of a task starts as soon as half of the others are done and it has taken longer than they did.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "250",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uneven") / "lake"


@pytest.fixture(scope="module")
def lake(root: Path) -> Iterator[Lake]:
    with parqlake.connect(root) as opened:
        yield opened


@pytest.fixture(scope="module")
def program(cluster: SparkCluster, lake: Lake, root: Path) -> Iterator[Program]:
    """A driver whose cluster runs copies of slow tasks."""
    with running(cluster, "append_program.py", root, config=SPECULATION) as started:
        yield started


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_task_that_fails_after_writing_counts_once(program: Program, lake: Lake, root: Path, how: str) -> None:
    table = lake.create_table(f"uneven.{how}", SCHEMA)
    folder = str(root / table.location)
    program.order(frame="fails_once", table=table.name, batch=1, options={"folder": folder, "how": how})
    assert program.answer() == {"begun": True}
    answer = program.answer()
    assert answer.get("version") == 1, answer
    assert whole_batches(table, ROWS) == {1}
    assert set(table.scan(columns=["attempt"]).to_arrow()["attempt"].to_pylist()) == {1}
    assert len(data_files(root, table) - referenced(root, table)) >= 2, "the first attempt left nothing: no test"


def test_a_copy_of_a_straggling_task_counts_once(program: Program, lake: Lake, root: Path, tmp_path: Path) -> None:
    table = lake.create_table("uneven.straggles", SCHEMA)
    won = []
    for batch, delay in enumerate([0.0, 0.1, 0.2, 0.4, 5.0]):
        options = {"traces": str(tmp_path), "delay": delay}
        program.order(frame="straggles", table=table.name, batch=batch, options=options)
        assert program.answer() == {"begun": True}
        answer = program.answer()
        assert answer.get("version") == batch + 1, answer
        hosts = [(tmp_path / f"{batch}-{attempt}").read_text() for attempt in (0, 1)]
        assert hosts[0] != hosts[1], "the copy ran on the same host"
        assert whole_batches(table, ROWS) == set(range(batch + 1))
        attempts = table.scan(f"batch = {batch} and task = 0", columns=["attempt"]).to_arrow()["attempt"]
        assert len(set(attempts.to_pylist())) == 1, "rows of both attempts are there"
        won.append(attempts[0].as_py())
    assert won[-1] == 1, "the copy was done long before the straggler"
    assert data_files(root, table) - referenced(root, table), "the other attempts left nothing: no test"
    print(f"attempts that counted: {won}")
