"""Wider types hold every value, and keep their statistics only where keys stay what they were."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake.core.evolution.types import common_type, fits_in, keeps_keys, widens, wider_types
from parqlake.core.keys import Round, scalar_key
from parqlake.testing.data import TYPES, TypeCase

PLAIN = [case for case in TYPES if not pa.types.is_nested(case.type)]


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_every_value_comes_through_and_keys_say_the_truth(case: TypeCase) -> None:
    for wide in wider_types(case.type):
        array = case.array().drop_null()
        cast = pc.cast(array, wide, safe=True)
        assert widens(array.type, wide) and fits_in(array.type, wide)
        if not (pa.types.is_date(array.type) or pa.types.is_floating(wide)):
            assert pc.cast(cast, array.type, safe=True).equals(array)
        for old, new in zip(array, cast, strict=True):
            same = all(scalar_key(old, way) == scalar_key(new, way) for way in Round)
            assert same or not keeps_keys(array.type, wide), (old, wide)


def test_a_common_type_holds_the_column_and_the_data() -> None:
    for column, data in itertools.product(PLAIN, PLAIN):
        found = common_type(column.type, data.type)
        if found is None:
            continue
        assert found == column.type or widens(column.type, found), (column.type, data.type, found)
        for case in (column, data):
            pc.cast(case.array(), found, safe=not pa.types.is_floating(case.type))


@pytest.mark.parametrize(
    ("column", "data", "found"),
    [
        (pa.int32(), pa.uint32(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float64(), None),
        (pa.int64(), pa.int8(), pa.int64()),
        (pa.decimal128(5, 2), pa.decimal128(7, 1), pa.decimal128(8, 2)),
        (pa.decimal128(5, 2), pa.decimal128(5, 3), None),
        (pa.decimal128(12, 2), pa.int32(), pa.decimal128(12, 2)),
        (pa.date32(), pa.timestamp("us"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), None),
        (pa.string(), pa.int64(), None),
        (pa.bool_(), pa.int8(), None),
    ],
    ids=str,
)
def test_the_nearest_one(column: pa.DataType, data: pa.DataType, found: pa.DataType | None) -> None:
    assert common_type(column, data) == found
