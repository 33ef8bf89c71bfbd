"""Engines: they carry plans out, and decide nothing."""

from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.duckdb_engine import DuckDBEngine

__all__ = ["DuckDBEngine", "PyArrowEngine"]
