"""Any value that a table can hold as something that JSON can say."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

_MOST_CHARACTERS = 5_000
_MOST_BYTES = 8 * 1024 * 1024


def plain(value: Any) -> Any:
    """The value as a number, a text, a truth value, None, or lists and dicts of these.

    Times are ISO texts, decimals texts, bytes hexadecimal; numbers that JSON does not know (NaN, infinities) are texts.

    Example:
        >>> plain({"at": date(2026, 11, 16), "price": Decimal("1.50"), "x": float("nan")})
        {'at': '2026-11-16', 'price': '1.50', 'x': 'NaN'}
    """
    match value:
        case None | bool() | str():
            return str(value) if isinstance(value, Enum) else value
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            number = float(value)
            return number if math.isfinite(number) else "NaN" if math.isnan(number) else str(number)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta() | Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() | np.ndarray():
            return [plain(item) for item in value]
    return str(value)


def first_rows(reader: pa.RecordBatchReader, most: int) -> tuple[pa.Table, bool]:
    """The first rows of a stream, and whether there are more; no more of it is read than that takes.

    A page is no place for a gigabyte: long texts are cut, which an ellipsis shows, and there are fewer rows than asked
    for if they are large.
    """
    kept: list[pa.RecordBatch] = []
    count = size = 0
    for batch in reader:
        cut = _cut(batch.slice(0, most - count))
        fitting = bisect_right(range(cut.num_rows), _MOST_BYTES - size, key=lambda last: cut.slice(0, last + 1).nbytes)
        rows = cut.slice(0, max(fitting, 0 if count else 1))  # one at least, or there is nothing to see
        kept.append(rows)
        count += rows.num_rows
        size += rows.nbytes
        if rows.num_rows < batch.num_rows:
            return pa.Table.from_batches(kept, schema=reader.schema), True
    return pa.Table.from_batches(kept, schema=reader.schema), False


def _cut(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(_shortened, batch.columns)), schema=batch.schema)


def _shortened(column: pa.Array) -> pa.Array:
    """The column with long texts and bytes cut; an ellipsis says so of texts."""
    import pyarrow.compute as pc  # the command line uses `plain` alone, and starts without it

    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pc.binary_slice(column, 0, _MOST_CHARACTERS)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    start = pc.utf8_slice_codeunits(column, 0, _MOST_CHARACTERS)
    is_cut = pc.less(pc.binary_length(start), pc.binary_length(column))
    return pc.if_else(is_cut, pc.binary_join_element_wise(start, "…", ""), start) if pc.any(is_cut).as_py() else column


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """The rows of an Arrow table as lists of plain values, in the order of its columns."""
    columns = [[_scalar(item) for item in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _scalar(item: pa.Scalar) -> Any:
    try:
        return plain(item.as_py())
    except (ValueError, OverflowError, ArithmeticError):  # moments beyond Python's, for instance
        return str(item)
