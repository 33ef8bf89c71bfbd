"""Data that comes with names only, seen as columns of a table: whatever has the same name is the same column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.evolution.marks import with_children, write_default
from parqlake.core.evolution.projection import Projection
from parqlake.core.schema import FIELD_ID, canonical_schema, children, field_id


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type as tables spell it; a column of NULLs alone keeps its own."""
    if pa.types.is_null(type_):
        return type_
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pa.types.is_struct(type_) and type_.num_fields:
        return pa.struct([pa.field(child.name, plain_type(child.type), child.nullable) for child in type_])
    if pa.types.is_map(type_):
        item = pa.field("value", plain_type(type_.item_type), type_.item_field.nullable)
        return pa.map_(pa.field("key", plain_type(type_.key_type), nullable=False), item)
    if pa.types.is_nested(type_) and hasattr(type_, "value_type"):
        return pa.list_(pa.field("element", plain_type(type_.value_type), type_.value_field.nullable))
    return canonical_schema(pa.schema([pa.field("plain", type_)])).field(0).type


def named_alike(data: pa.DataType, table: pa.DataType) -> bool:
    """Whether the fields inside two types have the same names in the same order."""
    inner, wanted = children(data), children(table)
    if pa.types.is_struct(table) and [field.name for field in inner] != [field.name for field in wanted]:
        return False
    return all(named_alike(a.type, b.type) for a, b in zip(inner, wanted, strict=False))


def conformed(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column of nested data as the field of a table: fields inside it are found by name, missing ones filled."""
    plain = plain_type(column.type)
    rows = pa.RecordBatch.from_arrays([column if column.type == plain else pc.cast(column, plain)], [field.name])
    stored = pa.schema([matched(pa.field(field.name, plain), field)])
    return Projection(stored, pa.schema([field]), default=write_default).apply(rows).column(0)


def absent(field: pa.Field, count: int) -> pa.Array:
    """The column of data that does not have it: the default of new rows, or NULL."""
    value = write_default(field)
    return pa.nulls(count, field.type) if value is None else pa.repeat(value, count)


def matched(data: pa.Field, table: pa.Field) -> pa.Field:
    """The data's field with the ids of the table's, which has every field of the data."""
    wanted = children(table.type)
    if pa.types.is_struct(table.type) and pa.types.is_struct(data.type):
        by_name = {child.name: child for child in wanted}
        inner = [matched(child, by_name[child.name]) for child in data.type if child.name in by_name]
        extra = [child for child in data.type if child.name not in by_name]
        assert not extra, "the table's schema has every field of the data"
    else:
        inner = [matched(a, b) for a, b in zip(children(data.type), wanted, strict=False)]
    found = with_children(data, inner) if inner else data
    return found.with_metadata({FIELD_ID: str(field_id(table)).encode()})
