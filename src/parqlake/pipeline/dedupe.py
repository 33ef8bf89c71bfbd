"""One row for each key: the order that says which row of several is taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.pipeline.spark_columns import column

_TERM = re.compile(r"\s*(?P<column>`[^`]+`|\S+)(?:\s+(?P<way>asc|desc))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """A column that decides which row comes first."""

    column: str
    descending: bool = False


def parse_order(text: Any) -> tuple[Order, ...]:
    """Reads `"updated_at desc, version desc"`, or a list of such terms.

    Example:
        >>> parse_order("updated_at desc")
        (Order(column='updated_at', descending=True),)
    """
    terms = text.split(",") if isinstance(text, str) else text
    found = []
    for term in terms if isinstance(terms, Sequence) else ():
        match = _TERM.fullmatch(term) if isinstance(term, str) else None
        if match is None:
            raise InvalidOptionError(f'dedupe={text!r} cannot be read; write it like "updated_at desc"')
        found.append(Order(match["column"].strip("`"), (match["way"] or "asc").lower() == "desc"))
    if not found:
        raise InvalidOptionError(f'dedupe={text!r} names no column; write it like "updated_at desc"')
    return tuple(found)


def deduplicated(frame: Any, keys: Sequence[str], order: Sequence[Order]) -> Any:
    """The first row of each key in this order, NULLs last; of equals always the same one.

    Rows of which a part of the key is NULL have no key, and all stay: what becomes of them is not said by an order.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

    ranked = [column(o.column).desc_nulls_last() if o.descending else column(o.column).asc_nulls_last() for o in order]
    # Rows that the order cannot tell apart are told apart by what they hold, so that a repeat takes the same one.
    hashed = [column(field.name) for field in frame.schema.fields if "map<" not in field.dataType.simpleString()]
    window = Window.partitionBy(*(column(key) for key in keys)).orderBy(*ranked, F.xxhash64(*hashed))
    numbered = frame.withColumn("__parqlake_row", F.row_number().over(window))
    keyless = reduce(or_, (column(key).isNull() for key in keys))
    return numbered.where((F.col("__parqlake_row") == 1) | keyless).drop("__parqlake_row")
