"""Computed values: pyarrow, DuckDB and plain Python agree on every digit."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.predicates import bind
from parqlake.core.predicates.expressions import bind_expression
from parqlake.core.predicates.sql import parse_expression
from parqlake.core.predicates.to_arrow import expression_to_arrow, to_arrow
from parqlake.core.predicates.to_sql import expression_to_sql
from parqlake.core.predicates.tree import Arithmetic, Column, Compare, CompareOp, Expr, Function, Literal
from parqlake.core.predicates.value_types import type_of

INTEGERS: list[int | None] = [None, 0, 1, -1, 7, -128, 127]
FLOATS: list[float | None] = [None, 0.0, -0.0, 0.35, -1.5, math.nan, math.inf]
DECIMALS = [None, Decimal("0.00"), Decimal("0.35"), Decimal("-1.50"), Decimal("99.99")]
GRID = list(itertools.product(INTEGERS, FLOATS, DECIMALS))
TABLE = pa.table(
    {
        "row": range(len(GRID)),
        "i": pa.array([i for i, _, _ in GRID], pa.int8()),
        "u": pa.array([None if i is None else abs(i) for i, _, _ in GRID], pa.uint64()),
        "f": pa.array([f for _, f, _ in GRID], pa.float64()),
        "d": pa.array([d for _, _, d in GRID], pa.decimal128(6, 2)),
        "w": pa.array([d for _, _, d in GRID], pa.decimal128(14, 4)),
    }
)
ROWS = [{"i": i, "u": None if i is None else abs(i), "f": f, "d": d, "w": d} for i, f, d in GRID]
CONNECTION = duckdb.connect()
CONNECTION.register("arrow_table", TABLE)
CONNECTION.execute("create table t as select * from arrow_table")

COLUMNS = st.sampled_from([Column((name,)) for name in "iufdw"])
CONSTANTS = st.sampled_from([0, 1, -1, 3, -7, 2.5, 0.0, Decimal("0.1"), Decimal("-1.25"), None]).map(Literal)


def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner),
        st.builds(Arithmetic, st.just("%"), st.sampled_from([Column(("i",)), Column(("u",))]), whole_numbers()),
        inner.map(lambda expr: Function("abs", (expr,))),
        st.builds(lambda a, b: Function("coalesce", (a, b)), inner, inner),
    )


def whole_numbers() -> st.SearchStrategy[Expr]:
    return st.sampled_from([Column(("i",)), Column(("u",)), *(Literal(n) for n in (0, 1, -1, 3, -7))])


EXPRESSIONS = st.recursive(st.one_of(COLUMNS, COLUMNS, CONSTANTS), grown, max_leaves=4)


def evaluate(expr: Expr, row: dict[str, Any]) -> Any:
    """An int or Fraction for exact numbers, a float for doubles, None for NULL."""
    match expr:
        case Column(path=(name,)):
            return Fraction(row[name]) if isinstance(row[name], Decimal) else row[name]
        case Literal(value=value):
            return Fraction(value) if isinstance(value, Decimal) else value
        case Function(name="coalesce", args=args):
            return next((value for arg in args if (value := evaluate(arg, row)) is not None), None)
        case Function(name="abs", args=(arg,)):
            value = evaluate(arg, row)
            return None if value is None else abs(value)
        case Arithmetic(op=op, left=left, right=right):
            return calculate(op, evaluate(left, row), evaluate(right, row))
    raise AssertionError(expr)


def calculate(op: str, a: Any, b: Any) -> Any:
    if a is None or b is None or (op in "/%" and b == 0):
        return None
    if op == "%":
        return int(math.fmod(a, b))
    if op == "/" or isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if op == "/" else None}[op]


def same(found: Any, expected: Any, type_: pa.DataType) -> bool:
    if found is None or expected is None:
        return found is expected
    if pa.types.is_floating(type_):
        expected = float(expected)
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return Fraction(found) == Fraction(expected)


def is_float(expr: Expr) -> bool:
    return bool(pa.types.is_floating(type_of(bind_expression(expr, TABLE.schema))))


def promoted(expr: Expr) -> bool:
    """Whether coalesce brings an exact number to a float before it is used, which the evaluator does not follow."""
    match expr:
        case Function(name="coalesce", args=args):
            return len({is_float(arg) for arg in args}) > 1 or any(promoted(arg) for arg in args)
        case Function(args=args):
            return any(promoted(arg) for arg in args)
        case Arithmetic(left=left, right=right):
            return promoted(left) or promoted(right)
    return False


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS.filter(lambda expr: not promoted(expr)))
def test_values_agree(expr: Expr) -> None:
    bound = bind_expression(expr, TABLE.schema)
    expected = [evaluate(expr, row) for row in ROWS]
    by_arrow = pa.dataset.dataset(TABLE).to_table(columns={"v": expression_to_arrow(bound)})["v"]
    assert by_arrow.type == type_of(bound)
    by_duckdb = CONNECTION.sql(f"select {expression_to_sql(bound)} as v from t order by row").to_arrow_table()["v"]
    for column in (by_arrow, by_duckdb):
        for found, wanted in zip(column.to_pylist(), expected, strict=True):
            assert same(found, wanted, type_of(bound)), expression_to_sql(bound)


def test_nothing_is_computed_in_another_order() -> None:
    data = pa.table({"x": [0.7, 99.99], "y": [127.0, 127.0], "z": [-1.5, -1.5]})
    for sql, expected in {
        "(x * 0.1) * 0.1": [x * 0.1 * 0.1 for x in (0.7, 99.99)],
        "x * (y * z)": [x * (127.0 * -1.5) for x in (0.7, 99.99)],
        "(x + 1e16) + 1.5": [x + 1e16 + 1.5 for x in (0.7, 99.99)],
    }.items():
        expr = bind_expression(parse_expression(sql), data.schema)
        found = pa.dataset.dataset(data).to_table(columns={"v": expression_to_arrow(expr)})["v"].to_pylist()
        assert found == expected, sql


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS.filter(lambda expr: not promoted(expr)), st.sampled_from(list(CompareOp)))
def test_conditions_on_computed_values(expr: Expr, op: CompareOp) -> None:
    bound = bind(Compare(op, expr, Literal(1)), TABLE.schema)
    wanted = []
    for i, row in enumerate(ROWS):
        value = evaluate(expr, row)
        if value is not None:
            sign = 1 if value != value else (value > 1) - (value < 1)  # noqa: PLR0124 NaN is greater
            holds = {"=": sign == 0, "!=": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}
            wanted += [i] if holds[op] else []
    assert TABLE.filter(to_arrow(bound))["row"].to_pylist() == wanted
