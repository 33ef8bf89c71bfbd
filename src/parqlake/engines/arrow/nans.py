"""Where NaNs are: Parquet leaves them out of min and max without a word, so somebody has to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class NanFinder:
    """Finds, for one schema, the leaf columns of a table that hold a NaN."""

    def __init__(self, schema: pa.Schema) -> None:
        """Keeps the columns that have a float somewhere inside; the others are never looked at."""
        self._columns: list[tuple[str, int, pa.DataType]] = []
        leaf = 0
        for field in schema:
            kinds = list(_leaf_types(field.type))
            if any(pa.types.is_floating(kind) for kind in kinds):
                self._columns.append((field.name, leaf, field.type))
            leaf += len(kinds)

    @property
    def columns(self) -> list[str]:
        """The columns that are looked at."""
        return [name for name, _, _ in self._columns]

    def find(self, table: pa.Table) -> list[int]:
        """Indexes of the leaves, in Parquet's order, that hold at least one NaN.

        The table need hold no others than `columns`.
        """
        return [leaf for name, first, type_ in self._columns for leaf in _nan_leaves(table.column(name), type_, first)]


def _children(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(type_):
        return [type_.key_type, type_.item_type]
    return [type_.field(i).type for i in range(type_.num_fields)]


def _leaf_types(type_: pa.DataType) -> Iterator[pa.DataType]:
    children: Sequence[pa.DataType] = _children(type_)
    if not children:
        yield type_
    for child in children:
        yield from _leaf_types(child)


def _nan_leaves(values: Any, type_: pa.DataType, first: int) -> Iterator[int]:
    if pa.types.is_floating(type_):
        if _has_nan(values):
            yield first
        return
    children = _children(type_)
    if not any(pa.types.is_floating(leaf) for leaf in _leaf_types(type_)):
        return
    if pa.types.is_map(type_):
        entries = pa.struct([pa.field("key", children[0]), pa.field("value", children[1])])
        values = pc.list_flatten(values.cast(pa.list_(entries)))
    elif not pa.types.is_struct(type_):
        values = pc.list_flatten(values)
        yield from _nan_leaves(values, children[0], first)
        return
    for index, child in enumerate(children):
        yield from _nan_leaves(pc.struct_field(values, [index]), child, first)
        first += sum(1 for _ in _leaf_types(child))


def _has_nan(values: Any) -> bool:
    # A sum is three times cheaper than looking at every value, and is NaN if one of them is
    # (or if infinities of both signs meet, which the second look tells apart).
    if pa.types.is_float16(values.type):
        values = pc.cast(values, pa.float32())  # there is no sum of halves
    total = pc.sum(values).as_py()
    if total is None or total == total:  # noqa: PLR0124  only NaN differs from itself
        return False
    return bool(pc.any(pc.is_nan(values)).as_py())
