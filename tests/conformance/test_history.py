"""A table says how it came to be: versions, files, row groups and their bounds."""

from __future__ import annotations

import getpass
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake import Lake, Table
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ALIKE, GROUP, orders, stored
from parqlake.testing.plugin import Feed


def test_history_tells_what_was_done_newest_first(table: Table, backend: Backend, feed: Feed) -> None:
    began = datetime.now(UTC)
    first = table.append(feed(orders(10)), message="the first load")
    table.append(feed(orders(10, first=10)), max_rows_per_file=4)
    table.overwrite(feed(orders(5, first=100)), message="all new")
    table.restore(1)
    table.tag("good", version=1)
    table.tag("better", version=1)
    entries = table.history()
    assert [entry.version for entry in entries] == [4, 3, 2, 1]
    assert [str(entry.operation) for entry in entries] == ["restore", "overwrite", "append", "append"]
    assert [entry.row_count for entry in entries] == [10, 5, 20, 10]
    assert [entry.file_count for entry in entries] == [1, 1, 4, 1]
    assert [(entry.added_rows, entry.removed_rows) for entry in entries] == [(10, 5), (5, 20), (10, 0), (10, 0)]
    assert [(entry.added_files, entry.removed_files) for entry in entries] == [(1, 1), (1, 4), (3, 0), (1, 0)]
    assert [entry.message for entry in entries] == [None, "all new", None, "the first load"]
    assert [sorted(entry.tags) for entry in entries] == [[], [], [], ["better", "good"]]
    assert {entry.engine for entry in entries[1:]} == {backend.engine}
    assert all(entry.who.startswith(f"{getpass.getuser()}@") for entry in entries)
    assert all(entry.who.endswith(f":{os.getpid()}") for entry in entries)
    assert entries[-1].transaction_id == first.transaction_id
    assert len({entry.transaction_id for entry in entries}) == 4
    assert all(began - timedelta(seconds=1) <= entry.committed_at <= datetime.now(UTC) for entry in entries)


def test_history_can_be_cut_short(table: Table, feed: Feed) -> None:
    for first in range(5):
        table.append(feed(orders(1, first=first)))
    assert [entry.version for entry in table.history(limit=2)] == [5, 4]
    assert len(table.history(limit=99)) == 5


def test_a_new_table_has_no_history(table: Table) -> None:
    assert table.version == 0
    assert table.history() == []
    assert table.files().num_rows == 0
    assert table.row_groups().num_rows == 0


def test_the_engine_of_a_single_call_is_remembered(table: Table, backend: Backend, feed: Feed) -> None:
    other = "duckdb" if backend.engine == "pyarrow" else "pyarrow"
    table.append(feed(orders(3)))
    table.append(orders(3, first=3), engine=other)
    assert [entry.engine for entry in table.history()] == [other, backend.engine]
    assert table.scan().to_arrow().column("id").to_pylist() == list(range(6))


@pytest.mark.engine_work
def test_files_are_those_on_the_store(table: Table, place: LakePlace, feed: Feed) -> None:
    table.append(feed(orders(10)))
    table.append(feed(orders(5 * GROUP, first=10)), max_rows_per_file=2 * GROUP, row_group_size=GROUP)
    files = table.files().to_pylist()
    assert [file["row_count"] for file in files] == [10, 2 * GROUP, 2 * GROUP, GROUP]
    assert [file["row_group_count"] for file in files] == [1, 2, 2, 1]
    assert [file["added_in_version"] for file in files] == [1, 2, 2, 2]
    sizes = stored(place.root)
    assert {f"{table.location}/{file['path']}": file["size_bytes"] for file in files} == {
        path: size for path, size in sizes.items() if path.endswith(".parquet")
    }
    assert table.files(version=1).num_rows == 1
    assert table.files(version=0).num_rows == 0
    assert table.history()[0].size_bytes == sum(file["size_bytes"] for file in files)


@pytest.mark.engine_work
def test_row_groups_follow_one_another_in_their_file(table: Table, feed: Feed) -> None:
    table.append(feed(orders(2 * GROUP + 5)), row_group_size=GROUP)
    found = table.row_groups().filter(pc.field("column") == "id").to_pylist()
    assert [entry["row_group"] for entry in found] == [0, 1, 2]
    assert [entry["row_count"] for entry in found] == [GROUP, GROUP, 5]
    offsets = [entry["offset"] for entry in found]
    assert offsets == sorted(set(offsets))
    assert offsets[0] >= 4
    assert all(entry["size_bytes"] > 0 for entry in found)
    assert {entry["column"] for entry in table.row_groups().to_pylist()} == {"id", "region", "amount", "day"}
    assert table.row_groups(version=0).num_rows == 0


@pytest.mark.engine_work
def test_bounds_are_those_of_the_data(table: Table, feed: Feed) -> None:
    table.append(feed(orders(20)), max_rows_per_file=10)
    table.append(feed(orders(2 * GROUP, first=20)), row_group_size=GROUP)
    entries = table.row_groups().to_pylist()
    assert len(entries) == 4 * 4

    def bounds(column: str) -> list[tuple[str, str]]:
        return [(entry["lower_bound"], entry["upper_bound"]) for entry in entries if entry["column"] == column]

    assert bounds("id") == [("0", "9"), ("10", "19"), ("20", "2067"), ("2068", "4115")]
    assert bounds("amount") == [("0.0", "4.5"), ("5.5", "9.5"), ("10.0", "1033.5"), ("1034.5", "2057.5")]
    assert bounds("day")[:2] == [("2026-01-01", "2026-01-01"), ("2026-01-02", "2026-01-02")]
    assert set(bounds("region")) == {("asia", "us")}
    nulls = [entry["null_count"] for entry in entries if entry["column"] == "amount"]
    written = table.scan().to_arrow().column("amount")
    assert nulls == [written.slice(a, n).null_count for a, n in ((0, 10), (10, 10), (20, GROUP), (20 + GROUP, GROUP))]


BOUNDED: list[tuple[str, pa.DataType, list[Any]]] = [
    ("int64", pa.int64(), [-(2**62), None, 5]),
    ("uint64", pa.uint64(), [1, 2**64 - 2]),
    ("decimal", pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("2.25"), None]),
    ("float", pa.float64(), [-1e300, 0.5]),
]


@pytest.mark.engine_work
def test_bounds_contain_the_data_of_every_type(
    lake: Lake, subtests: pytest.Subtests, feed: Feed, must_hold: Callable[[pa.DataType], None]
) -> None:
    for name, type_, values in BOUNDED:
        with subtests.test(type=name):
            must_hold(type_)
            data = pa.table({"id": range(len(values)), "x": pa.array(values, type_)})
            table = lake.create_table(f"bounds.{name}", data)
            table.append(feed(data))
            (entry,) = table.row_groups().filter(pc.field("column") == "x").to_pylist()
            low, high = entry["lower_bound"], entry["upper_bound"]
            known = [value for value in values if value is not None]
            read = float if pa.types.is_floating(type_) else Decimal
            assert read(low) <= min(known)
            assert high is None or read(high) >= max(known)
            assert entry["null_count"] == values.count(None)


@pytest.mark.engine_work
def test_a_nan_makes_the_upper_bound_unknown(lake: Lake, feed: Feed) -> None:
    data = pa.table({"id": range(4), "x": [1.0, math.nan, None, 2.0]})
    table = lake.create_table("bounds.nan", data)
    table.append(feed(data), max_rows_per_file=2)
    found = table.row_groups().filter(pc.field("column") == "x").to_pylist()
    assert [entry["upper_bound"] for entry in found] == [None, "2.0"]


@pytest.mark.engine_work
def test_bounds_of_strings_are_cut_but_stay_bounds(lake: Lake, feed: Feed) -> None:
    data = pa.table({"id": range(4), "url": [ALIKE + "b", ALIKE + "a", None, "apple pie with cream"]})
    table = lake.create_table("bounds.strings", data)
    table.append(feed(data), max_rows_per_file=3)
    long, short = table.row_groups().filter(pc.field("column") == "url").to_pylist()
    assert ALIKE.startswith(long["lower_bound"])
    assert ALIKE.startswith(long["upper_bound"])
    assert long["null_count"] == 1
    assert "apple pie with cream".startswith(short["lower_bound"])


@pytest.mark.engine_work
def test_the_one_value_of_a_column_is_its_bound(by_region: Table, feed: Feed) -> None:
    by_region.append(feed(orders(10).filter(pc.field("region") == "eu")))
    (entry,) = by_region.row_groups().filter(pc.field("column") == "region").to_pylist()
    assert (entry["lower_bound"], entry["upper_bound"]) == ("eu", "eu")


@pytest.mark.engine_work
def test_nested_leaves_have_bounds_of_their_own(lake: Lake, feed: Feed) -> None:
    point = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.field("element", pa.string())))])
    data = pa.table({"id": [1, 2], "p": pa.array([{"x": 3, "tags": ["a"]}, None], point)})
    table = lake.create_table("bounds.nested", data)
    table.append(feed(data))
    columns = {entry["column"]: entry for entry in table.row_groups().to_pylist()}
    assert set(columns) == {"id", "p.x", "p.tags.element"}
    assert (columns["p.x"]["lower_bound"], columns["p.x"]["null_count"]) == ("3", 1)
