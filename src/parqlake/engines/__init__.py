"""Engines: they carry plans out, and decide nothing."""

from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.duck import DuckDBEngine

__all__ = ["DuckDBEngine", "PyArrowEngine"]
