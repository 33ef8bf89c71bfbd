"""Pruning never drops a row group that holds a match, and never calls one certain that holds anything else.

Files are real Parquet, written to memory; statistics come from their own metadata; the truth about each row comes from
plain Python.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from parqlake.core.model import DataFile
from parqlake.core.pages import PackedPage, pack_column, unpack
from parqlake.core.predicates import bind
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import Predicate
from parqlake.core.predicates.untrue import untrue
from parqlake.core.pruning import RowGroups, key_ranges, may_be_true, may_be_untrue
from parqlake.core.schema import assign_field_ids, leaves
from parqlake.core.statistics import describe_file
from parqlake.testing.data import rows
from parqlake.testing.strategies import predicates, tables
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


def _by_duckdb(table: pa.Table, schema: pa.Schema, row_group_size: int) -> DataFile:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder) / "f.parquet"
        connection.register("source", table)
        connection.execute(f"COPY source TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {row_group_size})")
        return describe_file("f", 1, pq.read_metadata(path), schema, partition={}, nans=None)


def _nan_leaves(group: pa.Table, schema: pa.Schema) -> set[int]:
    found = set()
    for index, leaf in enumerate(leaves(schema)):
        values: Any = group.column(leaf.path[0]).to_pylist() if pa.types.is_floating(leaf.type) else []
        for part in leaf.path[1:]:
            values = [None if value is None else value[part] for value in values]
        if any(value is not None and math.isnan(value) for value in values):
            found.add(index)
    return found


def _check(parts: Sequence[pa.Table], predicate: Predicate, segment: Segment, sizes: Sequence[int]) -> None:
    whole = pa.concat_tables(parts)
    schema = assign_field_ids(whole.schema)
    bound = bind(predicate, schema)
    note(f"bound: {bound}")
    found = truths(predicate, whole)
    is_true = np.array([truth is True for truth in found], dtype=bool)
    expected = whole.filter(pa.array(is_true))
    assert rows(whole.filter(to_arrow(bound))) == rows(expected), "to_arrow"
    assert rows(whole.filter(to_arrow(untrue(bound)))) == rows(whole.filter(pa.array(~is_true))), "untrue"
    starts = np.cumsum([0, *sizes])
    assert starts[-1] == len(found)
    holds_match = np.array([is_true[a:b].any() for a, b in pairwise(starts)], dtype=bool)
    holds_other = np.array([(~is_true[a:b]).any() for a, b in pairwise(starts)], dtype=bool)
    assert not (holds_match & ~may_be_true(bound, segment.groups)).any(), "a match was pruned"
    assert not (holds_other & ~may_be_untrue(bound, segment.groups)).any(), "a row was counted that does not match"
    if is_true.any():
        for wanted in key_ranges(bound):
            page = segment.packed[wanted.column_id]
            assert page.min_key <= wanted.high_bytes, "the catalog would leave the page out"
            assert page.max_key >= wanted.low_bytes, "the catalog would leave the page out"


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[pa.Table], list[Predicate], int, bool]:
    parts = draw(tables())
    found = draw(st.lists(predicates(parts), min_size=1, max_size=4))
    return parts, found, draw(st.integers(1, 6)), draw(st.booleans())


def _check_pyarrow(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    parts, found, row_group_size, looked = case
    schema = assign_field_ids(parts[0].schema)
    files = [_by_pyarrow(part, schema, row_group_size, looked=looked) for part in parts]
    segment = Segment(files)
    for predicate in found:
        _check(parts, predicate, segment, segment.rows.tolist())


def _check_duckdb(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    parts, found, _, _ = case
    schema = assign_field_ids(parts[0].schema)
    files = [_by_duckdb(part, schema, 2048) for part in parts]
    segment = Segment(files)
    for predicate in found:
        _check(parts, predicate, segment, segment.rows.tolist())


@given(_cases())
@settings(max_examples=250)
def test_files_of_pyarrow_are_pruned_safely(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    _check_pyarrow(case)


@given(_cases())
@settings(max_examples=60)
def test_files_of_duckdb_are_pruned_safely(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    _check_duckdb(case)


@pytest.mark.slow
@given(_cases())
@settings(max_examples=5000)
def test_files_of_pyarrow_are_pruned_safely_at_length(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    _check_pyarrow(case)


@pytest.mark.slow
@given(_cases())
@settings(max_examples=1000)
def test_files_of_duckdb_are_pruned_safely_at_length(case: tuple[list[pa.Table], list[Predicate], int, bool]) -> None:
    _check_duckdb(case)
