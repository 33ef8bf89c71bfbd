"""The scenarios of the merge strategies, on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import Backend, contents, make, on_both, orders, parquet_files, rows_of

from parqlake.core.merging import DuplicateKeysWarning


def table(ids: list[int], values: list[str]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(values, pa.string())})


def target(folder: Path, ids: list[int], *, per_file: int = 2) -> Path:
    """A dataset with the value "old" in every row."""
    folder.mkdir(parents=True)
    for start in range(0, len(ids), per_file):
        part = ids[start : start + per_file]
        pq.write_table(table(part, ["old"] * len(part)), folder / f"in-{start:03}.parquet")
    return folder


def found(folder: Path) -> dict[int, str]:
    rows = rows_of(folder)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["value"] for row in rows}


@on_both
def test_upsert_with_single_key_column(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 8, 9])
    untouched = (folder / "in-002.parquet").read_bytes()
    stats = side.merge(table([1, 2, 3], ["a", "b", "c"]), folder, key_columns_of_one, strategy="upsert")
    assert found(folder) == {1: "a", 2: "b", 3: "c", 8: "old", 9: "old"}
    assert stats == {"inserted": 1, "updated": 2, "deleted": 0, "total": 5}
    assert (folder / "in-002.parquet").read_bytes() == untouched, "a file without a match is not rewritten"


key_columns_of_one = ["id"]


@on_both
def test_upsert_with_composite_key(side: Backend, tmp_path: Path) -> None:
    def lines(rows: list[tuple[int, str, str]]) -> pa.Table:
        customers, dates, values = zip(*rows, strict=True)
        return pa.table({"customer_id": list(customers), "order_date": list(dates), "value": list(values)})

    (tmp_path / "d").mkdir()
    pq.write_table(lines([(1, "mon", "old"), (1, "tue", "old"), (2, "mon", "old")]), tmp_path / "d" / "a.parquet")
    stats = side.merge(
        lines([(1, "tue", "new"), (2, "tue", "new"), (3, "mon", "new")]), tmp_path / "d", ["customer_id", "order_date"]
    )
    rows = pq.read_table(tmp_path / "d").to_pylist()
    assert {(row["customer_id"], row["order_date"]): row["value"] for row in rows} == {
        (1, "mon"): "old",
        (1, "tue"): "new",
        (2, "mon"): "old",
        (2, "tue"): "new",
        (3, "mon"): "new",
    }
    assert stats == {"inserted": 2, "updated": 1, "deleted": 0, "total": 5}


@on_both
def test_upsert_from_pyarrow_table_source(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    assert side.merge(table([2, 3], ["b", "c"]), folder, ["id"])["inserted"] == 1
    stream = pa.RecordBatchReader.from_batches(table([], []).schema, table([3, 4], ["C", "D"]).to_batches(1))
    assert side.merge(stream, folder, "id") == {"inserted": 1, "updated": 1, "deleted": 0, "total": 4}
    assert found(folder) == {1: "old", 2: "b", 3: "C", 4: "D"}


@on_both
def test_upsert_from_parquet_path_source(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3])
    (tmp_path / "staging" / "sub").mkdir(parents=True)
    pq.write_table(table([1, 5], ["a", "e"]), tmp_path / "staging" / "one.parquet")
    pq.write_table(table([3, 6], ["c", "f"]), tmp_path / "staging" / "sub" / "two.parquet")
    stats = side.merge(tmp_path / "staging", folder, ["id"])
    assert stats == {"inserted": 2, "updated": 2, "deleted": 0, "total": 5}
    assert found(folder) == {1: "a", 2: "old", 3: "c", 5: "e", 6: "f"}
    stats = side.merge(str(tmp_path / "staging" / "one.parquet"), folder, ["id"])
    assert stats == {"inserted": 0, "updated": 2, "deleted": 0, "total": 5}
    with pytest.raises(FileNotFoundError, match="there is nothing at"):
        side.merge(tmp_path / "missing", folder, ["id"])


@on_both
def test_insert_only_new_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    stats = side.merge(table([1, 2, 3], ["a", "b", "c"]), folder, ["id"], strategy="insert")
    assert found(folder) == {1: "old", 2: "old", 3: "c"}
    assert stats == {"inserted": 1, "updated": 0, "deleted": 0, "total": 3}
    assert before.items() <= contents(folder).items(), "what was there is untouched"


@on_both
def test_insert_with_no_new_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    stats = side.merge(table([1, 2], ["a", "b"]), folder, ["id"], strategy="insert")
    assert stats == {"inserted": 0, "updated": 0, "deleted": 0, "total": 2}
    assert contents(folder) == before


@on_both
def test_insert_all_records_as_new(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    stats = side.merge(table([3, 4, 5], ["c", "d", "e"]), folder, ["id"], strategy="insert")
    assert stats == {"inserted": 3, "updated": 0, "deleted": 0, "total": 5}
    assert len(found(folder)) == 5


@on_both
def test_update_only_existing_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 7])
    stats = side.merge(table([1, 2, 3], ["a", "b", "c"]), folder, ["id"], strategy="update")
    assert found(folder) == {1: "a", 2: "b", 7: "old"}
    assert stats == {"inserted": 0, "updated": 2, "deleted": 0, "total": 3}


@on_both
def test_update_with_no_matching_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    stats = side.merge(table([3, 4], ["c", "d"]), folder, ["id"], strategy="update")
    assert stats == {"inserted": 0, "updated": 0, "deleted": 0, "total": 2}
    assert contents(folder) == before


@on_both
def test_update_all_matching_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3, 4, 5])
    stats = side.merge(table([5, 3, 1], ["e", "c", "a"]), folder, ["id"], strategy="update")
    assert stats == {"inserted": 0, "updated": 3, "deleted": 0, "total": 5}
    assert found(folder) == {1: "a", 2: "old", 3: "c", 4: "old", 5: "e"}


@on_both
def test_full_merge_with_inserts_updates_and_deletes(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3])
    stats = side.merge(table([2, 3, 4], ["b", "c", "d"]), folder, ["id"], strategy="full_merge")
    assert found(folder) == {2: "b", 3: "c", 4: "d"}
    assert stats == {"inserted": 1, "updated": 2, "deleted": 1, "total": 3}


@on_both
def test_full_merge_replaces_entire_dataset(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    source = orders(590, 25)
    stats = side.merge(source, tmp_path / "d", ["id"], strategy="full_merge")
    assert rows_of(tmp_path / "d") == source.to_pylist()
    assert stats == {"inserted": 15, "updated": 10, "deleted": 590, "total": 25}


@on_both
def test_full_merge_with_empty_source(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3])
    stats = side.merge(table([], []), folder, ["id"], strategy="full_merge")
    assert stats == {"inserted": 0, "updated": 0, "deleted": 3, "total": 0}
    read = pq.read_table(folder)
    assert (read.num_rows, read.schema) == (0, table([], []).schema)
    assert len(parquet_files(folder)) == 1
    assert side.merge(table([9], ["new"]), folder, ["id"])["inserted"] == 1
    assert found(folder) == {9: "new"}


@on_both
def test_deduplicate_with_duplicate_source_records(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 7])
    stats = side.merge(table([1, 1, 2], ["first", "last", "b"]), folder, ["id"], strategy="deduplicate")
    assert found(folder) == {1: "last", 2: "b", 7: "old"}
    assert stats == {"inserted": 1, "updated": 1, "deleted": 0, "total": 3}


@on_both
def test_deduplicate_with_custom_sort_order(side: Backend, tmp_path: Path) -> None:
    def stamped(ids: list[int], stamps: list[Any]) -> pa.Table:
        return pa.table({"id": ids, "timestamp": pa.array(stamps, pa.int64())})

    (tmp_path / "d").mkdir()
    pq.write_table(stamped([1, 2], [0, 0]), tmp_path / "d" / "a.parquet")
    source = stamped([1, 1, 1, 2, 3, 3], [10, 30, 20, 5, None, 4])
    stats = side.merge(source, tmp_path / "d", ["id"], strategy="deduplicate", dedup_order_by=["timestamp"])
    assert {row["id"]: row["timestamp"] for row in rows_of(tmp_path / "d")} == {1: 30, 2: 5, 3: 4}
    assert stats == {"inserted": 1, "updated": 2, "deleted": 0, "total": 3}


@on_both
def test_deduplicate_with_no_duplicates(side: Backend, tmp_path: Path) -> None:
    results = []
    for strategy in ("deduplicate", "upsert"):
        folder = target(tmp_path / strategy, [1, 2])
        stats = side.merge(table([2, 3], ["b", "c"]), folder, ["id"], strategy=strategy)
        results.append((stats, found(folder)))
    assert results[0] == results[1]


@on_both
@pytest.mark.parametrize("strategy", ["upsert", "insert", "full_merge"])
def test_duplicate_source_keys_take_the_last_and_warn_the_caller(side: Backend, strategy: str, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [9])
    with pytest.warns(DuplicateKeysWarning) as caught:
        side.merge(table([1, 1], ["first", "last"]), folder, ["id"], strategy=strategy)
    assert Path(caught[0].filename).name == "handlers_support.py", "the line that called the handler"
    assert found(folder)[1] == "last"


@on_both
def test_merge_into_hive_partitions(side: Backend, tmp_path: Path) -> None:
    for day in (1, 2):
        target(tmp_path / "d" / f"day={day}", [day * 10, day * 10 + 1])
    source = table([10, 21, 30], ["a", "b", "c"]).append_column("day", pa.array([1, 2, 3], pa.int64()))
    stats = side.merge(source, tmp_path / "d", ["id"])
    assert stats == {"inserted": 1, "updated": 2, "deleted": 0, "total": 5}
    rows = [(row["day"], row["id"], row["value"]) for row in pq.read_table(tmp_path / "d").sort_by("id").to_pylist()]
    assert rows == [(1, 10, "a"), (1, 11, "old"), (2, 20, "old"), (2, 21, "b"), (3, 30, "c")]
    assert {path.parent.name for path in parquet_files(tmp_path / "d")} == {"day=1", "day=2", "day=3"}
    assert "day" not in pq.read_schema(parquet_files(tmp_path / "d")[0]).names, "it is in the folder's name alone"


@on_both
def test_a_row_moves_to_the_partition_that_the_source_says(side: Backend, tmp_path: Path) -> None:
    target(tmp_path / "d" / "day=1", [10, 11])
    source = table([10], ["moved"]).append_column("day", pa.array([2], pa.int64()))
    assert side.merge(source, tmp_path / "d", ["id"]) == {"inserted": 0, "updated": 1, "deleted": 0, "total": 2}
    rows = [(row["day"], row["id"], row["value"]) for row in pq.read_table(tmp_path / "d").sort_by("id").to_pylist()]
    assert rows == [(2, 10, "moved"), (1, 11, "old")]
