"""Whether a dataset is clustered: sorted and laid out by our own scheme, yes; shuffled, no."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.clustering import (
    Curve,
    Layout,
    RankModel,
    achievable,
    clustering_mark,
    current,
    is_clustered,
    is_one_run,
    overlap_depth,
)

ROWS = 60_000


def cut(table: pa.Table, files: int) -> list[pa.Table]:
    ends = [table.num_rows * i // files for i in range(files + 1)]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(ends)]


def footers(tables: list[pa.Table], **options: Any) -> list[Any]:
    result = []
    for table in tables:
        file = io.BytesIO()
        pq.write_table(table, file, **options)
        result.append(pq.read_metadata(file))
    return result


def sample_of(table: pa.Table, seed: int, rows: int = 10_000) -> pa.Table:
    return table.take(np.random.default_rng(seed).choice(table.num_rows, rows, replace=False))


def laid_out(table: pa.Table, curve: Curve) -> pa.Table:
    names = table.column_names
    codes = RankModel.fit(sample_of(table, 1), names).codes(table, curve)
    ordered = table.append_column("code", pa.array(codes)).sort_by([(name, "ascending") for name in ["code", *names]])
    return ordered.drop_columns("code")


def data(kind: str) -> pa.Table:
    random = np.random.default_rng(5)
    base = random.random(ROWS)
    columns: dict[str, Any] = {
        "even": {"a": base, "b": random.random(ROWS)},
        "three": {"a": base, "b": random.random(ROWS), "c": random.integers(0, 10**9, ROWS)},
        "skew": {"a": random.lognormal(0, 4, ROWS), "b": random.zipf(1.5, ROWS) % 10**6},
        "few": {"a": base < 0.5, "b": random.integers(0, 365, ROWS)},
        "together": {"a": base, "b": base + random.normal(0, 0.01, ROWS)},
        "text": {"a": pa.array([f"user-{int(v * 5000)}" for v in base]), "b": random.integers(0, 1000, ROWS)},
        "nulls": {"a": pa.array(base, mask=random.random(ROWS) < 0.3), "b": random.random(ROWS)},
        "constant": {"a": np.ones(ROWS), "b": base},
        "one": {"a": base},
    }[kind]
    return pa.table(columns)


KINDS = ["even", "three", "skew", "few", "together", "text", "nulls", "constant", "one"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("files", [3, 7, 16, 100])
def test_our_own_layout_is_clustered_and_random_order_is_not(kind: str, files: int) -> None:
    table = data(kind)
    names = table.column_names
    sample = sample_of(table, 2)
    ours = Layout.from_footers(footers(cut(laid_out(table, Curve.HILBERT), files)), names)
    assert is_clustered(ours, sample) is True
    shuffled = Layout.from_footers(footers(cut(table, files)), names)
    assert is_clustered(shuffled, sample) is False


@pytest.mark.parametrize("files", [4, 20])
def test_morton_is_judged_by_what_morton_can_do(files: int) -> None:
    table = data("even")
    ours = Layout.from_tables(cut(laid_out(table, Curve.MORTON), files), ["a", "b"])
    assert is_clustered(ours, sample_of(table, 2), Curve.MORTON) is True


def test_a_sort_by_one_of_two_columns_is_not_enough() -> None:
    table = data("even")
    by_first = Layout.from_tables(cut(table.sort_by("a"), 20), ["a", "b"])
    sample = sample_of(table, 2)
    assert is_clustered(by_first, sample) is False
    assert is_clustered(Layout.from_tables(cut(table.sort_by("a"), 20), ["a"]), sample) is True


def test_files_appended_to_a_clustered_dataset_make_it_unclustered() -> None:
    table = data("even")
    ours = cut(laid_out(table, Curve.HILBERT), 10)
    some = cut(table.slice(0, ROWS // 2), 5)
    sample = sample_of(table, 2)
    assert is_clustered(Layout.from_tables(ours, ["a", "b"]), sample) is True
    assert is_clustered(Layout.from_tables(ours + some, ["a", "b"]), sample) is False


def test_a_sorted_column_needs_no_sample() -> None:
    table = data("one").sort_by("a")
    assert is_clustered(Layout.from_tables(cut(table, 5), ["a"])) is True
    ties = pa.table({"a": np.sort(np.arange(1000) % 7)})  # files touch at values that many rows have
    assert is_clustered(Layout.from_tables(cut(ties, 50), ["a"])) is True


def test_the_order_of_files_does_not_matter() -> None:
    tables = cut(data("one").sort_by("a"), 9)
    assert is_clustered(Layout.from_tables(tables[::-1], ["a"])) is True


def test_files_over_one_another_need_no_sample() -> None:
    assert is_clustered(Layout.from_tables(cut(data("even"), 10), ["a", "b"])) is False


def test_a_single_file_is_judged_by_its_row_groups() -> None:
    table = data("one")
    (unordered,) = footers([table], row_group_size=ROWS // 10)
    (ordered,) = footers([table.sort_by("a")], row_group_size=ROWS // 10)
    assert is_clustered(Layout.from_footers([unordered], ["a"])) is False
    assert is_clustered(Layout.from_footers([ordered], ["a"])) is True


def test_one_row_group_cannot_tell() -> None:
    table = data("one").sort_by("a")
    assert is_clustered(Layout.from_footers(footers([table]), ["a"]), table) is None
    assert is_clustered(Layout.from_footers([], ["a"]), table) is None
    assert is_clustered(Layout.from_tables(cut(data("even"), 3), ["a", "b"])) is None


def test_files_without_statistics_are_not_clustered() -> None:
    table = data("one").sort_by("a")
    layout = Layout.from_footers(footers(cut(table, 10), write_statistics=False), ["a"])
    assert overlap_depth(layout) == 10
    assert is_clustered(layout, table) is False


def test_depth_counts_files_over_one_another() -> None:
    def depth(*ranges: tuple[int, int]) -> float:
        return overlap_depth(Layout.from_tables([pa.table({"a": list(ends)}) for ends in ranges], ["a"]))

    assert depth((0, 1), (2, 3), (4, 5)) == 1
    assert depth((0, 9), (1, 2), (3, 4)) == pytest.approx((3 + 2 + 2) / 3)
    assert depth((0, 9), (0, 9), (0, 9)) == 3
    assert depth((5, 5), (5, 5)) == 1
    assert depth((0, 5)) == 1


def test_depth_asks_for_overlap_in_every_column() -> None:
    def box(a: tuple[int, int], b: tuple[int, int]) -> pa.Table:
        return pa.table({"a": list(a), "b": list(b)})

    apart = [box((0, 5), (0, 5)), box((0, 5), (6, 9)), box((6, 9), (0, 5)), box((6, 9), (6, 9))]
    assert overlap_depth(Layout.from_tables(apart, ["a", "b"])) == 1
    over = [box((1, 1), (0, 5)), box((1, 1), (3, 9))]
    assert overlap_depth(Layout.from_tables(over, ["a", "b"])) == 2


def test_depth_of_nulls() -> None:
    tables = [pa.table({"a": pa.array(values, pa.int64())}) for values in ([1, 2], [3, 4], [5, None], [None, None])]
    assert overlap_depth(Layout.from_tables(tables, ["a"])) == 1
    assert overlap_depth(Layout.from_tables([*tables[:3], pa.table({"a": pa.array([1, None])})], ["a"])) > 1


def test_the_spread_is_the_share_that_lookups_read() -> None:
    table = data("one")
    sample = sample_of(table, 2)
    model = RankModel.fit(sample, ["a"])
    assert current(Layout.from_tables(cut(table, 10), ["a"]), model).shares[0] == pytest.approx(1, abs=0.01)
    assert current(Layout.from_tables(cut(table.sort_by("a"), 10), ["a"]), model).shares[0] == pytest.approx(
        0.1, abs=0.01
    )
    assert achievable(sample, model, 10).mean == pytest.approx(0.1, abs=0.01)


def test_hilbert_reads_less_than_morton() -> None:
    sample = sample_of(data("even"), 2)
    model = RankModel.fit(sample, ["a", "b"])
    assert achievable(sample, model, 50, Curve.HILBERT).mean < 0.85 * achievable(sample, model, 50, Curve.MORTON).mean


def test_marks_tell_a_run_that_nobody_touched_since() -> None:
    marks = [clustering_mark(["a", "b"], Curve.HILBERT, run="r1", files=2) for _ in range(2)]
    read = []
    for mark in marks:
        file = io.BytesIO()
        pq.write_table(pa.table({"a": [1], "b": [2]}).replace_schema_metadata(mark), file)
        read.append(pq.read_metadata(file).metadata)
    assert is_one_run(read, ["a", "b"])
    assert not is_one_run(read, ["b", "a"])
    assert not is_one_run(read[:1], ["a", "b"])
    assert not is_one_run([*read, read[0]], ["a", "b"])
    assert not is_one_run([*read, None], ["a", "b"])
    other = clustering_mark(["a", "b"], Curve.HILBERT, run="r2", files=2)
    assert not is_one_run([read[0], other], ["a", "b"])
    assert not is_one_run([], ["a"])
    assert not is_one_run([{b"parqlake.clustering": b"[1"}], ["a"])
