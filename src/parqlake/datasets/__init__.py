"""Datasets: plain directories of Parquet without a catalog.

A table of a lake promises more: here readers may see a swap half done, and there is no history. What is promised is
that a failure leaves the old rows or the new ones, and never a mix, once the directory was recovered.
"""

from typing import TYPE_CHECKING, Any

from parqlake.datasets.duckdb_handler import DuckDBParquetHandler
from parqlake.datasets.naming import FilenameStrategy
from parqlake.datasets.pyarrow_functions import (
    collect_dataset_stats_pyarrow,
    compact_parquet_dataset_pyarrow,
    merge_parquet_dataset_pyarrow,
    optimize_parquet_dataset_pyarrow,
)
from parqlake.datasets.recovery import Recovery, recover

if TYPE_CHECKING:
    from parqlake.datasets.spark_handler import SparkParquetHandler

__all__ = [
    "DuckDBParquetHandler",
    "FilenameStrategy",
    "Recovery",
    "SparkParquetHandler",
    "collect_dataset_stats_pyarrow",
    "compact_parquet_dataset_pyarrow",
    "merge_parquet_dataset_pyarrow",
    "optimize_parquet_dataset_pyarrow",
    "recover",
]


def __getattr__(name: str) -> Any:
    """Loads the handler for Spark when it is first used: few need it."""
    if name == "SparkParquetHandler":
        from parqlake.datasets.spark_handler import SparkParquetHandler

        globals()[name] = SparkParquetHandler
        return SparkParquetHandler
    raise AttributeError(f"module 'parqlake.datasets' has no attribute {name!r}")
