"""Any value that a table can hold as something that JSON can say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa


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
    """The first rows of a stream, and whether there are more; no more of it is read than that takes."""
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        kept.append(batch)
        count += batch.num_rows
        if count > most:
            break
    return pa.Table.from_batches(kept, schema=reader.schema).slice(0, most), count > most


def plain_rows(table: pa.Table) -> list[list[Any]]:
    """The rows of an Arrow table as lists of plain values, in the order of its columns."""
    columns = [[_scalar(item) for item in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _scalar(item: pa.Scalar) -> Any:
    try:
        return plain(item.as_py())
    except (ValueError, OverflowError, ArithmeticError):  # moments beyond Python's, for instance
        return str(item)
