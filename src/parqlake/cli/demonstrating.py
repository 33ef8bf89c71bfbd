"""The packaged demo: a small lake with a few tables and some history, made by PyArrow alone."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from parqlake.table.lake import Lake

MARKER = ".parqlake-demo"
"""Lies in folders that a demo made, and may replace."""
REGIONS = ("apac", "eu", "latam", "us")
BATCHES = 6
ROWS = 4_000
"""Of each batch."""
_QUESTION = "select region, sum(amount) from sales.orders group by all"
_START = datetime(2026, 1, 1, tzinfo=UTC)


def build(folder: Path, connect: Callable[[], Lake], tell: Callable[[str], None]) -> Lake:
    """Makes the lake in a folder that is not there yet, and tells each step."""
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("Made by parqlake demo, which may replace this folder.\n", encoding="utf-8")
    lake = connect()
    orders = lake.create_table(
        "sales.orders", _orders(0).schema, partition_by=["region"], checks={"positive": "amount >= 0"}
    )
    tell(f"sales.orders: {BATCHES} days of orders, one version a day")
    for day in range(BATCHES):
        orders.append(_orders(day), message=f"day {day + 1}", idempotency_key=f"demo/day-{day + 1}")
    orders.tag("first-week", orders.version)
    tell("sales.customers: a table beside it")
    lake.write(_customers(), "sales.customers", message="all customers")
    tell("corrections: a merge by key, a delete, a new column")
    fixed = _orders(1).slice(0, 200)
    fixed = fixed.set_column(3, fixed.schema.field(3), _doubled(fixed.column("amount")))
    orders.merge(fixed, on=["id"], strategy="upsert", message="corrected amounts")
    orders.delete("region = 'latam' and amount < 5", message="test orders")
    orders.add_column("channel", "string", default="web", message="where it was sold")
    tell("small files put together, and rows laid out by customer and time")
    orders.compact(message="small files")
    lake.write(_orders(0), "sales.scattered", partition_by=["region"], message="as they came")
    for day in range(1, BATCHES):
        lake.table("sales.scattered").append(_orders(day), message=f"day {day + 1}")
    orders.optimize(["customer", "placed_at"], target_rows_per_file=1_500, message="by customer and time")
    return lake


def clear(folder: Path) -> None:
    """Removes a demo's folder, and no other."""
    if (folder / MARKER).is_file():
        shutil.rmtree(folder)


def what_to_try(folder: Path) -> list[tuple[str, str]]:
    """Commands for the demo's lake, and what each shows."""
    lake = f"--lake {shlex.quote(str(folder))}"
    return [
        (f"parqlake ls {lake}", "the tables"),
        (f"parqlake log sales.orders {lake}", "what happened to one"),
        (f"parqlake head sales.orders --at first-week {lake}", "rows as they were"),
        (f"parqlake sql '{_QUESTION}' {lake}", "a question"),
        (f"parqlake explain sales.orders -w 'customer = 42' {lake}", "what a read skips"),
        (f"parqlake ui {lake}", "all of it in a browser"),
    ]


def _orders(day: int) -> pa.Table:
    """Orders of one day: always the same ones, without a random number."""
    import pyarrow as pa

    ids = range(day * ROWS, (day + 1) * ROWS)
    step = timedelta(days=1) / ROWS
    values: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "region": pa.array([REGIONS[_mixed(number) % len(REGIONS)] for number in ids]),
        "customer": pa.array([_mixed(number * 7) % 900 for number in ids], pa.int32()),
        "amount": pa.array([_mixed(number * 13) % 50_000 / 100 for number in ids], pa.float64()),
        "placed_at": pa.array([_START + number * step for number in ids], pa.timestamp("us", tz="UTC")),
    }
    return pa.table(values)


def _customers() -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "customer": pa.array(range(900), pa.int32()),
            "name": [f"Customer {number}" for number in range(900)],
            "since": pa.array([(_START - timedelta(days=_mixed(n) % 2_000)).date() for n in range(900)]),
        }
    )


def _doubled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.multiply(column, 2.0)


def _mixed(number: int) -> int:
    """A number that looks like a random one, and is the same every time."""
    mixed = (number + 1) * 2_654_435_761 & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) & 0xFFFFFFFF
