"""A small table with every kind of column, and how a predicate filters it on each engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.to_sql import to_sql
from parqlake.core.schema import assign_field_ids

Filter = Callable[[Any], list[int]]


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """Four rows, `id` 0 to 3; row 2 is NULL everywhere else."""
    nan = float("nan")
    data = pa.table(
        {
            "id": [0, 1, 2, 3],
            "i": pa.array([1, 2, None, -5], pa.int8()),
            "n": pa.array([2**53 + 1, 0, None, -(2**63)], pa.int64()),
            "u": pa.array([0, 2**64 - 1, None, 5], pa.uint64()),
            "f": pa.array([0.1, nan, None, -0.0], pa.float64()),
            "g": pa.array([0.1, nan, None, -0.0], pa.float32()),
            "d": pa.array([Decimal("1.10"), Decimal("-2.50"), None, Decimal("0")], pa.decimal128(10, 2)),
            "wide": pa.array([Decimal("1.1"), Decimal("-2.5"), None, Decimal("0")], pa.decimal128(38, 10)),
            "s": ["a", "aB%c", None, "é\\x"],
            "b": pa.array([b"\xff", b"", None, b"a"]),
            "ok": [True, False, None, True],
            "day": pa.array([dt.date(2026, 1, 31), dt.date(1969, 1, 1), None, dt.date(2020, 1, 1)]),
            "ts": pa.array([1769860800 * 10**6, -365 * 86400 * 10**6, None, 1577836800 * 10**6], pa.timestamp("us")),
            "tz": pa.array([1769860800123456789, 0, None, 5], pa.timestamp("ns", "UTC")),
            "berlin": pa.array([1769860800 * 10**6, 0, None, 5], pa.timestamp("us", "Europe/Berlin")),
            "time": pa.array([dt.time(12), dt.time(0, 0, 0, 1), None, dt.time(23)], pa.time64("us")),
            "st": pa.array([{"x": 1, "y": {"z": "q"}}, {"x": None, "y": None}, None, {"x": 5, "y": {"z": None}}]),
            "list": pa.array([[1], [], None, [2]]),
            "a.b": [1, 2, None, 4],
            "We ird\"'x": [1, 2, None, 4],
        }
    )
    return data.cast(assign_field_ids(data.schema))


@pytest.fixture(scope="session")
def connection(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB with the table as `t`."""
    connection = duckdb.connect()
    connection.register("arrow_table", table)
    connection.execute("create table t as select * from arrow_table")
    return connection


@pytest.fixture(scope="session")
def ids(table: pa.Table, connection: duckdb.DuckDBPyConnection) -> Filter:
    """The ids that a `where` selects; pyarrow and DuckDB must agree."""

    def run(where: Any) -> list[int]:
        bound = bind(parse(where), table.schema)
        assert bind(bound, table.schema) == bound, "binding twice changes nothing"
        found: list[int] = table.filter(to_arrow(bound))["id"].to_pylist()
        by_duckdb = connection.sql(f"select id from t where {to_sql(bound)} order by id").fetchall()
        assert found == [row[0] for row in by_duckdb], to_sql(bound)
        return found

    return run
