"""Settings of a session, changed for the time of one action and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MEASURED_BYTES = "67108864"
"""Spark's own limit."""
UNMEASURED_BATCHES = {_BATCH_BYTES: str(2**31 - 1), _BATCH_ROWS: "4096"}
"""Rows go by their count: Spark does not measure a batch whose limit is the largest there is."""

SAME_ROWS = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
"""With these Spark notices when a task that is run again makes other rows than before (random ones, say), and starts
the stage anew or gives up. Without them it mixes old rows and new ones: some twice, some never."""


@contextmanager
def settings(spark: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets them for the time of a block."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def row_batches(spark: Any, schema: pa.Schema) -> dict[str, str]:
    """Settings by which rows of the schema leave the JVM in batches of bounded size, at the least cost.

    To keep a batch below a number of bytes, Spark measures all of its columns again after every row, which takes longer
    than everything else that it does on the way to Arrow. Rows of numbers and texts therefore go by their count; those
    that hold bytes or nested values, of which a single one may be huge, are measured. Limits of the user's own stay.
    """
    limit = spark.conf.get(_BATCH_BYTES, _MEASURED_BYTES).removesuffix("b")
    if limit not in (_MEASURED_BYTES, UNMEASURED_BATCHES[_BATCH_BYTES]):
        return {}
    if any(_may_be_huge(field.type) for field in schema):
        return {_BATCH_BYTES: _MEASURED_BYTES}
    rows = int(spark.conf.get(_BATCH_ROWS, "0"))
    return UNMEASURED_BATCHES | ({_BATCH_ROWS: str(rows)} if 0 < rows < int(UNMEASURED_BATCHES[_BATCH_ROWS]) else {})


def _may_be_huge(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_))
