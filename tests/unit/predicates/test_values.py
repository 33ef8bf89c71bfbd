"""Values that columns are set to: PyArrow computes what DuckDB does. Predicates stay the small language they are."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.evaluate import is_true, value_of
from parqlake.core.predicates.expressions import bind_expression
from parqlake.core.predicates.parse import parse
from parqlake.core.predicates.sql import parse_value
from parqlake.core.predicates.to_sql import expression_to_sql
from parqlake.core.predicates.tree import Literal

VALUES = [
    "s || '-' || s",
    "lower(s) || 'x'",
    "case when i > 1 then s else 'none' end",
    "case i when 1 then 10 when 2 then null else f end",
    "case when ok then d else i end",
    "case when f > 0 then 'a' when s is null then 'b' end",
    "case when day is null then '2020-02-29' else day end",
    "case when not ok then case when n = 0 then 1 else 2 end end",
    "i > 1 or s like 'a%'",
    "not ok",
    "coalesce(s, 'none') || coalesce(s, '')",
    "d * 1.1",
    "n % 7",
]


@pytest.mark.parametrize("text", VALUES)
def test_values_are_those_of_duckdb(text: str, table: pa.Table, connection: duckdb.DuckDBPyConnection) -> None:
    bound = bind_expression(parse_value(text), table.schema)
    (batch,) = table.combine_chunks().to_batches()
    found = value_of(batch, bound)
    written = connection.sql(f"select {expression_to_sql(bound)} as v from t order by id").to_arrow_table()
    plain = connection.sql(f"select {text} as v from t order by id").to_arrow_table()
    assert _values(found) == _values(written.column("v")) == _values(plain.column("v"))


def _values(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """As text, since `float('nan')` does not equal itself, and decimals may have more zeros."""
    return [str(float(value)) if _is_number(value) else str(value) for value in column.to_pylist()]


def _is_number(value: object) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__")


def test_what_is_known_beforehand_is_folded(table: pa.Table) -> None:
    field = table.schema.field("i")
    for text in (
        "case when false then s else 1 + 1 end",
        "case when true then 2 end",
        "case when i > 0 then 2 else 2 end",
    ):
        assert bind_expression(parse_value(text), table.schema, target=field) == Literal(2, pa.scalar(2, pa.int8()))


@pytest.mark.parametrize(
    "text", ["s || 1", "case when i > 0 then s else i end", "concat(s, s)", "case when s then 1 end", "i || s"]
)
def test_values_that_do_not_go_together_are_refused(text: str, table: pa.Table) -> None:
    with pytest.raises(InvalidPredicateError):
        bind_expression(parse_value(text), table.schema)


@pytest.mark.parametrize("text", ["case when ok then true end", "s || 'x' = 'ax'"])
def test_predicates_take_neither_case_nor_concatenation(text: str) -> None:
    with pytest.raises(InvalidPredicateError, match="is not understood"):
        parse(text)


def test_unknown_is_not_true(table: pa.Table) -> None:
    from parqlake.core.predicates.bind import bind

    (batch,) = table.combine_chunks().to_batches()
    assert is_true(batch, bind(parse("i > 1 or f > 1"), table.schema)).tolist() == [False, True, False, False]
    assert is_true(batch, bind(parse("true"), table.schema)).tolist() == [True] * 4
