"""Columns and literals as Spark wants them: names are names whatever they hold, and moments know no local time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from parqlake.core.model import to_micros
from parqlake.spark.columns import quoted


def column(name: str, *, of: str | None = None) -> Any:
    """The column of that name, dots and quotes and all; `of` an alias, if given."""
    from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

    return F.col(quoted((name,) if of is None else (of, name)))


def moment(at: datetime) -> Any:
    """A moment as a Spark literal, whatever the time zone of this machine."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.timestamp_micros(F.lit(to_micros(at)))
