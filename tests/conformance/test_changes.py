"""Changes between versions: what was inserted, updated and deleted, on every engine, read from few files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.table.changes import ChangeScan
from parqlake.testing.backends import Backend
from parqlake.testing.data import ORDERS, TypeCase, bag, orders
from parqlake.testing.plugin import Feed

pytestmark = pytest.mark.engine_work


@pytest.fixture
def told(backend: Backend, request: pytest.FixtureRequest) -> Any:
    """The changes as sorted tuples; in Spark cells, Spark must tell the same."""

    def read(scan: ChangeScan, *columns: str) -> list[tuple[Any, ...]]:
        found = scan.to_arrow()
        assert found.schema == scan.schema
        if backend.engine == "spark":
            theirs = scan.to_spark(request.getfixturevalue("spark")).toArrow()
            assert bag(theirs.cast(scan.schema)) == bag(found)
        names = columns or ("_change", "id")
        return sorted(tuple(row[name] for name in names) for row in found.to_pylist())

    return read


def test_changes_of_all_kinds(table: Table, feed: Feed, told: Any) -> None:
    table.append(feed(orders(20)), max_rows_per_file=5)
    table.append(feed(orders(5, first=20)))
    table.delete("id in (3, 4)")
    table.update("id = 7", set={"amount": "-1.0"})
    table.merge(feed(orders(2, first=24)), on=["id"])  # 24 is there already as it is, 25 is new
    table.compact(target_mb_per_file=64)
    table.optimize(["amount"])
    end = table.version
    changes = table.changes(2, keys=["id"])
    assert (changes.from_version, changes.to_version) == (2, end)
    assert told(changes) == [("delete", 3), ("delete", 4), ("insert", 25), ("update", 7)]
    assert {row["_version"] for row in changes.to_arrow().to_pylist()} == {end}
    assert told(table.changes(2)) == [("delete", 3), ("delete", 4), ("delete", 7), ("insert", 7), ("insert", 25)]
    steps = table.changes(1, keys=["id"], per_version=True, before=True, columns=["amount", "id"])
    assert told(steps, "_version", "_change", "id", "amount") == [
        *((2, "insert", n, None if n % 7 == 3 else n / 2) for n in range(20, 25)),
        (3, "delete", 3, None),
        (3, "delete", 4, 2.0),
        (4, "update", 7, -1.0),
        (4, "update_before", 7, 3.5),
        (5, "insert", 25, 12.5),
    ]
    assert told(table.changes(0, 1), "_change") == [("insert",)] * 20
    for first, last in ((5, None), (end, None), (0, 0), (5, 6)):
        quiet = table.changes(first, last)
        assert told(quiet) == []
        assert quiet.plan.read_bytes == 0


def test_conditions_and_columns(table: Table, feed: Feed, told: Any) -> None:
    table.append(feed(orders(20)), max_rows_per_file=5)
    table.update("id in (1, 2, 18)", set={"amount": "amount + 100"})
    assert told(table.changes(1, keys=["id"], columns=["id"]), "id") == [(1,), (2,), (18,)]
    high = table.changes(1, keys=["id"], where="amount >= 100.9")
    assert told(high) == [("insert", 2), ("insert", 18)]
    assert told(table.changes(1, where="amount < 100 and id < 10")) == [("delete", 1), ("delete", 2)]
    some = table.changes(1, where="id > 15")
    assert told(some) == [("delete", 18), ("insert", 18)]
    assert some.plan.read_bytes < table.changes(1).plan.read_bytes
    assert table.changes(1).to_polars().height == 6
    assert len(table.changes(1).to_pandas()) == 6
    with pytest.raises(errors.ColumnNotFoundError):
        table.changes(1, keys=["idd"])
    with pytest.raises(errors.InvalidOptionError, match="before=True needs keys"):
        table.changes(1, before=True)
    with pytest.raises(errors.InvalidOptionError, match="later"):
        table.changes(2, 1)


def test_restores_and_files_that_come_back(table: Table, feed: Feed, told: Any) -> None:
    table.append(feed(orders(5)))
    table.tag("start")
    table.overwrite(feed(orders(3, first=100)))
    table.append(feed(orders(2, first=200)))
    table.restore("start")
    same = table.changes("start")
    assert told(same) == []
    assert same.plan.read_bytes == 0
    assert told(table.changes(3, keys=["id"])) == [
        *(("delete", n) for n in (100, 101, 102, 200, 201)),
        *(("insert", n) for n in range(5)),
    ]
    by_version = table.changes("start", per_version=True)
    assert len(told(by_version)) == 8 + 2 + 10


def test_equal_rows_are_counted(lake: Lake, feed: Feed, told: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    table = lake.create_table("odd.rows", schema)

    def write(*pairs: tuple[int | None, float | None]) -> None:
        table.overwrite(feed(pa.table([[a for a, _ in pairs], [b for _, b in pairs]], schema=schema)))

    nan = float("nan")
    write((1, nan), (1, nan), (None, None), (None, None), (2, 0.0), (3, 1.0), (3, 2.0))
    write((1, nan), (None, None), (None, None), (None, None), (2, -0.0), (3, 1.0), (3, 5.0), (3, 6.0))
    changes = told(table.changes(1, keys=["id"]), "_change")
    assert changes == [("delete",), ("insert",), ("insert",), ("update",)]
    plain = table.changes(1).to_arrow()
    assert sorted(plain.column("_change").to_pylist()) == ["delete", "delete", "insert", "insert", "insert"]


def test_values_inside_of_nested_columns_count(lake: Lake, feed: Feed, told: Any) -> None:
    number = pa.float64()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("list", pa.list_(pa.field("element", number))),
            ("map", pa.map_(pa.string(), number)),
            ("struct", pa.struct([("a", number), ("b", number), ("maps", pa.list_(pa.map_(pa.string(), number)))])),
        ]
    )

    def rows(last: float | None) -> list[dict[str, Any]]:
        """In each of three columns a NULL that becomes what stands before it."""
        return [
            {"id": 1, "list": [1.0, last], "map": [], "struct": None},
            {"id": 2, "list": None, "map": [("a", 1.0), ("b", last)], "struct": None},
            {"id": 3, "list": [], "map": None, "struct": {"a": 1.0, "b": last, "maps": None}},
            {"id": 4, "list": [], "map": None, "struct": {"a": 0.0, "b": 0.0, "maps": [[("a", 1.0), ("b", last)]]}},
            {"id": 5, "list": [0.0, float("nan"), None], "map": [("a", None)], "struct": None},
        ]

    table = lake.create_table("odd.nested", schema)
    table.append(feed(pa.Table.from_pylist(rows(None), schema)))
    table.overwrite(feed(pa.Table.from_pylist(rows(1.0), schema)))
    assert told(table.changes(1, keys=["id"])) == [("update", 1), ("update", 2), ("update", 3), ("update", 4)]
    assert told(table.changes(1, keys=["map"], columns=["id"]), "_change", "id") == [
        *[("delete", 2), ("insert", 2)],
        *[("update", 1), ("update", 3), ("update", 4)],
    ]


def test_columns_that_came_and_went(lake: Lake, feed: Feed, told: Any) -> None:
    table = lake.create_table("sales.wide", ORDERS, partition_by=["region"])
    table.append(feed(orders(8)))
    table.add_column("note", pa.string(), default="none")
    table.rename_column("amount", "price")
    assert told(table.changes(1)) == []
    table.update("id = 1", set={"note": "'seen'", "region": "'asia'"})
    table.drop_column("day")
    found = table.changes(1, keys=["id"], before=True)
    assert found.schema.names == ["id", "region", "price", "note", "_change", "_version"]
    assert told(found, "id", "_change", "region", "note", "price") == [
        (1, "update", "asia", "seen", 0.5),
        (1, "update_before", "us", "none", 0.5),
    ]


def test_every_type_is_compared(lake: Lake, types: tuple[TypeCase, ...], feed: Feed, told: Any) -> None:
    count = 8
    columns = {case.name: case.array().take(pa.array([n % len(case.values) for n in range(count)])) for case in types}
    rows = pa.table({"id": pa.array(range(count), pa.int64()), **columns})
    table = lake.create_table("odd.types", rows)
    table.append(feed(rows))
    table.delete("id = 2")
    table.update("id = 4", set={"id": "14"})
    assert told(table.changes(1)) == [("delete", 2), ("delete", 4), ("insert", 14)]
    by_lists = table.changes(1, keys=["list", "map", "struct", "float64"])
    assert told(by_lists, "_change", "id") == [("delete", 2), ("update", 14)]


def test_what_is_expired_cannot_be_compared(table: Table) -> None:
    for number in range(4):
        table.append(orders(2, first=10 * number))
    table.overwrite(orders(1))
    table.tag("seen", 2)
    table.expire(keep_last=1)
    with pytest.raises(errors.VersionNotFoundError, match=r"version 3 of sales\.orders was expired"):
        table.changes(3)
    with pytest.raises(errors.VersionNotFoundError, match="expired"):
        table.changes("seen", per_version=True).to_arrow()
    assert sorted(table.changes("seen").to_arrow().column("id").to_pylist()) == [1, 10, 11]  # what is kept is enough


def test_names_that_are_taken(lake: Lake) -> None:
    table = lake.create_table("odd.names", pa.schema([("id", pa.int64()), ("_change", pa.string())]))
    table.append(pa.table({"id": [1], "_change": ["x"]}))
    with pytest.raises(errors.InvalidOptionError, match='column "_change"'):
        table.changes(0)
    assert table.changes(0, columns=["id"]).to_arrow().to_pylist() == [{"id": 1, "_change": "insert", "_version": 1}]
