"""Spark's `format("parqlake")`: batch and streaming, reading and writing, as a Python data source."""

from parqlake.formats.spark.source import ParqlakeSource

__all__ = ["ParqlakeSource"]
