"""Pipelines on Spark: what is taken in, checked, committed and remembered, and what is left when a run fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline_support import SCHEMA, drop, found

import parqlake
from parqlake.core.errors import ConcurrentRunError, InvalidOptionError, QualityError, SchemaMismatchError
from parqlake.core.runs import RunStatus
from parqlake.pipeline import Pipeline, cursor, expect, new_files, row_count, table

AT = "2026-11-01T00:00:00Z"


def test_rows_are_taken_in_checked_and_committed_together(warehouse: parqlake.Lake, spark: Any, tmp_path: Path) -> None:
    p = Pipeline("shop", lake=warehouse, spark=spark)

    @p.step(target="gold.total", mode="overwrite", source=table("silver.orders"))
    def total(batch: Any) -> Any:
        return batch.selectExpr("sum(amount) as amount")

    @p.step(
        target="silver.orders",
        source=new_files(str(tmp_path / "landing"), format="json", schema=SCHEMA),
        mode="merge",
        keys=["id"],
        dedupe="at desc",
        expect=[
            expect("has_id", "id is not null"),
            expect("positive", "amount >= 0").quarantine("silver.bad"),
            expect("known", "customer is not null").drop(),
            expect("small", "amount < 1000").warn(),
        ],
    )
    def orders(batch: Any) -> Any:
        return batch

    drop(tmp_path / "landing", "1.json", (None, 1, 1.0, AT), (1, 7, 5.0, AT))
    with pytest.raises(QualityError, match='"has_id"') as raised:
        p.run(run_id="1")
    assert '"amount":1.0' in str(raised.value)
    assert (warehouse.tables(), [run.status for run in warehouse.runs()]) == ([], [RunStatus.FAILED])

    drop(tmp_path / "landing", "1.json", (1, 7, 5.0, AT), (2, 7, -1.0, AT), (3, None, 2.0, AT), (4, 8, 5000.0, AT))
    later = "2026-11-02T00:00:00Z"
    drop(tmp_path / "landing", "2.json", (1, 7, 6.0, later), (5, 8, None, AT), (4, 8, -3.0, later))
    phases: list[tuple[str, str]] = []
    run = p.run(run_id="1", on_phase=lambda phase, step: phases.append((step, phase)))
    steps = [(step, phase) for step in ("orders", "total") for phase in ("read", "write", "expectations")]
    assert phases == [*steps, ("", "commit")]
    assert found(warehouse, "silver.orders", "id", "amount") == [(1, 6.0), (4, 5000.0)]
    assert found(warehouse, "silver.bad", "id", "_rules") == [(2, "positive"), (4, "positive"), (5, "positive, small")]
    assert found(warehouse, "gold.total", "amount") == [(5006.0,)]
    assert run.versions == {"silver.orders": 1, "silver.bad": 1, "gold.total": 1}
    told = run.report.steps[0]
    assert (told.rows, told.written) == (7, 2)
    counts = {"inserted": 2, "updated": 0, "deleted": 0, "dropped": 1, "quarantined": 3, "duplicates": 1}
    assert dict(told.counts) == counts
    rules = {rule.name: (rule.broken, len(rule.samples)) for rule in told.rules}
    assert rules == {"has_id": (0, 0), "positive": (3, 2), "known": (1, 1), "small": (2, 2)}
    again = p.run(run_id="1")
    assert again.replayed
    assert str(again.report) == str(run.report)
    assert "quarantine positive: 3 (amount >= 0)" in str(run.report)
    (record,) = warehouse.runs("shop")
    assert (record.status, record.rejects["orders.positive"]) == (RunStatus.SUCCEEDED, 3)
    assert {(made.table, made.version) for made in record.outputs} == set(run.versions.items())


def test_a_cursor_takes_what_is_new_and_of_two_runs_at_once_one_commits(warehouse: parqlake.Lake, spark: Any) -> None:
    events_of: list[dict[str, Any]] = []
    p = Pipeline("events", lake=warehouse, spark=spark, lineage=events_of.append)
    given: dict[str, Any] = {"rows": pa.table({"n": [1, 2, 3]})}

    @p.step(target="t.events", incremental=cursor("n", start=2), schema_mode="merge", expect=[row_count(0, 3)])
    def events(since: int, until: int) -> pa.Table:
        given["asked"] = (since, until)
        return given["rows"]

    p.run(run_id="1")
    assert given["asked"] == (2, 2**63 - 1)
    assert [event["eventType"] for event in events_of] == ["START", "COMPLETE"]
    assert events_of[1]["outputs"][0]["name"] == "t.events"
    given["rows"] = pa.table({"n": [2, 3, 4], "word": ["two", "three", "four"]})
    with pytest.raises(ConcurrentRunError, match='run "3" of pipeline "events" committed'):
        p.run(run_id="2", on_phase=lambda phase, _: p.run(run_id="3") and None if phase == "commit" else None)
    assert given["asked"][0] == 3
    assert found(warehouse, "t.events", "n", "word") == [(2, None), (3, None), (4, "four")]
    given["rows"] = pa.table({"n": [5]})
    twins = []
    once = p.run(run_id="4", on_phase=lambda phase, _: twins.append(p.run(run_id="4")) if phase == "commit" else None)
    assert (once.replayed, twins[0].replayed) == (True, False)
    assert warehouse.table("t.events").version == 3
    given["rows"] = pa.table({"n": [1, 5]})  # nothing of it is new
    assert p.run().report.steps[0].written == 0
    for rows, error in (
        (pa.table({"n": list(range(10, 20))}), QualityError),
        (pa.table({"n": ["x"]}), InvalidOptionError),
        (pa.table({"n": [9], "word": [9]}), SchemaMismatchError),
    ):
        given["rows"] = rows
        with pytest.raises(error):
            p.run()
    assert found(warehouse, "t.events", "n") == [(2,), (3,), (4,), (5,)]
    assert [str(run.status) for run in warehouse.runs("events")].count("failed") == 4
    assert [event["eventType"] for event in events_of].count("FAIL") == 4
