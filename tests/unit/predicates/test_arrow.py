"""`pyarrow.compute` expressions keep their meaning on the way through the tree."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.arrow import from_arrow
from parqlake.core.predicates.arrow_tokens import read_tokens
from parqlake.core.predicates.normalise import normalise
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import Column, In, IsNaN, IsNull, Like, Or

field = pc.field
DATA = pa.table(
    {
        "row": list(range(8)),
        "i": [1, 2, 3, None, 5, -1, 0, 2],
        "j": [1, None, 2, None, 7, 1, 0, -2],
        "f": [1.5, None, 2.0, -0.0, 5.0, 1e300, 0.0, 2.5],
        "s": ["a", "Ab", None, "b%", "", "abc", "a_", "É"],
        "ok": [True, False, None, True, None, False, True, False],
        "st": [{"x": 1}, {"x": None}, None, {"x": 2}, {"x": 3}, None, {"x": 1}, {"x": 0}],
        "d": pa.array([Decimal(n) / 4 if n else None for n in range(8)], pa.decimal128(5, 2)),
        "day": [dt.date(2026, 1, day) if day > 1 else None for day in range(1, 9)],
    }
)


def rows(expression: Any) -> list[int]:
    found: list[int] = DATA.filter(expression)["row"].to_pylist()
    return found


def through_the_tree(expression: Any) -> list[int]:
    return rows(to_arrow(bind(from_arrow(expression), DATA.schema)))


NUMBER = st.sampled_from(
    [field("i"), field("j"), field("st", "x"), field("i") + field("j"), field("j") * 2, pc.abs(field("i"))]
)
VALUES = st.lists(st.none() | st.integers(0, 3), max_size=3).map(lambda values: pa.array(values, pa.int64()))
LEAF = st.one_of(
    st.builds(
        lambda op, a, b: op(a, b),
        st.sampled_from([operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]),
        NUMBER,
        st.one_of(NUMBER, st.integers(-2, 8)),
    ),
    st.builds(
        lambda op, b: op(field("f"), b),
        st.sampled_from([operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]),
        st.sampled_from([0.0, 1.5, 2.25, -1.0]),
    ),
    st.builds(lambda op, b: op(field("s"), b), st.sampled_from([operator.lt, operator.eq]), st.sampled_from("ab")),
    st.builds(lambda x, values: x.isin(values), NUMBER, VALUES),
    st.builds(lambda values, skip: pc.is_in(field("i"), value_set=values, skip_nulls=skip), VALUES, st.booleans()),
    st.sampled_from(
        [
            field("ok"),
            field("ok") == True,  # noqa: E712
            field("ok") != False,  # noqa: E712
            field("st").is_null(),
            field("i").is_null(),
            field("f").is_null(nan_is_null=True),
            field("s").is_valid(),
            field("f").is_nan(),
            (field("i") > 2).is_null(),
            ((field("i") > 2) & field("ok")).is_valid(),
            (field("i") > 2) == True,  # noqa: E712
            pc.starts_with(field("s"), "a"),
            pc.starts_with(field("s"), "a_"),
            pc.match_like(field("s"), "a%"),
            pc.match_like(field("s"), "_b%"),
            pc.match_like(field("s"), r"b\%"),
            pc.match_like(field("s"), "aB%", ignore_case=True),
            pc.utf8_lower(field("s")) == "ab",
            pc.utf8_upper(field("s")) == "É",
            pc.utf8_length(field("s")) > 1,
            pc.coalesce(field("i"), field("j"), pc.scalar(0)) == 0,
            pc.negate(field("i")) < -1,
            field("i") / 2.0 > 0.75,
            field("d") > Decimal("0.75"),
            field("d") == pc.scalar("1.25").cast(pa.decimal128(5, 2)),
            field("day") >= dt.date(2026, 1, 4),
            field("day") == pc.scalar("2026-01-05").cast(pa.date32()),
            pc.scalar(True),
            pc.scalar(False),
            pc.scalar(pa.scalar(None, pa.bool_())),
            field("i") == pa.scalar(None, pa.int64()),
        ]
    ),
)
EXPRESSION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds(operator.invert, inner), st.builds(operator.and_, inner, inner), st.builds(operator.or_, inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=250, deadline=None)
@given(EXPRESSION)
def test_expressions_filter_alike(expression: Any) -> None:
    assert through_the_tree(expression) == rows(expression)


def test_tokens_keep_repeated_keys() -> None:
    tokens, batch = read_tokens((field("a") > 1) & (field("b") > 2))
    comparison = ["call", "field_ref", "literal", "end"]
    assert [key for key, _ in tokens] == ["call", *comparison, *comparison, "end"]
    assert batch.num_columns == 2


def test_names_with_any_characters() -> None:
    for name in ("é", "a b", "", "x\ny", '"', "a.b"):
        assert list(normalise(from_arrow(field(name).is_null())).expr.path) == [name]  # type: ignore[union-attr]


def test_null_matching_behaviours() -> None:
    x = Column(("x",))
    values = pa.array([1, 2, None])

    def tree(behaviour: int) -> Any:
        # pyarrow's Python has no name for all four, so the options are taken from one that it has
        expression = field("x").isin(values)
        tokens, batch = read_tokens(expression)
        options = batch.column(0)[0].as_py() | {"null_matching_behavior": behaviour}
        changed = pa.record_batch([pa.array([options], batch.column(0).type)], names=[""])
        from parqlake.core.predicates.arrow import _tree

        return normalise(_tree(tokens, changed))  # type: ignore[arg-type]

    known = In(x, tuple(from_arrow(field("x").isin([1, 2])).items[0].values))  # type: ignore[union-attr]
    assert tree(0) == Or((known, IsNull(x)))
    assert tree(1) == known
    assert tree(2) == known
    assert tree(3) == known
    with pytest.raises(InvalidPredicateError, match="NULLs"):
        tree(9)


def test_nan_is_null_option() -> None:
    x = Column(("x",))
    assert from_arrow(field("x").is_null(nan_is_null=True)) == Or((IsNull(x), IsNaN(x)))


def test_like_patterns_are_unescaped() -> None:
    x = Column(("x",))
    assert from_arrow(pc.match_like(field("x"), r"a\\b%")) == Like(x, "a\\b%")
    with pytest.raises(InvalidPredicateError, match="starts_with"):
        from_arrow(pc.match_like(field("x"), r"%a\%b%"))


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (pc.if_else(field("ok"), 1, 2) == 1, "if_else"),
        (pc.list_element(field("l"), 0) == 1, "list_element"),
        (pc.year(field("day")) == 2026, "year"),
        (field(0) == 1, "name columns"),
        (field("i").cast("float64") > 1, "cast to double"),
        (pc.scalar("x").cast("int64") == field("i"), "x"),
        (field("i") / 2 > 1, "float constant"),
        (field("i") / field("j") > 1, "float constant"),
        (field("i") + 1, "compare it"),
        ((field("i") == 1) + 1 == 2, "where a value is needed"),
        (pc.starts_with(field("s"), "a_", ignore_case=True), "ignore_case"),
        (field("i") == pa.scalar([1]), "Arrow list"),
    ],
)
def test_refused(expression: Any, part: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        from_arrow(expression)
    assert part in str(caught.value)
    assert "SQL text" in str(caught.value)


def test_long_chains() -> None:
    chain = functools.reduce(operator.or_, [field("row") == n for n in range(4, 2000)])
    assert through_the_tree(chain) == [4, 5, 6, 7]
    inverted = functools.reduce(lambda e, _: ~e, range(5000), field("row") == 1)
    with pytest.raises(InvalidPredicateError, match="nested too deeply"):
        through_the_tree(inverted)


@pytest.mark.parametrize(("value", "unit"), [(-1, "us"), (86_400_000_000, "us"), (86_400, "s")])
def test_a_time_of_day_outside_the_day_is_refused(value: int, unit: str) -> None:
    scalar = pa.scalar(value, pa.time64(unit) if unit == "us" else pa.time32(unit))
    with pytest.raises(InvalidPredicateError, match=f"{value} {unit} is no time of day"):
        parse([("x", "=", scalar)])
