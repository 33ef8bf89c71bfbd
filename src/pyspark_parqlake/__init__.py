"""Spark looks for packages called `pyspark_…`: with this one, `format("parqlake")` is known without registration."""

from parqlake.formats.spark import ParqlakeSource as DefaultSource

__all__ = ["DefaultSource"]
