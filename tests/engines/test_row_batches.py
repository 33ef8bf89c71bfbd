"""How rows leave the JVM: by their count where they are small, measured where one may be huge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from parqlake.engines.spark.settings import row_batches, settings

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SMALL = pa.schema({"id": pa.int64(), "note": pa.string()})
HUGE = [pa.schema({"id": pa.int64(), "content": pa.binary()}), pa.schema({"tags": pa.list_(pa.string())})]


def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": pa.array([batch.num_rows], pa.int64())})


def test_small_rows_go_by_their_count_and_large_ones_are_measured(spark: Any) -> None:
    frame = spark.range(0, 10_000, 1, 1)
    with settings(spark, row_batches(spark, SMALL)):
        assert [row.rows for row in frame.mapInArrow(sizes, "rows long").collect()] == [4096, 4096, 1808]
    megabytes = spark.range(0, 200, 1, 1).selectExpr("cast(repeat('x', 1024 * 1024) as binary) as content")
    for schema in HUGE:
        with settings(spark, row_batches(spark, schema)):
            counts = [row.rows for row in megabytes.mapInArrow(sizes, "rows long").collect()]
        assert sum(counts) == 200
        assert max(counts) <= 65


def test_limits_of_the_user_stay(spark: Any) -> None:
    with settings(spark, {BYTES: "1000000"}):
        assert row_batches(spark, SMALL) == {}
        assert row_batches(spark, HUGE[0]) == {}
    with settings(spark, {ROWS: "7"}):
        assert row_batches(spark, SMALL)[ROWS] == "7"
    before = spark.conf.get(ROWS), spark.conf.get(BYTES)
    with settings(spark, row_batches(spark, SMALL)):
        assert spark.conf.get(BYTES) == "2147483647"
    assert (spark.conf.get(ROWS), spark.conf.get(BYTES)) == before
