"""Data whose columns are not the table's: refused, merged or promoted, with the rows in the same commit."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.data import ids, orders, state
from parqlake.testing.plugin import Feed, Read


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def _schema_only(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([("id", pa.int64()), *columns])


@pytest.mark.engine_work
def test_merge_adds_and_fills_columns(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(orders(2)))
    table.set_default("region", "eu")
    new = pa.table({"extra": ["x"], "id": [2], "amount": [1.5]})
    result = table.append(feed(new), schema_mode="merge")
    assert (result.version, result.row_count, len(table.history())) == (3, 1, 3)
    assert table.schema().names == ["id", "region", "amount", "day", "extra"]
    assert _rows(read(table.scan())) == [
        *({**row, "extra": None} for row in _rows(orders(2))),
        {"id": 2, "region": "eu", "amount": 1.5, "day": None, "extra": "x"},
    ]
    assert ids(read(table.scan("extra IS NULL"))) == [0, 1]
    table.overwrite(feed(pa.table({"id": [1], "more": [1]})), where="id = 1", schema_mode="merge")
    assert [row["more"] for row in _rows(read(table.scan()))] == [None, 1, None]
    table.overwrite(feed(pa.table({"id": [9], "last": [1]})), schema_mode="merge")
    assert table.schema().names[-2:] == ["more", "last"]
    assert ids(read(table.scan())) == [9]


@pytest.mark.engine_work
def test_merge_goes_into_structs(lake: Lake, feed: Feed, read: Read) -> None:
    point = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    deep = pa.list_(pa.field("element", point))
    table = lake.create_table("nested.merge", _schema_only(("at", point), ("all", deep)))
    table.append(feed(pa.table({"id": [1], "at": [{"x": 1, "y": 2}], "all": [[{"x": 1, "y": 2}]]}, table.schema())))
    other = pa.struct([("z", pa.string()), ("x", pa.int64())])
    data = _schema_only(("at", other), ("all", pa.list_(other)))
    rows = [{"id": 2, "at": {"z": "a", "x": 3}, "all": [{"z": "b", "x": 4}, None]}, {"id": 3, "at": None, "all": None}]
    table.append(feed(pa.Table.from_pylist(rows, data)), schema_mode="merge")
    assert _rows(read(table.scan())) == [
        {"id": 1, "at": {"x": 1, "y": 2, "z": None}, "all": [{"x": 1, "y": 2, "z": None}]},
        {"id": 2, "at": {"x": 3, "y": None, "z": "a"}, "all": [{"x": 4, "y": None, "z": "b"}, None]},
        {"id": 3, "at": None, "all": None},
    ]


@pytest.mark.engine_work
def test_promote_widens_both_ways(lake: Lake, feed: Feed, read: Read) -> None:
    columns = (("i", pa.int32()), ("f", pa.float32()), ("d", pa.date32()), ("wide", pa.int64()))
    table = lake.create_table("types.promote", _schema_only(*columns))
    day, noon = date(2026, 1, 1), datetime(2026, 1, 2, 12, tzinfo=UTC).replace(tzinfo=None)
    first = {"id": 1, "i": 1, "f": 0.5, "d": day, "wide": 1}
    table.append(feed(pa.Table.from_pylist([first], table.schema())))
    new = _schema_only(("i", pa.int64()), ("f", pa.float64()), ("d", pa.timestamp("us")), ("wide", pa.int16()))
    rows = [{"id": 2, "i": 2**40, "f": 0.1, "d": noon, "wide": 2}]
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ColumnBecameTextWarning)
        table.append(feed(pa.Table.from_pylist(rows, new)), schema_mode="promote")
    types = {field.name: str(field.type) for field in table.schema()}
    assert types == {"id": "int64", "i": "int64", "f": "double", "d": "timestamp[us]", "wide": "int64"}
    midnight = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    assert _rows(read(table.scan())) == [{**first, "d": midnight}, rows[0]]
    assert ids(read(table.scan("d < '2026-01-02'"))) == [1]


@pytest.mark.engine_work
def test_promote_makes_text_of_what_nothing_else_holds(lake: Lake, feed: Feed, read: Read) -> None:
    table = lake.create_table("types.text", _schema_only(("n", pa.int64()), ("ok", pa.bool_()), ("f", pa.float64())))
    rows = {"id": [1, 2], "n": [7, None], "ok": [True, False], "f": [1e30, 0.5]}
    table.append(feed(pa.table(rows, table.schema())))
    data = pa.table({"id": [3], "n": ["seven"], "ok": [True], "f": ["half"]})
    with pytest.warns(
        errors.ColumnBecameTextWarning, match=r'column "n" \(int64\), "f" \(double\) of types.text becomes'
    ):
        table.append(feed(data), schema_mode="promote")
    table.append(
        feed(
            pa.table(
                {"id": [4], "n": [8], "ok": [None], "f": [0.25]},
                data.schema.set(1, pa.field("n", pa.int64())).set(3, pa.field("f", pa.float64())),
            )
        ),
        schema_mode="promote",
    )
    assert [(r["id"], r["n"], r["ok"], r["f"]) for r in _rows(read(table.scan()))] == [
        (1, "7", True, "1e+30"),
        (2, None, False, "0.5"),
        (3, "seven", True, "half"),
        (4, "8", None, "0.25"),
    ]
    assert table.scan().explain().spark_reads == "through Python workers"
    assert ids(read(table.scan("n = '7'"))) == [1]
    assert ids(read(table.scan("n >= '8'"))) == [3, 4]


def test_what_cannot_be_merged_is_refused_whole(lake: Lake, feed: Feed) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int32()), ("b", pa.binary())])
    table = lake.create_table("bad.modes", schema, checks={"small": "n < 10"})
    table.append(feed(pa.table({"id": [1], "n": [1], "b": [b""]}, schema)))
    before = state(lake)
    wide = pa.table({"id": [2], "n": pa.array([1], pa.int64()), "b": [b"x"]})
    cases: list[tuple[Any, str, type[Exception], str]] = [
        (wide, "strict", errors.TypeMismatchError, r'"n": the table has int32, the data has int64 \(type mismatch\)'),
        (wide, "merge", errors.TypeMismatchError, r'schema_mode="merge" does not mend:\n.*"n"(.|\n)*"promote"'),
        (pa.table({"n": [1]}), "merge", errors.SchemaMismatchError, '"id": missing in the data, and NOT NULL'),
        (pa.table({"id": [2], "ID": [1]}), "merge", errors.InvalidNameError, "differ only in case"),
        (
            pa.table({"id": [2], "b": [1]}),
            "promote",
            errors.TypeMismatchError,
            '"b": the table has binary, the data has',
        ),
        (pa.table({"id": [2], "n": ["x"]}), "promote", errors.InvalidOptionError, 'the check "small"'),
        (wide, "loose", errors.InvalidOptionError, "schema_mode='loose' is unknown"),
        (pa.table({"id": [2], "extra": [1], "n": [11]}), "promote", errors.ConstraintError, 'break the check "small"'),
    ]
    for data, mode, error, text in cases:
        with pytest.raises(error, match=text):
            table.append(feed(data), schema_mode=mode)
    with lake.transaction() as tx, pytest.raises(errors.InvalidOptionError, match='schema_mode="merge" is for append'):
        tx.table("bad.modes").append(pa.table({"id": [2], "n": [1], "b": [b""]}, schema), schema_mode="merge")
    assert state(lake) == before


@pytest.mark.engine_work
def test_lake_write_merges_into_a_partitioned_table(lake: Lake, feed: Feed, read: Read) -> None:
    lake.write(feed(orders(3)), "sales.written", partition_by=["region"])
    lake.write(feed(pa.table({"id": [7], "note": ["n"]})), "sales.written", schema_mode="merge")
    table = lake.table("sales.written")
    assert ids(read(table.scan("region IS NULL"))) == [2, 7]
    assert ids(read(table.scan("note = 'n'"))) == [7]
