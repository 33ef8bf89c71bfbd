"""Rows of one schema seen through another, by field id."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from parqlake.core.evolution.changes import Base, add_column, drop_column, rename_column, set_nullable, widen_column
from parqlake.core.evolution.marks import earlier_ids, last_field_id, write_default
from parqlake.core.evolution.projection import Projection, loosened
from parqlake.core.schema import assign_field_ids, field_id

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = assign_field_ids(
    pa.schema(
        [
            ("id", pa.int64()),
            ("at", POINT),
            ("all", pa.list_(pa.field("element", POINT))),
            ("map", pa.map_(pa.string(), POINT)),
        ]
    )
)
ROWS: list[dict[str, Any]] = [
    {"id": 0, "at": {"x": 0, "y": "0"}, "all": [{"x": 0, "y": "0"}], "map": [("0", {"x": 0, "y": "0"})]},
    {"id": 1, "at": None, "all": None, "map": None},
    {
        "id": 2,
        "at": {"x": None, "y": "2"},
        "all": [None, {"x": 2, "y": None}],
        "map": [("a", None), ("b", {"x": 1, "y": None})],
    },
    {"id": 3, "at": {"x": 3, "y": None}, "all": [], "map": []},
    {"id": 4, "at": None, "all": [{"x": 4, "y": "4"}] * 3, "map": [("4", {"x": 4, "y": "4"})]},
]


def changed(*changes: Any, schema: pa.Schema = SCHEMA) -> pa.Schema:
    """The schema after changes, each `(function, argument, …)`."""
    for function, *arguments in changes:
        schema = function(Base(schema, last_field_id(schema)), *arguments)
    return schema


def rows_of(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(ROWS, schema=schema)


EVERYWHERE = changed(
    (rename_column, "at.x", "lon"),
    (widen_column, "all.element.x", pa.int64()),
    (drop_column, "all.element.y"),
    (add_column, "map.value.z", pa.bool_()),
    (drop_column, "map.value.x"),
    (add_column, "map.value.x", pa.string()),
    (widen_column, "at.lon", pa.float64()),
)


def seen(row: dict[str, Any]) -> dict[str, Any]:
    """What a reader of `EVERYWHERE` sees of a row."""
    at, found, pairs = row["at"], row["all"], row["map"]
    return {
        "id": row["id"],
        "at": at and {"lon": at["x"], "y": at["y"]},
        "all": None if found is None else [item and {"x": item["x"]} for item in found],
        "map": None if pairs is None else [(k, v and {"y": v["y"], "z": None, "x": None}) for k, v in pairs],
    }


@pytest.mark.parametrize("start", range(5))
@pytest.mark.parametrize("count", [1, 3, 5])
def test_slices_of_nested_rows(start: int, count: int) -> None:
    projection = Projection(SCHEMA, EVERYWHERE)
    batch = rows_of(SCHEMA).slice(start, count)
    found = projection.apply(batch)
    found.validate(full=True)
    assert found.to_pylist() == [seen(row) for row in ROWS[start : start + count]]
    assert found.schema.field("id").metadata is None


def test_tables_keep_their_type_also_when_empty() -> None:
    projection = Projection(SCHEMA, EVERYWHERE)
    whole = pa.Table.from_batches([rows_of(SCHEMA).slice(0, 2), rows_of(SCHEMA).slice(2)])
    assert projection.apply(whole, ["at", "id"]).to_pylist() == [
        {name: seen(row)[name] for name in ("at", "id")} for row in ROWS
    ]
    assert projection.apply(whole.slice(0, 0)).schema.names == ["id", "at", "all", "map"]


def test_identity_is_about_what_readers_by_name_would_get_wrong() -> None:
    for schema, identity in (
        (SCHEMA, True),
        (changed((drop_column, "id")), True),
        (changed((set_nullable, "id", False)), True),
        (changed((rename_column, "id", "key")), False),
        (changed((add_column, "n", pa.int8())), False),
        (changed((drop_column, "id"), (add_column, "id", pa.int64())), False),
        (changed((drop_column, "at.x"), (add_column, "at.x", pa.int32())), False),
        (changed((widen_column, "map.value.x", pa.int64())), False),
    ):
        assert Projection(SCHEMA, schema).is_identity == identity, schema


def test_some_column_is_read_for_the_number_of_rows() -> None:
    schema = changed((add_column, "n", pa.int8()), (rename_column, "id", "key"))
    projection = Projection(SCHEMA, schema)
    assert projection.stored_columns(["n"]) == ("id",)
    assert projection.stored_columns(["n", "at", "key"]) == ("at", "id")
    assert projection.apply(rows_of(SCHEMA).select(["id"]), ["n"]).to_pylist() == [{"n": None}] * 5


def test_a_type_with_other_keys_gets_another_id_and_is_still_the_column() -> None:
    schema = assign_field_ids(pa.schema([("id", pa.int64()), ("day", pa.date32()), ("n", pa.int32())]))
    wide = changed((widen_column, "day", pa.timestamp("us")), (widen_column, "n", pa.int64()), schema=schema)
    assert [field_id(field) for field in wide] == [1, 4, 3]
    assert earlier_ids(wide.field("day")) == (2,)
    again = changed((drop_column, "day"), (add_column, "day", pa.timestamp("us")), schema=wide)
    assert field_id(again.field("day")) == 5
    assert Projection(schema, wide).source("day") is not None
    assert Projection(schema, again).source("day") is None


def test_defaults_follow_a_wider_type() -> None:
    schema = add_column(Base(SCHEMA, last_field_id(SCHEMA)), "n", pa.int8(), default=5)
    wide = changed((widen_column, "n", pa.int64()), schema=schema)
    assert write_default(wide.field("n")) == pa.scalar(5, pa.int64())
    assert Projection(SCHEMA, wide).apply(rows_of(SCHEMA), ["n"]).column(0).to_pylist() == [5] * 5


def test_not_null_inside_a_null_struct_can_be_written() -> None:
    strict = changed((set_nullable, "at.x", False))
    rows = pa.RecordBatch.from_pylist(
        [{"at": None}, {"at": {"x": 1, "y": "a"}}], schema=pa.schema([SCHEMA.field("at")])
    )
    found = Projection(loosened(pa.schema([strict.field("at")])), pa.schema([strict.field("at")])).apply(rows).column(0)
    assert found.to_pylist() == [None, {"x": 1, "y": "a"}]
    assert found.field(0).null_count == 0
