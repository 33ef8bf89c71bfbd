"""NOT NULL, checked where files are made: the last place before wrong rows become durable."""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.errors import ConstraintError


def check_not_null(rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> None:
    """Raises `ConstraintError` if a column that the schema declares NOT NULL holds a NULL."""
    for index, field in enumerate(schema):
        if not field.nullable and rows.column(index).null_count:
            raise ConstraintError(
                f'column "{field.name}" is NOT NULL, but the data holds {rows.column(index).null_count} NULLs; '
                "fill them, or leave those rows out"
            )
