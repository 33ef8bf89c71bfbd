"""Schemas change by metadata alone: old files read right by field id, whoever wrote them and whoever reads them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import GROUP, bag, data_files, ids, orders, state
from parqlake.testing.plugin import Feed, Read

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("at", POINT),
        ("tags", pa.list_(pa.field("element", pa.struct([("a", pa.int32()), ("b", pa.string())])))),
        ("by_name", pa.map_(pa.string(), POINT)),
    ]
)
NESTED_ROWS = [
    {"id": 1, "at": {"x": 1, "y": 2}, "tags": [{"a": 1, "b": "p"}, None], "by_name": [("k", {"x": 5, "y": 6})]},
    {"id": 2, "at": None, "tags": None, "by_name": None},
    {"id": 3, "at": {"x": None, "y": 4}, "tags": [], "by_name": [("l", None)]},
]


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def _one(table: Table, **row: Any) -> pa.Table:
    """One row of the table as it is now; what is not given is NULL."""
    return pa.Table.from_pylist([row], table.schema())


@pytest.mark.engine_work
def test_added_columns_hold_their_default_in_old_rows(table: Table, feed: Feed, read: Read, place: LakePlace) -> None:
    table.append(feed(orders(3)))
    before = data_files(place.root)
    table.add_column("note", pa.string(), after="id")
    table.add_column("currency", "string", nullable=False, default="EUR")
    result = table.add_column("score", pa.int32(), default=7)
    assert (result.version, result.row_count, result.removed_rows) == (4, 0, 0)
    assert data_files(place.root) == before
    assert table.schema().names == ["id", "note", "region", "amount", "day", "currency", "score"]
    assert not table.schema().field("currency").nullable
    table.append(feed(_one(table, id=10, note="n", currency="USD")))
    assert [(r["id"], r["note"], r["currency"], r["score"]) for r in _rows(read(table.scan()))] == [
        (0, None, "EUR", 7),
        (1, None, "EUR", 7),
        (2, None, "EUR", 7),
        (10, "n", "USD", None),
    ]
    # What files do not hold has no statistics: nothing may be skipped by them, and nothing missed.
    assert ids(read(table.scan("currency = 'EUR'"))) == [0, 1, 2]
    assert ids(read(table.scan("score IS NULL"))) == [10]
    assert ids(read(table.scan("score IS NOT NULL AND note IS NULL"))) == [0, 1, 2]
    assert table.scan("score = 7").count() == 3
    assert ids(read(table.scan(columns=["id", "score"], limit=2)))
    assert read(table.scan(columns=["currency"])).column(0).to_pylist() == ["EUR"] * 3 + ["USD"]
    assert _rows(read(table.scan(version=1))) == _rows(orders(3))


def test_the_default_of_new_rows_is_not_that_of_old_ones(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(1)))
    table.add_column("score", pa.int32(), default=7)
    table.set_default("score", 8)
    assert read(table.scan()).column("score").to_pylist() == [7]
    table.set_default("score", None)
    assert read(table.scan()).column("score").to_pylist() == [7]


@pytest.mark.engine_work
def test_a_renamed_column_keeps_its_values_and_statistics(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(2 * GROUP)), row_group_size=GROUP)
    table.rename_column("amount", "price")
    assert table.scan().schema.names == ["id", "region", "price", "day"]
    scan = table.scan("price >= 1500")
    assert scan.explain().row_groups_read == 1
    assert len(ids(read(scan))) == len(ids(read(table.scan("amount >= 1500", version=1)))) > 0
    with pytest.raises(errors.ColumnNotFoundError, match='no column "amount"'):
        table.scan("amount > 1")
    table.append(feed(_one(table, id=10_000, price=1.0)))
    assert table.scan("price = 1").count() == 2


@pytest.mark.engine_work
def test_a_name_that_comes_again_is_another_column(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(4)))
    table.drop_column("amount")
    assert "amount" not in read(table.scan()).column_names
    table.add_column("amount", pa.string(), default="none")
    assert read(table.scan()).column("amount").to_pylist() == ["none"] * 4
    assert table.scan("amount = 'none'").count() == 4
    table.restore(version=1)
    table.add_column("other", pa.int64())
    assert read(table.scan("other IS NULL")).num_rows == 4  # an id of its own, not that of the dropped string
    assert _rows(read(table.scan(columns=["id", "region", "amount", "day"]))) == _rows(orders(4))


WIDER: dict[str, tuple[pa.DataType, pa.DataType, list[Any], str]] = {
    "whole": (pa.int32(), pa.int64(), [-(2**31), 0, 5], "whole <= 0"),
    "small": (pa.int16(), pa.float64(), [-3, 0, 5], "small < 0.5"),
    "real": (pa.float32(), pa.float64(), [-0.5, float("nan"), 5.0], "real < 5"),
    "exact": (
        pa.decimal128(5, 2),
        pa.decimal128(38, 2),
        [Decimal("-1.25"), Decimal(0), Decimal("7.50")],
        "exact <= 0.5",
    ),
    "day": (
        pa.date32(),
        pa.timestamp("us"),
        [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
        "day < '1970-01-02'",
    ),
}


@pytest.mark.engine_work
def test_widened_columns(lake: Lake, feed: Feed, read: Read) -> None:
    columns = {name: pa.array([*values, None], old) for name, (old, _, values, _) in WIDER.items()}
    rows = pa.table({"id": range(4), **columns})
    table = lake.create_table("types.wide", rows.schema)
    table.append(feed(rows))
    for name, (_, new, _, _) in WIDER.items():
        table.widen_column(name, new)
    wide = rows.cast(table.schema())
    assert [field.type for field in table.schema()][1:] == [new for _, new, _, _ in WIDER.values()]
    assert (table.scan().explain().spark_reads == "natively") == table.scan().store.is_local
    table.append(feed(wide))
    both = pa.concat_tables([wide, wide])
    assert bag(read(table.scan())) == bag(both)
    assert bag(table.scan().dataset().to_table()) == bag(both)
    assert bag(read(table.scan(version=1))) == bag(rows)
    for name, (_, _, _, literal) in WIDER.items():
        for predicate in (literal, f"{name} IS NULL", f"NOT ({literal})"):
            found = bag(table.scan(predicate).to_arrow())
            assert found == bag(both.filter(_arrow(table, predicate))), predicate
            assert table.scan(predicate).count() == sum(found.values())
    every = " AND ".join(f"NOT ({literal})" for _, _, _, literal in WIDER.values())
    assert bag(read(table.scan(every))) == bag(both.filter(_arrow(table, every)))


def _arrow(table: Table, predicate: str) -> Any:
    from parqlake.core.predicates import bind, parse
    from parqlake.core.predicates.to_arrow import to_arrow

    return to_arrow(bind(parse(predicate), table.schema()))


def test_unsigned_integers_widen_too(lake: Lake, must_hold: Callable[[pa.DataType], None]) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.uint32())])
    must_hold(pa.uint32())
    table = lake.create_table("types.unsigned", schema)
    table.append(pa.table({"id": [1, 2], "n": [0, 2**32 - 1]}, schema))
    table.widen_column("n", pa.uint64())
    table.append(pa.table({"id": [3], "n": pa.array([2**64 - 1], pa.uint64())}))
    assert ids(table.scan(f"n >= {2**32 - 1}").to_arrow()) == [2, 3]
    assert ids(table.scan("n < 1").to_arrow()) == [1]


def test_small_segments_that_are_merged_do_not_mix_dates_with_timestamps(lake: Lake, feed: Feed, read: Read) -> None:
    table = lake.create_table("types.mixed", pa.schema([("id", pa.int64()), ("day", pa.date32())]))
    table.append(feed(pa.table({"id": [1], "day": [date(2026, 1, 1)]})))
    table.widen_column("day", pa.timestamp("us"))
    noon = pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us"))
    table.append(feed(pa.table({"id": [2], "day": noon})))
    table.restore(1)
    table.restore(3)
    assert ids(read(table.scan("day >= '2026-01-01' AND day < '2026-01-02'"))) == [1, 2]
    assert ids(read(table.scan("day > '2026-01-01'"))) == [2]


def test_columns_in_another_order(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(3)))
    table.reorder_columns(["day", "id"])
    assert table.schema().names == ["day", "id", "region", "amount"]
    table.append(feed(orders(2, first=3)))
    assert _rows(read(table.scan())) == _rows(orders(5))
    assert read(table.scan()).column_names == ["day", "id", "region", "amount"]


@pytest.mark.engine_work
def test_nested_fields(lake: Lake, feed: Feed, read: Read) -> None:
    table = lake.create_table("nested.t", NESTED)
    table.append(feed(pa.Table.from_pylist(NESTED_ROWS, NESTED)))
    table.rename_column("at.x", "lon")
    table.widen_column("at.lon", pa.int64())
    table.add_column("at.z", pa.float64(), default=0.5)
    table.drop_column("at.y")
    table.add_column("at.y", pa.string())
    table.reorder_columns(["z"], inside="at")
    table.add_column("tags.element.c", pa.int64(), default=3)
    table.drop_column("tags.element.b")
    table.widen_column("by_name.value.x", pa.int64())
    table.rename_column("by_name.value.y", "why")
    assert _rows(read(table.scan())) == [
        {
            "id": 1,
            "at": {"z": 0.5, "lon": 1, "y": None},
            "tags": [{"a": 1, "c": 3}, None],
            "by_name": [("k", {"x": 5, "why": 6})],
        },
        {"id": 2, "at": None, "tags": None, "by_name": None},
        {"id": 3, "at": {"z": 0.5, "lon": None, "y": None}, "tags": [], "by_name": [("l", None)]},
    ]
    assert (table.scan().explain().spark_reads == "natively") == table.scan().store.is_local
    new = _one(
        table, id=4, at={"z": 1.5, "lon": 2, "y": "b"}, tags=[{"a": None, "c": 9}], by_name=[("m", {"x": 1, "why": 2})]
    )
    table.append(feed(new))
    assert _rows(read(table.scan("id >= 3"))) == [
        {"id": 3, "at": {"z": 0.5, "lon": None, "y": None}, "tags": [], "by_name": [("l", None)]},
        *new.to_pylist(),
    ]
    assert ids(read(table.scan("at.lon = 1"))) == [1]
    assert ids(read(table.scan("at.z = 0.5"))) == [1, 3]
    assert ids(read(table.scan("at.y IS NULL", columns=["id"]))) == [1, 2, 3]
    assert ids(read(table.added(1))) == [4]
    assert _rows(read(table.scan(version=1))) == NESTED_ROWS
    with pytest.raises(errors.ConstraintError, match=r'"tags.element" holds NULLs(.|\n)*tags=\[\{'):
        table.set_nullable("tags.element", False)
    table.set_nullable("at.z", False)
    assert not table.schema().field("at").type.field("z").nullable
    assert ids(read(table.scan("at.z < 9"))) == [1, 3, 4]
    with pytest.raises(errors.InvalidOptionError, match=r'dataset cannot read column "at", "tags", "by_name" of files'):
        table.scan().dataset()


@pytest.mark.engine_work
def test_copies_of_old_rows_have_the_new_schema(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(10)))
    table.rename_column("amount", "price")
    table.add_column("n", pa.int32(), default=1)
    table.overwrite(feed(_one(table, id=3, n=2)), where="id = 3")
    found = _rows(read(table.scan()))
    assert [row["n"] for row in found] == [1, 1, 1, 2] + [1] * 6
    assert [row["price"] for row in found] == [*orders(3).column("amount").to_pylist(), None] + [
        i / 2 for i in range(4, 10)
    ]
    assert table.scan().explain().files_read == 2


def test_transactions_see_their_own_rows_beside_old_ones(table: Table, lake: Lake, feed: Feed) -> None:
    table.append(feed(orders(3)))
    table.rename_column("amount", "price")
    table.add_column("n", pa.int32(), default=1)
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(_one(table, id=7, n=2)))
        assert ids(inside.scan("n >= 1").to_arrow()) == [0, 1, 2, 7]
        assert ids(inside.scan("n = 2").to_arrow()) == [7]
        inside.overwrite(feed(_one(table, id=1, n=5)), where="id = 1 OR n = 2")
    assert [(row["id"], row["n"]) for row in _rows(table.scan().to_arrow())] == [(0, 1), (1, 5), (2, 1)]
    assert ids(table.added(0, allow_removals=True).to_arrow()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.engine_work
def test_time_travel_and_restore_bring_the_schema_back(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(2)))
    table.rename_column("region", "area")
    table.drop_column("day")
    table.append(feed(orders(1, first=2).drop_columns("day").rename_columns(["id", "area", "amount"])))
    assert table.scan(version=1).schema.names == ["id", "region", "amount", "day"]
    assert table.schema(version=2).names == ["id", "area", "amount", "day"]
    table.restore(version=2)
    assert _rows(read(table.scan())) == _rows(orders(2).rename_columns(["id", "area", "amount", "day"]))
    table.restore(version=0)
    assert table.schema().names == ["id", "region", "amount", "day"]
    table.append(feed(orders(1)))
    assert _rows(read(table.scan())) == _rows(orders(1))


def test_not_null_is_proven_before_it_is_promised(table: Table, feed: Feed, lake: Lake) -> None:
    table.append(feed(orders(8)))
    before = state(lake)
    with pytest.raises(
        errors.ConstraintError, match=r'column "region" holds NULL in 2 row\(s\)(.|\n)*id=2, region=None'
    ):
        table.set_nullable("region", False)
    with pytest.raises(errors.ConstraintError, match='column "must" is to be NOT NULL'):
        table.add_column("must", pa.int64(), nullable=False)
    assert state(lake) == before
    table.set_nullable("day", False)
    assert not table.schema().field("day").nullable
    with pytest.raises(errors.ConstraintError, match=r'column "day" is NOT NULL(.|\n)*id=9'):
        table.append(feed(orders(1, first=9).set_column(3, "day", pa.nulls(1, pa.date32()))))
    table.set_nullable("id", True)
    assert table.schema().field("id").nullable


def test_bad_changes_are_refused_whole(lake: Lake, feed: Feed) -> None:
    schema = pa.schema([*orders(0).schema, pa.field("at", POINT)])
    table = lake.create_table("bad.changes", schema, partition_by=["region"], sort_by=["day"])
    table.append(feed(orders(2).append_column(pa.field("at", POINT), pa.array([None, {"x": 1, "y": 1}], POINT))))
    before = state(lake)
    cases = [
        (lambda: table.add_column("ID", pa.int64()), errors.InvalidNameError, "differ only in case"),
        (lambda: table.add_column("id", pa.int64()), errors.InvalidOptionError, 'column "id" is there already'),
        (lambda: table.add_column("n", "int46"), errors.InvalidOptionError, "type='int46' is no type"),
        (lambda: table.add_column("n", pa.int64(), default="x"), errors.TypeMismatchError, "default='x' does not fit"),
        (lambda: table.add_column("n", pa.int8(), default=300), errors.TypeMismatchError, "default=300 does not fit"),
        (lambda: table.add_column("n", pa.int8(), default=1.5), errors.TypeMismatchError, "default=1.5 does not fit"),
        (lambda: table.add_column("n", pa.int8(), default=True), errors.TypeMismatchError, "default=True does not fit"),
        (lambda: table.add_column("n", pa.int8(), after="ids"), errors.ColumnNotFoundError, 'did you mean "id"'),
        (lambda: table.add_column("att.z", pa.int8()), errors.ColumnNotFoundError, 'did you mean "at"'),
        (lambda: table.add_column("id.z", pa.int8()), errors.InvalidOptionError, "has no fields to add to"),
        (lambda: table.drop_column("amuont"), errors.ColumnNotFoundError, 'did you mean "amount"'),
        (lambda: table.drop_column("at.z"), errors.ColumnNotFoundError, 'no column "at.z"'),
        (lambda: table.drop_column("region"), errors.InvalidOptionError, "it is a partition column"),
        (lambda: table.rename_column("region", "r"), errors.InvalidOptionError, "it is a partition column"),
        (lambda: table.rename_column("day", "d"), errors.InvalidOptionError, "rows are sorted by"),
        (lambda: table.rename_column("amount", "id"), errors.InvalidOptionError, 'column "id" is there already'),
        (lambda: table.widen_column("amount", pa.int64()), errors.TypeMismatchError, "cannot become int64"),
        (lambda: table.widen_column("at.x", pa.int8()), errors.TypeMismatchError, "it can become int64, double"),
        (lambda: table.reorder_columns(["id", "id"]), errors.InvalidOptionError, "none of them twice"),
        (lambda: table.reorder_columns(["nope"]), errors.ColumnNotFoundError, 'no column "nope"'),
        (lambda: table.set_default("at", {"x": 1}), errors.InvalidOptionError, "only plain columns have defaults"),
        (lambda: table.set_default("amount", "much"), errors.TypeMismatchError, "default='much' does not fit"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
    assert state(lake) == before


def test_two_changes_at_once_are_both_made(place: LakePlace, table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(2)))
    with place.connect() as second:
        other = second.table("sales.orders")
        stale = table.scan()
        other.rename_column("amount", "price")
        table.add_column("n", pa.int64())
        other.append(feed(_one(table, id=5, n=1)))
        assert table.schema().names == ["id", "region", "price", "day", "n"]
        assert _rows(stale.to_arrow()) == _rows(orders(2))
        assert ids(read(table.scan())) == [0, 1, 5]


def test_the_difference_of_two_versions(table: Table) -> None:
    table.add_column("n", pa.date32(), default=date(2026, 1, 1))
    table.widen_column("n", pa.timestamp("us"))
    table.rename_column("n", "m")
    table.drop_column("day")
    table.set_nullable("id", True)
    table.reorder_columns(["amount"])
    table.add_check("positive", "amount >= 0")
    assert str(table.schema_diff(1, 3)).splitlines() == [
        "~ m: renamed n -> m",
        "~ m: widened date32[day] -> timestamp[us]",
        "~ m: default datetime.date(2026, 1, 1) -> datetime.datetime(2026, 1, 1, 0, 0)",
    ]
    text = str(table.schema_diff(0))
    assert text.splitlines() == [
        "- day: date32[day]",
        "+ m: timestamp[us] default datetime.datetime(2026, 1, 1, 0, 0)",
        "~ id: nullability NOT NULL -> nullable",
        "~ order: id, region, amount -> amount, id, region",
        "~ check positive none -> amount >= 0",
    ]
    assert str(table.schema_diff(3, 3)) == "no changes"
    assert not table.schema_diff(3, 3)
    assert [change.column for change in table.schema_diff(0).of("added")] == ["m"]
    assert [entry.operation for entry in table.history()] == ["evolve"] * 7
