"""Lakes to look at: one with a history that fills every page, one whose every name and value tries to break out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

import parqlake
from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus

SCRIPT = "<script>alert('col')</script>"
BREAKOUT = "\"><img src=x onerror=alert(1)>'{{7*7}}"
PAGES = ("overview", "history", "diff", "files", "clustering", "explain", "maintenance", "runs", "health")
_REGIONS = np.array(["apac", "eu", "latam", "us"])
_STARTS = datetime(2026, 1, 1, tzinfo=UTC)


def orders(count: int, first: int, seed: int) -> pa.Table:
    """Orders that follow one another in time, of customers and regions in no order."""
    rng = np.random.default_rng(seed)
    ids = np.arange(first, first + count)
    weights = [0.12, 0.5, 0.08, 0.3]
    return pa.table(
        {
            "id": ids,
            "region": _REGIONS[rng.choice(4, count, p=weights)],
            "customer": rng.integers(0, 50_000, count).astype(np.int32),
            "amount": np.round(rng.gamma(2.0, 40.0, count), 2),
            "placed_at": pa.array([_STARTS + timedelta(minutes=int(i)) for i in ids], pa.timestamp("us", "UTC")),
            "note": pa.array([None if i % 3 else f"order {i}" for i in ids]),
        }
    )


def fill(lake: parqlake.Lake, rows: int = 2_000, hours: int = 12) -> None:
    """Four tables with a past: appended, evolved, changed, compacted, clustered, tagged, and made by runs."""
    table = lake.create_table(
        "sales.orders",
        orders(1, 0, 0).schema,
        partition_by=["region"],
        properties={"maintain.target_mb_per_file": 1},
        checks={"positive": "amount >= 0"},
    )
    part = rows // 2
    for number in range(8):
        table.append(orders(part, number * part, number), message=f"day {number + 1}")
    table.tag("first-week", version=7)
    table.compact(message="nightly")
    table.add_column("currency", "string", default="EUR", message="money needs a unit")
    table.delete("customer < 500", message="customers who asked to be forgotten")
    table.update("amount < 1", set={"amount": 1.0}, message="the least that is charged")
    last = orders(part, 8 * part, 9)
    table.append(last.append_column("currency", pa.array(["USD"] * part)), message="day 9")
    events = lake.create_table("sales.events", orders(1, 0, 0).schema, cluster_by=["customer", "placed_at"])
    size = 6 * rows // hours
    for number in range(hours):
        events.append(orders(size, number * size, 50 + number), message=f"hour {number + 1}")
    events.optimize(target_rows_per_file=size, message="by customer and time")
    events.append(orders(size // 2, hours * size, 99), message=f"hour {hours + 1}")
    people = pa.table({"id": range(rows), "name": [f"customer {n}" for n in range(rows)]})
    lake.write(people, "sales.customers", message="from the shop", properties={"target_mb_per_file": 1})
    renamed = people.slice(0, 40).set_column(1, "name", pa.array(["somebody else"] * 40))
    lake.table("sales.customers").merge(renamed, on=["id"], message="new names")
    lake.create_table("staging.empty", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    _runs(lake, table, rows)


def _runs(lake: parqlake.Lake, table: parqlake.Table, rows: int) -> None:
    """A table that runs made of the orders, and one run that failed."""
    started = datetime.now(UTC) - timedelta(days=6)
    daily = lake.create_table("gold.daily", pa.schema([("day", pa.date32()), ("amount", pa.float64())]))
    for number in range(6):
        at = started + timedelta(days=number)
        run = RunRecord(
            run_id=f"{at:%Y-%m-%d}",
            pipeline="daily-sales",
            status=RunStatus.SUCCEEDED,
            started_at=at,
            finished_at=at + timedelta(seconds=40 + number),
            inputs=(RunInput("sales.orders", version=table.version), RunInput("landing/rates", detail="3 files")),
            outputs=(RunOutput("gold.daily"),),
            rejects={"amount > 0": (number * 3) % 7, "day is not null": 0},
            durations={"read": 12.5, "write": 20.0, "commit": 0.4},
        )
        with lake.transaction(message=f"run {run.run_id}") as tx:
            tx.table("gold.daily").append(
                pa.table({"day": [at.date()], "amount": [float(rows + number)]}, daily.schema())
            )
            tx.record_run(run)
    lake.record_run(
        RunRecord(
            run_id="retry-7",
            pipeline="daily-sales",
            status=RunStatus.FAILED,
            started_at=datetime.now(UTC) - timedelta(hours=2),
            finished_at=datetime.now(UTC) - timedelta(hours=2) + timedelta(seconds=9),
            inputs=(RunInput("sales.orders", version=table.version),),
            error="ExpectationError: 412 of 1,000 rows break the rule amount > 0",
            rejects={"amount > 0": 412},
        )
    )


def fill_hostile(lake: parqlake.Lake) -> None:
    """A table whose columns, values, messages and properties are all written to be run."""
    schema = pa.schema([(SCRIPT, pa.string()), (BREAKOUT, pa.int64())])
    table = lake.create_table("bad.table", schema, partition_by=[SCRIPT], properties={"owner": SCRIPT})
    for number in range(3):
        values = [SCRIPT, BREAKOUT, "plain", "</td></tr></table><h1>out</h1>"]
        data = pa.table([values, [number, 1, 2, 3]], schema=schema)
        table.append(data, message=f"{SCRIPT}{number}")
    table.compact(message=BREAKOUT)
    table.rename_column(BREAKOUT, "javascript:alert(1)")
    run = RunRecord(
        run_id=SCRIPT,
        pipeline="p",
        status=RunStatus.FAILED,
        started_at=datetime.now(UTC),
        inputs=(RunInput(SCRIPT, detail=BREAKOUT), RunInput("bad.table", version=1)),
        outputs=(RunOutput("bad.table"),),
        rejects={SCRIPT: 3},
        error=SCRIPT,
    )
    lake.record_run(run)
