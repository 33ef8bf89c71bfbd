"""Bad input gives one clear error with a hint, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake import Lake, ParqlakeError, Table, errors
from parqlake.testing.data import ORDERS, orders, state
from parqlake.testing.plugin import Feed, Read

BAD_NAMES = [
    "",
    " ",
    "orders",
    "a.b.c",
    ".",
    "..",
    "a.",
    ".b",
    "sales/orders",
    "../sales.orders",
    "sales.../up",
    "sales..orders",
    "/etc.passwd",
    "sales.or ders",
    'sales."orders"',
    "sales.o'rders",
    "sales.orders; drop table file; --",
    "sales.órders",
    "säles.orders",
    "ѕales.orders",
    "sales.orders\n",
    "sales.orders\0",
    "sales.%2e%2e",
    "1sales.orders",
    "sales.-x",
    "sales." + "x" * 300,
    "x" * 300 + ".orders",
    None,
    7,
    b"sales.orders",
    ["sales", "orders"],
]


@dataclass(frozen=True)
class Case:
    """A call that must fail, and how."""

    what: str
    call: Callable[[Lake, Table], object]
    error: type[Exception]
    match: str


WRITING_CASES = [
    Case("no data at all", lambda _, t: t.append(None), errors.UnsupportedInputError, "NoneType.*give"),
]

READING_CASES = [
    Case(
        "unknown column",
        lambda _, t: t.scan(columns=["amout"]),
        errors.ColumnNotFoundError,
        'did you mean "amount".*id, region',
    ),
    Case(
        "unknown column in where",
        lambda _, t: t.scan("regoin = 'eu'"),
        errors.ColumnNotFoundError,
        'did you mean "region"',
    ),
    Case(
        "unknown column in an expression",
        lambda _, t: t.scan(pc.field("regoin") == "eu"),
        errors.ColumnNotFoundError,
        'did you mean "region"',
    ),
    Case(
        "unknown column in tuples", lambda _, t: t.scan([("regoin", "=", "eu")]), errors.ColumnNotFoundError, '"region"'
    ),
    Case("column twice", lambda _, t: t.scan(columns=["id", "id"]), errors.InvalidOptionError, "twice"),
    Case("no columns", lambda _, t: t.scan(columns=[]), errors.InvalidOptionError, "at least one column"),
    Case("half a predicate", lambda _, t: t.scan("id >"), errors.InvalidPredicateError, "cannot read 'id >'"),
    Case("empty predicate", lambda _, t: t.scan(""), errors.InvalidPredicateError, "empty"),
    Case("a statement", lambda _, t: t.scan("id = 1; drop table x"), errors.InvalidPredicateError, "';'"),
    Case("a comment", lambda _, t: t.scan("id = 1 -- and more"), errors.InvalidPredicateError, "comment"),
    Case("a subquery", lambda _, t: t.scan("id in (select 1)"), errors.InvalidPredicateError, "possible are"),
    Case(
        "an unknown function", lambda _, t: t.scan("sha1(region) = 'x'"), errors.InvalidPredicateError, "possible are"
    ),
    Case("an aggregate", lambda _, t: t.scan("id = max(id)"), errors.InvalidPredicateError, "possible are"),
    Case("a value alone", lambda _, t: t.scan("7"), errors.InvalidPredicateError, "compare it"),
    Case(
        "a number for a string", lambda _, t: t.scan("region = 7"), errors.InvalidPredicateError, '"region" is string'
    ),
    Case("a string for a number", lambda _, t: t.scan("id = 'seven'"), errors.InvalidPredicateError, '"id" is int64'),
    Case("a bad date", lambda _, t: t.scan("day = '2026-02-30'"), errors.InvalidPredicateError, '"day"'),
    Case("a bad operator", lambda _, t: t.scan([("id", "~", 1)]), errors.InvalidPredicateError, "~"),
    Case("a number as where", lambda _, t: t.scan(7), errors.InvalidPredicateError, "SQL"),
    Case("a bad limit", lambda _, t: t.scan(limit=-1), errors.InvalidOptionError, "limit=-1"),
    Case("a limit in words", lambda _, t: t.scan(limit="ten"), errors.InvalidOptionError, "limit='ten'"),  # type: ignore[arg-type]
    Case("a version to come", lambda _, t: t.scan(version=2), errors.VersionNotFoundError, "0 .empty. to 1"),
    Case(
        "a tag that is none",
        lambda _, t: t.scan(version="release-2"),
        errors.VersionNotFoundError,
        'did you mean "release-1"',
    ),
    Case("no moment", lambda _, t: t.scan(as_of="noon"), errors.InvalidOptionError, "2026-01-31T12:00:00Z"),
    Case(
        "a bad predicate to overwrite",
        lambda _, t: t.overwrite(orders(1), where="id >"),
        errors.InvalidPredicateError,
        "id >",
    ),
]

TABLE_CASES = [
    Case(
        "a missing table",
        lambda k, _: k.table("sales.ordres"),
        errors.TableNotFoundError,
        'did you mean "sales.orders"',
    ),
    Case(
        "a missing table to drop", lambda k, _: k.drop_table("sales.ordres"), errors.TableNotFoundError, "did you mean"
    ),
    Case(
        "a missing table to rename",
        lambda k, _: k.rename_table("sales.ordres", "sales.x"),
        errors.TableNotFoundError,
        "did you mean",
    ),
    Case(
        "an existing table",
        lambda k, _: k.create_table("sales.orders", ORDERS),
        errors.TableExistsError,
        "sales.orders",
    ),
    Case(
        "bad if_exists",
        lambda k, _: k.create_table("a.b", ORDERS, if_exists="replace"),
        errors.InvalidOptionError,
        '"ignore"',
    ),
    Case("bad if_missing", lambda k, _: k.drop_table("a.b", if_missing="shrug"), errors.InvalidOptionError, '"ignore"'),
    Case("no columns", lambda k, _: k.create_table("a.b", pa.schema([])), errors.InvalidOptionError, "at least one"),
    Case("no schema", lambda k, _: k.create_table("a.b", 7), errors.UnsupportedInputError, "pyarrow.Schema"),
    Case("no schema at all", lambda k, _: k.create_table("a.b", None), errors.UnsupportedInputError, "pyarrow.Schema"),
    Case(
        "columns that differ in case",
        lambda k, _: k.create_table("a.b", pa.schema([("A", pa.int8()), ("a", pa.int8())])),
        errors.InvalidNameError,
        "differ only in case",
    ),
    Case(
        "a column twice",
        lambda k, _: k.create_table("a.b", pa.schema([("a", pa.int8()), ("a", pa.int8())])),
        errors.InvalidNameError,
        "twice",
    ),
    Case(
        "a column without a name",
        lambda k, _: k.create_table("a.b", pa.schema([("", pa.int8())])),
        errors.InvalidNameError,
        "empty",
    ),
    Case(
        "a column name of 300 characters",
        lambda k, _: k.create_table("a.b", pa.schema([("c" * 300, pa.int8())])),
        errors.InvalidNameError,
        "at most 255",
    ),
    Case(
        "a column name with a control character",
        lambda k, _: k.create_table("a.b", pa.schema([("a\0b", pa.int8())])),
        errors.InvalidNameError,
        "control character",
    ),
    Case(
        "partitions by a column that is not there",
        lambda k, _: k.create_table("a.b", ORDERS, partition_by=["regoin"]),
        errors.ColumnNotFoundError,
        'did you mean "region"',
    ),
    Case(
        "partitions by a float",
        lambda k, _: k.create_table("a.b", ORDERS, partition_by=["amount"]),
        errors.InvalidOptionError,
        'partition by "amount"',
    ),
    Case(
        "partitions by everything",
        lambda k, _: k.create_table("a.b", pa.schema([("x", pa.int8())]), partition_by=["x"]),
        errors.InvalidOptionError,
        "every column",
    ),
    Case(
        "partitions by one column twice",
        lambda k, _: k.create_table("a.b", ORDERS, partition_by=["region", "region"]),
        errors.InvalidOptionError,
        "twice",
    ),
    Case(
        "partitions by a number",
        lambda k, _: k.create_table("a.b", ORDERS, partition_by=[1]),  # type: ignore[list-item]
        errors.InvalidOptionError,
        "column names",
    ),
    Case(
        "sorted by a column that is not there",
        lambda k, _: k.create_table("a.b", ORDERS, sort_by=["amout"]),
        errors.ColumnNotFoundError,
        'did you mean "amount"',
    ),
    Case(
        "sorted by a nested column",
        lambda k, _: k.create_table("a.b", pa.schema([("s", pa.struct([("x", pa.int8())]))]), sort_by=["s"]),
        errors.InvalidOptionError,
        "sort",
    ),
]

ALL_CASES = [*WRITING_CASES, *READING_CASES, *TABLE_CASES]


def _run(case: Case, lake: Lake, table: Table) -> None:
    with pytest.raises(case.error, match=case.match) as caught:
        case.call(lake, table)
    assert isinstance(caught.value, ParqlakeError)


def test_bad_calls_give_one_clear_error_and_write_nothing(lake: Lake, table: Table, subtests: pytest.Subtests) -> None:
    table.append(orders(5))
    table.tag("release-1")
    before = state(lake)
    for case in ALL_CASES:
        with subtests.test(what=case.what):
            _run(case, lake, table)
            assert state(lake) == before


def test_names_that_are_none_give_one_clear_error_and_write_nothing(
    lake: Lake, table: Table, subtests: pytest.Subtests
) -> None:
    table.append(orders(5))
    before = state(lake)
    for name in BAD_NAMES:
        calls: list[Callable[[Any], object]] = [
            lambda n: lake.create_table(n, ORDERS),
            lake.table,
            lake.drop_table,
            lake.undrop_table,
            lambda n: lake.rename_table("sales.orders", n),
            lambda n: lake.rename_table(n, "sales.other"),
            lambda n: lake.undrop_table("sales.orders", rename_to=n),
            lambda n: lake.transaction().__enter__().table(n),
        ]
        with subtests.test(name=repr(name)[:60]):
            for number, call in enumerate(calls):
                if name is None and number == 6:
                    continue  # rename_to=None means the same name
                with pytest.raises(errors.InvalidNameError, match="name") as caught:
                    call(name)
                assert "namespace" in str(caught.value) or "at most 128" in str(caught.value)
                assert len(str(caught.value)) < 300
    for namespace in ("", "a.b", "a/b", "..", "a'b", "ä", "x" * 300, 7):
        with subtests.test(namespace=repr(namespace)[:60]), pytest.raises(errors.InvalidNameError, match="namespace"):
            lake.tables(namespace)  # type: ignore[arg-type]
    assert state(lake) == before


@pytest.mark.engine_work
def test_odd_but_legal_column_names_are_only_names(lake: Lake, feed: Feed, read: Read) -> None:
    names = [
        "select",
        'with "quotes"',
        "o'clock",
        "a.b",
        "back`tick",
        "ünï 漢字",
        "; drop table x",
        "x" * 255,
        "%s",
        "?",
        "$1",
    ]
    data = pa.table({name: [1, 2] for name in names})
    table = lake.create_table("odd.columns", data)
    table.append(feed(data))
    assert read(table.scan()).equals(data)
    assert read(table.scan([(name, "=", 2) for name in names], columns=names[::-1])).num_rows == 1
    for name in names:
        assert table.scan([(name, "=", 2)], columns=[name]).to_arrow().column(0).to_pylist() == [2], name
        assert table.scan(pc.field(name) == 2).count() == 1, name
        quoted = name.replace('"', '""')
        assert table.scan(f'"{quoted}" < 2').count() == 1, name
    assert {entry["column"] for entry in table.row_groups().to_pylist()} == set(names)


@pytest.mark.engine_work
def test_values_in_predicates_are_only_values(lake: Lake, feed: Feed, read: Read) -> None:
    values = ["'; drop table file; --", "%", "_", "\\", "''", '"', "\0", "a\nb", "{}", "?", "$1", "漢"]
    data = pa.table({"id": range(len(values)), "text": values})
    table = lake.create_table("odd.values", data)
    table.append(feed(data), row_group_size=1)
    assert read(
        table.scan([[("text", "=", value), ("id", "=", number)] for number, value in enumerate(values)])
    ).equals(data)
    for number, value in enumerate(values):
        quoted = value.replace("'", "''")
        for where in ([("text", "=", value)], pc.field("text") == value, f"text = '{quoted}'"):
            assert table.scan(where).to_arrow().column("id").to_pylist() == [number], value
    assert lake.tables() == ["odd.values"]
