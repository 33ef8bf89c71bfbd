"""How values are spelt, how wide tables fit, and which exit code an error has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.cli import plain
from parqlake.cli.exits import UsageError, failure_of
from parqlake.cli.fitting import GAP, LEAST, Wanted, fit
from parqlake.cli.report import Kind, Listing, columns, record
from parqlake.cli.values import for_json, for_people, for_pipes, from_pipes
from parqlake.core import errors


def test_a_value_for_people_pipes_and_programs() -> None:
    at = datetime(2026, 11, 16, 12, 30, 1, 5, tzinfo=UTC)
    assert for_people(at) == "2026-11-16T12:30:01Z"
    assert for_pipes(at) == for_json(at) == "2026-11-16T12:30:01.000005+00:00"
    assert for_people(12_345, Kind.COUNT) == "12,345"
    assert for_pipes(12_345) == "12345"
    assert for_people(3 * 1024**2, Kind.BYTES) == "3.0 MiB"
    assert for_pipes(Decimal("1.50")) == "1.50"
    assert for_json(float("inf")) == "inf"
    assert for_pipes({"a": [1, None]}) == '{"a": [1, null]}'
    assert for_people("\x1b[31m\tred\nx") == "\\x1b[31m red⏎x"
    assert for_people((), Kind.NAMES) == "–"


@given(st.lists(st.text(), min_size=1))
def test_a_line_for_pipes_is_one_line_and_can_be_read_back(values: list[str]) -> None:
    line = "\t".join(map(for_pipes, values))
    assert len(line.splitlines()) <= 1
    assert [from_pipes(cell) for cell in line.split("\t")] == values
    assert from_pipes(r"C:\dir \xZZ \ud800") == r"C:\dir \xZZ \ud800"


@given(
    st.lists(st.builds(Wanted, st.integers(0, 200), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(20, 200),
)
def test_columns_that_are_kept_fit(wanted: list[Wanted], width: int) -> None:
    fitted = fit(wanted, width)
    assert fitted.kept
    used = sum(fitted.widths) + GAP * (len(fitted.kept) - 1)
    assert used <= width or len(fitted.kept) == 1
    for place, given_width in zip(fitted.kept, fitted.widths, strict=True):
        assert given_width == wanted[place].width or (not wanted[place].whole and given_width >= LEAST)
    ranks = {wanted[place].rank for place in fitted.kept}
    left = [column for place, column in enumerate(wanted) if place not in fitted.kept]
    assert all(column.rank >= max(ranks) for column in left)


def test_a_report_is_one_json_object() -> None:
    report = [
        record(table="a.b", row_count=3, tags=("x",)),
        record(name="of", size_bytes=7),
        Listing("columns", columns("column", "nullable"), [("id", False)]),
    ]
    assert plain.document(report) == {
        "table": "a.b",
        "row_count": 3,
        "tags": ["x"],
        "of": {"size_bytes": 7},
        "columns": [{"column": "id", "nullable": False}],
    }
    assert list(plain.tsv(report)) == [
        "table\ta.b", "row_count\t3", "tags\tx", "", "size_bytes\t7", "", "column\tnullable", "id\tfalse",
    ]  # fmt: skip


def test_rows_are_json_whatever_their_number_and_names() -> None:
    for rows in ([], [(1, float("nan"))], [(1, None), (2, 0.5)]):
        text = "".join(plain.json_rows([("n", "int64"), ("n", "double")], rows))
        read = json.loads(text)
        assert [column["name"] for column in read["columns"]] == ["n", "n_2"]
        assert len(read["rows"]) == len(rows)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConcurrentAppendError("x"), 3),
        (errors.TableNotFoundError("x"), 4),
        (errors.LakeNotFoundError("x"), 4),
        (errors.InvalidPredicateError("x"), 2),
        (errors.TypeMismatchError("x"), 1),
        (errors.ConstraintError("x"), 5),
        (errors.DataCorruptionError("x"), 5),
        (errors.CatalogBusyError("x"), 1),
        (UsageError("x"), 2),
        (PermissionError(13, "denied", "f"), 1),
        (ZeroDivisionError("x"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_a_code_and_is_one_paragraph(error: Exception, code: int) -> None:
    failure = failure_of(error)
    assert failure.code == code
    assert failure.to_dict()["error"]["exit_code"] == code
    assert str(failure).startswith("error: ")
    assert len(str(failure).splitlines()) <= 2
