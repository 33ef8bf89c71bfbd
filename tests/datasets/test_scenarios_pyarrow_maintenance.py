"""The scenarios of the PyArrow maintenance specification; what DuckDB has too is run on both."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import (
    REQUIRED,
    Arrow,
    Backend,
    Duck,
    RecordingFileSystem,
    contents,
    make,
    make_partitions,
    on_both,
    orders,
    parquet_files,
    recording_files,
    row_counts,
    rows_of,
)

from parqlake.datasets import collect_dataset_stats_pyarrow


@on_both
@pytest.mark.parametrize("target", [{"target_mb_per_file": 128}, {"target_rows_per_file": 250}])
def test_compaction_by_target_file_size_and_rows(side: Backend, target: dict[str, Any], tmp_path: Path) -> None:
    table = make(tmp_path / "d")
    side.compact(tmp_path / "d", **target)
    assert len(parquet_files(tmp_path / "d")) == (1 if "target_mb_per_file" in target else 3)
    assert max(row_counts(tmp_path / "d")) <= target.get("target_rows_per_file", table.num_rows)
    assert rows_of(tmp_path / "d") == table.to_pylist()
    assert all(pq.read_schema(path).equals(table.schema) for path in parquet_files(tmp_path / "d"))


def test_dry_run_plan_with_shared_planning(tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    plans = [side.compact(tmp_path / "d", target_rows_per_file=250, dry_run=True) for side in (Arrow(), Duck())]
    assert contents(tmp_path / "d") == before
    assert plans[0] == plans[1]
    assert set(plans[0]) == REQUIRED | {"planned_groups"}
    assert plans[0]["dry_run"] is True
    assert plans[0]["after_file_count"] == 3
    named = [[Path(path).name for path in group] for group in plans[0]["planned_groups"]]
    assert named == [[f"in-{first:03}.parquet", f"in-{first + 1:03}.parquet"] for first in (0, 2, 4)]


def _check_streaming(side: Backend, recording: RecordingFileSystem, run: Any, groups: list[set[str]]) -> None:
    """Until a group's file is opened for writing nothing of later groups is read, and after it nothing of earlier."""
    recording.events.clear()
    run()
    events = recording.events
    begun = next(place for place, (kind, path) in enumerate(events) if kind == "pipe" and "/claims/" in path)
    written = [place for place, (kind, path) in enumerate(events) if kind == "wb" and path.endswith(".staged")]
    assert len(written) == len(groups)
    read = [(place, path) for place, (kind, path) in enumerate(events) if kind == "rb" and path.endswith(".parquet")]
    for number, place in enumerate(written):
        before = {path for when, path in read if begun < when < place}
        after = {path for when, path in read if when > place}
        assert before <= set().union(*groups[: number + 1]), f"group {number} on {side.name}"
        assert after <= set().union(*groups[number:])
    assert {path for when, path in read if when > begun} == set().union(*groups)


@on_both
def test_streaming_per_group_processing_with_shared_groups(side: Backend) -> None:
    recording = recording_files()
    for number in range(8):
        with recording.open(f"/data/in-{number}.parquet", "wb") as file:
            pq.write_table(orders(number * 100, 100), file)
    groups = [{f"/data/in-{first}.parquet", f"/data/in-{first + 1}.parquet"} for first in (0, 2, 4, 6)]
    options = {"target_rows_per_file": 200, "filesystem": recording}
    _check_streaming(side, recording, lambda: side.compact("/data", **options), groups)
    assert collect_dataset_stats_pyarrow("/data", recording)["total_rows"] == 800


@on_both
def test_streaming_per_group_processing_with_shared_grouping(side: Backend) -> None:
    recording = recording_files()
    for day in range(3):
        for number in range(2):
            with recording.open(f"/data/day={day}/in-{number}.parquet", "wb") as file:
                pq.write_table(orders(number * 100, 100), file)
    groups = [{f"/data/day={day}/in-{number}.parquet" for number in range(2)} for day in range(3)]
    options = {"filesystem": recording}
    _check_streaming(side, recording, lambda: side.optimize("/data", ["customer"], **options), groups)


def test_no_group_is_loaded_whole_beyond_the_memory_limit(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    blob = pa.array([bytes([number % 256]) * 1000 for number in range(4000)])
    for number in range(16):  # 4 MB each in memory
        pq.write_table(pa.table({"id": range(number, 64000, 16), "blob": blob}), tmp_path / "d" / f"{number}.parquet")
    for run in (
        lambda: Arrow().compact(tmp_path / "d", target_rows_per_file=32_000, memory_limit="64MB"),
        lambda: Arrow().optimize(tmp_path / "d", ["id"], target_rows_per_file=8000, memory_limit="64MB"),
    ):
        pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
        pa.set_memory_pool(pool)
        try:
            stats = run()
        finally:
            pa.set_memory_pool(usual)
        assert stats["compacted_file_count"] > 0
        assert pool.max_memory() < 32_000_000, "half of all rows were in memory at a time"


def test_optimize_with_clustering_and_compaction_using_shared_planning(tmp_path: Path) -> None:
    found = []
    for side in (Duck(), Arrow()):
        folder = tmp_path / side.name
        table = make(folder, files=8, rows=200)
        stats = side.optimize(folder, ["customer", "id"], target_rows_per_file=400)
        names = [path.name for path in parquet_files(folder)]
        assert len(names) == 4
        assert all(name.startswith("optimized-") for name in names)
        assert row_counts(folder) == [400] * 4
        assert rows_of(folder) == table.to_pylist()
        assert set(stats) == REQUIRED | {"zorder_columns"}
        assert stats["zorder_columns"] == ["customer", "id"]
        assert (stats["before_file_count"], stats["after_file_count"], stats["compacted_file_count"]) == (8, 4, 8)
        found.append(stats)
    assert found[0] == found[1]


@on_both
def test_rows_are_ordered_with_nulls_last_within_each_output_file(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=4)
    side.optimize(tmp_path / "d", ["city"], target_rows_per_file=150)
    read = [pq.read_table(path)["city"].to_pylist() for path in parquet_files(tmp_path / "d")]
    assert len(read) == 3
    for values in read:
        present = [value for value in values if value is not None]
        assert values == sorted(present) + [None] * (len(values) - len(present))
    ranges = sorted((min(v for v in values if v), max(v for v in values if v)) for values in read if any(values))
    assert all(one[1] <= other[0] for one, other in pairwise(ranges)), "files overlap"


@on_both
def test_z_order_validation_using_shared_logic(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    with pytest.raises(ValueError, match=r"Missing z-order columns: nope.* id, customer, city, amount"):
        side.optimize(tmp_path / "d", ["id", "nope"])
    for wrong in ([], "id", None, [1], ["id", "id"]):
        with pytest.raises(ValueError, match="zorder_columns"):
            side.optimize(tmp_path / "d", wrong)
    assert contents(tmp_path / "d") == before


@on_both
@pytest.mark.parametrize("name", ["target_mb_per_file", "target_rows_per_file"])
def test_invalid_thresholds_with_shared_validation(side: Backend, name: str, tmp_path: Path) -> None:
    for value in (0, -1, float("nan")):
        with pytest.raises(ValueError, match=f"{name} must be > 0"):  # though nothing is there to be read
            side.compact(tmp_path / "missing", **{name: value})
        with pytest.raises(ValueError, match=f"{name} must be > 0"):
            side.optimize(tmp_path / "missing", ["id"], **{name: value})
    with pytest.raises(ValueError, match="Must provide at least one of"):
        side.compact(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


@on_both
def test_non_existent_path_or_no_files_matching_filter_with_shared_discovery(side: Backend, tmp_path: Path) -> None:
    calls = [
        lambda path, **options: side.compact(path, target_mb_per_file=1, **options),
        lambda path, **options: side.optimize(path, ["id"], **options),
    ]
    make_partitions(tmp_path / "d")
    before = contents(tmp_path)
    for call in calls:
        with pytest.raises(FileNotFoundError, match=r"Dataset path .* does not exist"):
            call(tmp_path / "missing")
        with pytest.raises(FileNotFoundError, match=r"No parquet files found .* matching filter"):
            call(tmp_path / "d", partition_filter="date=2031-01-01")
        with pytest.raises(NotADirectoryError, match="exists but is a file"):
            call(tmp_path / "d" / "date=2025-11-01" / "in-000.parquet")
    assert contents(tmp_path) == before


@on_both
def test_partition_limited_maintenance_with_shared_filtering(side: Backend, tmp_path: Path) -> None:
    for number, run in enumerate(
        (
            lambda path: side.compact(path, target_mb_per_file=1, partition_filter="date=2025-11-02"),
            lambda path: side.optimize(path, ["customer"], partition_filter="date=2025-11-02"),
        )
    ):
        folder = tmp_path / str(number)
        make_partitions(folder)
        before, rows = contents(folder), rows_of(folder)
        assert run(folder)["before_file_count"] == 3
        changed = before.keys() ^ contents(folder).keys()
        assert {path.split("/")[0] for path in changed} == {"date=2025-11-02"}
        assert len(changed) == 4
        assert rows_of(folder) == rows


@on_both
def test_canonical_statistics_structure(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    sizes = {path: path.stat().st_size for path in parquet_files(tmp_path / "d")}
    stats = side.compact(tmp_path / "d", target_rows_per_file=400, compression="zstd")
    after = {path: path.stat().st_size for path in parquet_files(tmp_path / "d")}
    assert stats == {
        "before_file_count": 6,
        "after_file_count": 2,
        "before_total_bytes": sum(sizes.values()),
        "after_total_bytes": sum(after.values()),
        "compacted_file_count": 6,
        "rewritten_bytes": sum(sizes.values()),
        "compression_codec": "zstd",
        "dry_run": False,
    }
    plan = side.optimize(tmp_path / "d", ["city"], dry_run=True)
    assert set(plan) == REQUIRED | {"planned_groups", "zorder_columns"}


def test_the_same_statistics_from_both_backends(tmp_path: Path) -> None:
    kept = []
    for side in (Duck(), Arrow()):
        folder = tmp_path / side.name / "d"
        make_partitions(folder)
        found = [
            side.compact(folder, target_rows_per_file=50),
            side.compact(folder, target_rows_per_file=50),
            side.compact(folder, target_rows_per_file=50, compression="gzip", partition_filter=["date=2025-11-01"]),
            side.optimize(folder, ["customer", "city"], target_rows_per_file=30),
            side.optimize(folder, ["customer", "city"], target_rows_per_file=30),
            side.merge(orders(170, 30).append_column("date", [["2025-11-09"] * 30]), folder, ["id"]),
        ]
        kept.append(found)
    assert kept[0] == kept[1]
    assert kept[0][1]["compacted_file_count"] == kept[0][4]["compacted_file_count"] == 0
