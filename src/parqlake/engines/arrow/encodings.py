"""Which encoding each column of a file gets, judged by a sample of its first rows.

PyArrow tries a dictionary on every column. On a column of mostly different values that costs time, and in a row group
small enough for the dictionary to hold it stays: every value is stored once in it and once more as its number. Without
it whole numbers, moments and decimals are stored as differences, floats byte by byte, and the lengths of texts apart
from their letters, which compress better.
"""

from __future__ import annotations

import functools
import io
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_SAMPLE_ROWS = 8 * 1024
_FEWEST_ROWS = 1024
"""A smaller sample says nothing, and a smaller file does not matter."""
_MOSTLY_DIFFERENT = 0.85
"""Of so many rows, this share is different if there are some 25,000 values; a dictionary of fewer pays."""
_STEPS = 0.05
"""Numbers in order that change at least so often take a sixth of the space as differences, and a third of the time."""
_MOST_DIGITS = 18
"""Decimals of more are bytes in Parquet, others whole numbers."""


def writer_encodings(table: pa.Table) -> dict[str, Any]:
    """Arguments for `ParquetWriter`: dictionaries only where values come again, and what the other columns get."""
    if table.num_rows < _FEWEST_ROWS:
        return {}
    plain: dict[str, str | None] = {}
    sample = table.slice(0, _SAMPLE_ROWS)
    for field in table.schema:
        if "." not in field.name and _can_choose(field.type) and _does_not_pay(sample[field.name]):
            plain[field.name] = _encoding(field.type)
    if not plain:
        return {}
    dictionaries = [path for path in leaf_paths(table.schema) if path not in plain]
    encodings = {name: encoding for name, encoding in plain.items() if encoding is not None}
    return {"use_dictionary": dictionaries or False, "column_encoding": encodings or None}


@functools.lru_cache(maxsize=64)
def leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """The columns as Parquet names them, nested ones by their path."""
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    sink.seek(0)
    parquet = pq.read_metadata(sink).schema
    return tuple(parquet.column(index).path for index in range(len(parquet)))


def _does_not_pay(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary is worse than what the column gets instead."""
    values = len(column) - column.null_count
    if values < _FEWEST_ROWS:
        return False
    different = pc.count_distinct(column).as_py()
    return bool(different > _MOSTLY_DIFFERENT * values) or (different > _STEPS * values and _ascends(column))


def _ascends(column: pa.ChunkedArray) -> bool:
    type_ = column.type
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_) or _is_text(type_) or column.null_count:
        return False
    values = column.to_numpy()
    return bool((values[1:] >= values[:-1]).all())


def _can_choose(type_: pa.DataType) -> bool:
    t = pa.types
    if t.is_decimal(type_):
        return bool(type_.precision <= _MOST_DIGITS)
    return bool(
        t.is_integer(type_)
        or t.is_floating(type_)
        or t.is_timestamp(type_)
        or t.is_date(type_)
        or t.is_time(type_)
        or _is_text(type_)
    )


def _is_text(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_large_binary(type_))


def _encoding(type_: pa.DataType) -> str | None:
    t = pa.types
    if t.is_floating(type_):
        return None if t.is_float16(type_) else "BYTE_STREAM_SPLIT"
    return "DELTA_LENGTH_BYTE_ARRAY" if _is_text(type_) else "DELTA_BINARY_PACKED"
