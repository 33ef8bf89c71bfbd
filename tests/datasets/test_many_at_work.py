"""Appenders and maintainers beside one another, killed at random: no row is lost, doubled, or torn from its append."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from datasets_support import left_behind, recover_later

from parqlake.datasets import recover
from parqlake.datasets.place import Place

WORKER = """
import sys
from pathlib import Path
from parqlake.core.errors import ConflictError
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.swap import Swap

place, task, name = Place(sys.argv[1]), sys.argv[2], sys.argv[3]

def append(turn):
    with Swap(place, append=True) as swap:
        for half in "ab":
            staged = swap.stage_new(Naming("data_{}.parquet"), f"half={half}")
            Path(staged.full_path).write_text(f"{name}/{turn} {half}\\n")
        swap.commit()

def compact(turn):
    try:
        with Swap(place) as swap:
            old = swap.files()
            lines = "".join(Path(place.full_path(file.path)).read_text() for file in old)
            halves = [line.split()[1] for line in lines.splitlines()]
            assert halves.count("a") == halves.count("b"), "saw half an append"
            Path(swap.stage_new(Naming("data_{}.parquet")).full_path).write_text(lines)
            swap.commit(remove=old)
    except ConflictError as error:
        assert "being rewritten by" in str(error), error

for turn in range(10**6):
    {"append": append, "compact": compact}[task](turn)
    print(turn, flush=True)
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_appenders_and_maintainers_killed_at_random(rounds: int, tmp_path: Path) -> None:
    root, moments = tmp_path / "data", Random(3)
    sure: set[str] = set()
    for number in range(rounds):
        tasks = ["append", "append", "compact", "compact"]
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(root), task, f"{number}-{index}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for index, task in enumerate(tasks)
        ]
        firsts = [worker.stdout.readline() for worker in workers if worker.stdout is not None]
        time.sleep(moments.uniform(0.3, 0.8))
        for worker in workers:
            worker.kill()
            time.sleep(moments.uniform(0, 0.1))
        for index, (worker, first) in enumerate(zip(workers, firsts, strict=True)):
            output, errors = worker.communicate()
            assert "Error" not in errors, errors
            if tasks[index] == "append":
                sure |= {f"{number}-{index}/{line}" for line in (first + output).splitlines()}
        recover(root)
        place = Place(root)
        lines = [line for file in place.files() for line in Path(place.full_path(file.path)).read_text().splitlines()]
        counts = Counter(lines)
        assert set(counts.values()) == {1}
        batches = {line.split()[0] for line in lines}
        assert all(counts[f"{batch} a"] == counts[f"{batch} b"] == 1 for batch in batches)
        assert sure <= batches
        recover_later(place)
        assert left_behind(place) == []
    assert len(sure) > 5 * rounds
