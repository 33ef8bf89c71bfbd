"""All spellings of a condition become the same tree."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates import parse
from parqlake.core.predicates.normalise import normalise
from parqlake.core.predicates.tree import (
    TRUE,
    And,
    Column,
    Compare,
    CompareOp,
    Literal,
    Not,
    Or,
    Predicate,
)

a = pc.field("a")
DAY = dt.date(2026, 1, 31)
AWARE = dt.datetime(2026, 1, 31, 12, 30, 0, 250, tzinfo=dt.UTC)
MOMENT = AWARE.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("sql", "arrow", "tuples"),
    [
        ("a = 1", a == 1, ("a", "=", 1)),
        ("a == 1", a == pa.scalar(1, pa.int8()), [("a", "==", np.int16(1))]),
        ("a != 1", a != 1, ("a", "<>", 1)),
        ("a <> 1", ~(a == 1), ("a", "!=", 1)),
        ("a < -1.5", a < Decimal("-1.5"), ("a", "<", Decimal("-1.5"))),
        ("a <= 1e3", a <= 1000.0, ("a", "<=", 1000.0)),
        ("a > 'it''s'", a > "it's", ("a", ">", "it's")),
        ("a >= date '2026-01-31'", a >= DAY, ("a", ">=", DAY)),
        ("a = timestamp '2026-01-31 12:30:00.00025'", a == MOMENT, ("a", "=", pd.Timestamp(MOMENT))),
        ("a = timestamptz '2026-01-31T13:30:00.00025+01:00'", a == AWARE, ("a", "=", AWARE)),
        ("a = '2026-01-31'::date", a == pa.scalar(DAY), ("a", "=", np.datetime64("2026-01-31"))),
        (
            "a = timestamp '2026-01-31 00:00:00.123456789'",
            a == pa.scalar(1769817600123456789, pa.timestamp("ns")),
            ("a", "=", np.datetime64("2026-01-31T00:00:00.123456789")),
        ),
        ("a = time '12:30'", a == dt.time(12, 30), ("a", "=", dt.time(12, 30))),
        ("a = x'00fF'", a == b"\x00\xff", ("a", "=", bytearray(b"\x00\xff"))),
        (r"a = '\x00z'::blob", a == b"\x00z", ("a", "=", b"\x00z")),
        ("a = true", a == True, ("a", "=", np.True_)),  # noqa: E712
        ("a = 'nan'::double", a == pa.scalar(math.nan), ("a", "=", np.float32("nan"))),
        ("a = null", a == pa.scalar(None, pa.int64()), ("a", "=", None)),
        ("a in (1, 2)", a.isin([1, 2]), ("a", "in", [1, 2])),
        ("a in (1, 2)", a.isin(pa.array([1, 2], pa.int8())), ("a", "in", np.array([1, 2]))),
        ("a is null", a.is_null(), ("a", "is null")),
        ("a is not null", a.is_valid(), ("a", "IS  NOT NULL", None)),
        ("a between 1 and 2", (a >= 1) & (a <= 2), ("a", "between", (1, 2))),
        ("a like 'x%_'", pc.match_like(a, "x%_"), ("a", "like", "x%_")),
        ("a not like 'x%'", ~pc.starts_with(a, "x"), ("a", "not like", "x%")),
        ("a = 1 and b = 2", (a == 1) & (pc.field("b") == 2), [("a", "=", 1), ("b", "=", 2)]),
        (
            "(a = 1 and b = 2) or a = 3",
            ((a == 1) & (pc.field("b") == 2)) | (a == 3),
            [[("a", "=", 1), ("b", "=", 2)], [("a", "=", 3)]],
        ),
        ('"a.b" = 1', pc.field("a.b") == 1, ("a.b", "=", 1)),
    ],
)
def test_three_spellings(sql: str, arrow: Any, tuples: Any) -> None:
    tree = normalise(parse(sql))
    assert normalise(parse(arrow)) == tree
    assert normalise(parse(tuples)) == tree


def equals(column: str, value: object) -> Compare:
    return Compare(CompareOp.EQ, Column(tuple(column.split("."))), Literal(value))


def test_trees_and_nothing() -> None:
    tree = Not(equals("a", 1))
    assert parse(tree) is tree
    assert parse(None) == TRUE
    assert parse([]) == TRUE


def test_nested_fields() -> None:
    assert parse("a.b.c.d.e.f = 1") == equals("a.b.c.d.e.f", 1)
    assert parse(pc.field("a", "b", "c") == 1) == equals("a.b.c", 1)
    assert parse('"we ird"."x""y" = 1') == Compare(CompareOp.EQ, Column(("we ird", 'x"y')), Literal(1))


def test_lists_of_lists() -> None:
    assert parse([[("a", "=", 1)]]) == equals("a", 1)
    assert parse([[("a", "=", 1), ("b", "=", 2)], [("a", "=", 3)]]) == Or(
        (And((equals("a", 1), equals("b", 2))), equals("a", 3))
    )


@pytest.mark.parametrize(
    ("where", "part"),
    [
        (5, "5 of type int"),
        (b"a = 1", "of type bytes"),
        ({"a": 1}, "of type dict"),
        (Column(("a",)), "of type Column"),
        (pc.field, "of type function"),
        (("a", "~", 1), "no operator '~'"),
        (("a", "="), "has no value"),
        (("a", "=", 1, 2), "is not a condition"),
        (("a", "in", "eu"), "needs a list of values"),
        (("a", "in", 5), "needs a list of values"),
        (("a", "between", [1]), "needs two values"),
        (("a", "like", 5), "is not a string"),
        (("a", "is null", 5), "has a value"),
        ([("a", "=", 1), "b = 2"], "is not a condition"),
        ([[("a", "=", 1)], []], "is empty"),
        ([["a", "=", 1]], "is not a condition"),
        (("a", "=", [1]), "is a list"),
        (("a", "=", dt.timedelta(1)), "is a timedelta"),
        (("a", "=", dt.time(1, tzinfo=dt.UTC)), "has a time zone"),
        (("a", "=", np.datetime64(1, "as")), "unit"),
        (("a", "=", pa.scalar([1])), "an Arrow list"),
        ((5, "=", 5), "is not a condition"),
    ],
)
def test_what_is_no_predicate(where: Any, part: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse(where)
    assert part in str(caught.value)


def test_unknown_type_shows_the_three_spellings() -> None:
    with pytest.raises(InvalidPredicateError, match=r"SQL text .*pyarrow expression .*tuples"):
        parse(object())


def test_sqlglot_is_loaded_for_sql_text_only() -> None:
    script = (
        "import sys; from parqlake.core.predicates import parse, bind\n"
        "assert 'pyarrow.compute' not in sys.modules\n"
        "import pyarrow.compute as pc; parse(pc.field('a') > 1); parse([('a', '>', 1)])\n"
        "assert 'sqlglot' not in sys.modules\n"
        "parse('a > 1'); assert 'sqlglot' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    "null", [None, float("nan"), pd.NaT, pd.NA, np.datetime64("NaT"), pa.scalar(None, pa.string())]
)
def test_nulls_of_all_kinds_but_nan(null: object) -> None:
    found: Predicate = parse(("a", "=", null))
    assert isinstance(found, Compare)
    assert isinstance(found.right, Literal)
    is_nan = isinstance(null, float)
    assert (found.right.value is None) == (not is_nan)
