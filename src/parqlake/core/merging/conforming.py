"""Rows of source and target in one shape: the target's columns, in its order, of its types, without encodings."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import ConstraintError, TypeMismatchError
from parqlake.core.merging.validation import plain_type
from parqlake.core.partitioning import parse_partition_text


def working_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that rows have while they are merged: dictionaries decoded, no metadata."""
    return pa.schema([pa.field(item.name, plain_type(item.type), item.nullable) for item in schema])


def conform(
    batch: pa.RecordBatch, schema: pa.Schema, constants: Mapping[str, pa.Scalar] | None = None
) -> pa.RecordBatch:
    """The batch with exactly the schema's columns; what it lacks comes from the constants, else it is NULL.

    Raises:
        TypeMismatchError: a value does not fit the type.
        ConstraintError: a NOT NULL column holds NULLs.
    """
    if batch.schema.equals(schema, check_metadata=False) and not any(
        column.null_count for column, field in zip(batch.columns, schema, strict=True) if not field.nullable
    ):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    columns = [_column(batch, field, constants or {}) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch


def partition_constants(partition: Mapping[str, str | None], schema: pa.Schema) -> dict[str, pa.Scalar]:
    """The values that a folder's name gives to columns, as scalars of the columns' types."""
    return {
        name: parse_partition_text(text, schema.field(name).type)
        for name, text in partition.items()
        if name in schema.names
    }


def as_stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Working rows as the files hold them: fewer columns perhaps, and encodings again."""
    columns = [_cast(table.column(field.name), field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, constants: Mapping[str, pa.Scalar]) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index >= 0:
        column = _cast(batch.column(index), field)
    elif field.name in constants:
        column = pa.repeat(constants[field.name], batch.num_rows)
    else:
        column = pa.nulls(batch.num_rows, field.type)
    if column.null_count and not field.nullable:
        raise ConstraintError(
            f'column "{field.name}" is NOT NULL, and {column.null_count} row(s) have no value; '
            "fill or filter them, then merge again"
        )
    return column


def _cast(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        if pa.types.is_dictionary(column.type) and pa.types.is_dictionary(field.type):
            column = pc.cast(column, column.type.value_type)
        return column if column.type == field.type else pc.cast(column, field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TypeMismatchError(
            f'type mismatch: column "{field.name}": a value of type {column.type} does not fit {field.type}: {error}; '
            "cast the column, then merge again"
        ) from error
