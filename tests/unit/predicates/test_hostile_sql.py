"""SQL text that is wrong, too much, or meant to do harm: one clear error, quickly."""

from __future__ import annotations

import contextlib
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.errors import InvalidPredicateError, ParqlakeError
from parqlake.core.predicates import bind
from parqlake.core.predicates.sql import MAX_LENGTH, parse_expression, parse_sql
from parqlake.core.predicates.tree import Predicate


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("a = 1; drop table x", "holds a ';'"),
        ("a = 1;", "holds a ';'"),
        ("a = 1 -- and b = 2", "comment"),
        ("a = 1 /* or 1 = 1 */", "comment"),
        ("select 1", "'select'"),
        ("drop table x", "'drop'"),
        ("a = 1 b", "'b' (line 1, column 7)"),
        ("a =", "not understood at '='"),
        ("a = 'x", "quote"),
        ('"a = 1', "quote"),
        ("a in (select b from c)", "SELECT b FROM c"),
        ("exists (select 1)", "EXISTS"),
        ("(select 1) = 1", "SELECT 1"),
        ("a = any([1, 2])", "ANY"),
        ("count(*) > 1", "COUNT(*)"),
        ("sum(a) > 1", "SUM(a)"),
        ("row_number() over () = 1", "OVER"),
        ("a = ?", "placeholder"),
        ("a = $1", "placeholder"),
        ("a = :name", "placeholder"),
        ("read_text('/etc/passwd') = 'x'", "/etc/passwd"),
        ("f(a)", "F(a)"),
        ("now() > a", "NOW()"),
        ("current_date = a", "CURRENT_DATE"),
        ("a::int = 1", "converts a column"),
        ("try_cast('1' as int) = a", "TRY_CAST"),
        ("a = '1'::json", "JSON"),
        ("a = 'x'::int", "not a whole number"),
        ("a = 1.5::int", "not a whole number"),
        ("a = 'abc'::double", "not a number"),
        ("a = '1.555'::decimal(10, 2)", "more than 2 digits"),
        ("a = date '2026-02-30'", "2026-02-30"),
        ("a = date '2026-01-01 12:00'", "no time of day"),
        ("a = timestamp '2026-01-01T00:00:00Z'", "timestamptz"),
        ("a = 'é'::blob", "ASCII"),
        ("a = x'0'", "even number"),
        ("a = 0xff", "hexadecimal"),
        ("a = 1e999", "greater than every double"),
        ("a = " + "9" * 1001, "1001 digits"),
        ("a like b", "not a string constant"),
        ("a like 'x%!%y' escape '!'", "starts_with"),
        ("a like 'x!' escape '!'", "ends with the escape"),
        ("a like any ('x')", "ANY"),
        ("starts_with(a, b)", "not a string constant"),
        ("a similar to 'x'", "SIMILAR"),
        ("a between symmetric 1 and 2", "between"),
        ("a is distinct from 1", "DISTINCT"),
        ("case when a then b end", "CASE"),
        ("a[1] = 2", "a[1]"),
        ("(a, b) = (1, 2)", "tuple"),
        ("a = [1, 2]", "array"),
        ("a < b < c", "compared"),
        ("a and 5", "no condition"),
        ("5", "no condition"),
        ("a + (b = 1) > 1", "where a value is needed"),
        ("a || b = 'x'", "||"),
        ("a // 2 = 1", "//"),
        ("a = interval '1 day'", "INTERVAL"),
        ("a collate nocase = 'x'", "COLLATE"),
        ("#1 = 2", "#1"),
        ("* = 1", "*"),
        ("columns(*) > 1", "COLUMNS"),
        ("a -> 'b' = 1", "->"),
        ("a at time zone 'UTC' = 1", "AT TIME ZONE"),
        ("{{ a }} = 1", "not understood"),
    ],
)
def test_refused(sql: str, part: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse_sql(sql)
    message = str(caught.value)
    assert repr(sql)[:50] in message
    assert part in message
    assert "possible are" in message


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 5000,
        "(" * 5000 + "a" + ")" * 5000,
        "lower(" * 300 + "a" + ")" * 300 + " = 'x'",
        "[" * 1000 + "1" + "]" * 1000 + " = a",
        "not " * 20_000 + "a",
        "- " * 20_000 + "a = 1",
        "a = 1" + " + 1" * 20_000,
        "a = 'x'" + "::varchar" * 5000,
        "case when " * 2000,
        "a" + ".b" * 20_000 + " = 1",
        "a = " + "1" * 200_000,
        "a = '" + "'" * 200_001,
        "x" * (MAX_LENGTH + 1),
        "a = 1 or " * 50_000 + "a = 1",
        "a in (" * 2000,
        "a between " * 3000 + "1",
        "{'a': " * 500 + "1" + "}" * 500 + " = a",
        "\0" * 1000,
        "/*" * 10_000,
        "$$" * 10_000,
    ],
)
def test_hostile_text_neither_hangs_nor_crashes(sql: str) -> None:
    start = time.process_time()
    with pytest.raises(ParqlakeError) as caught:
        bind(parse_sql(sql), pa.schema([("a", pa.int64())]))
    assert time.process_time() - start < 10
    assert len(str(caught.value)) < 2000


def test_reasonable_nesting_is_fine() -> None:
    sql = "a = 1"
    for i in range(20):
        sql = f"({sql}) and not (b = {i})" if i % 2 else f"({sql} or c in ({i}, 2))"
    assert isinstance(parse_sql(sql), Predicate)


def test_long_in_lists_are_quick() -> None:
    start = time.process_time()
    parse_sql("a in (" + ", ".join(f"'{i:036}'" for i in range(10_000)) + ")")
    assert time.process_time() - start < 5


def test_keywords_serve_as_columns() -> None:
    for name in ("date", "time", "timestamp", "value", "key", "type", "order", "user", "count", "year", "index"):
        assert parse_sql(f"{name} = 1") == parse_sql(f'"{name}" = 1')


def test_expressions_refuse_conditions() -> None:
    with pytest.raises(InvalidPredicateError, match="as a value"):
        parse_expression("a > 1")
    with pytest.raises(InvalidPredicateError, match="as a condition"):
        parse_sql("a + 1")


_PIECES = st.sampled_from(
    """a b.c "q" 'x' 1 2.5 1e3 null true and or not in is between like ilike = != < <= ( ) , . + - * / % :: date cast
    as [ ] { } ; -- /* */ ? $1 : @ # $$ \\ escape case when then end select from lower( coalesce( isnan( x'00 0x
    é ELSE""".split()  # noqa: SIM905 a list would be a page long
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=25), st.sampled_from([" ", ""]))
def test_any_text_gives_a_tree_or_the_one_error(pieces: list[str], glue: str) -> None:
    with contextlib.suppress(InvalidPredicateError):
        assert isinstance(parse_sql(glue.join(pieces)), Predicate)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_characters_give_a_tree_or_the_one_error(text: str) -> None:
    with contextlib.suppress(InvalidPredicateError):
        assert isinstance(parse_sql(text), Predicate)
