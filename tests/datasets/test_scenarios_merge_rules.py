"""The scenarios around merges: counts, keys, schemas, compression, errors, size, documentation; on both backends."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import Backend, codecs, contents, make, on_both, orders, parquet_files, rows_of
from test_scenarios_merge import found, table, target

from parqlake.core.errors import DataCorruptionError
from parqlake.datasets import DuckDBParquetHandler, merge_parquet_dataset_pyarrow


@on_both
def test_return_statistics_for_upsert(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    stats = side.merge(orders(595, 12), tmp_path / "d", ["id"])
    assert stats == {"inserted": 7, "updated": 5, "deleted": 0, "total": 607}
    assert len(rows_of(tmp_path / "d")) == 607


@on_both
def test_statistics_reflect_actual_operations(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", list(range(13)), per_file=4)
    stats = side.merge(table(list(range(3, 18)), ["new"] * 15), folder, ["id"], strategy="full_merge")
    assert stats == {"inserted": 5, "updated": 10, "deleted": 3, "total": 15}
    assert stats["total"] == 13 + stats["inserted"] - stats["deleted"] == len(found(folder))


@on_both
def test_statistics_for_insert_strategy(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    stats = side.merge(table([2, 3, 4], ["b", "c", "d"]), folder, ["id"], strategy="insert")
    assert stats == {"inserted": 2, "updated": 0, "deleted": 0, "total": 4}


@on_both
@pytest.mark.parametrize(
    ("source", "stored"), [({"nr": [1]}, {"id": [1]}), ({"id": [1]}, {"nr": [1]})], ids=["source", "target"]
)
def test_missing_key_column(side: Backend, source: Any, stored: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table(stored), tmp_path / "d" / "a.parquet")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"Key column 'id' not found in (source|target)"):
        side.merge(pa.table(source), tmp_path / "d", ["id"])
    assert contents(tmp_path) == before


@on_both
def test_missing_key_column_in_source(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    with pytest.raises(ValueError, match="Key column 'nr' not found in source"):
        side.merge(table([1], ["a"]), folder, ["nr"])
    assert contents(folder) == before
    with pytest.raises(ValueError, match="Key column 'nr' not found in source"):  # nor is an empty folder made
        side.merge(table([1], ["a"]), tmp_path / "new", ["nr"])
    assert not (tmp_path / "new").exists()


@on_both
def test_missing_key_column_in_target(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    source = table([1], ["a"]).append_column("nr", pa.array([1]))
    with pytest.raises(ValueError, match="Key column 'nr' not found in target"):
        side.merge(source, folder, ["nr"])
    assert contents(folder) == before


@on_both
@pytest.mark.parametrize("where", ["source", "target"])
def test_null_values_in_key_columns(side: Backend, where: str, tmp_path: Path) -> None:
    whole, holed = table([1, 2], ["a", "b"]), pa.table({"id": pa.array([1, None], pa.int64()), "value": ["a", "b"]})
    (tmp_path / "d").mkdir()
    pq.write_table(holed if where == "target" else whole, tmp_path / "d" / "a.parquet")
    before = contents(tmp_path / "d")
    with pytest.raises(ValueError, match=rf"Key column 'id' of the {where} contains 1 NULL values.*filter") as caught:
        side.merge(holed if where == "source" else whole, tmp_path / "d", ["id"])
    assert "fill" in str(caught.value)
    assert contents(tmp_path / "d") == before


@on_both
def test_valid_key_columns(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    stats = side.merge(table([1, 1], ["old", "new"]), folder, ["id", "value"])
    assert stats == {"inserted": 1, "updated": 1, "deleted": 0, "total": 3}
    for wrong in ([], ["id", "id"], [3]):
        with pytest.raises(ValueError, match="key_columns"):
            side.merge(table([1], ["a"]), folder, wrong)


@on_both
def test_matching_schemas(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    side.merge(table([2], ["b"]).select(["value", "id"]), folder, ["id"])  # the order of columns does not matter
    other = pa.table({"id": [3], "value": pa.array(["c"]).dictionary_encode().cast(pa.large_string())})
    side.merge(other, folder, ["id"])
    assert found(folder) == {1: "old", 2: "b", 3: "c"}
    assert {str(pq.read_schema(path).field("value").type) for path in parquet_files(folder)} == {"string"}


@on_both
def test_schema_mismatch_missing_column(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    more = table([1], ["a"]).append_column("extra", [["x"]])
    with pytest.raises(ValueError, match=r"(?s)Schema mismatch.*extra"):
        side.merge(more, folder, ["id"])
    with pytest.raises(ValueError, match=r"(?s)Schema mismatch.*value"):
        side.merge(table([1], ["a"]).select(["id"]), folder, ["id"])
    assert contents(folder) == before


@on_both
def test_schema_mismatch_type_incompatibility(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    narrow = pa.table({"id": pa.array([1], pa.int32()), "value": ["a"]})
    with pytest.raises(TypeError, match=r"(?s)id.*int32.*int64.*type mismatch"):
        side.merge(narrow, folder, ["id"])
    assert contents(folder) == before


@on_both
@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "brotli", "none"])
def test_merge_with_custom_compression(side: Backend, codec: str, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3])
    side.merge(table([1, 2, 3, 4], ["a"] * 4), folder, ["id"], compression=codec)
    assert codecs(folder) == {"UNCOMPRESSED" if codec == "none" else codec.upper()}


@on_both
def test_merge_with_default_compression(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2, 3])
    side.merge(table([1, 2, 3, 4], ["a"] * 4), folder, ["id"])
    assert codecs(folder) == {"SNAPPY"}


@on_both
def test_invalid_strategy_value(side: Backend, tmp_path: Path) -> None:
    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    match = "Invalid strategy 'replace'; use one of: upsert, insert, update, full_merge, deduplicate"
    with pytest.raises(ValueError, match=match):
        side.merge(table([1], ["a"]), folder, ["id"], strategy="replace")
    assert contents(folder) == before


@on_both
@pytest.mark.parametrize("state", ["missing", "empty", "without rows"])
@pytest.mark.parametrize("strategy", ["upsert", "insert", "deduplicate", "full_merge"])
def test_empty_target_dataset(side: Backend, strategy: str, state: str, tmp_path: Path) -> None:
    if state != "missing":
        (tmp_path / "d").mkdir()
    if state == "without rows":
        pq.write_table(table([], []), tmp_path / "d" / "a.parquet")
    stats = side.merge(table([1, 2], ["a", "b"]), tmp_path / "d", ["id"], strategy=strategy)
    assert stats == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    assert found(tmp_path / "d") == {1: "a", 2: "b"}


@on_both
@pytest.mark.parametrize("state", ["missing", "empty", "without rows"])
def test_empty_target_with_update_strategy(side: Backend, state: str, tmp_path: Path) -> None:
    if state != "missing":
        (tmp_path / "d").mkdir()
    if state == "without rows":
        pq.write_table(table([], []), tmp_path / "d" / "a.parquet")
    before = contents(tmp_path)
    stats = side.merge(table([1, 2], ["a", "b"]), tmp_path / "d", ["id"], strategy="update")
    assert stats == {"inserted": 0, "updated": 0, "deleted": 0, "total": 0}
    assert contents(tmp_path) == before
    assert (tmp_path / "d").exists() == (state != "missing")


@on_both
def test_merge_failure_mid_operation(side: Backend, tmp_path: Path) -> None:
    def broken() -> Any:
        yield table([1], ["a"]).to_batches()[0]
        raise OSError(5, "the source broke")

    folder = target(tmp_path / "d", [1, 2])
    before = contents(folder)
    with pytest.raises(OSError, match="the source broke"):
        side.merge(pa.RecordBatchReader.from_batches(table([], []).schema, broken()), folder, ["id"])
    assert contents(folder) == before
    damaged = (folder / "in-000.parquet").read_bytes()
    (folder / "in-000.parquet").write_bytes(damaged[:20] + b"\xff" * 40 + damaged[60:])
    before = contents(folder)
    with pytest.raises(DataCorruptionError, match=r'"in-000\.parquet" is damaged (?s:.*); restore it from a copy'):
        side.merge(table([1, 5], ["a", "b"]), folder, ["id"])
    assert contents(folder) == before


@on_both
def test_a_merge_that_fails_leaves_no_new_folder(side: Backend, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contains 1 NULL values"):
        side.merge(table([1, None], ["a", "b"]), tmp_path / "new" / "d", ["id"])
    assert list(tmp_path.iterdir()) == []


@on_both
def test_efficient_key_matching(side: Backend, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    count = 300_000
    chance = np.random.default_rng(1)
    for number in range(3):
        ids = np.arange(number * count // 3, (number + 1) * count // 3)
        pq.write_table(pa.table({"id": ids, "x": chance.random(len(ids))}), tmp_path / "d" / f"{number}.parquet")
    changes = chance.permutation(count)[:30_000]
    source = pa.table({"id": np.append(changes, np.arange(count, count + 1000)), "x": np.full(31_000, -1.0)})
    started = time.process_time()
    stats = side.merge(source, tmp_path / "d", ["id"])
    assert stats == {"inserted": 1000, "updated": 30_000, "deleted": 0, "total": 301_000}
    assert time.process_time() - started < 20, "a comparison of each row with each other would take hours"
    assert int((pq.read_table(tmp_path / "d")["x"].to_numpy() == -1.0).sum()) == 31_000


def test_memory_efficient_merge(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    rows = 20_000
    for number in range(8):  # 20 MB each in memory
        ids = np.arange(number * rows, (number + 1) * rows)
        blobs = pa.array([bytes([value % 256]) * 1000 for value in range(rows)])
        pq.write_table(pa.table({"id": ids, "blob": blobs}), tmp_path / "d" / f"{number}.parquet")
    source = pa.table({"id": np.arange(0, 8 * rows, 100), "blob": pa.array([b"new"] * (8 * rows // 100))})
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        stats = merge_parquet_dataset_pyarrow(source, tmp_path / "d", ["id"], memory_limit="32MB")
        with DuckDBParquetHandler() as handler:
            assert handler.merge_parquet_dataset(source, tmp_path / "d", ["id"], memory_limit="128MB") == stats
    finally:
        pa.set_memory_pool(usual)
    assert stats == {"inserted": 0, "updated": 1600, "deleted": 0, "total": 160_000}
    assert pool.max_memory() < 100_000_000, "160 MB of rows are never in memory together"


def test_docstring_completeness() -> None:
    for function in (DuckDBParquetHandler.merge_parquet_dataset, merge_parquet_dataset_pyarrow):
        text = inspect.getdoc(function) or ""
        for name in set(inspect.signature(function).parameters) - {"self"}:
            assert f"    {name}: " in text
        for strategy in ("upsert", "insert", "update", "full_merge", "deduplicate"):
            assert strategy in text
        assert ">>>" in text


def test_example_availability() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    for strategy in ("upsert", "insert", "update", "full_merge", "deduplicate"):
        assert f'strategy="{strategy}"' in page
    for use in ("Change data capture", "Incremental loads", "Deduplication", "Performance"):
        assert use in page
