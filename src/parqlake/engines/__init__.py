"""Engines: they carry plans out, and decide nothing."""

from typing import TYPE_CHECKING, Any

from parqlake.engines.arrow import PyArrowEngine

if TYPE_CHECKING:
    from parqlake.engines.duck import DuckDBEngine

__all__ = ["DuckDBEngine", "PyArrowEngine"]


def __getattr__(name: str) -> Any:
    """Loads the engine that is asked for: who only reads needs one."""
    if name != "DuckDBEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from parqlake.engines.duck import DuckDBEngine

    return DuckDBEngine
