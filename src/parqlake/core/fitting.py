"""Fitting: batches of data that means the same, cast to exactly the table's types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import ConstraintError, TypeMismatchError


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the schema's columns, order and types.

    Its columns must have been found to fit by `schema.reconcile`. Raises if a value would be lost by the cast, or if
    a NOT NULL column holds a NULL.
    """
    columns = []
    for field in schema:
        column = batch.column(batch.schema.get_field_index(field.name))
        if column.type != field.type:
            try:
                column = pc.cast(column, field.type, safe=True)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise TypeMismatchError(
                    f'column "{field.name}": a value does not fit {field.type}: {error}; '
                    "round or cast the column, then write again"
                ) from error
        if column.null_count and not field.nullable:
            raise ConstraintError(
                f'column "{field.name}" is NOT NULL, and {column.null_count} row(s) of the data have no value; '
                "fill or filter them, then write again"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
