"""Rows that do not fit a table give one clear error, whoever was to write them, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, ParqlakeError, Table, errors
from parqlake.testing.data import ORDERS, orders, state
from parqlake.testing.plugin import Feed

pytestmark = pytest.mark.engine_work


@dataclass(frozen=True)
class Case:
    """Rows that must not be written, and why."""

    what: str
    rows: pa.Table
    error: type[Exception]
    match: str


def _without(column: str) -> pa.Table:
    return orders(3).drop_columns([column])


def _typed(column: str, type_: pa.DataType) -> pa.Table:
    data = orders(3)
    index = data.schema.get_field_index(column)
    return data.set_column(index, column, pa.nulls(3, type_))


CASES = [
    Case("missing column", _without("amount"), errors.SchemaMismatchError, '"amount": missing.*double'),
    Case("missing column that where asks for", _without("id"), errors.SchemaMismatchError, '"id": missing'),
    Case(
        "extra column",
        orders(3).append_column("extra", pa.array([1, 2, 3], pa.int8())),
        errors.SchemaMismatchError,
        '"extra": not in the table .the data has int8',
    ),
    Case(
        "misspelt column",
        orders(3).rename_columns(["id", "regoin", "amount", "day"]),
        errors.SchemaMismatchError,
        '(?s)"region": missing.*"regoin": not in the table',
    ),
    Case(
        "wrong type",
        _typed("amount", pa.string()),
        errors.TypeMismatchError,
        '"amount": the table has double, the data has string.*\n.*cast',
    ),
    Case(
        "several differences",
        _typed("day", pa.int64()).drop_columns(["region"]),
        errors.SchemaMismatchError,
        '(?s)"day": the table has date32.day., the data has int64.*"region": missing',
    ),
    Case("narrower integer", _typed("id", pa.int32()), errors.TypeMismatchError, "int64.*int32"),
    Case(
        "zone where there is none",
        _typed("day", pa.timestamp("us", "UTC")),
        errors.TypeMismatchError,
        "timestamp.us, tz=UTC.",
    ),
    Case(
        "column twice",
        pa.Table.from_arrays([*orders(3).columns, orders(3).column(0)], [*ORDERS.names, "id"]),
        errors.SchemaMismatchError,
        '"id" twice',
    ),
    Case("NULLs where there must be none", _typed("id", pa.int64()), errors.ConstraintError, '"id" is NOT NULL'),
]


def test_rows_that_do_not_fit_give_one_clear_error_and_write_nothing(
    lake: Lake, table: Table, subtests: pytest.Subtests, feed: Feed
) -> None:
    def in_transaction(data: Any) -> None:
        with lake.transaction() as tx:
            tx.table("sales.orders").append(data)

    table.append(feed(orders(5)))
    before = state(lake)
    calls: list[Callable[[Any], object]] = [
        table.append,
        table.overwrite,
        lambda data: table.overwrite(data, where="id = 1"),
        in_transaction,
    ]
    for case in CASES:
        with subtests.test(what=case.what):
            data = feed(case.rows)
            for call in calls:
                with pytest.raises(case.error, match=case.match) as caught:
                    call(data)
                assert isinstance(caught.value, ParqlakeError)
                assert state(lake) == before
