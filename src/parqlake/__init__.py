"""parqlake: a Pythonic, ACID lakehouse on plain Parquet."""

from parqlake._version import __version__

__all__ = ["__version__"]
