"""Rows on their way into Spark and out of it, with their types kept.

A suite that hands Arrow tables to the Spark engine tests the driver, which writes them itself. `to_frame` brings the
rows into Spark, so that its executors write them; `check_frame` reads a scan with Spark beside the usual reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from parqlake.table.scan import Scan
from parqlake.testing.data import bag


def spark_holds(type_: pa.DataType) -> bool:
    """Whether Spark has a type whose values are exactly those of this one."""
    t = pa.types
    if t.is_unsigned_integer(type_) or t.is_time(type_) or (t.is_timestamp(type_) and type_.unit == "ns"):
        return False
    return all(spark_holds(type_.field(number).type) for number in range(type_.num_fields))


def to_frame(spark: Any, rows: pa.Table | Iterable[pa.Table | pa.RecordBatch]) -> Any:
    """A data frame of the rows in their order, of one task, so that files are cut as on one machine."""
    from pyspark.sql.pandas.types import from_arrow_schema

    table = rows if isinstance(rows, pa.Table) else _joined(rows)
    whole = table.take(pa.array(range(table.num_rows), pa.int64()))  # PySpark does not take lists that are slices
    return spark.createDataFrame(whole, from_arrow_schema(table.schema)).coalesce(1)


def check_frame(spark: Any, scan: Scan, expected: pa.Table) -> None:
    """Asserts that Spark reads the same rows, of the same types, from a scan."""
    found = scan.to_spark(spark).toArrow()
    assert found.schema.names == expected.schema.names
    found = found.cast(pa.schema([field.with_nullable(True) for field in expected.schema]))
    assert bag(found) == bag(expected), f"Spark reads other rows: {found.num_rows} of {expected.num_rows}"


def _joined(pieces: Iterable[pa.Table | pa.RecordBatch]) -> pa.Table:
    tables = [piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece]) for piece in pieces]
    return pa.concat_tables(tables, promote_options="default")
