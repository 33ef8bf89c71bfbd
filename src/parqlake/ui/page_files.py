"""The files of a version: how large they are, how partitions compare, a map of them, and a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import FileEntry, IntArray
from parqlake.core.ports import CatalogReader
from parqlake.table.policy import Policy, policy_of
from parqlake.ui.buckets import histogram, size_class
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.footprint import Footprint

PER_PAGE = 50
_MAP = 600
_EXACT = 3_000
"""Of so many files each entry is looked at; of more, sizes are those of their row groups."""
_PARTITIONS = 20
_SORTS = ("oldest", "newest", "largest", "smallest", "most rows")


def files_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What the files of one version are like."""
    order, page = ask.text("sort") or "newest", ask.integer("page", 1, least=1)
    if order not in _SORTS:
        raise InvalidOptionError(f"sort={order!r} is unknown; use one of {', '.join(_SORTS)}")
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
        found: dict[str, Any] = {"table": explorer.counts(subject), "sort": order, "sorts": list(_SORTS)}
        if subject.snapshot is None or not subject.snapshot.file_count:
            return {**found, "empty": True}
        footprint = explorer.footprint(reader, subject.snapshot)
        target = target_bytes(subject)
        exact = len(footprint) <= _EXACT
        entries = footprint.entries(reader, range(len(footprint)) if exact else footprint.sample(_MAP))
        sizes = np.array([entries[p].size_bytes for p in sorted(entries)]) if exact else footprint.file_bytes
        partitions = _partitions(reader, subject, entries if exact else None)
        listed = _ordered(footprint, order)[(page - 1) * PER_PAGE : page * PER_PAGE]
        rows = [_file(entry, target) for entry in footprint.entries(reader, listed).values()]
    return {
        **found,
        "empty": False,
        "target_bytes": target,
        "exact_sizes": exact,
        "histogram": histogram(sizes, target),
        "figures": {
            "average_bytes": int(sizes.mean()),
            "median_bytes": int(np.median(sizes)),
            "smallest_bytes": int(sizes.min()),
            "largest_bytes": int(sizes.max()),
            "small_files": int(np.count_nonzero(sizes < target / 2)),
            "large_files": int(np.count_nonzero(sizes > 2 * target)),
        },
        "partitions": partitions,
        "map": _map(entries, footprint, target),
        "map_files": min(len(entries), _MAP),
        "files": rows,
        "page": page,
        "pages": max(1, -(-len(footprint) // PER_PAGE)),
    }


def target_bytes(subject: Subject) -> int:
    """About how large files shall be, by the table's policy; by the default if that cannot be read."""
    try:
        return policy_of(subject.info).target_bytes
    except InvalidOptionError:
        return Policy().target_bytes


def partition_text(values: Mapping[str, Any]) -> str:
    """A partition as people write it: `region=eu, day=2026-11-16`."""
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())


def _ordered(footprint: Footprint, order: str) -> IntArray:
    places = np.arange(len(footprint))
    match order:
        case "newest":
            return places[::-1]
        case "largest":
            return np.argsort(-footprint.file_bytes, kind="stable")
        case "smallest":
            return np.argsort(footprint.file_bytes, kind="stable")
        case "most rows":
            return np.argsort(-footprint.file_rows, kind="stable")
    return places


def _file(entry: FileEntry, target: int) -> dict[str, Any]:
    return {
        "path": entry.path,
        "size_bytes": entry.size_bytes,
        "row_count": entry.row_count,
        "row_group_count": entry.row_group_count,
        "partition": dict(entry.partition),
        "added_in_version": entry.added,
        "class": size_class(entry.size_bytes, target),
    }


def _partitions(
    reader: CatalogReader, subject: Subject, entries: Mapping[int, FileEntry] | None
) -> dict[str, Any] | None:
    """Bytes and files by partition, the largest first; None if the table has none, or it would take too long."""
    if not subject.info.partition_by:
        return None
    sums: dict[str, list[int]] = {}
    if subject.version == subject.head.version:
        for total in reader.file_totals(subject.info.table_id):
            _add(sums, partition_text(total.values), total.files, total.size_bytes, total.row_count)
    elif entries is not None:
        for entry in entries.values():
            _add(sums, partition_text(entry.partition), 1, entry.size_bytes, entry.row_count)
    else:
        return None
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    sizes = [values[1] for values in sums.values()]
    return {
        "count": len(sums),
        "shown": [
            {"partition": name, "files": values[0], "size_bytes": values[1], "row_count": values[2]}
            for name, values in ordered[:_PARTITIONS]
        ],
        "rest_bytes": sum(values[1] for _, values in ordered[_PARTITIONS:]),
        "median_bytes": int(np.median(sizes)),
        "skew": max(sizes) / max(1.0, float(np.median(sizes))),
    }


def _add(sums: dict[str, list[int]], name: str, files: int, size_bytes: int, rows: int) -> None:
    held = sums.setdefault(name, [0, 0, 0])
    held[0] += files
    held[1] += size_bytes
    held[2] += rows


def _map(entries: Mapping[int, FileEntry], footprint: Footprint, target: int) -> list[dict[str, Any]]:
    """Files by partition, each a cell; of many, some that are spread evenly."""
    chosen = set(footprint.sample(_MAP).tolist()) if len(entries) > _MAP else set(entries)
    groups: dict[str, list[dict[str, Any]]] = {}
    for place in sorted(chosen & entries.keys()):
        entry = entries[place]
        cell = {
            "path": entry.path,
            "size_bytes": entry.size_bytes,
            "row_count": entry.row_count,
            "added_in_version": entry.added,
            "class": size_class(entry.size_bytes, target),
        }
        groups.setdefault(partition_text(entry.partition), []).append(cell)
    return [{"partition": name, "cells": cells} for name, cells in sorted(groups.items())]
