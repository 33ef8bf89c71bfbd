"""What a merge looks for: the lowest and highest key of its source, and the keys themselves while they are few."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.merging.model import MergeRule
from parqlake.core.predicates import bind
from parqlake.core.predicates.tree import TRUE, And, Column, Compare, CompareOp, Constant, In, Literal, Predicate

Bounds = dict[str, tuple[pa.Scalar, pa.Scalar]]
_FEW = 1000
"""Distinct values of a key column up to which files are looked for by value rather than by range."""


class KeyBounds:
    """Lowest and highest value of each key column that has an order; nothing while there are no rows."""

    def __init__(self, rule: MergeRule) -> None:
        """Has seen no row yet."""
        self._keys = rule.keys
        self.found: Bounds = {}

    def note(self, batch: pa.RecordBatch) -> None:
        """Looks at more rows."""
        for name in self._keys:
            column = batch.column(name)
            if len(column) > column.null_count and bounded(column.type):
                own = pc.min_max(column)
                low, high = self.found.get(name, (own["min"], own["max"]))
                self.found[name] = (_least(low, own["min"]), _greatest(high, own["max"]))


class SoughtKeys:
    """The keys of a source, as far as statistics of files can be asked for them."""

    def __init__(self, rule: MergeRule) -> None:
        """Has seen no row yet."""
        self._rule = rule
        self._bounds = KeyBounds(rule)
        self._few: dict[str, set[Any]] = {name: set() for name in rule.keys}
        self.rows = 0

    def note(self, batch: pa.RecordBatch) -> None:
        """Looks at more rows."""
        self.rows += batch.num_rows
        self._bounds.note(batch)
        for name, values in list(self._few.items()):
            column = batch.column(name)
            if not bounded(column.type):
                del self._few[name]
                continue
            distinct = pc.unique(column)
            if len(distinct) <= _FEW:
                values.update(distinct.to_pylist())
            if max(len(distinct), len(values)) > _FEW:
                del self._few[name]

    def predicate(self, schema: pa.Schema) -> Predicate:
        """A bound predicate that is TRUE for every row whose key is in the source, and for as few others as can be."""
        if not self.rows:
            return Constant(False)
        items: list[Predicate] = []
        for name, (low, high) in self._bounds.found.items():
            few = self._few.get(name)
            if few:
                items.append(In(Column((name,)), tuple(Literal(value) for value in few)))
            else:
                items += _between(name, low, high)
        return bind(And(tuple(items)), schema) if items else TRUE


def bounds_predicate(bounds: Bounds, schema: pa.Schema, *, any_rows: bool = True) -> Predicate:
    """A bound predicate that is TRUE for all keys within the bounds; without bounds for all rows.

    Args:
        bounds: of the source's keys.
        schema: of the target, with field ids.
        any_rows: False if it is known that the source is empty: then nothing was looked for.
    """
    if not any_rows:
        return Constant(False)
    items = [item for name, (low, high) in bounds.items() for item in _between(name, low, high)]
    return bind(And(tuple(items)), schema) if items else TRUE


def bounded(type_: pa.DataType) -> bool:
    """Whether bounds of the type can be trusted: not those of floats, which leave NaN out."""
    t = pa.types
    return bool(
        t.is_integer(type_)
        or t.is_date32(type_)
        or t.is_decimal128(type_)
        or (t.is_timestamp(type_) and type_.unit != "ns")
        or t.is_string(type_)
        or t.is_large_string(type_)
        or t.is_binary(type_)
        or t.is_large_binary(type_)
    )


def _between(name: str, low: pa.Scalar, high: pa.Scalar) -> list[Predicate]:
    ends = ((CompareOp.GE, low), (CompareOp.LE, high))
    return [Compare(op, Column((name,)), Literal(end.as_py())) for op, end in ends]


def _least(one: pa.Scalar, other: pa.Scalar) -> pa.Scalar:
    return one if pc.less_equal(one, other).as_py() else other


def _greatest(one: pa.Scalar, other: pa.Scalar) -> pa.Scalar:
    return one if pc.greater_equal(one, other).as_py() else other
