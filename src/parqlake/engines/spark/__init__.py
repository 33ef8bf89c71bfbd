"""The Spark engine: executors run the PyArrow engine on their part and report the files they made."""

from parqlake.engines.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
