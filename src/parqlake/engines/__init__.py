"""Engines: they carry plans out, and decide nothing."""

from parqlake.engines.arrow import PyArrowEngine

__all__ = ["PyArrowEngine"]
