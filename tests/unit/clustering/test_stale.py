"""Which files an optimization rewrites: what is new or lies badly, and no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parqlake.core.clustering import ColumnBounds, Layout
from parqlake.core.clustering.stale import MAX_RUNS, LaidFile, stale_files

Box = tuple[tuple[int, int], ...]
UNIT = 1000


def _chosen(files: Sequence[tuple[Box, int | None, int]], *, small: int = 0, depth: float = 1.0) -> set[int]:
    """What is chosen of files, each given by its bounds, its run and its size."""
    laid = [LaidFile(size, run, 1, depth) for _, run, size in files]
    nowhere = np.zeros(len(files), dtype=np.bool_)
    columns = tuple(
        ColumnBounds(
            f"c{n}",
            pa.array([box[n][0] for box, *_ in files]),
            pa.array([box[n][1] for box, *_ in files]),
            nowhere,
            nowhere,
        )
        for n in range(len(files[0][0]))
    )
    layout = Layout(np.full(len(files), 10, dtype=np.int64), columns)
    return set(stale_files(laid, layout, small_bytes=small))


def _run(number: int | None, count: int, size: int = UNIT) -> list[tuple[Box, int | None, int]]:
    return [(((n * 10, n * 10 + 9),), number, size) for n in range(count)]


def test_what_one_run_left_stays() -> None:
    assert _chosen(_run(7, 5)) == set()
    assert _chosen([(((0, 9), (0, 9)), 7, UNIT), (((5, 9), (5, 9)), 7, UNIT)]) == set()


def test_files_in_order_of_one_column_stay_whoever_wrote_them() -> None:
    assert _chosen(_run(None, 5)) == set()
    assert _chosen([*_run(7, 4), (((40, 49),), None, UNIT)]) == set()
    assert _chosen(_run(None, 1), depth=3.0) == set()  # one row group: nothing in it could be skipped


def test_new_files_go_with_those_they_lie_over() -> None:
    new: tuple[Box, int | None, int] = (((15, 25),), None, UNIT)
    assert _chosen([*_run(7, 5), new]) == {1, 2, 5}


def test_far_more_settled_bytes_are_left_alone_until_runs_pile_up() -> None:
    new: list[tuple[Box, int | None, int]] = [(((0, 99),), None, UNIT), (((0, 95),), None, UNIT)]
    settled = _run(7, 10, size=100 * UNIT)
    assert _chosen(settled + new) == {10, 11}
    assert _chosen(settled + new, small=1000 * UNIT) == set(range(12))
    for number in range(MAX_RUNS - 1):
        settled += _run(8 + number, 10, size=100 * UNIT)
    assert _chosen(settled + new) == set(range(len(settled) + 2))


def test_many_runs_over_one_another_are_put_together() -> None:
    few = [file for run in range(MAX_RUNS) for file in _run(run, 6)]
    assert _chosen(few) == set()
    many = [file for run in range(MAX_RUNS + 2) for file in _run(run, 6)]
    assert _chosen(many) == set(range(len(many)))
    apart = [
        (((low + 100 * run, high + 100 * run),), run, UNIT) for run in range(9) for ((low, high),), _, _ in _run(0, 6)
    ]
    assert _chosen(apart) == set()


def test_several_columns_are_laid_out_once_however_they_lie() -> None:
    slabs: list[tuple[Box, int | None, int]] = [(((n * 10, n * 10 + 9), (0, 99)), None, UNIT) for n in range(4)]
    assert _chosen(slabs) == {0, 1, 2, 3}
    assert _chosen(slabs[:1]) == set()
