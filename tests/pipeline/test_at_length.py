"""Pipelines at length: all modes and rules, races, backfills."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline_support import DAY, drop, found, shop

import parqlake
from parqlake.core.errors import (
    ConcurrentRunError,
    QualityError,
)
from parqlake.core.runs import RunStatus
from parqlake.pipeline import Pipeline, cursor, fresh, references, row_count


@pytest.mark.slow
def test_a_pipeline_from_landing_to_gold(warehouse: parqlake.Lake, spark: Any, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    at = "2026-11-01T00:00:00Z"
    drop(landing, "1.json", (1, 7, 5.0, at), (2, 7, -1.0, at), (3, None, 2.0, at), (4, 8, 5000.0, at))
    drop(landing, "2.json", (1, 7, 6.0, "2026-11-02T00:00:00Z"), (5, 8, None, at))
    drop(landing, "_hidden.json", (9, 9, 9.0, at))
    p = shop(warehouse, spark, landing)
    phases: list[tuple[str, str]] = []
    run = p.run(run_id="1", on_phase=lambda phase, step: phases.append((phase, step)))
    assert [phase for phase, _ in phases] == [*["read", "write", "expectations"] * 2, "commit", "maintenance"]

    assert found(warehouse, "silver.orders", "id", "amount") == [(1, 6.0), (4, 5000.0)]
    assert found(warehouse, "silver.bad", "id", "_rules", "_run_id") == [
        (2, "positive", "1"),
        (5, "positive, small", "1"),
    ]
    assert found(warehouse, "gold.customers", "customer", "amount") == [(7, 6.0), (8, 5000.0)]
    assert run.versions == {"silver.orders": 1, "silver.bad": 1, "gold.customers": 1}
    report = {step.name: step for step in run.report.steps}["orders"]
    assert (report.rows, report.written, report.counts["inserted"], report.counts["quarantined"]) == (6, 2, 2, 2)
    rules = {rule.name: (rule.broken, len(rule.samples)) for rule in report.rules}
    assert rules == {"has_id": (0, 0), "positive": (2, 2), "known": (1, 1), "small": (2, 2), "unique(id)": (0, 0)}
    assert "quarantine positive: 2 (amount >= 0)" in str(run.report)
    (known,) = warehouse.runs("shop")
    assert (known.status, known.rejects["orders.positive"]) == (RunStatus.SUCCEEDED, 2)
    assert {(made.table, made.version) for made in known.outputs} == set(run.versions.items())
    assert json.loads(json.dumps(run.report.to_dict()))["run_id"] == "1"

    again = p.run(run_id="1")
    assert again.replayed
    assert again.report.to_dict()["outputs"] == run.report.to_dict()["outputs"]
    assert "nothing new" in str(p.run(run_id="2").report)
    assert warehouse.table("silver.orders").version == 1

    # A bad row stops everything: nothing is visible, the file is not taken, and the failure is on record.
    drop(landing, "3.json", (None, 7, 1.0, at), (6, 7, 1.0, at))
    before = {name: warehouse.table(name).version for name in warehouse.tables()}
    with pytest.raises(QualityError, match='"has_id"') as raised:
        p.run(run_id="3")
    assert '"amount":1.0' in str(raised.value)
    assert raised.value.report.record.status is RunStatus.FAILED
    assert {name: warehouse.table(name).version for name in warehouse.tables()} == before
    assert [run.status for run in warehouse.runs("shop", limit=1)] == [RunStatus.FAILED]
    assert warehouse.check().findings == ()

    # Mended, under the same id. While it is at work another run commits: this one is told, and nothing is done twice.
    drop(landing, "3.json", (6, 7, 1.0, at))
    with pytest.raises(ConcurrentRunError, match='run "4" of pipeline "shop" committed'):
        p.run(run_id="3", on_phase=lambda phase, _: p.run(run_id="4") and None if phase == "commit" else None)
    assert p.run(run_id="3").report.steps[0].left_out == "nothing new"
    assert found(warehouse, "silver.orders", "id") == [(1,), (4,), (6,)]
    # The very same run twice at once: one did it, the other finds that out.
    drop(landing, "4.json", (8, 7, 1.0, at))
    twins = []
    once = p.run(run_id="5", on_phase=lambda phase, _: twins.append(p.run(run_id="5")) if phase == "commit" else None)
    assert (once.replayed, twins[0].replayed) == (True, False)
    assert found(warehouse, "silver.orders", "id") == [(1,), (4,), (6,), (8,)]


@pytest.mark.slow
def test_modes_cursors_and_rules_of_tables(warehouse: parqlake.Lake, spark: Any) -> None:
    rows: dict[str, Any] = {}
    p = Pipeline("modes", lake=warehouse, spark=spark)
    stamped = {"incremental": cursor("at", lookback="1h"), "mode": "merge", "keys": ["id"], "schema_mode": "merge"}

    @p.step(target="t.events", incremental=cursor("n", start=0), expect=[row_count(0, 5), references("n", "t.dim.id")])
    def events(since: int, until: int) -> pa.Table:
        rows["asked"] = (since, until)
        return pa.table({"n": pa.array(rows["events"], pa.int64())})

    @p.step(target="t.dim", mode="snapshot", keys=["id"])
    def dim() -> pa.Table:
        return pa.table({"id": rows["dim"], "v": ["x"] * len(rows["dim"])})

    @p.step(target="t.past", mode="scd2", keys=["id"], effective="at")
    def past() -> pa.Table:
        return pa.table({"id": [1, 2], "v": rows["past"], "at": [rows["at"]] * 2})

    @p.step(target="t.late", expect=[fresh("at", "1d").warn()], **stamped)
    def late(since: datetime, until: datetime, spark: Any, run_id: str) -> Any:
        rows["since"] = since
        return spark.createDataFrame(rows["late"], rows["late_schema"])

    rows |= {"events": [1, 2, 3], "dim": [1, 2, 3], "past": ["a", "b"], "at": DAY}
    rows |= {"late": [(1, DAY, "a"), (2, DAY, "b")], "late_schema": "id int, at timestamp, v string"}
    first = p.run(run_id="1")
    assert rows["asked"] == (0, 2**63 - 1)
    assert {step.name: step.written for step in first.report.steps} == {"dim": 3, "events": 3, "past": 2, "late": 2}
    stale = next(step for step in first.report.steps if step.name == "late").rules[0]
    assert (stale.name, stale.broken, stale.detail) == ("fresh(at, 1d)", 1, f"newest {DAY.isoformat()}")

    later = DAY + timedelta(days=1)
    rows |= {"events": [2, 3, 4], "dim": [2, 3, 4], "past": ["a", "c"], "at": later}
    rows |= {"late": [(1, DAY - timedelta(minutes=30), 1, "u"), (3, DAY - timedelta(hours=2), 1, "u")]}
    rows["late_schema"] = "id int, at timestamp, extra int, v string"
    p.run(run_id="2")
    assert rows["since"] == DAY - timedelta(hours=1)
    assert found(warehouse, "t.events", "n") == [(1,), (2,), (3,), (4,)]
    assert found(warehouse, "t.dim", "id") == [(2,), (3,), (4,)]
    past_rows = found(warehouse, "t.past", "id", "v", "valid_from", "valid_to", "is_current")
    assert past_rows == [(1, "a", DAY, None, True), (2, "b", DAY, later, False), (2, "c", later, None, True)]
    assert found(warehouse, "t.late", "id", "v", "extra") == [(1, "u", 1), (2, "b", None)]

    # What a table as a whole has to be like is asked of what would be committed; and nothing of the run is.
    rows["events"] = [5, 6, 99]
    rows["dim"] = [4, 5, 6]
    with pytest.raises(QualityError, match=r"references\(n, t.dim.id\)") as raised:
        p.run(run_id="3")
    assert '{"n":99}' in str(raised.value)
    assert found(warehouse, "t.dim", "id") == [(2,), (3,), (4,)]

    # Windows of the past, one commit each; what was done is not done again, and the watermark stays.
    rows["events"] = list(range(6))
    rows["dim"] = list(range(6))
    known = warehouse.record("pipeline/modes/watermarks", "cursor/late")
    filled = p.run(backfill=("2026-10-31T22:00:00Z", "2026-11-01", "1h"))
    assert [window.replayed for window in filled.windows] == [False, False]
    assert p.run(backfill=("2026-10-31T22:00:00Z", "2026-11-01", "1h")).replayed
    assert found(warehouse, "t.late", "id", "v") == [(1, "u"), (2, "b"), (3, "u")]
    assert known is not None
    still = warehouse.record("pipeline/modes/watermarks", "cursor/late")
    assert still is not None
    assert still.value == known.value
