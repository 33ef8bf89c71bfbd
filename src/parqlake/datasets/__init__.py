"""Datasets: plain directories of Parquet without a catalog.

A table of a lake promises more: here readers may see a swap half done, and there is no history. What is promised is
that a failure leaves the old rows or the new ones, and never a mix, once the directory was recovered.
"""

from parqlake.datasets.recovery import Recovery, recover

__all__ = ["Recovery", "recover"]
