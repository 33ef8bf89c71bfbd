"""Packing and unpacking: bounds that went through a page are never tighter than before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parqlake.catalogs.cache import Cache
from parqlake.core.model import ColumnStatistics
from parqlake.core.pages import MAX_BYTES, MAX_KEY, Key, Page, pack_column, unpack

NUMBERS = st.integers(0, MAX_KEY) | st.sampled_from([0, 1, MAX_KEY - 1, MAX_KEY, 2**63])
TEXTS = st.builds(
    lambda stem, rest: (stem + rest)[:64],
    st.sampled_from([b"", b"abcdefgh", b"abcdefghij", b"\xff" * 8, b"a\0", b"x" * 60]),
    st.binary(max_size=12),
)


def _pairs(
    keys: st.SearchStrategy[Key], nothing: tuple[Key, Key], unknown: tuple[Key, Key]
) -> st.SearchStrategy[list[tuple[Key, Key]]]:
    ordered = st.tuples(keys, keys).map(lambda pair: tuple(sorted(pair)))  # type: ignore[type-var]
    return st.lists(ordered | st.sampled_from([nothing, unknown]), min_size=1, max_size=6)  # type: ignore[arg-type]


def _page(pairs: list[tuple[Key, Key]], nulls: list[int]) -> Page:
    lows, highs = [low for low, _ in pairs], [high for _, high in pairs]
    if isinstance(lows[0], bytes):
        column = ColumnStatistics(1, lows, highs, np.array(nulls))  # type: ignore[arg-type]
    else:
        column = ColumnStatistics(1, np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64), np.array(nulls))
    packed = pack_column([column])
    return unpack(packed.data, packed.nulls)


def _check(pairs: list[tuple[Key, Key]], literals: list[Key], chosen: list[bool]) -> Page:
    nulls = list(range(-1, len(pairs) - 1))
    part = np.array((chosen * len(pairs))[: len(pairs)])
    if not part.any():
        part[0] = True
    taken = _page(pairs, nulls).statistics(1, part)
    packed = pack_column([taken])
    again = unpack(packed.data, packed.nulls)
    kept = [pair for pair, keep in zip(pairs, part, strict=True) if keep]
    for literal in literals:
        overlapping = again.overlaps(literal, literal)
        for index, (low, high) in enumerate(kept):
            if low <= literal <= high:  # type: ignore[operator]
                assert overlapping[index], (low, literal, high)
            if low > high:  # type: ignore[operator]
                assert not overlapping[index]
    known = [count for count, keep in zip(nulls, part, strict=True) if keep]
    assert (again.nulls.tolist() if again.nulls is not None else [0] * len(known)) == known
    return again


@given(_pairs(NUMBERS, (MAX_KEY, 0), (0, MAX_KEY)), st.lists(NUMBERS, min_size=1), st.lists(st.booleans(), min_size=1))
def test_numbers_are_exact(pairs: list[tuple[Key, Key]], literals: list[Key], chosen: list[bool]) -> None:
    _check(pairs, [*literals, *(key for pair in pairs for key in pair)], chosen)
    everything = np.ones(len(pairs), dtype=np.bool_)
    taken = _page(pairs, [0] * len(pairs)).statistics(1, everything)
    assert list(zip(taken.mins.tolist(), taken.maxs.tolist(), strict=True)) == pairs  # type: ignore[union-attr]


@given(
    _pairs(TEXTS, (MAX_BYTES, b""), (b"", MAX_BYTES)), st.lists(TEXTS, min_size=1), st.lists(st.booleans(), min_size=1)
)
def test_texts_are_never_tighter(pairs: list[tuple[Key, Key]], literals: list[Key], chosen: list[bool]) -> None:
    _check(pairs, [*literals, *(key for pair in pairs for key in pair if key != MAX_BYTES)], chosen)


@given(_pairs(TEXTS, (MAX_BYTES, b""), (b"", MAX_BYTES)), st.lists(TEXTS, min_size=1))
def test_texts_stay_bounds_after_many_rounds(pairs: list[tuple[Key, Key]], literals: list[Key]) -> None:
    page = _page(pairs, [0] * len(pairs))
    everything = np.ones(len(pairs), dtype=np.bool_)
    for _ in range(4):
        packed = pack_column([page.statistics(1, everything)])
        page = unpack(packed.data, packed.nulls)
    for literal in literals:
        overlapping = page.overlaps(literal, literal)
        assert all(overlapping[i] for i, (low, high) in enumerate(pairs) if low <= literal <= high)  # type: ignore[operator]


def test_the_cache_keeps_what_was_used_last_within_its_limit() -> None:
    cache = Cache(10_000)
    for number in range(20):
        cache.put(number, f"value {number}", 800)
        assert cache.get_many([0]) == {0: "value 0"}
        assert cache.used_bytes <= 10_000
    assert set(cache.get_many(range(20))) == {0, *range(11, 20)}
    cache.put(0, None, 700)
    assert cache.get_many([0]) == {0: None}
    before = cache.used_bytes
    cache.put("too big", 1, 20_000)
    assert cache.get_many(["too big"]) == {}
    assert cache.used_bytes == before
    empty = Cache(0)
    empty.put(1, 1, 0)
    assert empty.get_many([1]) == {}
