"""Wrong merges are refused by name, before a row is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from parqlake.core.errors import ConstraintError, InputError, InvalidOptionError, SchemaMismatchError, TypeMismatchError
from parqlake.core.merging import MergeStrategy, check_merge_options, check_merge_schemas, merge_rule
from parqlake.core.merging.validation import check_not_null

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("tags", pa.list_(pa.string()))])


def check(source: pa.Schema, target: pa.Schema = SCHEMA, keys: tuple[str, ...] = ("id",), **options: object) -> None:
    check_merge_schemas(merge_rule(keys, **options), source=source, target=target)  # type: ignore[arg-type]


def without(name: str) -> pa.Schema:
    return pa.schema([field for field in SCHEMA if field.name != name])


def with_type(name: str, type_: pa.DataType) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, type_))


def test_a_wrong_strategy_lists_the_right_ones() -> None:
    with pytest.raises(ValueError, match="Invalid strategy 'replace'") as caught:
        merge_rule(["id"], "replace")
    for strategy in ("upsert", "insert", "update", "full_merge", "deduplicate"):
        assert strategy in str(caught.value)
        assert merge_rule(["id"], strategy).strategy == strategy


@pytest.mark.parametrize(
    ("strategy", "inserts", "updates", "deletes"),
    [
        ("upsert", True, True, False),
        ("deduplicate", True, True, False),
        ("insert", True, False, False),
        ("update", False, True, False),
        ("full_merge", True, True, True),
    ],
)
def test_what_strategies_do(strategy: str, inserts: bool, updates: bool, deletes: bool) -> None:
    found = MergeStrategy(strategy)
    assert (found.inserts, found.updates, found.deletes) == (inserts, updates, deletes)


def test_one_key_may_be_given_as_a_string() -> None:
    assert merge_rule("id").keys == ("id",)


@pytest.mark.parametrize(
    ("keys", "words"), [([], "key_columns is empty"), (["id", "id"], "twice: id, id"), ([1], "1, which is no column")]
)
def test_bad_keys(keys: list[str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        merge_rule(keys)


def test_only_an_unasked_choice_warns() -> None:
    assert merge_rule("id", "upsert").warns
    assert not merge_rule("id", "deduplicate").warns
    assert not merge_rule("id", "upsert", dedup_order_by=["day"]).warns


def test_a_missing_key_names_the_side_and_the_closest_column() -> None:
    with pytest.raises(ValueError, match="Key column 'ids' not found in source") as caught:
        check(SCHEMA, keys=("ids",))
    assert 'did you mean "id"?' in str(caught.value)
    with pytest.raises(ValueError, match="Key column 'id' not found in target"):
        check(SCHEMA, without("id"))


def test_a_nested_key_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match='"tags" is of type list'):
        check(SCHEMA, keys=("tags",))


def test_columns_missing_on_either_side_are_all_listed() -> None:
    source = without("tags").append(pa.field("extra", pa.int8()))
    with pytest.raises(ValueError, match="Schema mismatch") as caught:
        check(source)
    assert '"tags": missing in the source' in str(caught.value)
    assert '"extra": missing in the target' in str(caught.value)
    assert not isinstance(caught.value, TypeError)


def test_a_column_twice_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match='source has column "day" twice'):
        check(SCHEMA.append(SCHEMA.field("day")))


@pytest.mark.parametrize(
    ("name", "type_"),
    [("id", pa.int32()), ("day", pa.timestamp("us")), ("tags", pa.list_(pa.int8())), ("day", pa.date64())],
)
def test_other_types_are_refused_with_both_names(name: str, type_: pa.DataType) -> None:
    with pytest.raises(TypeError, match="type mismatch") as caught:
        check(with_type(name, type_))
    assert isinstance(caught.value, TypeMismatchError)
    assert f'"{name}": {type_} in the source, {SCHEMA.field(name).type} in the target' in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.string(), pa.large_string()),
        (pa.string(), pa.string_view()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.dictionary(pa.int32(), pa.string())),
        (pa.binary(), pa.large_binary()),
        (pa.list_(pa.string()), pa.large_list(pa.large_string())),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.large_string())])),
        (pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.large_string())),
    ],
)
def test_types_that_differ_in_layout_fit(one: pa.DataType, other: pa.DataType) -> None:
    check(with_type("tags", one), with_type("tags", other))
    check(with_type("tags", other), with_type("tags", one))


def test_a_column_without_values_fits_any_type() -> None:
    check(with_type("tags", pa.null()))


def test_order_columns_exist_and_have_an_order() -> None:
    with pytest.raises(InputError, match='dedup_order_by: no column "dai"; did you mean "day"'):
        check(SCHEMA, dedup_order_by=["dai"])
    with pytest.raises(InvalidOptionError, match='"tags" is of type list'):
        check(SCHEMA, dedup_order_by=["tags"])
    with pytest.raises(InputError, match='update_columns: no column "x"'):
        check(SCHEMA, update_columns=["x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": "rar"}, "compression 'rar' is not known; use one of: snappy, gzip, zstd"),
        ({"memory_bytes": 0}, "memory_bytes is 0; it must be > 0"),
        ({"batch_rows": -1}, "batch_rows is -1; it must be > 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"compression": "ZSTD", "memory_bytes": 1, "batch_rows": 1}
    check_merge_options(**good)
    with pytest.raises(InvalidOptionError, match=words):
        check_merge_options(**(good | options))


def test_null_keys_say_how_many_and_what_to_do() -> None:
    check_not_null("source", "id", 0)
    with pytest.raises(ConstraintError, match=r"'id' of the target contains 3 NULL values.*filter.*fill"):
        check_not_null("target", "id", 3)
