"""Which files fit a rewrite's schema, and the shape their rows have on the way from old files to new ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import InvalidOptionError, SchemaMismatchError, TypeMismatchError


def working_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of rows under way: without dictionaries and views, which Arrow cannot move or put aside."""
    return pa.schema([pa.field(field.name, working_type(field.type)) for field in schema])


def working_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values, however they are encoded; nested types likewise."""
    t = pa.types
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        return working_type(type_.value_type)
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if isinstance(type_, pa.BaseExtensionType) or not _encoded_inside(type_):
        return type_
    return _rebuilt(type_, working_type)


def check_fits(path: str, found: pa.Schema, wanted: pa.Schema) -> None:
    """Raises unless rows of the file can be stored in the schema as they are.

    Columns may be in another order, and text, bytes, lists and dictionaries may be encoded in another way.

    Raises:
        SchemaMismatchError: the file lacks a column, or has one more, or one twice.
        TypeMismatchError: a column has another type.
    """
    twice = next((name for name in found.names if found.names.count(name) > 1), None)
    if twice is not None:
        raise SchemaMismatchError(f'Schema mismatch: "{path}" has column "{twice}" twice; rename one of them')
    for field in wanted:
        if field.name not in found.names:
            raise SchemaMismatchError(
                f'Schema mismatch: "{path}" has no column "{field.name}" ({field.type}); '
                "rewrite files of one schema together, or add the column to this file"
            )
        have = found.field(field.name).type
        if _comparable(have) != _comparable(field.type):
            raise TypeMismatchError(
                f'Schema mismatch: column "{field.name}" of "{path}" is {have}, not {field.type} (type mismatch); '
                "rewrite files of one schema together, or cast the column"
            )
    extra = next((name for name in found.names if name not in wanted.names), None)
    if extra is not None:
        raise SchemaMismatchError(
            f'Schema mismatch: "{path}" has a column "{extra}" that the others lack; '
            "rewrite files of one schema together, or drop the column"
        )


def check_schema(schema: pa.Schema) -> None:
    """Raises `InvalidOptionError` for a schema that no rows can be rewritten to."""
    if not schema.names:
        raise InvalidOptionError("the schema has no column; give that of the files")
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidOptionError(f'the schema has column "{twice}" twice; rename one of them')


def to_working(batch: pa.RecordBatch, schema: pa.Schema, working: pa.Schema, path: str) -> pa.RecordBatch:
    """Rows of a file in the working schema; `schema` says which columns hold no NULL.

    Raises:
        SchemaMismatchError: a NULL where the schema allows none.
    """
    columns = []
    for field in working:
        column = as_type(batch.column(field.name), field.type)
        if column.null_count and not schema.field(field.name).nullable:
            raise SchemaMismatchError(
                f'Schema mismatch: column "{field.name}" of "{path}" holds NULLs, but the schema says that it does '
                "not; give a schema where it is nullable"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=working)


def as_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Working rows as the writer takes them: encoded as the schema says, one dictionary for all rows.

    Texts that came as dictionaries stay so: the writer stores the same values.
    """
    table = table.unify_dictionaries()
    columns = []
    fields = []
    for column, field in zip(table.columns, schema, strict=True):
        if column.type == field.type or (pa.types.is_dictionary(column.type) and field.type == pa.string()):
            columns.append(column)
            fields.append(field.with_type(column.type))
        else:
            columns.append(as_type(pa.concat_arrays(column.chunks), field.type))
            fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, schema.metadata))


def as_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values, encoded as the type says."""
    if column.type == type_:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type) and column.type != type_:
        column = column.dictionary_decode()
    return column if column.type == type_ else pc.cast(column, type_)


def _comparable(type_: pa.DataType) -> pa.DataType:
    """One spelling for types whose values are the same."""
    t = pa.types
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        return _comparable(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return _comparable(type_.storage_type)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_fixed_size_list(type_):
        return pa.list_(pa.field("item", _comparable(type_.value_type)), type_.list_size)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_list_view(type_) or t.is_large_list_view(type_):
        return pa.list_(pa.field("item", _comparable(type_.value_type)))
    if t.is_struct(type_):
        return pa.struct([pa.field(child.name, _comparable(child.type)) for child in type_])
    return pa.map_(_comparable(type_.key_type), _comparable(type_.item_type)) if t.is_map(type_) else type_


def _encoded_inside(type_: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(type_) or t.is_string_view(type_) or t.is_binary_view(type_):
        return True
    return any(_encoded_inside(type_.field(index).type) for index in range(type_.num_fields))


def _rebuilt(type_: pa.DataType, change: Any) -> pa.DataType:
    """The nested type with its children changed, their names and nullability kept."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([child.with_type(change(child.type)) for child in type_])
    if t.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(key.with_type(change(key.type)), item.with_type(change(item.type)))
    child = type_.value_field.with_type(change(type_.value_type))
    if t.is_fixed_size_list(type_):
        return pa.list_(child, type_.list_size)
    return pa.large_list(child) if t.is_large_list(type_) or t.is_large_list_view(type_) else pa.list_(child)
