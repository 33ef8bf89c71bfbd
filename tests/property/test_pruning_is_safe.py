"""Pruning never drops a row group that holds a match, and never calls one certain that holds anything else.

Files are real Parquet, written to memory; statistics come from their own metadata; the truth about each row comes from
plain Python.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.model import DataFile
from parqlake.core.pages import PackedPage, pack_column, unpack
from parqlake.core.predicates import bind
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import (
    Column,
    Compare,
    CompareOp,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Predicate,
)
from parqlake.core.predicates.untrue import untrue
from parqlake.core.pruning import RowGroups, key_ranges, may_be_true, may_be_untrue
from parqlake.core.schema import assign_field_ids, leaves
from parqlake.core.statistics import describe_file
from parqlake.testing.data import ALIKE, rows
from parqlake.testing.strategies import KINDS, array, predicates, scalar, tables
from parqlake.testing.truth import truths


class Segment:
    """Files that were committed together, as pruning sees them."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        self.packed: dict[int, PackedPage] = {}
        for parts in zip(*(file.statistics for file in files), strict=True):
            self.packed[parts[0].column_id] = pack_column(parts)
        self.rows = np.concatenate([file.row_group_rows for file in files])
        self._pages = {number: unpack(page.data, page.nulls) for number, page in self.packed.items()}
        self.groups = RowGroups(self.rows, self._pages.get)


def _by_pyarrow(table: pa.Table, schema: pa.Schema, row_group_size: int, *, looked: bool) -> DataFile:
    sink = io.BytesIO()
    nans = set()
    with pq.ParquetWriter(sink, schema) as writer:
        for number, start in enumerate(range(0, table.num_rows, row_group_size)):
            group = table.slice(start, row_group_size)
            writer.write_table(group.cast(schema), row_group_size=row_group_size)
            nans |= {(number, leaf) for leaf in _nan_leaves(group, schema)}
    found = nans if looked else None
    return describe_file("f", 1, pq.read_metadata(io.BytesIO(sink.getvalue())), schema, partition={}, nans=found)


def _by_duckdb(table: pa.Table, schema: pa.Schema) -> DataFile:
    connection = _duckdb()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.parquet"
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT parquet)")
        return describe_file("f", 1, pq.read_metadata(path), schema, partition={}, nans=None)


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """One for all examples: opening a database costs more than writing a small file."""
    return duckdb.connect(config={"threads": 1})


def _nan_leaves(group: pa.Table, schema: pa.Schema) -> set[int]:
    found = set()
    for index, leaf in enumerate(leaves(schema)):
        values: Any = group.column(leaf.path[0]).to_pylist() if pa.types.is_floating(leaf.type) else []
        for part in leaf.path[1:]:
            values = [None if value is None else value[part] for value in values]
        if any(value is not None and math.isnan(value) for value in values):
            found.add(index)
    return found


def _check(parts: Sequence[pa.Table], predicate: Predicate, segment: Segment) -> None:
    whole = pa.concat_tables(parts)
    schema = assign_field_ids(whole.schema)
    bound = bind(predicate, schema)
    found = truths(predicate, whole)
    is_true = np.array([truth is True for truth in found], dtype=bool)
    expected = whole.filter(pa.array(is_true))
    assert rows(whole.filter(to_arrow(bound))) == rows(expected), f"to_arrow of {bound}"
    assert rows(whole.filter(to_arrow(untrue(bound)))) == rows(whole.filter(pa.array(~is_true))), f"untrue of {bound}"
    starts = np.cumsum([0, *segment.rows])
    assert starts[-1] == len(found)
    holds_match = np.array([is_true[a:b].any() for a, b in pairwise(starts)], dtype=bool)
    holds_other = np.array([(~is_true[a:b]).any() for a, b in pairwise(starts)], dtype=bool)
    assert not (holds_match & ~may_be_true(bound, segment.groups)).any(), f"a match was pruned: {bound}"
    assert not (holds_other & ~may_be_untrue(bound, segment.groups)).any(), f"some do not match: {bound}"
    if is_true.any():
        for wanted in key_ranges(bound):
            page = segment.packed[wanted.column_id]
            assert page.min_key <= wanted.high_bytes, "the catalog would leave the page out"
            assert page.max_key >= wanted.low_bytes, "the catalog would leave the page out"


Case = tuple[list[pa.Table], list[Predicate], int, bool]


@st.composite
def _cases(draw: st.DrawFn, *, names: Sequence[str] | None = None, depth: int = 2) -> Case:
    parts = draw(tables(names=names))
    found = [draw(predicates(parts, depth=depth)) for _ in range(draw(st.integers(1, 6)))]
    return parts, found, draw(st.integers(1, 6)), draw(st.booleans())


def _by_engine(engine: str, parts: Sequence[pa.Table], *, row_group_size: int, looked: bool = True) -> Segment:
    schema = assign_field_ids(parts[0].schema)
    if engine == "duckdb":
        return Segment([_by_duckdb(part, schema) for part in parts])
    return Segment([_by_pyarrow(part, schema, row_group_size, looked=looked) for part in parts])


def _check_case(engine: str, case: Case) -> None:
    parts, found, row_group_size, looked = case
    segment = _by_engine(engine, parts, row_group_size=row_group_size, looked=looked)
    for predicate in found:
        _check(parts, predicate, segment)


HUGE = Decimal(2**63)
NAN = math.nan
CORNERS: list[tuple[str, list[Any], str, Any]] = [
    ("decimal38", [HUGE, HUGE + 1], "=", HUGE),
    ("decimal38", [-HUGE - 1, -HUGE - 2], "=", -HUGE - 2),
    ("decimal38", [HUGE, HUGE * 2], "<=", HUGE),
    ("decimal38", [HUGE, HUGE * 2], ">", HUGE),
    ("float64", [-0.0], "=", 0.0),
    ("float64", [-0.0], ">=", 0.0),
    ("float64", [0.0], "<=", -0.0),
    ("float64", [0.0, -0.0], "<", 0.0),
    ("float32", [-0.0], "=", 0.0),
    ("float64", [NAN], ">", 1.0),
    ("float64", [NAN, NAN], "=", NAN),
    ("float64", [1.0, NAN], "<=", 1.0),
    ("float64", [1.0, NAN], "=", 1.0),
    ("float64", [NAN, None], "!=", 3.0),
    ("float32", [NAN, 1.0, math.inf], ">", math.inf),
    ("float64", [math.inf], "<", NAN),
    ("uint64", [0, 2**64 - 1], ">", 2**64 - 2),
    ("uint64", [2**64 - 1], "=", 2**64 - 1),
    ("uint64", [2**63], "<", 2**63 + 1),
    ("uint64", [0], "=", 0),
    ("uint64", [0, 1], "<", 1),
    ("int64", [-(2**63), 2**63 - 1], ">=", 2**63 - 1),
    ("int64", [-(2**63)], "<=", -(2**63)),
    ("int64", [None, 1], "=", 1),
    ("int64", [None, None], "=", 1),
    ("timestamp_ns", [1500, 1999], "<", 1999),
    ("timestamp_ns", [1500], "=", 1500),
    ("timestamp_ns", [1400, 1600], "=", 1500),
    ("timestamp_ns", [-1500], ">", -2000),
    ("timestamp_ns", [-1500], "<=", -1500),
    ("time_ns", [1001], ">", 1000),
    ("timestamp_us", [-1], "<", 0),
    ("string", ["\U0010ffff" * 40], ">", "z"),
    ("string", [""], "=", ""),
    ("string", ["", "a"], ">=", ""),
    ("string", ["a", "a\0"], "=", "a"),
    ("alike", [ALIKE[:64]], "=", ALIKE[:64]),
    ("alike", [ALIKE[:64], ALIKE[:64] + "a"], "=", ALIKE[:64]),
    ("alike", [ALIKE + "a", ALIKE + "b"], ">", ALIKE + "a"),
    ("alike", [ALIKE + "a", ALIKE + "b"], "<=", ALIKE + "a"),
    ("binary", [b"\xff" * 70], ">", b"\xff\xff"),
    ("binary", [b"\xff" * 8, b"\xff" * 9], "=", b"\xff" * 8),
    ("binary", [b"", b"\0"], ">", b""),
    ("date", [-1, 0], "<", 0),
    ("bool", [False], "!=", True),
    ("bool", [True, None], "=", True),
    ("string", ["ab"], "like", "a%"),
    ("string", ["abc", "b"], "like", "ab_"),
    ("string", [ALIKE + "z"], "like", ALIKE + "%"),
    ("string", [ALIKE, "a"], "like", ALIKE),
]


@pytest.mark.parametrize("engine", ["pyarrow", "duckdb"])
@pytest.mark.parametrize(("name", "values", "op", "constant"), CORNERS)
def test_corner_cases_are_pruned_safely(engine: str, name: str, values: list[Any], op: str, constant: Any) -> None:
    """Alone in a page, and among others: some mistakes only show where a page has nothing else to compare with."""
    type_, column = KINDS[name].type, Column((name,))
    asked: list[Predicate] = [IsNull(column)]
    if op == "like":
        asked.append(Like(column, constant))
    else:
        literal = Literal(scalar(constant, type_))
        other = Literal(scalar(_samples(type_)[0], type_))
        asked += [Compare(CompareOp(op), column, literal), In(column, (literal, other))]
    part = pa.table({name: array(values, type_)})
    others = [pa.table({name: array([value], type_)}) for value in _samples(type_)]
    for parts in ([part], [part, *others], [*others, part]):
        segment = _by_engine(engine, parts, row_group_size=100)
        for predicate in asked:
            _check(parts, predicate, segment)
            _check(parts, Not(predicate), segment)


def _samples(type_: pa.DataType) -> list[Any]:
    t = pa.types
    if t.is_string(type_):
        return ["m", None]
    if t.is_binary(type_):
        return [b"m", None]
    if t.is_boolean(type_):
        return [True, None]
    if t.is_decimal(type_):
        return [Decimal(5), None]
    return [5.0 if t.is_floating(type_) else 5, None]


@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data())
@settings(max_examples=25)
def test_each_kind_of_column_is_pruned_safely(name: str, data: st.DataObject) -> None:
    _check_case("pyarrow", data.draw(_cases(names=[name], depth=1)))


@given(_cases())
@settings(max_examples=100)
def test_files_of_pyarrow_are_pruned_safely(case: Case) -> None:
    _check_case("pyarrow", case)


@given(_cases())
@settings(max_examples=60)
def test_files_of_duckdb_are_pruned_safely(case: Case) -> None:
    _check_case("duckdb", case)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data())
@settings(max_examples=500)
def test_each_kind_of_column_is_pruned_safely_at_length(name: str, data: st.DataObject) -> None:
    _check_case("pyarrow", data.draw(_cases(names=[name], depth=1)))


@pytest.mark.slow
@given(_cases())
@settings(max_examples=3000)
def test_files_of_pyarrow_are_pruned_safely_at_length(case: Case) -> None:
    _check_case("pyarrow", case)


@pytest.mark.slow
@given(_cases())
@settings(max_examples=1000)
def test_files_of_duckdb_are_pruned_safely_at_length(case: Case) -> None:
    _check_case("duckdb", case)
