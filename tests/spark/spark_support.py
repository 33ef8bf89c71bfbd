"""Rows of every type that Spark and tables share."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("region", pa.string()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("lat", pa.float64())])),
        ("marks", pa.map_(pa.string(), pa.int32())),
    ]
)


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "region": [None, "eu", "us", "a/b"][n % 4],
            "amount": [1.5, float("nan"), -0.0, None][n % 4],
            "price": Decimal(n) / 4,
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
            "local": dt.datetime.fromisoformat("1969-12-31T23:59:59.000001"),
            "day": dt.date(1900 + n % 200, 1, 1),
            "raw": bytes([n % 256, 255]),
            "tags": [["x", None], [], None][n % 3],
            "place": {"city": "Köln", "lat": float(n)},
            "marks": [("k", n)],
        }
        for n in range(count)
    ]


def keyed(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.sort_by("id").to_pylist()]
