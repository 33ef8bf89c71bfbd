"""What a merge looks for: few keys by value, many by range, and never less than the source holds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake.core.merging.bounds import KeyBounds, SoughtKeys, bounds_predicate
from parqlake.core.merging.model import MergeRule, MergeStrategy
from parqlake.core.predicates.evaluate import is_true
from parqlake.core.predicates.tree import TRUE, Constant, In
from parqlake.core.schema import assign_field_ids
from parqlake.testing.data import TYPES, TypeCase


def _sought(source: pa.Table, *keys: str) -> SoughtKeys:
    sought = SoughtKeys(MergeRule(keys, MergeStrategy.UPSERT))
    for batch in source.to_batches(max_chunksize=700):
        sought.note(batch)
    return sought


def test_few_keys_are_looked_for_by_value_and_many_by_range() -> None:
    schema = assign_field_ids(pa.schema([("id", pa.int64())]))
    few = _sought(pa.table({"id": [5, 9, 5]}), "id").predicate(schema)
    assert isinstance(few, In) and {value.value for value in few.values} == {5, 9}
    rows = pa.record_batch({"id": [4, 5, 6, 9, 10]})
    assert is_true(rows, few).tolist() == [False, True, False, True, False]
    many = _sought(pa.table({"id": range(10, 5000)}), "id").predicate(schema)
    assert not isinstance(many, In)
    assert is_true(pa.record_batch({"id": [9, 10, 4999, 5000]}), many).tolist() == [False, True, True, False]


def test_without_rows_nothing_is_looked_for_and_without_an_order_everything() -> None:
    schema = assign_field_ids(pa.schema([("id", pa.int64()), ("x", pa.float64())]))
    assert _sought(pa.table({"id": pa.array([], pa.int64())}), "id").predicate(schema) == Constant(False)
    assert _sought(pa.table({"x": [1.0, float("nan")]}), "x").predicate(schema) == TRUE
    assert bounds_predicate({}, schema, any_rows=False) == Constant(False)
    assert bounds_predicate({}, schema) == TRUE


@pytest.mark.parametrize(
    "case", [case for case in TYPES if not pa.types.is_nested(case.type)], ids=lambda case: case.name
)
def test_every_key_of_the_source_is_looked_for(case: TypeCase) -> None:
    column = case.array().drop_null()
    schema = assign_field_ids(pa.schema([("k", case.type)]))
    rows = pa.record_batch({"k": column})
    bounds = KeyBounds(MergeRule(("k",), MergeStrategy.UPSERT))
    bounds.note(rows)
    for found in (
        _sought(pa.table([rows.column(0)], ["k"]), "k").predicate(schema),
        bounds_predicate(bounds.found, schema),
    ):
        assert is_true(rows, found).all()
