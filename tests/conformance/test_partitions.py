"""Partitioned tables: folders for people, values in the catalog for plans, the same rows for everyone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import bag, data_files, ids, orders, rows, stored
from parqlake.testing.plugin import Feed, Read

pytestmark = pytest.mark.engine_work

ODD = ["a/b", "..", ".", "x=y", "%", "%2F", "", "ünïcödé 漢字 🦆", "w" * 300, "*", "a[1]", "'; --"]
ODD += ["\n", "\\", "NULL", None, "__HIVE_DEFAULT_PARTITION__", " blank ", "~", "w" * 299 + "z", '"', "?", "#", ":"]


def test_rows_lie_in_the_folder_of_their_value(by_region: Table, place: LakePlace, feed: Feed, read: Read) -> None:
    by_region.append(feed(orders(40)))
    assert by_region.partition_by == ("region",)
    files = by_region.files().to_pylist()
    found = {dict(file["partition"])["region"]: file["path"].rpartition("/")[0] for file in files}
    assert found == {
        "eu": "region=eu",
        "us": "region=us",
        "asia": "region=asia",
        None: "region=__HIVE_DEFAULT_PARTITION__",
    }
    assert {f"{by_region.location}/{file['path']}" for file in files} == data_files(place.root)
    assert all(file["row_count"] == 10 for file in files)
    assert bag(read(by_region.scan())) == bag(orders(40))


def test_the_partition_column_also_stands_in_the_files(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(8)))
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        with filesystem.open(f"{root}/{path}", "rb") as file:
            assert pq.ParquetFile(file).schema_arrow.names == ["id", "region", "amount", "day"]


def test_odd_values_come_back_and_never_leave_the_table(lake: Lake, place: LakePlace, feed: Feed, read: Read) -> None:
    data = pa.table({"id": range(len(ODD)), "key": pa.array(ODD, pa.string())})
    table = lake.create_table("odd.keys", data, partition_by=["key"])
    table.append(feed(data))
    assert bag(read(table.scan())) == bag(data)
    for number, key in enumerate(ODD):
        scan = table.scan("key is null" if key is None else [("key", "=", key)])
        assert ids(scan.to_arrow()) == [number], key
        assert scan.explain().files_read == 1 or len(key or "") > 64, key
    for path in stored(place.root):
        parts = path.split("/")
        assert ".." not in parts
        assert all(len(part.encode()) < 256 for part in parts)
    assert all(path.startswith(f"{table.location}/key=") for path in data_files(place.root))
    folders = {unquote(file["path"].split("/")[0]) for file in table.files().to_pylist()}
    assert {"key=a/b", "key=..", "key=x=y", "key=%", "key="} <= folders


def test_a_partition_value_alone_rules_out_all_other_files(
    by_region: Table, place: LakePlace, feed: Feed, read: Read
) -> None:
    by_region.append(feed(orders(40)), row_group_size=3)
    by_region.append(feed(orders(40, first=40)), row_group_size=3)
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        if "region=eu/" not in path:
            filesystem.rm(f"{root}/{path}")
    scan = by_region.scan("region = 'eu'")
    assert scan.explain().files_read == 2
    assert ids(read(scan)) == [i for i in range(80) if i % 4 == 0]
    assert by_region.scan("region = 'eu' and id < 40").explain().files_read == 1
    assert by_region.scan("region in ('eu', 'nowhere')").count() == 20


def test_rows_are_counted_by_partition_values_alone(by_region: Table, place: LakePlace, feed: Feed) -> None:
    by_region.append(feed(orders(40)))
    filesystem, root = fsspec.core.url_to_fs(place.root)
    for path in data_files(place.root):
        filesystem.rm(f"{root}/{path}")
    assert by_region.scan("region is null").count() == 10
    assert by_region.scan("region = 'us'").count() == 10
    assert by_region.scan("region = 'us' or region is null").count() == 20
    assert by_region.scan("region != 'us'").count() == 20


PARTITION_TYPES: list[tuple[pa.DataType, list[Any], list[str]]] = [
    (pa.bool_(), [True, False, None], ["true", "false"]),
    (pa.int8(), [-1, 127, None], ["-1", "127"]),
    (pa.int64(), [-(2**63), 2**63 - 1, None], [str(-(2**63)), str(2**63 - 1)]),
    (pa.uint64(), [0, 2**64 - 1, None], ["0", str(2**64 - 1)]),
    (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal(10**17), None], ["-1.50", "100000000000000000.00"]),
    (pa.date32(), [date(1969, 12, 31), date(2026, 1, 31), None], ["1969-12-31", "2026-01-31"]),
    (pa.time64("us"), [time(1, 2, 3), time(23, 59, 59, 999_999), None], ["01:02:03", "23:59:59.999999"]),
    (pa.timestamp("us"), [-1, 0, None], ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00"]),
    (
        pa.timestamp("us", "Europe/Berlin"),
        [datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, tzinfo=UTC), None],
        ["2026-07-01T00:00:00Z", "2026-01-01T01:02:03Z"],
    ),
    (pa.string(), ["x", "y", None], ["x", "y"]),
]


@pytest.mark.parametrize(("type_", "values", "texts"), PARTITION_TYPES, ids=[str(case[0]) for case in PARTITION_TYPES])
def test_a_partition_column_of_each_allowed_type(
    lake: Lake,
    type_: pa.DataType,
    values: list[Any],
    texts: list[str],
    *,
    feed: Feed,
    read: Read,
    must_hold: Callable[[pa.DataType], None],
) -> None:
    must_hold(type_)
    keys = pa.array(values, type_)
    data = pa.table({"id": range(len(values) * 2), "key": pa.concat_arrays([keys, keys])})
    table = lake.create_table("typed.keys", data, partition_by=["key"])
    table.append(feed(data))
    assert rows(read(table.scan()).sort_by("id")) == rows(data)
    assert table.files().num_rows == len(values)
    found = {dict(file["partition"])["key"] for file in table.files().to_pylist()}
    assert found == {*texts, None}
    for number, key in enumerate(keys):
        scan = table.scan([("key", "=", key)] if key.is_valid else "key is null")
        assert ids(read(scan)) == [number, number + len(values)]
        assert scan.explain().files_read == 1


def test_two_partition_columns_make_two_levels(lake: Lake, feed: Feed, read: Read) -> None:
    table = lake.create_table("sales.deep", orders(0), partition_by=["day", "region"])
    table.append(feed(orders(20)))
    paths = table.files().column("path").to_pylist()
    assert len(paths) == 8
    assert all(path.startswith("day=2026-01-0") and path.split("/")[1].startswith("region=") for path in paths)
    scan = table.scan("day = '2026-01-02' and region = 'us'")
    assert scan.explain().files_read == 1
    assert ids(read(scan)) == [13, 17]


def test_many_partitions_in_random_order_make_one_file_each(lake: Lake, feed: Feed, read: Read) -> None:
    count = 150
    data = pa.table({"id": range(3000), "key": [(i * 7919) % count for i in range(3000)]})
    table = lake.create_table("sales.many", data, partition_by=["key"])
    table.append(feed(data.to_batches(max_chunksize=100)))
    assert table.files().num_rows == count
    assert bag(read(table.scan())) == bag(data)
    assert table.scan("key = 77").explain().files_read == 1


def test_column_names_that_are_odd_make_safe_folders(lake: Lake, place: LakePlace, feed: Feed, read: Read) -> None:
    name = "a/../../b=c 100%"
    data = pa.table({"id": [1, 2], name: ["x", "y"]})
    table = lake.create_table("odd.columns", data, partition_by=[name])
    table.append(feed(data))
    assert bag(read(table.scan())) == bag(data)
    assert all(path.startswith(f"{table.location}/") and path.count("/") == 3 for path in data_files(place.root))
    assert ids(read(table.scan([(name, "=", "y")]))) == [2]
