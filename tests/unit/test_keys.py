"""Order keys: the order of keys is the order of values, for every type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.keys import NAN_KEY, Round, double_key, is_exact, key_value, scalar_key

TYPED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
]


@pytest.mark.parametrize(("type_", "values"), TYPED, ids=[str(t) for t, _ in TYPED])
def test_keys_keep_the_order_of_values(type_: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @given(values, values)
    def check(a: Any, b: Any) -> None:
        if a > b:
            a, b = b, a
        low, high = scalar_key(pa.scalar(a, type_), Round.DOWN), scalar_key(pa.scalar(b, type_), Round.UP)
        assert low <= high  # type: ignore[operator]
        same = scalar_key(pa.scalar(a, type_), Round.DOWN) == scalar_key(pa.scalar(b, type_), Round.DOWN)
        if is_exact(type_) and isinstance(low, int) and 0 < low < 2**64 - 1:
            assert same == (a == b)

    check()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int16(), -7),
        (pa.uint64(), 2**64 - 1),
        (pa.float64(), -2.5),
        (pa.float64(), math.inf),
        (pa.bool_(), True),
        (pa.date32(), dt.date(1969, 12, 31)),
        (pa.time64("us"), dt.time(23, 59, 59, 999999)),
        (pa.timestamp("us"), dt.datetime.fromisoformat("1900-01-01T01:02:03.000004")),
        (pa.decimal128(10, 3), Decimal("-1234.567")),
        (pa.string(), "grün"),
        (pa.binary(), b"\x00\xff"),
    ],
)
def test_a_key_shows_the_value_it_was_made_of(type_: pa.DataType, value: Any) -> None:
    assert key_value(scalar_key(pa.scalar(value, type_), Round.DOWN), type_) == value


def test_nan_is_above_infinity_and_minus_zero_is_zero() -> None:
    assert double_key(math.nan) == NAN_KEY > double_key(math.inf)
    assert double_key(-0.0) == double_key(0.0)
    assert double_key(-5e-324) < double_key(0.0) < double_key(5e-324)


def test_nanoseconds_round_outward() -> None:
    scalar = pa.scalar(1_001, pa.timestamp("ns"))
    assert scalar_key(scalar, Round.UP) == scalar_key(scalar, Round.DOWN) + 1  # type: ignore[operator]
    negative = pa.scalar(-1, pa.timestamp("ns"))
    assert scalar_key(negative, Round.DOWN) == 2**63 - 1
    assert scalar_key(negative, Round.UP) == 2**63


def test_decimals_beyond_64_bits_are_clamped_so_that_widening_keeps_old_keys_true() -> None:
    narrow = scalar_key(pa.scalar(Decimal("1.50"), pa.decimal128(9, 2)), Round.DOWN)
    wide = scalar_key(pa.scalar(Decimal("1.50"), pa.decimal128(38, 2)), Round.DOWN)
    assert narrow == wide
    huge = [scalar_key(pa.scalar(Decimal(10) ** n, pa.decimal128(38, 2)), Round.DOWN) for n in (20, 30)]
    assert huge[0] == huge[1] == 2**64 - 1
