"""Projection: rows that were stored under one schema, seen through another, column by column by field id.

Names do not matter: a renamed column is found under its old name, and a column that was dropped and added again under
the same name is another one. What a file does not hold is its initial default, or NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.evolution.marks import all_ids, initial_default, values_in_paths, with_children
from parqlake.core.schema import children, field_id, without_ids

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Default = Callable[[pa.Field], pa.Scalar | None]
"""What rows without a column hold; None for NULL."""


class Projection:
    """How rows of the schema `stored` become rows of the schema `wanted`. Both have field ids.

    Example:
        >>> projection = Projection(stored, wanted)                         # doctest: +SKIP
        >>> batch = read(projection.stored_columns(["id", "price"]))        # doctest: +SKIP
        >>> projection.apply(batch, ["id", "price"])                        # doctest: +SKIP
    """

    def __init__(self, stored: pa.Schema, wanted: pa.Schema, *, default: Default = initial_default) -> None:
        """Finds each wanted column among the stored ones.

        Args:
            stored: what files, or data, hold.
            wanted: what rows are to look like.
            default: says what stands for a field that is not stored.
        """
        self._stored = stored
        self._wanted = wanted
        self._result = without_ids(wanted)
        self._default = default
        self._sources = {field.name: source_of(field, stored) for field in wanted}

    @property
    def is_identity(self) -> bool:
        """Whether reading the wanted columns by their names gives the wanted rows, so that nothing is to be done."""
        return self.reads_by_name and not values_in_paths(self._stored)

    @property
    def reads_by_name(self) -> bool:
        """The same for readers that put in the partition values which imported files do not hold."""
        return all(
            (source := self._sources[field.name]) is not None
            and source.name == field.name
            and same_column(source, field)
            for field in self._wanted
        )

    @property
    def stored(self) -> pa.Schema:
        """The schema of the rows that `apply` takes."""
        return self._stored

    def source(self, name: str) -> pa.Field | None:
        """The stored column that holds the wanted one; None if there is none."""
        return self._sources[name]

    def stored_columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The stored top-level columns to read for these wanted ones; at least one, for the number of rows."""
        found = tuple(source.name for name in names if (source := self._sources[name]) is not None)
        return found or (_narrowest(self._stored),)

    def apply(self, rows: Rows, names: Sequence[str] | None = None) -> Rows:
        """Exactly the wanted columns, in this order and of the wanted types, from rows with the stored ones."""
        chosen = self._result.names if names is None else list(names)
        schema = pa.schema([self._result.field(name) for name in chosen])
        if isinstance(rows, pa.Table):
            batches = [self.apply(batch, chosen) for batch in rows.to_batches()]
            return pa.Table.from_batches(batches, schema)
        columns = [self._column(rows, name) for name in chosen]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        wanted, source = self._wanted.field(name), self._sources[name]
        if source is None:
            return self._absent(wanted, rows.num_rows)
        index = rows.schema.get_field_index(source.name)
        assert index >= 0, f"{source.name} is stored, but was not read"  # or -1 would be the last column
        return self._converted(rows.column(index), source, wanted)

    def _converted(self, array: pa.Array, stored: pa.Field, wanted: pa.Field) -> pa.Array:
        if array.type == wanted.type and same_column(stored, wanted):
            return array
        have, want = stored.type, wanted.type
        if pa.types.is_null(have):
            return pa.nulls(len(array), _plain(want))
        if pa.types.is_struct(have) and pa.types.is_struct(want):
            return self._struct(array, stored, wanted)
        if pa.types.is_map(have) and pa.types.is_map(want):
            keys = self._converted(array.keys, have.key_field, want.key_field)
            items = self._converted(array.items, have.item_field, want.item_field)
            return pa.MapArray.from_arrays(offsets(array), keys, items, _plain(want), mask=mask(array))
        if pa.types.is_list(have) and pa.types.is_list(want):
            values = self._converted(array.values, have.value_field, want.value_field)
            return pa.ListArray.from_arrays(offsets(array), values, _plain(want), mask=mask(array))
        return pc.cast(array, _plain(want), safe=True)

    def _struct(self, array: pa.StructArray, stored: pa.Field, wanted: pa.Field) -> pa.Array:
        inner = list(stored.type)
        columns = []
        for field in wanted.type:
            source = source_of(field, inner)
            if source is None:
                columns.append(self._absent(field, len(array)))
            else:
                column = self._converted(array.field(inner.index(source)), source, field)
                columns.append(column if field.nullable else _without_hidden_nulls(column, array))
        return pa.StructArray.from_arrays(columns, fields=list(_plain(wanted.type)), mask=mask(array))

    def _absent(self, field: pa.Field, count: int) -> pa.Array:
        value = self._default(field)
        return pa.nulls(count, _plain(field.type)) if value is None else pa.repeat(value, count)


def source_of(field: pa.Field, stored: Iterable[pa.Field]) -> pa.Field | None:
    """The stored field that is the same column as this one, under its id or one that it had before."""
    by_id = {field_id(other): other for other in stored}
    return next((by_id[number] for number in all_ids(field) if number in by_id), None)


def same_column(stored: pa.Field, wanted: pa.Field) -> bool:
    """Whether two fields of one id are of the same type, field ids inside it included; names do not matter."""
    if stored.type != wanted.type:
        return False
    inner = zip(children(stored.type), children(wanted.type), strict=True)
    return all(field_id(a) in all_ids(b) and same_column(a, b) for a, b in inner)


def loosened(schema: pa.Schema) -> pa.Schema:
    """The schema with NULLs allowed inside nested columns, as some writers of files declare them."""
    return pa.schema([with_children(field, _loose(field)) if _loose(field) else field for field in schema])


def _loose(field: pa.Field) -> list[pa.Field]:
    found = []
    for number, child in enumerate(children(field.type)):
        inner = _loose(child)
        loose = with_children(child, inner) if inner else child
        is_key = number == 0 and pa.types.is_map(field.type)
        found.append(loose if is_key else loose.with_nullable(True))
    return found


def _without_hidden_nulls(column: pa.Array, parent: pa.Array) -> pa.Array:
    """A NOT NULL field of a struct where the struct itself is NULL: Parquet's writer wants some value there too."""
    if not column.null_count or not parent.null_count or pa.types.is_nested(column.type):
        return column
    hidden = pc.and_(column.is_null(), parent.is_null())
    valid = column.drop_null()
    some = valid[0] if len(valid) else _zero(column.type)
    return pc.if_else(hidden, some, column)


def _zero(type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.scalar("", pa.string()).cast(type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(0), type_)
    storage = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    return pa.scalar(0, storage).cast(type_)


def _narrowest(schema: pa.Schema) -> str:
    """A column that is cheap to read."""

    def cost(field: pa.Field) -> tuple[bool, int]:
        try:
            return pa.types.is_nested(field.type), field.type.bit_width
        except ValueError:  # strings and the like
            return pa.types.is_nested(field.type), 1 << 16

    return str(min(schema, key=cost).name)


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without field ids inside it."""
    return without_ids(pa.schema([pa.field("plain", type_)])).field(0).type


def mask(array: pa.Array) -> pa.Array | None:
    """Where the array is NULL; None if it nowhere is."""
    return array.is_null() if array.null_count else None


def offsets(array: pa.Array) -> pa.Array:
    """Where each list begins among all values, as an array of its own: Arrow takes no slice here."""
    return pa.array(array.offsets.to_numpy(), pa.int32())
