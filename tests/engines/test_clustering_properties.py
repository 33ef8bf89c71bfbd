"""Clustering of random rows against the obvious model: sort all of them by (code, columns)."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from test_rewriting_place import ENGINES, Place, even_rows, multiset

from parqlake.core.clustering import Curve, RankModel
from parqlake.engines.arrow.cluster_ranges import CodeRanges
from parqlake.engines.arrow.cluster_sorting import RowOrder

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("b", pa.binary()),
        ("t", pa.bool_()),
        ("n", pa.list_(pa.int32())),
    ]
)
FLOATS = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5]) | st.floats(width=32)
TEXTS = st.sampled_from(["", "\0", "a", "a\0", "ab", "é", "\U0001f600", "p" * 70 + "1", "p" * 70 + "0"])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 9) | st.integers(-(2**63), 2**63 - 1),
        st.none() | TEXTS | st.text(max_size=3),
        st.none() | FLOATS,
        st.none() | st.binary(max_size=3),
        st.none() | st.booleans(),
        st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2),
    ),
    min_size=1,
    max_size=80,
)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def place_of(value: Any) -> tuple[int, Any]:
    """Where a value stands: NULLs last, NaN above all numbers, text by its bytes."""
    if value is None:
        return 2, 0
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 0, value.encode() if isinstance(value, str) else value


def order(rows: pa.Table, columns: list[str]) -> list[tuple[tuple[int, Any], ...]]:
    return [tuple(place_of(row[name]) for name in columns) for row in rows.to_pylist()]


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(ROWS, min_size=1, max_size=3),
    columns=st.permutations(["a", "s", "d", "b", "t"]),
    count=st.integers(1, 5),
    files=st.integers(1, 5),
    memory=st.sampled_from([1, 400, 3000, 10**9]),
    curve=st.sampled_from(Curve),
)
def test_all_rows_lie_along_the_curve(
    *,
    engine: str,
    parts: list[list[tuple[Any, ...]]],
    columns: list[str],
    count: int,
    files: int,
    memory: int,
    curve: Curve,
) -> None:
    place = Place.at()
    for part in parts:
        place.add(table(part), row_group_size=7)
    whole = pa.concat_tables(map(table, parts))
    names = columns[:count]
    rows = even_rows(whole.num_rows, min(files, whole.num_rows))
    made = place.cluster(engine, SCHEMA, names, rows, memory_bytes=memory, curve=curve)
    assert [file.num_rows for file in made] == rows
    found = [place.read(file.path) for file in made]
    assert multiset(found) == multiset([whole])
    joined = pa.concat_tables(found)
    codes = RankModel.fit(whole, names).codes(joined, curve).tolist()  # so few rows are all in the sample
    keys = [(code, *key) for code, key in zip(codes, order(joined, names), strict=True)]
    assert keys == sorted(keys)
    if count == 1:
        assert order(joined, names) == sorted(order(whole, names))


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(ROWS, min_size=1, max_size=6),
    columns=st.permutations(["a", "s", "d", "b", "t"]),
    count=st.integers(1, 3),
    memory=st.sampled_from([1, 1000, 10_000]),
)
def test_a_range_that_does_not_fit_is_sorted_in_runs(
    parts: list[list[tuple[Any, ...]]], columns: list[str], count: int, memory: int
) -> None:
    names = columns[:count]
    row_order = RowOrder([SCHEMA.get_field_index(name) for name in names], has_code=False)
    ranges = CodeRanges(SCHEMA, 1, row_order, memory_bytes=memory)
    try:
        for part in parts:
            for batch in table(part).to_batches(max_chunksize=9):
                ranges.push(batch, None)
        found = pa.Table.from_batches(ranges.in_order(), SCHEMA)
    finally:
        ranges.close()
    whole = pa.concat_tables(map(table, parts))
    assert multiset([found]) == multiset([whole])
    assert order(found, names) == sorted(order(whole, names))
