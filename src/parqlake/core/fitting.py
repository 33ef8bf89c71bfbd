"""Fitting: batches of data that means the same, cast to exactly the table's types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import TypeMismatchError
from parqlake.core.evolution.by_name import absent, conformed, named_alike
from parqlake.core.evolution.constraints import check_rows, holds_not_null


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the schema's columns, order and types; what it lacks gets its default, or NULL.

    Its columns must have been found to fit by `schema.reconcile`, or by `evolution.write_modes`. Raises if a value
    would be lost by the cast, or if a row breaks NOT NULL or a check of the schema.
    """
    fitted = pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)
    check_rows(fitted, schema)
    return fitted


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        return absent(field, batch.num_rows)
    column = batch.column(index)
    if column.type == field.type:
        return column
    try:
        # Arrow's own cast goes by place, and refuses a NULL inside a NULL where the field is NOT NULL.
        if pa.types.is_nested(field.type) and (holds_not_null(field) or not named_alike(column.type, field.type)):
            return conformed(column, field)
        return pc.cast(column, field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TypeMismatchError(
            f'column "{field.name}": a value does not fit {field.type}: {error}; '
            "round or cast the column, then write again"
        ) from error
