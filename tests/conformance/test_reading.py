"""A scan gives the rows that its predicate makes TRUE, in every form that readers take."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.data import GROUP, ORDERS, bag, ids, orders
from parqlake.testing.plugin import Feed, Read

DATA = orders(60)
DAY = date(2026, 1, 3)
SPELLINGS: list[tuple[str, Any, Any]] = [
    ("id = 7", pc.field("id") == 7, [("id", "=", 7)]),
    ("id != 7", pc.field("id") != 7, [("id", "!=", 7)]),
    ("amount > 10", pc.field("amount") > 10, [("amount", ">", 10)]),
    ("amount <= 2.5", pc.field("amount") <= 2.5, [("amount", "<=", 2.5)]),
    ("day >= date '2026-01-03'", pc.field("day") >= pa.scalar(DAY), [("day", ">=", DAY)]),
    ("region = 'eu'", pc.field("region") == "eu", [("region", "=", "eu")]),
    ("region in ('eu', 'asia')", pc.field("region").isin(["eu", "asia"]), [("region", "in", ["eu", "asia"])]),
    (
        "region = 'us' and amount < 20",
        (pc.field("region") == "us") & (pc.field("amount") < 20),
        [("region", "=", "us"), ("amount", "<", 20)],
    ),
    (
        "region = 'us' or id < 3",
        (pc.field("region") == "us") | (pc.field("id") < 3),
        [[("region", "=", "us")], [("id", "<", 3)]],
    ),
]


@pytest.fixture
def filled(table: Table, feed: Feed) -> Table:
    """Sixty orders in three versions, in row groups of ten."""
    for first in (0, 20, 40):
        table.append(feed(orders(20, first=first)), row_group_size=10)
    return table


def test_all_rows_come_back_in_the_order_in_which_they_were_written(filled: Table, read: Read) -> None:
    assert read(filled.scan()).equals(DATA)


def test_every_spelling_of_a_predicate_selects_the_same_rows(
    filled: Table, subtests: pytest.Subtests, read: Read
) -> None:
    for sql, expression, tuples in SPELLINGS:
        with subtests.test(sql=sql):
            expected = bag(DATA.filter(expression))
            assert sum(expected.values()) not in (0, DATA.num_rows)
            for where in (sql, expression, tuples):
                assert bag(read(filled.scan(where))) == expected
                assert filled.scan(where).count() == sum(expected.values())


def test_null_is_neither_equal_nor_unequal(filled: Table, read: Read) -> None:
    nulls = {i for i in range(60) if i % 4 == 2}
    eu = {i for i in range(60) if i % 4 == 0}
    assert set(ids(read(filled.scan("region is null")))) == nulls
    assert set(ids(read(filled.scan("region = 'eu'")))) == eu
    assert set(ids(read(filled.scan("not region = 'eu'")))) == set(range(60)) - nulls - eu
    assert set(ids(read(filled.scan("region = 'eu' or region is null")))) == nulls | eu
    assert read(filled.scan("region not in ('eu', null)")).num_rows == 0
    assert filled.scan("region = null").count() == 0
    assert filled.scan("region not in ('eu', null)").count() == 0
    assert filled.scan("not (region = 'eu' and id >= 0)").count() == 60 - len(nulls) - len(eu)


def test_columns_come_in_the_order_asked_for(filled: Table, read: Read) -> None:
    found = read(filled.scan("id < 5", columns=["day", "id"]))
    assert found.equals(DATA.slice(0, 5).select(["day", "id"]))
    assert filled.scan(columns="id").schema.names == ["id"]


def test_a_column_can_be_filtered_by_without_being_read(filled: Table, read: Read) -> None:
    found = read(filled.scan("region = 'eu' and day = '2026-01-01'", columns=["amount"]))
    assert found.schema.names == ["amount"]
    assert found.column("amount").to_pylist() == [0.0, 2.0, 4.0]


def test_a_limit_is_an_upper_bound(filled: Table) -> None:
    assert filled.scan(limit=25).to_arrow().equals(DATA.slice(0, 25))
    assert filled.scan("region = 'us'", limit=4).to_arrow().column("id").to_pylist() == [1, 5, 9, 13]
    assert filled.scan(limit=0).to_arrow().num_rows == 0
    assert filled.scan(limit=1000).to_arrow().num_rows == 60
    assert [filled.scan(limit=n).count() for n in (0, 7, 1000)] == [0, 7, 60]
    assert filled.scan("region = 'us'", limit=4).count() == 4


def test_a_scan_of_an_empty_table_has_columns_and_no_rows(table: Table, read: Read) -> None:
    scan = table.scan("amount > 1")
    assert scan.version == 0
    assert read(scan).equals(ORDERS.empty_table())
    assert list(scan.to_pandas().columns) == ORDERS.names
    assert (scan.count(), table.scan().count()) == (0, 0)
    assert scan.dataset().to_table().num_rows == 0
    assert scan.explain().files_total == 0
    assert pl.DataFrame(scan).shape == (0, 4)


def test_batches_are_a_stream_of_the_scans_schema(filled: Table) -> None:
    scan = filled.scan("id >= 5", columns=["id", "region"])
    stream = scan.to_batches()
    assert stream.schema == scan.schema == pa.schema([ORDERS.field("id"), ORDERS.field("region")])
    first = stream.read_next_batch()
    rest = list(stream)
    assert first.num_rows + sum(batch.num_rows for batch in rest) == 55
    assert bag(scan.to_reader().read_all()) == bag(scan.to_arrow())


def test_pandas_gets_the_same_rows(filled: Table) -> None:
    frame = filled.scan("id < 8").to_pandas()
    assert frame["id"].tolist() == list(range(8))
    assert frame["amount"].isna().tolist() == [i == 3 for i in range(8)]
    assert filled.scan("id < 8").to_pandas(date_as_object=False)["day"].dtype.kind == "M"


def test_polars_and_duckdb_read_the_arrow_stream(filled: Table) -> None:
    scan = filled.scan("amount > 10", columns=["id", "amount"])
    expected = bag(scan.to_arrow())
    assert bag(pl.DataFrame(scan).to_arrow()) == expected
    with duckdb.connect() as connection:
        found = connection.sql("select id, amount from scan").to_arrow_table()
    assert bag(found) == expected
    assert bag(pa.table(scan)) == expected
    assert pa.schema(scan) == scan.schema


def test_a_dataset_holds_the_surviving_row_groups(filled: Table, feed: Feed) -> None:
    filled.append(feed(orders(3 * GROUP, first=60)), row_group_size=GROUP)
    last = 60 + 2 * GROUP
    dataset = filled.scan(f"id between 12 and 14 or id = {last + 7}").dataset()
    assert isinstance(dataset, ds.FileSystemDataset)
    assert len(dataset.files) == 2
    assert {i for i in ids(dataset.to_table()) if i >= 60} == set(range(last, last + GROUP))
    assert dataset.count_rows() == dataset.to_table().num_rows
    assert ids(dataset.to_table(filter=pc.field("id") == last + 7)) == [last + 7]
    assert dataset.count_rows(filter=pc.field("id").isin([12, 13, last])) == 3


def test_counting_agrees_with_reading(filled: Table, subtests: pytest.Subtests) -> None:
    predicates = [None, "id >= 20", "id < 15", "id >= 0", "id > 100", "region is null", "region is not null"]
    predicates += ["amount > 3", "amount is null or id = 1", "day = '2026-01-04'", "id in (1, 20, 59, 99)"]
    predicates += ["region like 'a%'", "region >= 'eu' and region < 'f'"]
    for where in predicates:
        with subtests.test(where=where):
            assert filled.scan(where).count() == filled.scan(where).to_arrow().num_rows


def test_fields_of_structs_can_be_filtered_by(lake: Lake, feed: Feed, read: Read) -> None:
    point = pa.struct([("x", pa.int64()), ("label", pa.string())])
    points = [{"x": 1, "label": "a"}, None, {"x": 2, "label": None}, {"x": 9}]
    data = pa.table({"id": range(4), "p": pa.array(points, point)})
    table = lake.create_table("geo.points", data)
    table.append(feed(data), row_group_size=1)
    assert ids(read(table.scan("p.x >= 2"))) == [2, 3]
    assert ids(read(table.scan("p.label is null"))) == [1, 2, 3]
    assert ids(read(table.scan(pc.field("p", "x") == 1))) == [0]
    assert table.scan("p.x >= 2").count() == 2


def test_a_scan_says_what_it_is(filled: Table) -> None:
    scan = filled.scan("id > 3")
    assert "sales.orders" in repr(scan)
    assert "3" in repr(scan)
    assert scan.version == 3


def test_nan_is_equal_to_itself_and_above_all_numbers(lake: Lake, feed: Feed, read: Read) -> None:
    values = [1.0, math.nan, None, math.inf, -0.0, 0.0, -math.inf]
    data = pa.table({"id": range(7), "x": values})
    table = lake.create_table("maths.floats", data)
    table.append(feed(data), max_rows_per_file=1)
    table.append(feed(data))
    expected = {
        "x > 1": [1, 3],
        "x >= 'inf'::double": [1, 3],
        "isnan(x)": [1],
        "not isnan(x)": [0, 3, 4, 5, 6],
        "x = 0": [4, 5],
        "x <= 1": [0, 4, 5, 6],
        "x < 'nan'::double": [0, 3, 4, 5, 6],
        "x = 'nan'::double": [1],
        "x != 1": [1, 3, 4, 5, 6],
    }
    for where, found in expected.items():
        assert ids(read(table.scan(where))) == sorted(found * 2), where
        assert table.scan(where).count() == 2 * len(found), where


@pytest.mark.parametrize("where", ["x = 0", "x >= 0", "x in (0, 5)", "x > 5", "x != 2.5", "not x <= 5"])
def test_negative_zero_and_nan_are_not_skipped_by_bounds_of_the_files(
    lake: Lake, where: str, feed: Feed, read: Read
) -> None:
    table = lake.create_table("maths.floats", pa.schema([("x", pa.float64())]))
    for values in ([-0.0], [2.5, math.nan]):
        table.append(feed(pa.table({"x": values})))
    assert read(table.scan(where)).num_rows == table.scan(where).count() > 0


@pytest.mark.parametrize("beside", [[2.5], [2.5, 2.5], [-0.0], [1.0, 2.0], [1.0, None], [None], []], ids=str)
def test_nan_is_found_beside_any_numbers(lake: Lake, beside: list[float | None], feed: Feed) -> None:
    values = [*beside, math.nan]
    numbers = [i for i, value in enumerate(beside) if value is not None]
    data = pa.table({"id": range(len(values)), "x": pa.array(values, pa.float64())})
    table = lake.create_table("maths.floats", data)
    table.append(feed(data))
    for where in ("isnan(x)", "x > 5", "x >= 5", "x > 5 or id > 99", "x != 2.5 and x > 2", "x = 'nan'::double"):
        assert ids(table.scan(where).to_arrow()) == [len(beside)], where
        assert table.scan(where).count() == 1, where
    for where in ("x <= 5", "x < 5", "not isnan(x)", "not x > 5"):
        assert ids(table.scan(where).to_arrow()) == numbers, where
        assert table.scan(where).count() == len(numbers), where


def test_a_predicate_that_cannot_be_computed_says_so(lake: Lake, feed: Feed) -> None:
    data = pa.table({"id": [1, 2], "n": pa.array([2**62, 2**62], pa.int64())})
    table = lake.create_table("maths.big", data)
    table.append(feed(data))
    with pytest.raises(errors.InvalidPredicateError, match="overflow"):
        table.scan("n * 4 > 1").to_arrow()
