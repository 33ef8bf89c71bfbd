"""Runs that die, runs that race, and streams that start again: each row is taken in exactly once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pipeline_support import drop, found, shop

import parqlake
from parqlake.core.errors import ConcurrentRunError, QualityError
from parqlake.pipeline import Pipeline, cursor, expect

AT = "2026-11-01T00:00:00Z"
PHASES = [
    ("read", "orders"),
    ("write", "orders"),
    ("expectations", "orders"),
    ("write", "customers"),
    ("commit", ""),
    ("maintenance", "orders"),
]


def content(lake: parqlake.Lake) -> dict[str, list[tuple[Any, ...]]]:
    columns = {"silver.orders": ("id", "customer", "amount"), "silver.bad": ("id", "_rules")}
    columns["gold.customers"] = ("customer", "amount")
    return {name: found(lake, name, *wanted) for name, wanted in columns.items()}


def first_drops(landing: Path) -> None:
    drop(landing, "1.json", (1, 7, 5.0, AT), (2, 7, -1.0, AT), (3, 8, 5.0, AT))


def second_drops(landing: Path) -> None:
    drop(landing, "2.json", (1, 7, 6.0, "2026-11-02T00:00:00Z"), (4, 8, -2.0, AT), (5, 9, 3.0, AT))


@pytest.mark.slow
def test_a_driver_that_is_killed_in_any_phase_leaves_nothing_and_the_next_run_carries_on(
    spark: Any, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    first_drops(whole / "landing")
    with parqlake.connect(whole / "warehouse", progress=False) as lake:
        p = shop(lake, spark, whole / "landing")
        p.run(run_id="1")
        between = content(lake)
        second_drops(whole / "landing")
        p.run(run_id="2")
        expected = content(lake)
    for number, (phase, step) in enumerate(PHASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        first_drops(folder / "landing")
        with parqlake.connect(folder / "warehouse", progress=False) as lake:
            p = shop(lake, spark, folder / "landing")
            p.run(run_id="1")
            second_drops(folder / "landing")
            command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("killed_run.py"))]
            done = subprocess.run(
                [*command, str(folder), phase, step], check=False, capture_output=True, text=True, timeout=600
            )
            assert done.returncode == -9, done.stderr
            assert content(lake) == (expected if phase == "maintenance" else between), (phase, step)
            assert lake.check().findings == ()
            again = p.run(run_id="2")
            assert again.replayed == (phase == "maintenance")
            p.run(run_id="3")
            assert content(lake) == expected, (phase, step)


@pytest.mark.slow
def test_first_runs_that_fail_or_race_leave_no_table(spark: Any, tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "warehouse", progress=False) as lake:
        drop(tmp_path / "landing", "1.json", (None, 7, 5.0, AT), (2, 7, -1.0, AT))
        p = shop(lake, spark, tmp_path / "landing")
        with pytest.raises(QualityError):
            p.run(run_id="1")
        assert lake.tables() == []
        first_drops(tmp_path / "landing")
        with pytest.raises(ConcurrentRunError):
            p.run(run_id="1", on_phase=lambda phase, _: p.run(run_id="2") and None if phase == "commit" else None)
        assert content(lake)["silver.orders"] == [(1, 7, 5.0), (3, 8, 5.0)]
        assert {name: lake.table(name).version for name in ("silver.bad", "gold.customers")} == {
            "silver.bad": 1,
            "gold.customers": 1,
        }


@pytest.mark.slow
def test_a_backfill_that_stopped_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "warehouse", progress=False) as lake:
        p = Pipeline("past", lake=lake, spark=spark)
        asked: list[int] = []

        cut = {"incremental": cursor("n", start=0), "mode": "merge", "keys": ["n"]}

        @p.step(target="t.numbers", expect=[expect("small", "n < 60")], **cut)
        def numbers(since: int, spark: Any) -> Any:
            asked.append(since)
            return spark.range(limit).withColumnRenamed("id", "n")

        limit = 100
        with pytest.raises(QualityError):
            p.run(backfill=(0, 100, 25))
        assert found(lake, "t.numbers", "n") == sorted(((n,) for n in range(50)), key=repr)
        limit = 60
        asked.clear()
        run = p.run(backfill=(0, 100, 25))
        assert asked == [50, 75]
        assert [window.replayed for window in run.windows] == [True, True, False, False]
        limit = 61
        with pytest.raises(QualityError):
            p.run()
        limit = 60
        p.run()
        assert found(lake, "t.numbers", "n") == sorted(((n,) for n in range(60)), key=repr)


@pytest.mark.slow
def test_a_stream_is_taken_in_exactly_once_also_after_a_failure(spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    with parqlake.connect(tmp_path / "warehouse", progress=False) as lake:
        p = Pipeline("stream", lake=lake, spark=spark)

        @p.step(
            target="t.events", expect=[expect("positive", "amount > 0").quarantine("t.bad"), expect("id", "id > 0")]
        )
        def events(spark: Any) -> Any:
            schema = "id bigint, customer bigint, amount double, at timestamp"
            return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(landing))

        drop(landing, "1.json", (1, 7, 5.0, AT), (2, 7, -1.0, AT))
        drop(landing, "2.json", (3, 7, 5.0, AT))
        p.stream(checkpoint=tmp_path / "checkpoint")
        assert found(lake, "t.events", "id") == [(1,), (3,)]
        drop(landing, "3.json", (-4, 7, 5.0, AT))
        with pytest.raises(Exception, match="not as expected"):
            p.stream(checkpoint=tmp_path / "checkpoint")
        assert found(lake, "t.events", "id") == [(1,), (3,)]
        drop(landing, "3.json", (4, 7, 5.0, AT))
        for _ in range(2):
            p.stream(checkpoint=tmp_path / "checkpoint")
        assert found(lake, "t.events", "id") == [(1,), (3,), (4,)]
        assert found(lake, "t.bad", "id") == [(2,)]
        assert len(lake.runs("stream")) == 3
