"""What a user of Spark Connect does, as a program of its own: a process is either a classic driver or a client."""

from __future__ import annotations

import os
import sys
import warnings

import parqlake

warnings.simplefilter("ignore")
os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)

from pyspark.sql import SparkSession  # noqa: E402 (after the settings that it reads)


def main(root: str) -> None:
    """Writes and reads in every way, and prints what it found."""
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    lake = parqlake.connect(root)
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 as p", "cast(id as string) as s")
    lake.write(frame, "a.t", partition_by=["p"])
    table = lake.table("a.t")
    print("client", type(spark).__module__)
    print("scan", table.scan("id < 10").to_spark(spark).count())
    lake.register(spark)
    print("view", spark.sql("select count(*) from a_t").collect()[0][0])
    with lake.transaction() as tx:
        tx.table("a.t").append(frame.where("id < 5"))
    table.overwrite(frame.where("p = 1 and id < 100"), where="p = 1")
    print("format", spark.read.format("parqlake").option("lake", root).load("a.t").count())
    frame.write.format("parqlake").option("lake", root).mode("append").save("a.t")
    print("rows", table.scan().count())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
