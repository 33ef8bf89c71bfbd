"""The pipeline of the demo: orders and their lines come in daily drops, and become clean tables and a summary.

It is a pipeline like any other: `parqlake run examples/demo_pipeline.py --plan` shows what it would do. The lake and
the landing folder are below the folder that DEMO_FOLDER names, `demo-lake` if it is not set.

Run as a program it takes the next drop in, and dies by `kill -9` when the phase named by --die-at begins: the demo does
that to show what is left then.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

import parqlake
from parqlake.pipeline import Pipeline, expect, maintain, new_files, references, table

FOLDER = Path(os.environ.get("DEMO_FOLDER", "demo-lake"))
LANDING = FOLDER / "landing"

p = Pipeline("shop", lake=parqlake.connect(FOLDER, progress=False))


@p.step(
    target="silver.orders",
    source=new_files(
        str(LANDING / "orders"),
        format="json",
        schema="o_orderkey bigint, o_custkey bigint, o_totalprice double, o_orderdate date, o_orderstatus string, "
        "o_channel string, updated_at timestamp",
    ),
    mode="merge",  # a row that comes again, changed or late, replaces the one that is there
    keys=["o_orderkey"],
    dedupe="updated_at desc",
    expect=[
        expect("has_key", "o_orderkey is not null").fail(),
        expect("has_customer", "o_custkey is not null").quarantine("silver.orders_bad"),
        expect("positive_price", "o_totalprice >= 0").quarantine("silver.orders_bad"),
        expect("known_status", "o_orderstatus in ('O', 'F', 'P')").warn(),
    ],
    maintain=maintain(compact="32MB"),
)
def orders(batch: Any) -> Any:
    """Orders as they come."""
    return batch


@p.step(
    target="silver.lines",
    source=new_files(str(LANDING / "lines"), format="parquet", mergeSchema=True),
    schema_mode="merge",  # a column that is new in a drop is added, in the same transaction
    expect=[
        expect("some_quantity", "l_quantity > 0").drop(),
        references("l_orderkey", "silver.orders.o_orderkey").warn(),
    ],
    properties={"max_rows_per_file": 100_000},
)
def lines(batch: Any) -> Any:
    """Lines of orders, with what they bring in."""
    return batch.selectExpr("*", "l_extendedprice * (1 - l_discount) as revenue")


@p.step(
    target="gold.daily",
    mode="overwrite",
    source={"orders": table("silver.orders"), "lines": table("silver.lines")},
)
def daily(orders: Any, lines: Any) -> Any:
    """Revenue by day: made of what this very run writes, in the same transaction."""
    joined = orders.join(lines, orders.o_orderkey == lines.l_orderkey)
    return joined.groupBy("o_orderdate").agg({"revenue": "sum", "o_orderkey": "count"}).toDF("day", "revenue", "lines")


def main() -> int:
    """Takes the next drop in, unless it is told to die."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--die-at", default="")
    arguments = parser.parse_args()

    def on_phase(phase: str, _step: str) -> None:
        if phase == arguments.die_at:
            print(f"kill -9 of process {os.getpid()} as phase {phase} begins", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    print(p.run(run_id=arguments.run_id, on_phase=on_phase).report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
