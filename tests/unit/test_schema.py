"""Schemas: one spelling for each type, ids for every field, and errors that name each difference."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake.core.errors import (
    ColumnNotFoundError,
    InvalidOptionError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsupportedTypeError,
)
from parqlake.core.schema import (
    assign_field_ids,
    canonical_schema,
    check_partition_columns,
    field_id,
    leaves,
    max_field_id,
    reconcile,
    without_ids,
)

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.map_(pa.string(), pa.float64()))]))),
        ("place", pa.struct([("city", pa.string()), ("at", pa.struct([("lat", pa.float64())]))])),
    ]
)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "Europe/Berlin")),
        (pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.float16(), pa.float32()),
        (pa.decimal256(30, 2), pa.decimal128(30, 2)),
        (pa.large_list(pa.int8()), pa.list_(pa.field("element", pa.int8()))),
        (pa.list_(pa.int8(), 3), pa.list_(pa.field("element", pa.int8()))),
        (pa.uint64(), pa.uint64()),
    ],
)
def test_each_logical_type_has_one_spelling(given: pa.DataType, kept: pa.DataType) -> None:
    assert canonical_schema(pa.schema([("x", given)])).field("x").type == kept


@pytest.mark.parametrize(
    "type_", [pa.null(), pa.duration("us"), pa.decimal256(50, 2), pa.struct([]), pa.month_day_nano_interval()]
)
def test_what_cannot_be_stored_is_refused_by_column(type_: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r'column "a\.x"'):
        canonical_schema(pa.schema([("a", pa.struct([("x", type_)]))]))


def test_a_table_needs_columns_and_a_schema() -> None:
    with pytest.raises(InvalidOptionError, match="no columns"):
        canonical_schema(pa.schema([]))
    with pytest.raises(InvalidOptionError, match="dict"):
        canonical_schema({"a": "int"})


def test_every_field_gets_an_id_of_its_own() -> None:
    numbered = assign_field_ids(canonical_schema(NESTED))
    assert [field_id(field) for field in numbered] == [1, 2, 8]
    assert max_field_id(numbered) == 11
    assert [(".".join(leaf.path), leaf.field_id, leaf.repeated) for leaf in leaves(numbered)] == [
        ("id", 1, False),
        ("tags.element.k", 4, True),
        ("tags.element.v.key", 6, True),
        ("tags.element.v.value", 7, True),
        ("place.city", 9, False),
        ("place.at.lat", 11, False),
    ]
    assert without_ids(numbered).equals(canonical_schema(NESTED), check_metadata=True)


def test_layout_and_order_do_not_matter() -> None:
    table = canonical_schema(
        pa.schema([("a", pa.string()), ("t", pa.timestamp("us", "UTC")), ("l", pa.list_(pa.int64()))])
    )
    reconcile(
        pa.schema(
            [
                ("l", pa.large_list(pa.int64())),
                ("t", pa.timestamp("ns", "Asia/Tokyo")),
                ("a", pa.dictionary(pa.int32(), pa.string())),
            ]
        ),
        table,
    )
    reconcile(pa.schema([("a", pa.null()), ("t", pa.null()), ("l", pa.null())]), table)


def test_every_difference_is_named() -> None:
    table = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
    with pytest.raises(SchemaMismatchError) as caught:
        reconcile(pa.schema([("id", pa.string()), ("day", pa.date32()), ("extra", pa.int8())]), table)
    text = str(caught.value)
    assert '"id": the table has int64, the data has string' in text
    assert '"name": missing in the data' in text
    assert '"extra": not in the table' in text
    assert "Schema mismatch" in text
    assert isinstance(caught.value, ValueError)


def test_only_types_differing_is_a_type_error() -> None:
    with pytest.raises(TypeMismatchError, match="the table has int64, the data has int32") as caught:
        reconcile(pa.schema([("id", pa.int32())]), pa.schema([("id", pa.int64())]))
    assert isinstance(caught.value, TypeError)


def test_zoned_and_zoneless_times_are_different_things() -> None:
    with pytest.raises(TypeMismatchError):
        reconcile(pa.schema([("t", pa.timestamp("us"))]), pa.schema([("t", pa.timestamp("us", "UTC"))]))


def test_a_column_twice_in_the_data_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match='"a" twice'):
        reconcile(pa.schema([("a", pa.int8()), ("a", pa.int8())]), pa.schema([("a", pa.int8())]))


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["regoin"], ColumnNotFoundError, 'did you mean "region"'),
        (["region", "region"], InvalidOptionError, "twice"),
        (["amount"], InvalidOptionError, 'cannot partition by "amount"'),
        (["region", "amount"], InvalidOptionError, "cannot partition"),
    ],
)
def test_bad_partition_columns(names: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_partition_columns(names, pa.schema([("region", pa.string()), ("amount", pa.float64())]))
