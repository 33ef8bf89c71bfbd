"""Hive partitions: what the folders of a path, `date=2025-11-04/region=eu`, say of the rows in its files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from urllib.parse import unquote

import pyarrow as pa

from parqlake.core.names import NULL_PARTITION

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def partition_values(path: str) -> dict[str, str | None]:
    """The partition columns that the folders of a path name, outermost first; None is NULL.

    Example:
        >>> partition_values("date=2025-11-04/city=S%C3%A3o/part-0.parquet")
        {'date': '2025-11-04', 'city': 'São'}
    """
    values: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, separator, value = folder.partition("=")
        if separator and name:
            values[unquote(name)] = None if value == NULL_PARTITION else unquote(value)
    return values


def inferred_type(texts: Iterable[str | None], *, dates: bool = False) -> pa.DataType:
    """The type of a partition column that no file holds: int64 if every value is a plain whole number, else string.

    A value with leading zeros is none: `month=01` stays `"01"`. With `dates`, days such as `2025-11-04` are dates.

    Example:
        >>> inferred_type(["1", "20", None]), inferred_type(["01"])
        (DataType(int64), DataType(string))
    """
    given = [text for text in texts if text is not None]
    whole = bool(given) and all(_WHOLE_NUMBER.fullmatch(text) for text in given)
    if dates and given and all(_is_date(text) for text in given):
        return pa.date32()
    return pa.int64() if whole else pa.string()


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False
