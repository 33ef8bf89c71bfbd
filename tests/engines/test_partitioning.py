"""Partition values become text and come back the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InputError, UnsupportedTypeError
from parqlake.core.partitioning import parse_partition_text, partition_text


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (None, pa.string(), None),
        ("", pa.string(), ""),
        ("a/b=%", pa.string(), "a/b=%"),
        ("NULL", pa.string(), "NULL"),
        (True, pa.bool_(), "true"),
        (False, pa.bool_(), "false"),
        (-7, pa.int8(), "-7"),
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (dt.date(2024, 2, 29), pa.date32(), "2024-02-29"),
        (1704164645_000000, pa.timestamp("us"), "2024-01-02T03:04:05"),
        (1704164645_120000, pa.timestamp("us"), "2024-01-02T03:04:05.12"),
        (dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), pa.timestamp("us", "Europe/Berlin"), "2024-01-02T03:00:00Z"),
        (1, pa.timestamp("ns"), "1970-01-01T00:00:00.000000001"),
        (dt.time(23, 59, 59, 5), pa.time64("us"), "23:59:59.000005"),
        (dt.time(0, 0), pa.time64("ns"), "00:00:00"),
        (Decimal("-1.50"), pa.decimal128(10, 2), "-1.50"),
        (Decimal(0), pa.decimal128(38, 10), "0.0000000000"),
        (Decimal("1E+3"), pa.decimal128(10, 0), "1000"),
    ],
)
def test_spelling(value: Any, type_: pa.DataType, text: str | None) -> None:
    scalar = pa.scalar(value, type_)
    assert partition_text(scalar) == text
    back = parse_partition_text(text, type_)
    assert back.type == type_
    assert back.equals(scalar)


_TYPES: list[tuple[pa.DataType, int]] = [
    *[(type_, 64) for type_ in (pa.int64(), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"))],
    (pa.timestamp("s", "Asia/Tokyo"), 40),
    (pa.int32(), 32),
    (pa.date32(), 32),
]


@given(st.sampled_from(_TYPES), st.data())
def test_numbers_come_back(kind: tuple[pa.DataType, int], data: st.DataObject) -> None:
    type_, bits = kind
    ticks = data.draw(st.integers(-(2 ** (bits - 1)) + 1, 2 ** (bits - 1) - 1))
    scalar = pa.scalar(ticks, pa.int64() if bits != 32 else pa.int32()).cast(type_)
    text = partition_text(scalar)
    assert text is not None
    assert parse_partition_text(text, type_).equals(scalar)


@given(st.integers(0, 86_400_000_000_000 - 1))
def test_times_come_back(ticks: int) -> None:
    for unit, storage, by in (("ns", pa.int64(), 1), ("us", pa.int64(), 1000)):
        scalar = pa.scalar(ticks // by, storage).cast(pa.time64(unit))
        assert parse_partition_text(partition_text(scalar), scalar.type).equals(scalar)


@given(st.decimals(-(10**17), 10**17, places=3, allow_nan=False, allow_infinity=False))
def test_decimals_come_back(value: Decimal) -> None:
    scalar = pa.scalar(value, pa.decimal128(38, 3))
    assert parse_partition_text(partition_text(scalar), scalar.type).equals(scalar)


@given(st.text())
def test_strings_come_back(value: str) -> None:
    scalar = pa.scalar(value)
    assert partition_text(scalar) == value
    assert parse_partition_text(value, pa.string()).equals(scalar)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        *(("x", pa.int64()), ("True", pa.bool_()), ("300", pa.int8()), ("noon", pa.time64("us")), ("x", pa.date32())),
        *(("x", pa.decimal128(5, 2)), ("yesterday", pa.timestamp("us"))),
    ],
)
def test_text_that_is_no_value_is_refused(text: str, type_: pa.DataType) -> None:
    with pytest.raises(InputError, match=repr(text)):
        parse_partition_text(text, type_)


def test_types_without_a_spelling_are_refused() -> None:
    for value in (1.5, b"x", [1]):
        with pytest.raises(UnsupportedTypeError):
            partition_text(pa.scalar(value))
    with pytest.raises(UnsupportedTypeError):
        parse_partition_text("1.5", pa.float64())
