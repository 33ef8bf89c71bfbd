"""FileInfo, CompactionGroup and MaintenanceStats."""

from __future__ import annotations

import pytest

from parqlake.core.errors import InputError
from parqlake.core.maintenance import CompactionGroup, FileInfo, MaintenanceStats

CANONICAL = {
    "before_file_count",
    "after_file_count",
    "before_total_bytes",
    "after_total_bytes",
    "compacted_file_count",
    "rewritten_bytes",
    "compression_codec",
    "dry_run",
}


def test_a_file_knows_its_folder() -> None:
    assert FileInfo("data/date=1/a.parquet", 1, 1).folder == "data/date=1"
    assert FileInfo("a.parquet", 1, 1).folder == ""


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"size_bytes must be >= 0, not -1"):
        FileInfo("a.parquet", -1, 100)
    with pytest.raises(ValueError, match="num_rows must be >= 0"):
        FileInfo("a.parquet", 1, -1)
    with pytest.raises(ValueError, match="before_file_count must be >= 0"):
        MaintenanceStats(-1, 0, 0, 0, 0, 0)


def test_a_group_adds_its_files_up() -> None:
    files = [FileInfo("p/a.parquet", 512, 50), FileInfo("p/b.parquet", 256, 25)]
    group = CompactionGroup(files=files)
    assert (group.file_count, group.total_size_bytes, group.total_rows) == (2, 768, 75)
    assert group.file_paths() == ["p/a.parquet", "p/b.parquet"]
    files.clear()
    assert group.file_count == 2


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(InputError, match="CompactionGroup must contain at least one file"):
        CompactionGroup(files=[])


def test_the_canonical_dict_holds_optional_keys_only_where_they_apply() -> None:
    stats = MaintenanceStats(10, 5, 1000, 800, 6, 500)
    assert set(stats.to_dict()) == CANONICAL
    assert stats.to_dict()["dry_run"] is False
    planned = MaintenanceStats(10, 5, 1000, 800, 6, 500, "zstd", True, ["a"], [["x", "y"]]).to_dict()
    assert set(planned) == CANONICAL | {"zorder_columns", "planned_groups"}
    assert planned["planned_groups"] == [["x", "y"]]
    assert planned["zorder_columns"] == ["a"]
