"""Curves against slow, obvious ones."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.clustering import Curve, curve_codes, hilbert_codes, morton_codes
from parqlake.core.errors import InputError

SHAPES = [(1, 8), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2), (6, 2), (7, 1), (8, 1)]


def grid(columns: int, bits: int) -> list[np.ndarray]:
    return [
        axis.reshape(-1).astype(np.uint16) for axis in np.meshgrid(*[np.arange(1 << bits)] * columns, indexing="ij")
    ]


@pytest.mark.parametrize(("columns", "bits"), SHAPES)
@pytest.mark.parametrize("curve", Curve)
def test_every_cell_has_a_code_of_its_own(columns: int, bits: int, curve: Curve) -> None:
    codes = curve_codes(grid(columns, bits), bits, curve)
    assert sorted(codes.tolist()) == list(range(1 << (columns * bits)))


@pytest.mark.parametrize(("columns", "bits"), SHAPES)
def test_hilbert_takes_steps_of_one(columns: int, bits: int) -> None:
    cells = np.stack(grid(columns, bits), axis=1).astype(np.int64)
    path = cells[np.argsort(hilbert_codes(grid(columns, bits), bits))]
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


@given(st.data())
def test_morton_interleaves_bits(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 8))
    bits = data.draw(st.integers(1, min(32, 64 // columns)))
    rows = data.draw(st.lists(st.lists(st.integers(0, 2**bits - 1), min_size=columns, max_size=columns), max_size=5))
    codes = morton_codes([np.array([row[i] for row in rows], dtype=np.uint32) for i in range(columns)], bits)
    for row, code in zip(rows, codes.tolist(), strict=True):
        slow = "".join(str(value >> bit & 1) for bit in range(bits - 1, -1, -1) for value in row)
        assert code == int(slow, 2)


@pytest.mark.parametrize("curve", Curve)
def test_one_column_is_its_own_code(curve: Curve) -> None:
    assert curve_codes([np.array([5, 0, 65535], dtype=np.uint16)], 16, curve).tolist() == [5, 0, 65535]


@pytest.mark.parametrize("curve", Curve)
def test_the_ranks_given_stay_as_they_are(curve: Curve) -> None:
    ranks = grid(2, 3)
    curve_codes(ranks, 3, curve)
    assert all((one == other).all() for one, other in zip(ranks, grid(2, 3), strict=True))


@pytest.mark.parametrize("curve", Curve)
def test_a_million_rows_of_four_columns_take_well_under_a_second_of_work(curve: Curve) -> None:
    random = np.random.default_rng(0)
    ranks = [random.integers(0, 2**16, 1_000_000).astype(np.uint16) for _ in range(4)]
    start = time.thread_time()
    curve_codes(ranks, 16, curve)
    assert time.thread_time() - start < 1


def test_too_many_bits_or_columns_are_refused() -> None:
    column = np.zeros(1, dtype=np.uint16)
    for codes in (morton_codes, hilbert_codes):
        with pytest.raises(InputError, match="16 bits for each of 5 columns"):
            codes([column] * 5, 16)
        with pytest.raises(InputError, match="9 columns"):
            codes([column] * 9, 4)
        with pytest.raises(InputError, match="0 columns"):
            codes([], 4)
