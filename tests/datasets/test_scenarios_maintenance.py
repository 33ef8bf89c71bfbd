"""The scenarios of compaction, optimization, their statistics and their safety, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import (
    REQUIRED,
    Backend,
    codecs,
    contents,
    make,
    make_partitions,
    on_both,
    orders,
    parquet_files,
    row_counts,
    rows_of,
)

MB = 1024 * 1024


def make_large(folder: Path, files: int, megabytes: float) -> None:
    """Files of about the size, which do not compress."""
    folder.mkdir()
    rows = int(megabytes * MB / 1024)
    chance = iter(range(10**9))
    for number in range(files):
        blobs = [next(chance).to_bytes(4, "big") * 256 for _ in range(rows)]
        table = pa.table({"user_id": pa.array(range(number, rows * files, files)), "blob": blobs})
        pq.write_table(table, folder / f"{number}.parquet", compression="none", use_dictionary=False)


@on_both
def test_compact_dataset_by_target_file_size(side: Backend, tmp_path: Path) -> None:
    make_large(tmp_path / "d", files=10, megabytes=0.3)
    side.compact(tmp_path / "d", target_mb_per_file=1)
    rest, *sizes = sorted(path.stat().st_size for path in parquet_files(tmp_path / "d"))
    assert len(sizes) == 3
    assert all(0.75 * MB < size < 1.2 * MB for size in sizes)
    assert rest < MB
    assert sum(row_counts(tmp_path / "d")) == 10 * 307


@on_both
def test_compact_dataset_by_target_rows_per_file(side: Backend, tmp_path: Path) -> None:
    table = make(tmp_path / "d", files=4, rows=300)
    side.compact(tmp_path / "d", target_rows_per_file=250)  # each of the files has more
    assert max(row_counts(tmp_path / "d")) <= 250
    assert len(row_counts(tmp_path / "d")) == 5
    assert rows_of(tmp_path / "d") == table.to_pylist()
    assert {str(pq.read_schema(path)) for path in parquet_files(tmp_path / "d")} == {str(table.schema)}


@on_both
def test_dry_run_compaction_plan(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    stats = side.compact(tmp_path / "d", target_mb_per_file=256, dry_run=True)
    assert [len(group) for group in stats["planned_groups"]] == [6]
    assert (stats["before_file_count"], stats["after_file_count"], stats["compacted_file_count"]) == (6, 1, 6)
    assert contents(tmp_path / "d") == before


@on_both
@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4", "brotli", "none"])
def test_recompression_during_compaction(side: Backend, codec: str, tmp_path: Path) -> None:
    table = make(tmp_path / "d")
    stats = side.compact(tmp_path / "d", target_mb_per_file=128, compression=codec)
    assert stats["compression_codec"] == codec
    assert codecs(tmp_path / "d") == {"UNCOMPRESSED" if codec == "none" else codec.upper()}
    assert rows_of(tmp_path / "d") == table.to_pylist()


@on_both
def test_a_changed_codec_alone_is_a_reason_to_rewrite(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=1)
    assert side.compact(tmp_path / "d", target_mb_per_file=1)["compacted_file_count"] == 0
    assert side.compact(tmp_path / "d", target_mb_per_file=1, compression="zstd")["compacted_file_count"] == 1
    assert side.compact(tmp_path / "d", target_mb_per_file=1, compression="zstd")["compacted_file_count"] == 0
    assert codecs(tmp_path / "d") == {"ZSTD"}


@on_both
def test_a_wrong_codec_is_refused_before_anything_is_read(side: Backend, tmp_path: Path) -> None:
    for call in (
        lambda: side.compact(tmp_path / "missing", target_mb_per_file=1, compression="zzz"),
        lambda: side.optimize(tmp_path / "missing", ["id"], compression="zzz"),
        lambda: side.merge(orders(0, 1), tmp_path / "missing", ["id"], compression="zzz"),
    ):
        with pytest.raises(ValueError, match=r"compression 'zzz' is not known; use one of: snappy"):
            call()


@on_both
@pytest.mark.parametrize("limit", [0, -1, "much", "5 XB", 1.5, True])
def test_a_wrong_memory_limit_is_refused(side: Backend, limit: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="memory_limit is"):
        side.compact(tmp_path, target_mb_per_file=1, memory_limit=limit)


@on_both
def test_a_memory_limit_that_cannot_be_kept_to_is_refused(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    for call in (
        lambda: side.compact(tmp_path / "d", target_mb_per_file=1, memory_limit="63MB"),
        lambda: side.optimize(tmp_path / "d", ["id"], memory_limit=1000),
    ):
        with pytest.raises(ValueError, match=r"memory_limit is ('63MB'|1000), which cannot be kept to; .* \"64MB\""):
            call()
    assert contents(tmp_path / "d") == before
    side.compact(tmp_path / "d", target_mb_per_file=1, memory_limit="64MB")


@on_both
def test_partition_limited_compaction(side: Backend, tmp_path: Path) -> None:
    make_partitions(tmp_path / "d", days=12)
    before = contents(tmp_path / "d")
    chosen = ["date=2025-11-01", "date=2025-11-04"]
    stats = side.compact(tmp_path / "d", target_mb_per_file=1, partition_filter=chosen)
    assert (stats["before_file_count"], stats["after_file_count"]) == (6, 2)
    after = contents(tmp_path / "d")
    assert {path.split("/")[0] for path in before.keys() ^ after.keys()} == set(chosen)
    assert all(after[path] == data for path, data in before.items() if path.split("/")[0] not in chosen)
    with pytest.raises(FileNotFoundError, match="matching filter"):  # whole names only
        side.compact(tmp_path / "d", target_mb_per_file=1, partition_filter="date=2025-11-1")


@on_both
def test_no_op_when_already_optimized(side: Backend, tmp_path: Path) -> None:
    make_large(tmp_path / "d", files=3, megabytes=1.1)
    before = contents(tmp_path / "d")
    stats = side.compact(tmp_path / "d", target_mb_per_file=1)
    assert contents(tmp_path / "d") == before
    assert (stats["compacted_file_count"], stats["rewritten_bytes"], stats["after_file_count"]) == (0, 0, 3)
    assert stats["after_total_bytes"] == stats["before_total_bytes"]
    assert side.compact(tmp_path / "d", target_mb_per_file=1, dry_run=True)["planned_groups"] == []


@on_both
def test_optimize_dataset_by_z_order_columns(side: Backend, tmp_path: Path) -> None:
    table = make(tmp_path / "d", files=10, rows=200)
    stats = side.optimize(tmp_path / "d", ["customer", "amount"], target_rows_per_file=125)
    assert rows_of(tmp_path / "d") == table.to_pylist()
    assert (stats["before_file_count"], stats["after_file_count"]) == (10, 16)
    assert all(path.name.startswith("optimized-") for path in parquet_files(tmp_path / "d"))
    # A lookup in either column needs a fraction of the files: a sort by the first alone would need all for the second.
    footers = [pq.read_metadata(path) for path in parquet_files(tmp_path / "d")]
    for column, value in ((1, 25), (3, 0.5)):
        ranges = [footer.row_group(0).column(column).statistics for footer in footers]
        assert sum(found.min <= value <= found.max for found in ranges) <= 8


@on_both
def test_optimize_with_simultaneous_compaction(side: Backend, tmp_path: Path) -> None:
    make_large(tmp_path / "d", files=12, megabytes=0.25)
    stats = side.optimize(tmp_path / "d", ["user_id"], target_mb_per_file=1)
    sizes = [path.stat().st_size for path in parquet_files(tmp_path / "d")]
    assert stats["after_file_count"] == len(sizes) == 4
    assert all(0.6 * MB < size < 1.2 * MB for size in sizes)
    ranges = sorted(pq.read_table(path)["user_id"].to_pylist() for path in parquet_files(tmp_path / "d"))
    assert [value for values in ranges for value in values] == list(range(12 * 256))


@on_both
def test_optimize_dry_run(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    stats = side.optimize(tmp_path / "d", ["customer"], dry_run=True)
    assert stats["zorder_columns"] == ["customer"]
    assert [len(group) for group in stats["planned_groups"]] == [6]
    assert stats["after_file_count"] == 1
    assert contents(tmp_path / "d") == before


@on_both
def test_invalid_z_order_column(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    with pytest.raises(ValueError, match=r"Missing z-order columns: missing_col.* id, customer, city, amount"):
        side.optimize(tmp_path / "d", ["missing_col"])


@on_both
@pytest.mark.parametrize("columns", [["id"], ["customer", "amount"], ["city"]])
def test_optimize_already_ordered_dataset(side: Backend, columns: list[str], tmp_path: Path) -> None:
    make(tmp_path / "d", files=5)
    side.optimize(tmp_path / "d", columns, target_rows_per_file=120)
    before = contents(tmp_path / "d")
    stats = side.optimize(tmp_path / "d", columns, target_rows_per_file=120)
    assert (stats["compacted_file_count"], stats["rewritten_bytes"]) == (0, 0)
    assert contents(tmp_path / "d") == before


@on_both
def test_data_that_others_sorted_is_left_alone(side: Backend, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for number in range(4):  # files of ascending ranges, each in order: told by statistics, without any mark
        pq.write_table(orders(number * 1000, 1000), tmp_path / "d" / f"{number}.parquet")
    assert side.optimize(tmp_path / "d", ["id"])["compacted_file_count"] == 0
    (tmp_path / "one").mkdir()
    pq.write_table(orders(0, 100), tmp_path / "one" / "0.parquet")  # a single row group: told by its rows
    assert side.optimize(tmp_path / "one", ["id"])["compacted_file_count"] == 0
    assert side.optimize(tmp_path / "one", ["amount"])["compacted_file_count"] == 1
    assert side.optimize(tmp_path / "one", ["amount"])["compacted_file_count"] == 0


@on_both
def test_a_partition_column_as_z_order_column(side: Backend, tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    assert side.optimize(tmp_path / "d", ["date"])["compacted_file_count"] == 0  # a folder holds one value of it
    assert side.optimize(tmp_path / "d", ["date", "amount"])["compacted_file_count"] == 9
    assert side.optimize(tmp_path / "d", ["date", "amount"])["compacted_file_count"] == 0


@on_both
def test_compaction_statistics(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    stats = side.compact(tmp_path / "d", target_mb_per_file=1)
    assert set(stats) == REQUIRED
    assert stats["after_total_bytes"] == sum(path.stat().st_size for path in parquet_files(tmp_path / "d"))
    assert stats["compression_codec"] == "snappy"


@on_both
def test_optimization_statistics(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    stats = side.optimize(tmp_path / "d", ["amount"])
    assert set(stats) == REQUIRED | {"zorder_columns"}
    assert (stats["before_file_count"], stats["after_file_count"], stats["compacted_file_count"]) == (6, 1, 6)
    assert stats["dry_run"] is False
    assert stats["compression_codec"] == "snappy"


@on_both
@pytest.mark.parametrize("target", [{"target_mb_per_file": 0}, {"target_rows_per_file": -5}])
def test_invalid_thresholds(side: Backend, target: dict[str, Any], tmp_path: Path) -> None:
    make(tmp_path / "d")
    with pytest.raises(ValueError, match="must be > 0"):
        side.compact(tmp_path / "d", **target)
    with pytest.raises(ValueError, match="must be > 0"):
        side.optimize(tmp_path / "d", ["id"], **target)


@on_both
def test_dry_run_returns_plan_only(side: Backend, tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    before = contents(tmp_path / "d")
    for stats in (
        side.compact(tmp_path / "d", target_rows_per_file=40, dry_run=True),
        side.optimize(tmp_path / "d", ["amount"], target_rows_per_file=40, dry_run=True),
    ):
        assert stats["dry_run"] is True
        assert stats["after_file_count"] == 6
        assert all(len({Path(path).parent for path in group}) == 1 for group in stats["planned_groups"])
    assert contents(tmp_path / "d") == before
    assert not (tmp_path / "d" / ".parqlake").exists()


@on_both
def test_non_existent_dataset_path(side: Backend, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r'Dataset path ".*nowhere" does not exist'):
        side.compact(tmp_path / "nowhere", target_mb_per_file=1)
    with pytest.raises(FileNotFoundError, match=r'Dataset path ".*nowhere" does not exist'):
        side.optimize(tmp_path / "nowhere", ["id"])
    assert list(tmp_path.iterdir()) == []


@on_both
def test_files_with_other_columns_stay_apart(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=4)
    for number in range(2):  # written after a column was added
        newer = orders(1000 + number, 1).append_column("note", [["new"]])
        pq.write_table(newer, tmp_path / "d" / f"newer-{number}.parquet")
    stats = side.compact(tmp_path / "d", target_mb_per_file=1)
    assert (stats["before_file_count"], stats["after_file_count"], stats["compacted_file_count"]) == (6, 2, 6)
    assert sorted(row_counts(tmp_path / "d")) == [2, 400]


@on_both
def test_files_with_other_columns_are_optimized_together(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=2)
    newer = orders(1000, 50).append_column("note", [["new"] * 50]).drop_columns(["city"])
    newer = newer.set_column(1, "customer", newer["customer"].cast(pa.int64()))
    pq.write_table(newer, tmp_path / "d" / "newer.parquet")
    stats = side.optimize(tmp_path / "d", ["note", "customer"], target_rows_per_file=100)
    assert (stats["before_file_count"], stats["after_file_count"], stats["compacted_file_count"]) == (3, 3, 3)
    rows = pq.read_table(tmp_path / "d").sort_by("id").to_pylist()
    assert [row["note"] for row in rows] == [None] * 200 + ["new"] * 50
    assert [row["customer"] for row in rows[200:]] == newer["customer"].to_pylist()
    assert rows[:200] == [
        {**row, "note": None} for row in pa.concat_tables([orders(0, 100), orders(100, 100)]).to_pylist()
    ]
    assert side.optimize(tmp_path / "d", ["note", "customer"], target_rows_per_file=100)["compacted_file_count"] == 0
    assert not (tmp_path / "d" / ".parqlake").exists()
