"""Statistics pages: what goes in narrow comes out as bounds that never rule out too much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.model import ColumnStatistics
from parqlake.core.pages import MAX_BYTES, MAX_KEY, pack_column, page_key, unknown_statistics, unpack

NUMBERS = (
    st.integers(0, MAX_KEY) | st.integers(2**63 - 300, 2**63 + 300) | st.sampled_from([0, 1, MAX_KEY, MAX_KEY - 1])
)
TEXTS = st.binary(max_size=20) | st.builds(lambda tail: b"https://example.org/" + tail, st.binary(max_size=12))


def numbers(pairs: list[tuple[int, int]], nulls: list[int] | None = None) -> ColumnStatistics:
    mins = np.array([low for low, _ in pairs], dtype=np.uint64)
    maxs = np.array([high for _, high in pairs], dtype=np.uint64)
    return ColumnStatistics(1, mins, maxs, np.array(nulls or [0] * len(pairs), dtype=np.int64))


@given(st.lists(st.tuples(NUMBERS, NUMBERS).map(sorted), min_size=1, max_size=30), NUMBERS, NUMBERS)
def test_a_number_page_keeps_every_row_group_that_overlaps(pairs: list[tuple[int, int]], a: int, b: int) -> None:
    low, high = min(a, b), max(a, b)
    packed = pack_column([numbers(pairs)])
    kept = unpack(packed.data, packed.nulls).overlaps(low, high)
    for (first, last), keep in zip(pairs, kept, strict=True):
        if first <= high and last >= low:
            assert keep
        elif first > 0 and last < MAX_KEY:
            assert not keep
    wanted = any(first <= high and last >= low for first, last in pairs)
    if wanted:
        assert packed.min_key <= page_key(high)
        assert packed.max_key >= page_key(low)


@given(st.lists(st.tuples(TEXTS, TEXTS).map(sorted), min_size=1, max_size=20), TEXTS, TEXTS)
def test_a_text_page_keeps_every_row_group_that_overlaps(pairs: list[tuple[bytes, bytes]], a: bytes, b: bytes) -> None:
    low, high = min(a, b), max(a, b)
    statistics = ColumnStatistics(
        1, [first for first, _ in pairs], [last for _, last in pairs], np.zeros(len(pairs), dtype=np.int64)
    )
    packed = pack_column([statistics])
    kept = unpack(packed.data, packed.nulls).overlaps(low, high)
    for (first, last), keep in zip(pairs, kept, strict=True):
        if first <= high and last >= low:
            assert keep
            assert packed.min_key <= page_key(high)
            assert packed.max_key >= page_key(low)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS).map(sorted), min_size=1, max_size=30),
    st.lists(NUMBERS, min_size=1, max_size=9),
)
def test_membership_is_the_union_of_points(pairs: list[tuple[int, int]], keys: list[int]) -> None:
    packed = pack_column([numbers(pairs)])
    page = unpack(packed.data, packed.nulls)
    union = np.zeros(len(pairs), dtype=bool)
    for key in keys:
        union |= page.overlaps(key, key)
    assert page.holds_any(keys).tolist() == union.tolist()


def test_text_pages_tell_apart_what_follows_a_common_prefix() -> None:
    keys = [f"https://example.org/item/{n:05}".encode() for n in range(0, 1000, 10)]
    packed = pack_column([ColumnStatistics(1, keys, keys, np.zeros(len(keys), dtype=np.int64))])
    kept = unpack(packed.data, packed.nulls).overlaps(keys[7], keys[9])
    assert np.flatnonzero(kept).tolist() == [7, 8, 9]


def test_unknown_rules_nothing_out_and_all_null_overlaps_nothing() -> None:
    for as_bytes, low, high in ((False, 5, 6), (True, b"a", b"b")):
        unknown = unknown_statistics(1, 1, as_bytes=as_bytes)
        all_null = ColumnStatistics(
            1,
            [MAX_BYTES] if as_bytes else np.array([MAX_KEY], dtype=np.uint64),
            [b""] if as_bytes else np.array([0], dtype=np.uint64),
            np.array([3]),
        )
        known = ColumnStatistics(
            1,
            [b"b"] if as_bytes else np.array([6], dtype=np.uint64),
            [b"c"] if as_bytes else np.array([8], dtype=np.uint64),
            np.array([0]),
        )
        packed = pack_column([unknown, all_null, known])
        page = unpack(packed.data, packed.nulls)
        assert page.overlaps(low, high).tolist() == [True, False, True]
        assert page.nulls is not None
        assert page.nulls.tolist() == [-1, 3, 0]
        assert [page.bounds(i) is None for i in range(3)] == [False, True, False]


def test_narrow_ranges_take_narrow_codes() -> None:
    near = pack_column([numbers([(2**63 + n, 2**63 + n + 5) for n in range(100)])])
    far = pack_column([numbers([(n * 2**50 + 1, n * 2**50 + 2) for n in range(100)])])
    assert len(near.data) < len(far.data) / 6
    assert unpack(near.data, near.nulls).bounds(3) == (2**63 + 3, 2**63 + 8)


@pytest.mark.parametrize("nulls", [[0, 0], [1, 0], [-1, 7]])
def test_null_counts_survive(nulls: list[int]) -> None:
    packed = pack_column([numbers([(1, 2), (3, 4)], nulls)])
    page = unpack(packed.data, packed.nulls)
    assert (packed.nulls is None) == (nulls == [0, 0])
    assert (page.nulls.tolist() if page.nulls is not None else [0, 0]) == nulls
