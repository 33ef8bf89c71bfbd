"""Cut points make ranges of about equal rows, and heavy codes stay apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.clustering import cut_codes, part_of
from parqlake.core.errors import InputError

CODES = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=200).map(
    lambda v: np.array(v, dtype=np.uint64)
)


@given(CODES, st.integers(1, 30))
def test_ranges_do_not_overlap_and_none_is_empty(codes: np.ndarray, parts: int) -> None:
    cuts = cut_codes(codes, parts)
    assert cuts.dtype == np.uint64
    assert (cuts[1:] > cuts[:-1]).all()
    ordered = np.sort(codes)
    numbers = part_of(ordered, cuts)
    assert (np.diff(numbers) >= 0).all()
    if len(codes):
        assert set(numbers.tolist()) == set(range(len(cuts) + 1))


@given(CODES, st.integers(1, 30))
def test_no_range_is_much_over_its_share_but_for_a_heavy_code_alone(codes: np.ndarray, parts: int) -> None:
    numbers = part_of(codes, cut_codes(codes, parts))
    share = len(codes) / parts
    for number in set(numbers.tolist()):
        inside = codes[numbers == number]
        assert len(set(inside.tolist())) == 1 or len(inside) < 2 * share


def test_even_codes_make_even_ranges() -> None:
    codes = np.random.default_rng(1).integers(0, 2**32, 100_000).astype(np.uint64)
    sizes = np.bincount(part_of(codes, cut_codes(codes, 64)))
    assert len(sizes) == 64
    assert sizes.max() - sizes.min() <= 2


def test_cuts_of_a_sample_fit_all_rows() -> None:
    random = np.random.default_rng(2)
    codes = (random.lognormal(0, 4, 400_000) * 1e9).astype(np.uint64)
    sizes = np.bincount(part_of(codes, cut_codes(random.choice(codes, 20_000, replace=False), 20)))
    assert len(sizes) == 20
    assert sizes.max() < 1.15 * len(codes) / 20


def test_a_heavy_code_is_a_range_of_its_own() -> None:
    codes = np.array([1, 2, 3] + [5] * 50 + [7, 8, 9], dtype=np.uint64)
    assert cut_codes(codes, 4).tolist() == [5, 7]


def test_a_histogram_counts_like_its_rows() -> None:
    codes = np.random.default_rng(3).integers(0, 500, 10_000).astype(np.uint64)
    values, counts = np.unique(codes, return_counts=True)
    assert cut_codes(values, 13, weights=counts).tolist() == cut_codes(codes, 13).tolist()


def test_nothing_to_cut() -> None:
    assert len(cut_codes(np.array([], dtype=np.uint64), 5)) == 0
    assert len(cut_codes(np.arange(5), 1)) == 0
    assert len(cut_codes(np.full(9, 4), 5)) == 0
    with pytest.raises(InputError, match="0 ranges"):
        cut_codes(np.arange(5), 0)
