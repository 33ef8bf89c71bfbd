"""Where each file lies in a column: its range as a bar between the column's least and greatest value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.keys import has_bytes_keys, is_prunable, key_value
from parqlake.core.model import BoolArray
from parqlake.core.pages import Key
from parqlake.core.ports import CatalogReader
from parqlake.core.schema import Leaf, leaves
from parqlake.table.cluster_policy import cluster_by
from parqlake.ui.explorer import Subject
from parqlake.ui.footprint import Footprint

MOST_COLUMNS = 6
_BARS = 160
_DEFAULT_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A file's range in a column."""

    low: Key
    high: Key
    lit: bool
    even: bool
    """Whether it is of the even sample, and not only there because it is lit."""


def range_columns(subject: Subject) -> list[Leaf]:
    """The columns whose ranges are known, top-level ones first."""
    found = [leaf for leaf in leaves(subject.schema) if is_prunable(leaf.type) and not leaf.repeated]
    return sorted(found, key=lambda leaf: len(leaf.path))


def default_columns(subject: Subject) -> list[str]:
    """The columns that the table is laid out by, and then the first ones."""
    names = [".".join(leaf.path) for leaf in range_columns(subject)]
    first = [*cluster_by(subject.info), *subject.info.sort_by]
    partitions = subject.info.partition_by
    rest = [name for name in names if name not in partitions] + [name for name in names if name in partitions]
    ordered = [name for name in dict.fromkeys([*first, *rest]) if name in names]
    return ordered[:_DEFAULT_COLUMNS]


def column_ranges(
    reader: CatalogReader, footprint: Footprint, leaf: Leaf, lit: BoolArray | None = None
) -> dict[str, Any]:
    """The ranges of a sample of files, by their least value, each from 0 to 1 along the column.

    Lit files are drawn last, and of those that are lit as many are sampled as of all.
    """
    places = even = footprint.sample(_BARS)
    if lit is not None and lit.any() and not lit.all():
        hits = np.flatnonzero(lit)
        some = hits[np.unique(np.linspace(0, len(hits) - 1, min(_BARS, len(hits))).astype(np.int64))]
        places = np.union1d(places, some)
    found = footprint.bounds(footprint.pages(reader, leaf.field_id), places)
    of_sample = set(even.tolist())
    bars, only_nulls, unknown = [], 0, 0
    for place, bounds in zip(places.tolist(), found, strict=True):
        if bounds is None:
            only_nulls += 1
        elif bounds[0] is None or bounds[1] is None:
            unknown += 1
        else:
            bars.append(Place(bounds[0], bounds[1], lit is None or bool(lit[place]), place in of_sample))
    return {
        "name": ".".join(leaf.path),
        "type": str(leaf.type),
        "files": len(places),
        "only_nulls": only_nulls,
        "unknown": unknown,
        **_drawn(bars, leaf.type),
    }


def _drawn(bars: Sequence[Place], type_: pa.DataType) -> dict[str, Any]:
    if not bars:
        return {"bars": [], "low": None, "high": None, "middle": None, "overlap": None}
    where, middle = _scale(bars, type_)
    drawn = [
        {
            "from": where(bar.low),
            "to": where(bar.high),
            "low": key_value(bar.low, type_),
            "high": key_value(bar.high, type_),
            "lit": bar.lit,
            "even": bar.even,
        }
        for bar in sorted(bars, key=lambda bar: (bar.low, bar.high))
    ]
    return {
        "bars": drawn,
        "low": key_value(min(bar.low for bar in bars), type_),
        "high": key_value(max(bar.high for bar in bars), type_),
        "middle": middle,
        "overlap": _overlap([bar for bar in drawn if bar["even"]]),
    }


def _scale(bars: Sequence[Place], type_: pa.DataType) -> tuple[Callable[[Key], float], Any]:
    """Where a key lies from 0 to 1, and the value in the middle: by rank for text, by value for all else."""
    keys = sorted({key for bar in bars for key in (bar.low, bar.high)})
    if has_bytes_keys(type_) or (pa.types.is_floating(type_) and not _finite(keys, type_)):
        last = max(1, len(keys) - 1)
        return lambda key: bisect_left(keys, key) / last, key_value(keys[len(keys) // 2], type_)
    if pa.types.is_floating(type_):  # whose keys do not grow with their values
        low, high = (float(key_value(key, type_)) for key in (keys[0], keys[-1]))
        wide = high - low or 1.0
        return lambda key: (float(key_value(key, type_)) - low) / wide, low + (high - low) / 2
    first, last_key = int(keys[0]), int(keys[-1])
    width = last_key - first or 1
    return lambda key: (int(key) - first) / width, key_value((first + last_key) // 2, type_)


def _finite(keys: Sequence[Key], type_: pa.DataType) -> bool:
    ends = [float(key_value(key, type_)) for key in (keys[0], keys[-1])]
    return bool(np.isfinite(ends).all()) and bool(np.isfinite(ends[1] - ends[0]))


def _overlap(drawn: Sequence[Mapping[str, Any]]) -> float | None:
    """The share of the files that a lookup of one value has to read, on average over the middles of their ranges."""
    if not drawn:
        return None
    lows, highs = sorted(bar["from"] for bar in drawn), sorted(bar["to"] for bar in drawn)
    middles = [(bar["from"] + bar["to"]) / 2 for bar in drawn]
    read = sum(bisect_right(lows, middle) - bisect_left(highs, middle) for middle in middles)
    return read / len(drawn) ** 2
