"""kill -9 in the middle of appends: the last version reads whole each time, and nothing acknowledged is lost."""

from __future__ import annotations

import random
import time

import pytest
from durability_support import Start, begin, whole_batches
from writer import SCHEMA

from parqlake.testing.backends import LakePlace

KILLS = 20


@pytest.mark.parametrize("shared_place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize("engine", ["pyarrow", pytest.param("duckdb", marks=pytest.mark.slow)])
def test_killing_a_writer_at_random_moments_leaves_whole_versions(
    shared_place: LakePlace, start_writer: Start, engine: str
) -> None:
    if engine == "duckdb" and "postgresql" in shared_place.catalog:
        pytest.skip("the engine writes the same way whatever the catalog; SQLite covers it")
    moments = random.Random(20)
    with shared_place.connect() as lake:
        table = lake.create_table("torn.rows", SCHEMA, partition_by=["part"])
        acknowledged: set[tuple[int, int]] = set()
        waiting = start_writer(shared_place, writer=0, count=10_000, engine=engine)
        for kill in range(KILLS):
            process = waiting
            waiting = start_writer(shared_place, writer=kill + 1, count=10_000, engine=engine)
            begin(process)
            first = ""
            if kill % 2:  # else, on a busy machine, it could be that no writer ever gets to its first commit
                assert process.stdout is not None
                first = process.stdout.readline()
            time.sleep(moments.uniform(0.01, 0.3))
            process.kill()
            output, _ = process.communicate()
            acknowledged |= {
                (kill, int(line.split()[0])) for line in (first + output).splitlines() if line.count(" ") == 1
            }
            seen = whole_batches(table)
            assert acknowledged <= seen
            for writer in range(kill + 1):  # batches of one writer commit in order: no gaps
                numbers = sorted(number for who, number in seen if who == writer)
                assert numbers == list(range(len(numbers)))
        assert acknowledged, "no append ever got through: the test shows nothing"
        assert table.version == len(whole_batches(table))
        table.append(SCHEMA.empty_table())
