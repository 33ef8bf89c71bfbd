"""The PyArrow engine: streams Arrow batches to Parquet files and back, with bounded memory."""

from parqlake.engines.arrow.engine import PyArrowEngine

__all__ = ["PyArrowEngine"]
