"""Datasets: plain directories of Parquet without a catalog.

A table of a lake promises more: here readers may see a swap half done, and there is no history. What is promised is
that a failure leaves the old rows or the new ones, and never a mix, once the directory was recovered.
"""

from parqlake.datasets.duckdb_handler import DuckDBParquetHandler
from parqlake.datasets.naming import FilenameStrategy
from parqlake.datasets.pyarrow_functions import (
    collect_dataset_stats_pyarrow,
    compact_parquet_dataset_pyarrow,
    merge_parquet_dataset_pyarrow,
    optimize_parquet_dataset_pyarrow,
)
from parqlake.datasets.recovery import Recovery, recover

__all__ = [
    "DuckDBParquetHandler",
    "FilenameStrategy",
    "Recovery",
    "collect_dataset_stats_pyarrow",
    "compact_parquet_dataset_pyarrow",
    "merge_parquet_dataset_pyarrow",
    "optimize_parquet_dataset_pyarrow",
    "recover",
]
