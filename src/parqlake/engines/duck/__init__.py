"""The DuckDB engine: one `COPY` makes the files, their footers say what is in them."""

from parqlake.engines.duck.engine import DuckDBEngine

__all__ = ["DuckDBEngine"]
