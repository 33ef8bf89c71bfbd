"""Ranks keep the order of values of every type, and fill the scale evenly whatever the skew."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.clustering import RankModel
from parqlake.core.errors import ColumnNotFoundError, InputError, UnsupportedTypeError

TYPED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats() | st.integers(-3, 3).map(float)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=80) | st.text("ab", max_size=3)),
    (pa.large_string(), st.text("aé漢😀", max_size=5)),
    (pa.string_view(), st.text("ab", max_size=20)),
    (pa.binary(), st.binary(min_size=1, max_size=9).filter(lambda value: value[-1] != 0)),
    (pa.binary_view(), st.text("ab", max_size=20).map(str.encode)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.uuid(), st.uuids().map(lambda value: value.bytes)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=0))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("s", "UTC"), st.datetimes(timezones=st.just(dt.UTC)).map(lambda t: t.replace(microsecond=0))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-1000), dt.timedelta(1000))),
    (pa.decimal32(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (pa.decimal256(60, 0), st.integers(-(10**59), 10**59).map(Decimal)),
    (pa.dictionary(pa.int32(), pa.string()), st.text("abc", max_size=4)),
]
IDS = [str(type_) for type_, _ in TYPED]


def sort_key(value: Any) -> Any:
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    if isinstance(value, uuid.UUID):
        return (0, value.bytes)
    return (0, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=IDS)
def test_ranks_keep_the_order_with_nan_greatest_and_nulls_last(
    type_: pa.DataType, values: st.SearchStrategy[Any]
) -> None:
    lists = st.lists(st.none() | values, max_size=30)

    @given(lists, lists, st.integers(1, 12))
    def check(sample: list[Any], more: list[Any], boundary_bits: int) -> None:
        table = pa.table({"v": pa.array(sample, type_)})
        model = RankModel.fit(table, ["v"], boundary_bits=boundary_bits)
        rows = sorted(sample + more, key=sort_key)
        ranks = model.ranks(pa.table({"v": pa.array(rows, type_)}))[0]
        assert ranks.dtype == np.uint16
        assert (np.diff(ranks.astype(np.int64)) >= 0).all()
        nulls = rows.count(None)
        if nulls:
            assert (ranks[len(rows) - nulls :] == model.columns[0].null_rank).all()
            assert (ranks[: len(rows) - nulls] < model.columns[0].null_rank).all()

    check()


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=IDS)
def test_few_values_are_all_told_apart(type_: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values.map(lambda v: v[:40] if isinstance(v, str) else v), max_size=20))
    def check(sample: list[Any]) -> None:
        table = pa.table({"v": pa.array(sample, type_)})
        ranks = RankModel.fit(table, ["v"]).ranks(table)[0]
        assert len(set(ranks.tolist())) == len({sort_key(value) for value in sample})

    check()


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=IDS)
def test_engines_find_the_same_ranks_by_counting_boundaries(type_: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(st.lists(values, max_size=20), st.lists(values, min_size=1, max_size=10), st.integers(1, 4))
    def check(sample: list[Any], rows: list[Any], boundary_bits: int) -> None:
        column = RankModel.fit(pa.table({"v": pa.array(sample, type_)}), ["v"], boundary_bits=boundary_bits).columns[0]
        bounds = [sort_key(value) for value in column.boundaries.to_pylist()]
        assert bounds == sorted(set(bounds))
        steps = column.steps(pa.array(rows, type_))
        exact = [sort_key(value) for value in pa.array(rows, type_).to_pylist()]
        assert steps.tolist() == [sum(bound <= value for bound in bounds) for value in exact]

    check()


@pytest.mark.parametrize("kind", ["lognormal", "zipf", "text", "wide"])
def test_skew_does_not_matter(kind: str) -> None:
    random = np.random.default_rng(7)
    values: Any = {
        "lognormal": lambda: random.lognormal(0, 5, 20_000),
        "zipf": lambda: random.zipf(1.3, 20_000).astype(np.float64),
        "text": lambda: pa.array([f"https://example.org/{int(v)}" for v in random.lognormal(8, 3, 20_000)]),
        "wide": lambda: random.integers(-(2**62), 2**62, 20_000) // random.choice([1, 10**6, 10**17], 20_000),
    }[kind]()
    table = pa.table({"v": values, "w": values})
    ranks = RankModel.fit(table.slice(0, 10_000), ["v", "w"]).ranks(table)[0]
    shares = np.bincount(ranks >> 12, minlength=16) / len(ranks)  # sixteenths of the scale
    common = max(pc.value_counts(table["v"]).field("counts").to_numpy()) / len(ranks)
    assert shares.max() <= 1 / 16 + common + 0.01


def test_a_column_with_few_values_uses_the_high_bits() -> None:
    table = pa.table({"b": [False, True] * 500, "n": pa.array([1, None] * 500)})
    low, high = RankModel.fit(table, ["b", "n"]).ranks(table)
    assert sorted(set(low.tolist())) == [0, 2**15]
    assert sorted(set(high.tolist())) == [0, 2**15]


def test_long_common_beginnings_up_to_64_bytes_are_told_apart() -> None:
    table = pa.table({"s": ["x" * 60 + text for text in ("aa", "ab", "b")]})
    assert len(set(RankModel.fit(table, ["s"]).ranks(table)[0].tolist())) == 3


def test_a_sample_of_nulls_or_of_nothing_still_ranks() -> None:
    rows = pa.table({"v": pa.array([3, None, 1])})
    for sample in (pa.nulls(3), pa.nulls(0), pa.array([], pa.int64()), pa.array([None], pa.int64())):
        model = RankModel.fit(pa.table({"v": sample}), ["v"])
        ranks = model.ranks(rows)[0].tolist()
        assert ranks[0] == ranks[2] < ranks[1]


def test_batches_slices_and_chunks_are_ranked_alike() -> None:
    values = [None, *range(50), *range(50)]
    for type_ in (pa.int64(), pa.string(), pa.decimal128(30, 2), pa.bool_(), pa.dictionary(pa.int8(), pa.string())):
        of = (lambda v: str(v)) if "string" in str(type_) else (lambda v: v % 2 == 0) if type_ == pa.bool_() else int
        array = pa.array([None if v is None else of(v) for v in values], type_)
        table = pa.table({"v": array})
        model = RankModel.fit(table, ["v"])
        whole = model.ranks(table)[0]
        chunked = pa.table({"v": pa.chunked_array([array[:10], array[10:40], array[40:]])})
        assert (model.ranks(chunked)[0] == whole).all()
        assert (model.ranks(table.to_batches()[0].slice(5, 30))[0] == whole[5:35]).all()


def test_other_spellings_of_a_type_are_ranked_alike() -> None:
    model = RankModel.fit(pa.table({"v": ["a", "b", "c"]}), ["v"])
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        assert (model.columns[0].steps(pa.array(["b", "zz"], type_)) == [1, 2]).all()


def test_one_column_is_a_plain_sort() -> None:
    random = np.random.default_rng(3)
    table = pa.table({"v": pa.array(random.normal(size=5000), mask=random.random(5000) < 0.1)})
    codes = RankModel.fit(table, ["v"]).codes(table)
    laid_out = table.append_column("code", pa.array(codes)).sort_by([("code", "ascending"), ("v", "ascending")])
    assert laid_out["v"].equals(table.sort_by("v")["v"])


def test_what_cannot_be_ranked_is_refused() -> None:
    table = pa.table({"a": [1], "list": [[1]], "struct": [{"x": 1}]})
    for name in ("list", "struct"):
        with pytest.raises(UnsupportedTypeError, match=f'column "{name}" is of type .* no order'):
            RankModel.fit(table, [name])
    with pytest.raises(ColumnNotFoundError, match='no column "lits"; did you mean "list"'):
        RankModel.fit(table, ["lits"])
    with pytest.raises(InputError, match="0 columns"):
        RankModel.fit(table, [])
    with pytest.raises(InputError, match="9 columns"):
        RankModel.fit(table, ["a"] * 9)
    with pytest.raises(InputError, match="33 bits"):
        RankModel.fit(table, ["a", "a"], bits=33)
    with pytest.raises(InputError, match="boundary_bits is 0"):
        RankModel.fit(table, ["a"], boundary_bits=0)
