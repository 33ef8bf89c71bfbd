"""Spark: a session that works."""

from parqlake.spark.session import session

__all__ = ["session"]
