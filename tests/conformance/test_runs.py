"""Runs on record: committed with what they made, told newest first, and followed from table to table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from parqlake import Lake, RunInput, RunOutput, RunRecord, RunStatus, errors
from parqlake.testing.data import ORDERS, orders

BEGAN = datetime(2026, 11, 15, 3, tzinfo=UTC)


def a_run(pipeline: str, run_id: str, *inputs: RunInput, **others: object) -> RunRecord:
    run = RunRecord(run_id=run_id, pipeline=pipeline, status=RunStatus.SUCCEEDED, started_at=BEGAN, inputs=inputs)
    return replace(run, **others)  # type: ignore[arg-type]


def test_a_run_is_committed_with_what_it_made(lake: Lake) -> None:
    for name in ("silver.orders", "silver.bad"):
        lake.create_table(name, ORDERS)
    run = a_run(
        "orders",
        "2026-11-15",
        RunInput("landing/orders", detail="3 files"),
        outputs=(RunOutput("silver.orders", operation="merge", counts={"inserted": 5}),),
        rejects={"positive": 2},
        durations={"read": 1.5},
        spark_application_id="local-1",
        report={"steps": [{"name": "orders"}]},
    )
    for attempt in range(2):
        with lake.transaction(idempotency_key="orders/2026-11-15") as tx:
            tx.record_run(run)
            tx.table("silver.orders").append(orders(5))
            tx.table("silver.bad").append(orders(2))
        assert tx.replayed == (attempt > 0)
    (found,) = lake.runs("orders")
    made = {output.table: output for output in found.outputs}
    assert made["silver.orders"] == replace(run.outputs[0], version=1, added_rows=5)
    assert (made["silver.bad"].version, made["silver.bad"].operation, made["silver.bad"].added_rows) == (1, "append", 2)
    assert replace(found, outputs=run.outputs, finished_at=None) == run
    assert found.finished_at is not None
    assert lake.runs(table="silver.bad") == [found]
    assert lake.runs(table="gold.none") == lake.runs("none") == lake.runs(limit=0) == []


def test_a_failed_run_is_told_and_may_succeed_later_but_not_the_other_way(lake: Lake) -> None:
    failed = a_run("orders", "1", status=RunStatus.FAILED, error="no such file", finished_at=BEGAN)
    assert lake.record_run(failed)
    assert lake.record_run(replace(failed, error="again"))
    assert [(run.status, run.error) for run in lake.runs()] == [(RunStatus.FAILED, "again")]
    with lake.transaction() as tx:
        tx.record_run(a_run("orders", "1"))
    assert not lake.record_run(failed)
    assert [run.status for run in lake.runs()] == [RunStatus.SUCCEEDED]
    with pytest.raises(errors.InputError, match="JSON"):
        lake.record_run(replace(failed, report={"x": object()}))
    with pytest.raises(errors.InputError, match="time zone"):
        a_run("orders", "1", finished_at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(errors.InvalidOptionError, match="limit"):
        lake.runs(limit=True)


def test_runs_of_many_pipelines_are_told_newest_first(lake: Lake) -> None:
    order = [("a", "1"), ("b", "1"), ("a/b", "x"), ("a", "2"), ("b", "2")]
    for pipeline, run_id in order:
        lake.record_run(a_run(pipeline, run_id))
    assert [(run.pipeline, run.run_id) for run in lake.runs()] == order[::-1]
    assert [run.run_id for run in lake.runs("a", limit=1)] == ["2"]
    with lake.transaction() as tx:
        tx.record_many("runs/long", {f"{n:03}": a_run("long", f"{n:03}").to_dict() for n in range(450)})
    assert [run.run_id for run in lake.runs("long", limit=None)] == [f"{n:03}" for n in reversed(range(450))]


def test_lineage_is_followed_across_runs(lake: Lake) -> None:
    for name in ("bronze.orders", "silver.orders", "gold.daily", "gold.other"):
        lake.create_table(name, ORDERS)
    steps = [
        ("load", "1", (RunInput("s3://landing/orders"),), "bronze.orders"),
        ("load", "2", (RunInput("s3://landing/orders"),), "bronze.orders"),
        ("clean", "1", (RunInput("bronze.orders", 2), RunInput("silver.orders", 0)), "silver.orders"),
        ("daily", "1", (RunInput("silver.orders", 1, from_version=0),), "gold.daily"),
        ("back", "1", (RunInput("gold.daily", 1),), "bronze.orders"),  # a circle
    ]
    for pipeline, run_id, inputs, target in steps:
        with lake.transaction() as tx:
            tx.table(target).append(orders(1))
            tx.record_run(a_run(pipeline, run_id, *inputs, finished_at=BEGAN + timedelta(hours=1)))
    lineage = lake.table("silver.orders").lineage()
    told = lineage.to_dict()
    (bronze,) = told["upstream"]
    assert [bronze[name] for name in ("name", "version", "pipeline", "run_id")] == ["bronze.orders", 2, "clean", "1"]
    assert [(step["name"], step["run_id"]) for step in bronze["steps"]] == [
        ("gold.daily", "1"),
        ("s3://landing/orders", "2"),
    ]
    (daily,) = told["downstream"]
    assert (daily["name"], daily["version"]) == ("gold.daily", 1)
    assert str(lineage).splitlines() == [
        "silver.orders",
        "├── made from",
        "│   └── bronze.orders @ version 2  (clean, run 1, 2026-11-15 04:00)",
        "│       ├── gold.daily @ version 1  (back, run 1, 2026-11-15 04:00)",
        "│       │   └── silver.orders @ version 1  (daily, run 1, 2026-11-15 04:00)",
        "│       └── s3://landing/orders  (load, run 2, 2026-11-15 04:00)",
        "└── made into",
        "    └── gold.daily @ version 1  (daily, run 1, 2026-11-15 04:00)",
        "        └── bronze.orders @ version 3  (back, run 1, 2026-11-15 04:00)",
        "            └── silver.orders @ version 1  (clean, run 1, 2026-11-15 04:00)",
    ]
    assert lake.table("gold.other").lineage().to_dict() == {"table": "gold.other", "upstream": [], "downstream": []}
