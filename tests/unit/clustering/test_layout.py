"""Layouts out of footers say what the rows say."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.clustering import Layout
from parqlake.core.errors import ColumnNotFoundError

UTC = dt.UTC


def footer(table: pa.Table, **options: Any) -> Any:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return pq.read_metadata(file)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int32(), [3, -4, 5]),
        (pa.uint32(), [3, 2**32 - 1, 0]),
        (pa.uint64(), [3, 2**64 - 1, 0]),
        (pa.float64(), [1.5, -2.5, 0.0]),
        (pa.bool_(), [True, False, True]),
        (pa.string(), ["b", "ä", "a"]),
        (pa.large_string(), ["b", "ä", "a"]),
        (pa.binary(), [b"\xff", b"", b"\x00"]),
        (pa.date32(), [dt.date(2020, 1, 2), dt.date(1960, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 2, 3, 4, 5, 6), dt.datetime(1960, 1, 1)]),  # noqa: DTZ001
        (pa.timestamp("ms", "UTC"), [dt.datetime(2020, 1, 2, tzinfo=UTC), dt.datetime(1960, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("ns"), [dt.datetime(2020, 1, 2, 3, 4, 5, 6), dt.datetime(1960, 1, 1)]),  # noqa: DTZ001
        (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-7.00")]),
        (pa.decimal128(30, 2), [Decimal("1.25"), Decimal("-7.00")]),
        (pa.dictionary(pa.int32(), pa.string()), ["b", "a"]),
    ],
    ids=str,
)
def test_bounds_of_every_type(type_: pa.DataType, values: list[Any]) -> None:
    first, second = pa.table({"v": pa.array(values, type_)}), pa.table({"v": pa.array(values[:1], type_)})
    column = Layout.from_footers([footer(first), footer(second)], ["v"]).columns[0]
    ordered = sorted(values, key=lambda v: v.encode() if isinstance(v, str) else v)
    plain = pa.array([ordered[0], ordered[-1]], column.mins.type)
    assert column.mins.to_pylist() == [plain[0].as_py(), pa.array(values[:1], column.mins.type)[0].as_py()]
    assert column.maxs.to_pylist()[0] == plain[1].as_py()
    assert not column.has_nulls.any()


def test_a_single_file_is_looked_at_by_row_groups() -> None:
    table = pa.table({"v": list(range(10))})
    layout = Layout.from_footers([footer(table, row_group_size=4)], ["v"])
    assert layout.rows.tolist() == [4, 4, 2]
    assert layout.columns[0].mins.to_pylist() == [0, 4, 8]
    several = Layout.from_footers([footer(table, row_group_size=4), footer(table)], ["v"])
    assert several.rows.tolist() == [10, 10]
    assert several.columns[0].maxs.to_pylist() == [9, 9]


def test_empty_files_are_left_out() -> None:
    table = pa.table({"v": [1, 2]})
    assert Layout.from_footers([footer(table), footer(table.slice(0, 0))], ["v"]).rows.tolist() == [2]
    assert len(Layout.from_footers([], ["v"])) == 0


def test_nulls_and_unknown_bounds() -> None:
    tables = [pa.table({"v": pa.array(values, pa.int64())}) for values in ([1, None], [None, None], [1, 2])]
    footers = [footer(tables[0]), footer(tables[1]), footer(tables[2], write_statistics=False)]
    column = Layout.from_footers(footers, ["v"]).columns[0]
    assert column.mins.to_pylist() == [1, None, None]
    assert column.has_nulls.tolist() == [True, True, True]
    assert column.only_nulls.tolist() == [False, True, False]


def test_a_column_that_some_files_lack_is_unknown_there() -> None:
    old, new = pa.table({"id": [1]}), pa.table({"id": [2], "v": [5]})
    column = Layout.from_footers([footer(old), footer(new)], ["v"]).columns[0]
    assert column.mins.to_pylist() == [None, 5]
    assert column.only_nulls.tolist() == [False, False]
    with pytest.raises(ColumnNotFoundError, match='no column "w"'):
        Layout.from_footers([footer(old)], ["w"])
