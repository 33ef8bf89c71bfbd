"""Names: what can be a name, and what can never become SQL or a way out of the root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InvalidNameError
from parqlake.core.names import (
    TableName,
    check_column_names,
    check_tag_name,
    parse_table_name,
    partition_segment,
)


def test_two_plain_identifiers_make_a_name() -> None:
    assert parse_table_name("sales.orders") == TableName("sales", "orders")
    assert str(parse_table_name("_a-1.B_2")) == "_a-1.B_2"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        ".",
        "a.",
        ".b",
        "a.b.c",
        "a..b",
        "../a.b",
        "a./b",
        "a.b/c",
        "a\\b.c",
        'a."b"',
        "a.b'; drop table x",
        "ä.b",
        "a.\u202eb",
        "a.b\0",
        "a .b",
        "1a.b",
        "a.b\n",
        "a" * 300 + ".b",
        "a." + "b" * 300,
        None,
        7,
        b"a.b",
    ],
)
def test_anything_else_is_refused_with_the_rule(name: object) -> None:
    with pytest.raises(InvalidNameError, match=r"namespace|too long|empty"):
        parse_table_name(name)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "empty"),
        (["a", "  "], "empty"),
        (["a", "A"], "differ only in case"),
        (["a", "a"], "twice"),
        (["a\nb"], "control character"),
        (["x" * 256], "too long"),
    ],
)
def test_column_names_that_engines_disagree_on_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(InvalidNameError, match=message):
        check_column_names(names)


def test_odd_but_clear_column_names_are_fine() -> None:
    check_column_names(["we ird", 'quo"te', "semi;colon", "a.b", "naïve", "日本", "'", "select"])


@pytest.mark.parametrize("tag", ["", "7", "a b", "a/b", "x" * 129, None, "-a"])
def test_bad_tags_are_refused(tag: object) -> None:
    with pytest.raises(InvalidNameError, match="invalid tag"):
        check_tag_name(tag)


@given(st.text(min_size=1, max_size=300), st.none() | st.text(max_size=400))
def test_a_partition_folder_is_one_short_segment(column: str, value: str | None) -> None:
    column = column.encode("utf-8", "ignore").decode() or "c"
    value = None if value is None else value.encode("utf-8", "ignore").decode()
    segment = partition_segment(column, value)
    assert "/" not in segment
    assert "\\" not in segment
    assert segment not in (".", "..")
    assert len(segment.encode()) <= 201
