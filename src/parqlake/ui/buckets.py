"""Sizes of files in classes that double, and how many fall into each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parqlake.core.model import IntArray

_SMALLEST = 1024
_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_SMALL, _GOOD, _LARGE = "small", "good", "large"


def size_class(size_bytes: float, target_bytes: int) -> str:
    """Whether a file is `small` (below half of the target), `good`, or `large` (above twice the target)."""
    return _SMALL if size_bytes < target_bytes / 2 else _LARGE if size_bytes > 2 * target_bytes else _GOOD


def histogram(sizes: IntArray, target_bytes: int) -> list[dict[str, Any]]:
    """How many files, and how many bytes, there are of each class of sizes, from the smallest to the largest.

    Example:
        >>> [(row["label"], row["files"]) for row in histogram(np.array([500, 1500, 1700]), 2048)]
        [('up to 1 KiB', 1), ('1 KiB to 2 KiB', 2)]
    """
    if not len(sizes):
        return []
    steps: IntArray = np.maximum(0, np.ceil(np.log2(np.maximum(sizes, 1) / _SMALLEST))).astype(np.int64)
    counts = np.bincount(steps)
    weights: npt.NDArray[Any] = np.bincount(steps, sizes)
    first = int(np.flatnonzero(counts)[0])
    rows = []
    for step in range(first, len(counts)):
        low, high = _SMALLEST * 2 ** (step - 1), _SMALLEST * 2**step
        rows.append(
            {
                "label": f"up to {_binary(high)}" if step == 0 else f"{_binary(low)} to {_binary(high)}",
                "low_bytes": 0 if step == 0 else low,
                "high_bytes": high,
                "files": int(counts[step]),
                "size_bytes": int(weights[step]),
                "class": size_class(high * 0.75, target_bytes),
            }
        )
    return rows


def _binary(count: int) -> str:
    """A power of two, by its round name."""
    unit, name = next((unit, name) for unit, name in _UNITS if count >= unit)
    return f"{count // unit} {name}"
