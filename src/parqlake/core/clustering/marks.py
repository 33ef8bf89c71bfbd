"""A mark in a file's footer that says by what its rows are ordered.

Statistics tell how files lie to one another, not how rows lie inside one row group. So a writer that lays rows out
says so in the footer's key-value metadata, with what is needed to see that no file was added or taken away since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from parqlake.core.clustering.curves import Curve

MARK_KEY = b"parqlake.clustering"


def clustering_mark(columns: Sequence[str], curve: Curve, *, run: str, files: int) -> dict[bytes, bytes]:
    """The footer metadata of a file whose rows lie along the curve over these columns.

    Args:
        columns: the clustering columns.
        curve: the curve.
        run: what made the file; the same for all files of one folder that were laid out together, and for no others.
        files: how many those are.

    Example:
        >>> clustering_mark(["a"], Curve.HILBERT, run="r1", files=3)
        {b'parqlake.clustering': b'{"columns": ["a"], "curve": "hilbert", "run": "r1", "files": 3}'}
    """
    mark = {"columns": list(columns), "curve": str(curve), "run": run, "files": files}
    return {MARK_KEY: json.dumps(mark).encode()}


def is_one_run(metadata: Sequence[Mapping[bytes, bytes] | None], columns: Sequence[str]) -> bool:
    """Whether the files of a folder are all that one run made, and nothing else: then a repeat would change nothing.

    Args:
        metadata: the footer's key-value metadata of every data file of the folder.
        columns: the clustering columns asked for.

    Example:
        >>> marks = [clustering_mark(["a"], Curve.MORTON, run="r1", files=2)] * 2
        >>> is_one_run(marks, ["a"]), is_one_run(marks, ["b"]), is_one_run(marks[:1], ["a"]), is_one_run([None], ["a"])
        (True, False, False, False)
    """
    marks = [_read(entry) for entry in metadata]
    first = marks[0] if marks else None
    return (
        first is not None
        and all(mark == first for mark in marks)
        and first.get("columns") == list(columns)
        and first.get("files") == len(marks)
    )


def _read(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any] | None:
    try:
        mark = json.loads((metadata or {})[MARK_KEY])
    except (KeyError, ValueError):
        return None
    return mark if isinstance(mark, dict) else None
