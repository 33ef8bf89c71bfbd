"""The two plans as callers see them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import InputError
from parqlake.core.maintenance import (
    CompactionGroup,
    FileInfo,
    Targets,
    check_columns,
    make_targets,
    output_rows,
    plan_compaction_groups,
    plan_optimize_groups,
)

MB = 1024 * 1024
FILES = [FileInfo("d/1.parquet", 100, 10), FileInfo("d/2.parquet", 200, 20)]


def both_plans(**targets: Any) -> list[Any]:
    return [
        lambda: plan_compaction_groups(FILES, **targets),
        lambda: plan_optimize_groups(FILES, ["a"], **targets),
    ]


@pytest.mark.parametrize("name", ["target_mb_per_file", "target_rows_per_file"])
@pytest.mark.parametrize("value", [0, -1, -0.5, float("nan"), float("inf")])
def test_targets_must_be_above_zero(name: str, value: float) -> None:
    for plan in both_plans(**{name: value}):
        with pytest.raises(ValueError, match=f"{name} must be > 0, not {value!r}"):
            plan()


@pytest.mark.parametrize("value", ["5", True, [1]])
def test_targets_must_be_numbers(value: Any) -> None:
    for plan in both_plans(target_mb_per_file=value):
        with pytest.raises(ValueError, match=r"target_mb_per_file is .* must be > 0"):
            plan()


def test_rows_are_whole() -> None:
    with pytest.raises(ValueError, match=r"target_rows_per_file is 2\.5"):
        plan_compaction_groups(FILES, target_rows_per_file=2.5)  # type: ignore[arg-type]


def test_a_compaction_needs_a_target() -> None:
    with pytest.raises(ValueError, match="Must provide at least one of target_mb_per_file or target_rows_per_file"):
        plan_compaction_groups(FILES)


def test_a_plan_has_four_parts_and_says_what_would_happen() -> None:
    files = [
        FileInfo("set/p=1/b.parquet", 100, 40),
        FileInfo("set/p=1/a.parquet", 100, 50),
        FileInfo("set/p=2/a.parquet", 300, 250),
        FileInfo("set/p=3/a.parquet", 50, 100),
    ]
    plan = plan_compaction_groups(files, target_rows_per_file=100)
    assert set(plan) == {"groups", "untouched_files", "planned_stats", "planned_groups"}
    assert plan["planned_groups"] == [["set/p=1/a.parquet", "set/p=1/b.parquet"], ["set/p=2/a.parquet"]]
    assert [group.output_rows for group in plan["groups"]] == [(90,), (100, 100, 50)]
    assert all(isinstance(group, CompactionGroup) for group in plan["groups"])
    assert plan["untouched_files"] == [files[3]]
    assert plan["planned_stats"].to_dict() == {
        "before_file_count": 4,
        "after_file_count": 5,
        "before_total_bytes": 550,
        "after_total_bytes": 550,
        "compacted_file_count": 3,
        "rewritten_bytes": 500,
        "compression_codec": None,
        "dry_run": True,
        "planned_groups": plan["planned_groups"],
    }


def test_dicts_are_files_too() -> None:
    dicts = [file.to_dict() for file in FILES]
    assert plan_compaction_groups(dicts, 1)["planned_groups"] == plan_compaction_groups(FILES, 1)["planned_groups"]
    assert plan_optimize_groups(dicts, ["a"])["groups"] == plan_optimize_groups(FILES, ["a"])["groups"]


def test_a_file_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"d/1\.parquet.* given twice"):
        plan_compaction_groups([*FILES, FILES[0]], 1)


def test_no_files_make_an_empty_plan() -> None:
    for plan in (plan_compaction_groups([], 1), plan_optimize_groups([], ["a"])):
        assert plan["groups"] == [] == plan["untouched_files"]
        assert plan["planned_stats"].after_file_count == 0


def test_the_plan_does_not_depend_on_the_order_given() -> None:
    files = [FileInfo(f"p={i % 2}/{i}.parquet", 30 * MB + i, i) for i in range(9)]
    assert plan_compaction_groups(files, 100) == plan_compaction_groups(files[::-1], 100)


def test_few_large_files_above_the_target_are_left_alone() -> None:
    files = [FileInfo(f"{i}.parquet", 300 * MB, 10) for i in range(3)]
    plan = plan_compaction_groups(files, target_mb_per_file=128)
    assert plan["groups"] == []
    assert plan["planned_stats"].compacted_file_count == plan["planned_stats"].rewritten_bytes == 0
    assert plan["planned_stats"].after_file_count == 3


def test_oversized_files_are_split_if_asked() -> None:
    plan = plan_compaction_groups([FileInfo("a.parquet", 300 * MB, 30)], 100, oversize_factor=1.5)
    assert plan["groups"][0].output_rows == (10, 10, 10)
    assert plan["planned_stats"].after_file_count == 3


def test_a_changed_codec_is_a_reason_to_rewrite() -> None:
    files = [FileInfo(f"{i}.parquet", 100 * MB, 10) for i in range(3)]
    plan = plan_compaction_groups(files, 128, recompress=["1.parquet"])
    assert plan["planned_groups"] == [["1.parquet"]]
    assert plan["planned_stats"].after_file_count == 3


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 3 * MB), st.integers(0, 5000)), max_size=30),
    st.none() | st.sampled_from([0.5, 1, 2]),
    st.integers(1, 6000),
)
def test_compacting_twice_does_nothing_the_second_time(
    entries: list[tuple[str, int, int]], mb: float | None, rows: int
) -> None:
    files = [FileInfo(f"{folder}/{i}.parquet", size, count) for i, (folder, size, count) in enumerate(entries)]
    plan = plan_compaction_groups(files, mb, rows)
    after = list(plan["untouched_files"])
    for number, group in enumerate(plan["groups"]):
        assert len({file.folder for file in group.files}) == 1
        size = group.total_size_bytes // max(1, group.total_rows)
        after += [
            FileInfo(f"{group.files[0].folder}/new-{number}-{i}.parquet", size * count, count)
            for i, count in enumerate(group.output_rows)
        ]
    assert sum(file.num_rows for file in after) == sum(file.num_rows for file in files)
    assert len(after) == plan["planned_stats"].after_file_count
    assert all(file.num_rows <= rows for file in after)
    if mb is None:  # bytes of outputs are an estimate here, so they may decide only where they are no target
        assert plan_compaction_groups(after, mb, rows)["groups"] == []


@pytest.mark.parametrize("wrong", [[], (), None, "a", 5])
def test_zorder_columns_are_a_list(wrong: Any) -> None:
    with pytest.raises(ValueError, match="zorder_columns must be a non-empty list"):
        plan_optimize_groups(FILES, wrong)


@pytest.mark.parametrize(
    "schema", [pa.schema([("id", pa.int64()), ("day", pa.date32())]), pa.table({"id": [1], "day": [1]}), ["id", "day"]]
)
def test_missing_columns_are_named_with_those_there_are(schema: Any) -> None:
    with pytest.raises(
        ValueError, match=r'Missing z-order columns: dya; did you mean "day"\? Available columns: id, day'
    ):
        plan_optimize_groups(FILES, ["id", "dya"], sample_schema=schema)
    assert plan_optimize_groups(FILES, ["id", "day"], sample_schema=schema)["planned_stats"].zorder_columns == [
        "id",
        "day",
    ]


def test_columns_are_names_and_different() -> None:
    with pytest.raises(InputError, match="names a more than once"):
        check_columns(["a", "b", "a"])
    with pytest.raises(InputError, match="holds 1, a int"):
        check_columns(["a", 1])
    with pytest.raises(InputError, match="sample_schema is 5"):
        check_columns(["a"], 5)


def test_an_optimization_lays_out_folder_by_folder() -> None:
    files = [
        FileInfo("p=1/a.parquet", 100, 10),
        FileInfo("p=2/a.parquet", 200 * MB, 20),
        FileInfo("p=1/b.parquet", 1, 1),
    ]
    plan = plan_optimize_groups(files, ["a"])
    assert plan["planned_groups"] == [["p=1/a.parquet", "p=1/b.parquet"], ["p=2/a.parquet"]]
    assert [group.output_rows for group in plan["groups"]] == [(11,), (10, 10)]  # 128 MB without a target
    assert plan["planned_stats"].after_file_count == 3
    assert plan["planned_stats"].to_dict()["zorder_columns"] == ["a"]


@pytest.mark.parametrize(
    ("options", "rewritten"),
    [
        ({}, False),
        ({"target_mb_per_file": 1}, True),  # two files where one would do
        ({"target_rows_per_file": 20}, False),
        ({"target_rows_per_file": 19}, True),
        ({"recompress": ["d/2.parquet"]}, True),
        ({"recompress": ["other/2.parquet"]}, False),
    ],
)
def test_a_clustered_folder_is_left_alone_unless_there_is_a_reason(options: Any, rewritten: bool) -> None:
    plan = plan_optimize_groups(FILES, ["a"], clustered=["d"], **options)
    assert bool(plan["groups"]) is rewritten
    assert len(plan["untouched_files"]) == (0 if rewritten else 2)


@given(
    st.lists(st.tuples(st.integers(1, 3 * MB), st.integers(1, 5000)), min_size=1, max_size=30),
    st.none() | st.sampled_from([0.5, 1, 2]),
    st.none() | st.integers(1, 6000),
    st.integers(55, 130),
)
def test_optimizing_twice_does_nothing_the_second_time(
    entries: list[tuple[int, int]], mb: float | None, rows: int | None, percent: int
) -> None:
    files = [FileInfo(f"d/{i}.parquet", size, count) for i, (size, count) in enumerate(entries)]
    (group,) = plan_optimize_groups(files, ["a"], mb, rows)["groups"]
    total = group.total_size_bytes * percent // 100  # another codec, another order: another size
    after = [
        FileInfo(f"d/new-{i}.parquet", total * count // group.total_rows, count)
        for i, count in enumerate(group.output_rows)
    ]
    again = plan_optimize_groups(after, ["a"], mb, rows, clustered=["d"])
    assert again["groups"] == []
    assert again["planned_stats"].after_file_count == len(after)


def test_files_without_rows_have_nothing_to_order() -> None:
    files = [FileInfo("a.parquet", 100, 0)]
    assert plan_optimize_groups(files, ["a"])["groups"] == []
    plan = plan_optimize_groups(files, ["a"], recompress=["a.parquet"])
    assert plan["groups"][0].output_rows == (0,)
    assert plan["planned_stats"].after_file_count == 1


@given(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(1, 10**9), st.none() | st.integers(1, 10**6))
def test_output_rows_add_up_and_keep_the_bound(rows: int, size: int, target: int, max_rows: int | None) -> None:
    if max_rows is not None and rows // max_rows > 10_000:
        max_rows = rows
    if size // target > 10_000:
        target = max(size, 1)
    parts = output_rows(rows, size, Targets(target, max_rows))
    assert sum(parts) == rows
    assert max(parts) - min(parts) <= 1
    assert max_rows is None or max(parts) <= max(max_rows, 0)


def test_a_size_is_in_mebibytes_and_may_be_a_fraction() -> None:
    assert make_targets(0.5).size_bytes == MB // 2
    assert make_targets(1e-9).size_bytes == 1
