"""A lake's own calls for Spark: tables written by name, and views over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import parqlake
from parqlake.core.errors import InvalidOptionError, TableExistsError, UnsupportedTypeError
from parqlake.table.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


def test_a_frame_is_written_by_name_and_makes_its_table(spark: Any, lake: Lake) -> None:
    frame = spark.range(100).withColumn("p", F.col("id") % 3)
    made = lake.write(frame, "a.t", partition_by=["p"])
    assert made is not None
    assert (made.row_count, made.version) == (100, 1)
    table = lake.table("a.t")
    assert table.partition_by == ("p",)
    assert lake.write(frame, "a.t", mode="ignore") is None
    with pytest.raises(TableExistsError, match=r'"a\.t" is there already'):
        lake.write(frame, "a.t", mode="error")
    lake.write(frame.where("id < 5"), "a.t", mode="overwrite")
    lake.write(frame.where("id < 2"), "a.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 1, 1, 2, 3, 4]


def test_every_table_is_a_view(spark: Any, lake: Lake) -> None:
    lake.write(pa.table({"id": [1, 2], "name": ["a", "b"]}), "sales.orders")
    lake.write(pa.table({"order_id": [1, 1, 2]}), "sales.lines")
    lake.create_table("sales.empty", pa.schema([("x", pa.int32())]))
    assert lake.register(spark) == ["sales_empty", "sales_lines", "sales_orders"]
    joined = "SELECT name, count(*) FROM sales_orders JOIN sales_lines ON id = order_id GROUP BY name ORDER BY name"
    assert spark.sql(joined).collect() == [("a", 2), ("b", 1)]
    assert spark.sql("SELECT * FROM sales_empty").collect() == []
    lake.write(pa.table({"id": [3], "name": ["c"]}), "sales.orders")
    assert spark.sql("SELECT count(*) FROM sales_orders").first()[0] == 2
    assert lake.register(spark, namespace="sales")[-1] == "sales_orders"
    assert spark.sql("SELECT count(*) FROM sales_orders").first()[0] == 3


def test_views_that_would_hide_each_other_are_refused(spark: Any, lake: Lake) -> None:
    schema = pa.schema([("x", pa.int32())])
    lake.create_table("a.b_c", schema)
    lake.create_table("a_b.c", schema)
    with pytest.raises(InvalidOptionError, match=r"a\.b_c and a_b\.c would both be the view a_b_c"):
        lake.register(spark)
    assert lake.register(spark, namespace="a_b") == ["a_b_c"]


def test_a_table_that_spark_cannot_hold_is_named(spark: Any, lake: Lake) -> None:
    lake.create_table("u.t", pa.schema([("wide", pa.uint64())]))
    with pytest.raises(UnsupportedTypeError, match='"wide"'):
        lake.register(spark)
