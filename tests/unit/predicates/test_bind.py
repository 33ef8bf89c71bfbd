"""Binding: names, types, and constants that the column's type cannot hold."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

from parqlake.core.errors import ColumnNotFoundError, InvalidPredicateError
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.expressions import bind_expression
from parqlake.core.predicates.sql import parse_expression
from parqlake.core.predicates.to_arrow import expression_to_arrow
from parqlake.core.predicates.to_sql import expression_to_sql, to_sql
from parqlake.core.predicates.tree import Column, Compare, Constant, In, Literal
from parqlake.core.predicates.value_types import type_of
from parqlake.core.schema import assign_field_ids

NANO = 1769860800123456789


def bound(where: Any, **columns: pa.DataType) -> str:
    return to_sql(bind(parse(where), pa.schema(list(columns.items()))))


@pytest.mark.parametrize(
    ("type_", "condition", "expected"),
    [
        (pa.int32(), "x > 5.5", '"x" >= 6'),
        (pa.int32(), "x >= 5.5", '"x" >= 6'),
        (pa.int32(), "x < 5.5", '"x" <= 5'),
        (pa.int32(), "x <= -5.5", '"x" <= (-6)'),
        (pa.int32(), "5.5 > x", '"x" <= 5'),
        (pa.int32(), "x = 5.5", "FALSE"),
        (pa.int32(), "x != 5.5", '"x" IS NOT NULL'),
        (pa.int32(), "x = 5.0", '"x" = 5'),
        (pa.int8(), "x < 128", '"x" IS NOT NULL'),
        (pa.int8(), "x >= 128", "FALSE"),
        (pa.int8(), "x = 1000", "FALSE"),
        (pa.int8(), "x != -1000", '"x" IS NOT NULL'),
        (pa.int8(), "x > -129", '"x" IS NOT NULL'),
        (pa.int8(), "x <= -128.5", "FALSE"),
        (pa.uint64(), "x > -1", '"x" IS NOT NULL'),
        (pa.uint64(), "x < 0.5", '"x" <= 0'),
        (pa.uint64(), "x = 18446744073709551616", "FALSE"),
        (pa.int64(), "x < 'inf'::double", '"x" IS NOT NULL'),
        (pa.int64(), "x < 'nan'::double", '"x" IS NOT NULL'),
        (pa.int64(), "x >= 'nan'::double", "FALSE"),
        (pa.int64(), "x in (1, 1.5, 2, 1e30, 2.0)", '"x" IN (1, 2)'),
        (pa.int64(), "x not in (1.5, 2)", '"x" <> 2'),
        (pa.int64(), "x not in (1.5)", '"x" IS NOT NULL'),
        (pa.int64(), "x in (1.5)", "FALSE"),
        (pa.float64(), "x > 9007199254740993", "\"x\" >= CAST('9007199254740994.0' AS DOUBLE)"),
        (pa.float64(), "x <= 9007199254740993", "\"x\" <= CAST('9007199254740992.0' AS DOUBLE)"),
        (pa.float64(), "x = 9007199254740993", "FALSE"),
        (pa.float64(), "x = 0.1", "\"x\" = CAST('0.1' AS DOUBLE)"),
        (pa.float64(), "x = -0.0", "\"x\" = CAST('0.0' AS DOUBLE)"),
        (pa.float64(), "x > " + "9" * 320, "\"x\" >= CAST('Infinity' AS DOUBLE)"),
        (pa.float64(), "x < " + "9" * 320, "\"x\" <= CAST('1.7976931348623157e+308' AS DOUBLE)"),
        (pa.float64(), "x in (1, 'nan'::double)", '"x" = CAST(\'1.0\' AS DOUBLE) OR isnan("x")'),
        (pa.float32(), "x = 0.1", "\"x\" = CAST('0.10000000149011612' AS FLOAT)"),
        (pa.float32(), "x > 16777217", "\"x\" >= CAST('16777218.0' AS FLOAT)"),
        (pa.decimal128(5, 2), "x > 1.001", "\"x\" >= CAST('1.01' AS DECIMAL(5, 2))"),
        (pa.decimal128(5, 2), "x < 1.001", "\"x\" <= CAST('1.00' AS DECIMAL(5, 2))"),
        (pa.decimal128(5, 2), "x = 1.001", "FALSE"),
        (pa.decimal128(5, 2), "x < 1000", '"x" IS NOT NULL'),
        (pa.decimal128(5, 2), "x = 7", "\"x\" = CAST('7.00' AS DECIMAL(5, 2))"),
        (pa.decimal128(5, 2), "x = 1e-1", "\"x\" = CAST('0.10' AS DECIMAL(5, 2))"),
        (pa.bool_(), "x < true", '"x" = FALSE'),
        (pa.bool_(), "x >= false", '"x" IS NOT NULL'),
        (pa.bool_(), "x > true", "FALSE"),
        (pa.bool_(), "x not in (true)", '"x" = FALSE'),
        (pa.date32(), "x < timestamp '2026-01-31 12:00:00'", "\"x\" <= DATE '2026-01-31'"),
        (pa.date32(), "x < timestamp '2026-01-31 00:00:00'", "\"x\" < DATE '2026-01-31'"),
        (pa.date32(), "x >= '2026-01-31T00:00:00.000000001'", "\"x\" >= DATE '2026-02-01'"),
        (pa.date32(), "x = timestamp '2026-01-31 12:00:00'", "FALSE"),
        (pa.timestamp("us"), "x >= date '2026-01-31'", "\"x\" >= TIMESTAMP '2026-01-31 00:00:00'"),
        (pa.timestamp("us"), "x > '2026-01-31 00:00:00.0000001'", "\"x\" >= TIMESTAMP '2026-01-31 00:00:00.000001'"),
        (pa.timestamp("us", "UTC"), "x = '2026-01-31 01:30+01:30'", "\"x\" = TIMESTAMPTZ '2026-01-31 00:00:00+00'"),
        (pa.timestamp("us", "Asia/Tokyo"), "x = '2026-01-31'", "\"x\" = TIMESTAMPTZ '2026-01-31 00:00:00+00'"),
        (pa.timestamp("ns"), "x = '2026-01-31 00:00:00.1'", "\"x\" = TIMESTAMP_NS '2026-01-31 00:00:00.100000'"),
        (pa.timestamp("ns"), "x < date '3000-01-01'", '"x" IS NOT NULL'),
        (pa.timestamp("ns"), "x > date '1000-01-01'", '"x" IS NOT NULL'),
        (pa.time64("us"), "x < '12:00:00.0000001'", "\"x\" <= TIME '12:00:00'"),
        (pa.time64("ns"), "x < '12:00:00.000000001'", "\"x\" < TIME_NS '12:00:00.000000001'"),
        (pa.string(), "x like 'abc'", "\"x\" = 'abc'"),
        (pa.string(), "x not like 'abc'", "\"x\" <> 'abc'"),
        (pa.string(), "x ilike 'abc'", "\"x\" ILIKE 'abc'"),
        (pa.large_string(), "x = 'abc'", "\"x\" = 'abc'"),
    ],
)
def test_constants_are_fitted(type_: pa.DataType, condition: str, expected: str) -> None:
    assert bound(condition, x=type_) == expected


def test_float_beside_float32_is_compared_as_double() -> None:
    assert bound(("x", "=", 0.1), x=pa.float32()) == "FALSE"
    assert bound(("x", ">", 0.1), x=pa.float32()) == "\"x\" >= CAST('0.10000000149011612' AS FLOAT)"
    assert bound(("x", "<", 0.1), x=pa.float32()) == "\"x\" <= CAST('0.09999999403953552' AS FLOAT)"
    assert bound(("x", "=", np.float32(0.1)), x=pa.float32()) == "\"x\" = CAST('0.10000000149011612' AS FLOAT)"
    assert bound(("x", ">", 1e39), x=pa.float32()) == "\"x\" >= CAST('Infinity' AS FLOAT)"


def test_decimals_beyond_everything_are_quick() -> None:
    for text in ("1e999999999", "-1e999999999", "1e-999999999"):
        value = Decimal(text)
        assert (
            bound(("x", "<=", value), x=pa.int32())
            == {
                "1e999999999": '"x" IS NOT NULL',
                "-1e999999999": "FALSE",
                "1e-999999999": '"x" <= 0',
            }[text]
        )
        assert "x" in bound(("x", ">=", value), x=pa.float64()) + "x"
    assert bound(("x", "=", Decimal("nan")), x=pa.float64()) == 'isnan("x")'
    assert bound(("x", "<", Decimal("inf")), x=pa.decimal128(5, 2)) == '"x" IS NOT NULL'


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp(NANO, tz="UTC"),
        pd.Timestamp(NANO, tz="UTC").tz_convert("Asia/Tokyo"),
        np.datetime64(NANO, "ns"),
        pa.scalar(NANO, pa.timestamp("ns", "Europe/Berlin")),
        "2026-01-31T12:00:00.123456789Z",
        "2026-01-31 07:00:00.123456789-05:00",
        "2026-01-31 12:00:00.123456789",
    ],
)
def test_nanoseconds_are_kept(value: Any) -> None:
    (expected,) = (pa.scalar(NANO, pa.timestamp("ns", "UTC")),)
    found = bind(parse(("x", "=", value)), pa.schema([("x", expected.type)]))
    assert isinstance(found, Compare)
    assert isinstance(found.right, Literal)
    assert found.right.scalar == expected
    assert bound(("x", "=", value), x=pa.timestamp("us", "UTC")) == "FALSE"
    assert ".123456+00" in bound(("x", "<", value), x=pa.timestamp("us", "UTC"))


def test_every_scalar_has_exactly_the_columns_type(table: pa.Table) -> None:
    values: dict[str, Any] = {
        "i": 1,
        "n": 1.0,
        "u": Decimal(1),
        "f": 1,
        "g": Decimal("0.5"),
        "d": 0.25,
        "s": "x",
        "b": b"x",
        "ok": True,
        "day": "2026-01-01",
        "ts": dt.date(2026, 1, 1),
        "tz": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "berlin": "2026-01-01",
        "time": "12:00",
    }
    for name, value in values.items():
        found = bind(parse((name, "=", value)), table.schema)
        assert isinstance(found, Compare)
        assert isinstance(found.left, Column)
        assert isinstance(found.right, Literal)
        assert found.right.scalar.type == table.schema.field(name).type == found.left.type


def test_columns_get_path_id_and_type() -> None:
    schema = assign_field_ids(
        pa.schema([("Id", pa.int32()), ("s", pa.struct([("X", pa.int8()), ("y", pa.struct([("z", pa.string())]))]))])
    )

    def column(where: Any) -> Column:
        found = bind(parse(where), schema)
        assert isinstance(found, Compare)
        assert isinstance(found.left, Column)
        return found.left

    assert column("id = 1") == Column(("Id",), 1, pa.int32())
    assert column("S.x = 1") == Column(("s", "X"), 3, pa.int8())
    assert column("s.y.z = 'a'") == Column(("s", "y", "z"), 5, pa.string())
    assert column(("s.y.z", "=", "a")) == Column(("s", "y", "z"), 5, pa.string())
    assert column("1 = Id") == Column(("Id",), 1, pa.int32())


def test_dotted_names_are_columns_first() -> None:
    inner = pa.struct([("b", pa.int8()), ("b.c", pa.int8())])
    schema = pa.schema([("a.b", pa.int16()), ("a", inner), ("x.y", inner)])
    for name, path in (("a.b", ("a.b",)), ("a.b.c", None), ("x.y.b", ("x.y", "b"))):
        if path is None:
            with pytest.raises(InvalidPredicateError, match="has no field"):
                bind(parse((name, "=", 1)), schema)
            continue
        found = bind(parse((name, "=", 1)), schema)
        assert isinstance(found, Compare)
        assert isinstance(found.left, Column)
        assert found.left.path == path
    assert to_sql(bind(parse("a.b = 1"), schema)) == "struct_extract(\"a\", 'b') = 1"


def test_ambiguous_case_is_not_guessed() -> None:
    schema = pa.schema([("ab", pa.int8()), ("AB", pa.int8())])
    assert to_sql(bind(parse("AB = 1"), schema)) == '"AB" = 1'
    with pytest.raises(ColumnNotFoundError):
        bind(parse("Ab = 1"), schema)


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("custmer = 1", ['no column "custmer"', 'did you mean "customer"?']),
        ("custmer = null", ['no column "custmer"']),
        ("s.zz = 1", ['no column "s.zz"', "s.x"]),
        ("customer.x = 1", ['column "customer" is int64 and has no field "x"']),
        ("l.x = 1", ["elements of lists and maps"]),
    ],
)
def test_wrong_columns(where: str, parts: list[str]) -> None:
    schema = pa.schema(
        [("customer", pa.int64()), ("s", pa.struct([("x", pa.int8())])), ("l", pa.list_(pa.struct([("x", pa.int8())])))]
    )
    with pytest.raises((ColumnNotFoundError, InvalidPredicateError)) as caught:
        bind(parse(where), schema)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("i = 'x'", ['column "i" is int8', "'x'", "without quotes"]),
        ("i = true", ['column "i" is int8', "True"]),
        ("i", ["must be boolean"]),
        ("i = date '2026-01-01'", ['column "i" is int8', "compare it with a number"]),
        ("s = 5", ['column "s" is string', "5", "in quotes"]),
        ("s > x'00'", ['column "s" is string', "write a string"]),
        ("b = 'x'", ['column "b" is binary', "x'00FF'"]),
        ("ok = 1", ['column "ok" is bool', "true or false"]),
        ("day = 5", ['column "day" is date32', "date '2026-01-31'"]),
        ("day = 'soon'", ['column "day" is date32', "'soon' is not written as"]),
        ("day = '2026-02-30'", ['column "day" is date32', "day"]),
        ("ts = '2026-01-01 25:00'", ['column "ts" is timestamp', "hour"]),
        ("ts = '2026-01-01 12:00+25:00'", ["offset"]),
        ("ts = timestamptz '2026-01-01 00:00:00+01'", ['column "ts"', "no time zone", "without an offset"]),
        ("day < '2026-01-01T00:00:00Z'", ['column "day"', "no time zone"]),
        ("time = 5", ['column "time"', "'12:00:00'"]),
        ("time = '2026-01-01'", ["12:30"]),
        ("list = 1", ['column "list" is list', "only IS NULL"]),
        ("st = 1", ['column "st" is struct', "name one of its fields"]),
        ("st = st", ["cannot be compared"]),
        ("i = s", ['column "i" of type int8', 'column "s" of type string']),
        ("ts = tz", ["time zone"]),
        ("ok < ok", ["cannot be compared by <"]),
        ("i like 'a%'", ["LIKE takes strings"]),
        ("f % 2 = 1", ["% takes integers"]),
        ("s + 1 = 2", ["calculates with numbers"]),
        ("lower(i) = 'x'", ["lower(int8) is not possible"]),
        ("coalesce(i, s) = 1", ["coalesce takes values of one kind"]),
        ("i in (1, 'x')", ['column "i" is int8', "'x'"]),
        ("1 = 'x'", ["cannot be compared"]),
        ("wide * wide * wide = 1", ["digits"]),
        (("s", "=", "\ud800"), ["surrogate"]),
    ],
)
def test_what_cannot_be_compared(where: Any, parts: list[str], table: pa.Table) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        bind(parse(where), table.schema)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_constants_compared_with_constants() -> None:
    schema = pa.schema([("x", pa.int8())])
    for sql, value in {
        "1 = 1.0": True,
        "1 < 0.5": False,
        "'a' < 'b'": True,
        "'nan'::double > 1e308": True,
        "'nan'::double = 'nan'::double": True,
        "99999999999999999999999 > 1": True,
        "date '2026-01-01' = timestamp '2026-01-01 00:00:00'": True,
        "time '12:00' < '13:00'": True,
        "2 + 2 = 4": True,
        "1 in (1, 'nan'::double)": True,
        "1 not in (2, 3)": True,
    }.items():
        assert bind(parse(sql), schema) == Constant(value), sql


def test_expressions_for_updates(table: pa.Table) -> None:
    for sql, type_ in {
        "i * 2": pa.int64(),
        "i / 2": pa.float64(),
        "f * 1.1": pa.float64(),
        "d * 1.1": pa.decimal128(13, 3),
        "d + 1": pa.decimal128(11, 2),
        "i % 3": pa.int64(),
        "upper(s)": pa.string(),
        "coalesce(st.x, 0)": pa.int64(),
        "'text'": pa.string(),
        "null": pa.null(),
        "date '2026-01-31'": pa.date32(),
    }.items():
        expr = bind_expression(parse_expression(sql), table.schema)
        assert type_of(expr) == type_, sql
        computed = pa.dataset.dataset(table).to_table(columns={"v": expression_to_arrow(expr)})["v"]
        assert computed.type == type_, sql
        assert expression_to_sql(expr)


def test_constants_for_a_target_column(table: pa.Table) -> None:
    expr = bind_expression(parse_expression("'2026-01-31'"), table.schema, target=table.schema.field("day"))
    assert isinstance(expr, Literal)
    assert expr.scalar == pa.scalar(dt.date(2026, 1, 31))
    expr = bind_expression(parse_expression("null"), table.schema, target=table.schema.field("st"))
    assert isinstance(expr, Literal)
    assert expr.scalar.type == table.schema.field("st").type
    expr = bind_expression(parse_expression("'nan'::double"), table.schema, target=table.schema.field("g"))
    assert isinstance(expr, Literal)
    assert math.isnan(expr.scalar.as_py())
    for sql in ("300", "1.5", "'x'"):
        with pytest.raises(InvalidPredicateError, match='column "i" is int8'):
            bind_expression(parse_expression(sql), table.schema, target=table.schema.field("i"))


def test_many_values_are_bound_once_each() -> None:
    found = bind(parse(("x", "in", [1, 2, 1.0, Decimal(2), 3])), pa.schema([("x", pa.int64())]))
    assert isinstance(found, In)
    assert [value.value for value in found.values] == [1, 2, 3]
