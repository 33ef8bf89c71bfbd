"""A small shop: its landing folder, its pipeline, and what its tables hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import parqlake
from parqlake.pipeline import Pipeline, expect, maintain, new_files, table, unique

SCHEMA = "id bigint, customer bigint, amount double, at timestamp"
DAY = datetime(2026, 11, 1, tzinfo=UTC)


def drop(folder: Path, name: str, *rows: tuple[Any, ...], **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    names = ("id", "customer", "amount", "at")
    lines = [json.dumps({**dict(zip(names, row, strict=True)), **more}) for row in rows]
    (folder / name).write_text("\n".join(lines))


def found(lake: parqlake.Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = lake.table(name).scan(columns=list(columns)).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def shop(lake: parqlake.Lake, spark: Any, landing: Path) -> Pipeline:
    p = Pipeline("shop", lake=lake, spark=spark)

    @p.step(target="gold.customers", mode="overwrite", source=table("silver.orders"))
    def customers(batch: Any) -> Any:
        return batch.groupBy("customer").agg({"amount": "sum"}).toDF("customer", "amount")

    @p.step(
        target="silver.orders",
        source=new_files(str(landing), format="json", schema=SCHEMA, pattern="*.json"),
        mode="merge",
        keys=["id"],
        dedupe="at desc",
        expect=[
            expect("has_id", "id is not null").fail(),
            expect("positive", "amount >= 0").quarantine("silver.bad"),
            expect("known", "customer is not null").drop(),
            expect("small", "amount < 1000").warn(),
            unique("id"),
        ],
        maintain=maintain(compact="128MB", cluster_by=["customer"]),
    )
    def orders(batch: Any) -> Any:
        return batch

    return p
