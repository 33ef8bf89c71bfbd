"""How rows become row groups and files: sizes, bounds, order."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from parqlake.core.errors import InvalidOptionError
from parqlake.core.ports import Engine
from parqlake.engines import DuckDBEngine, PyArrowEngine
from parqlake.engines.arrow.row_buffer import RowBuffer


def numbers(count: int) -> pa.Table:
    random = np.random.default_rng(count)
    return pa.table({"id": np.arange(count), "x": random.random(count)})


@pytest.mark.parametrize("batch_rows", [None, 7, 1000, 4096])
def test_row_groups_have_the_rows_asked_for(lab: Any, pyarrow_engine: PyArrowEngine, batch_rows: int | None) -> None:
    table = numbers(10_500)
    (file,) = lab.write(pyarrow_engine, table, row_group_rows=1000, batch_rows=batch_rows)
    assert file.row_group_rows.tolist() == [1000] * 10 + [500]
    assert lab.read([file], table.schema).equals(table)


def test_row_groups_stay_below_their_bytes(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    table = pa.table({"id": range(2000), "s": ["x" * (index % 100) for index in range(2000)]})
    (file,) = lab.write(pyarrow_engine, table, row_group_bytes=10_000, batch_rows=300)
    groups = pq.ParquetFile(lab.path(file))
    sizes = [groups.read_row_group(i).nbytes for i in range(groups.num_row_groups)]
    assert len(sizes) > 5
    assert max(sizes) < 12_000
    assert lab.read([file], table.schema).equals(table)


def test_one_huge_row_is_a_row_group_of_its_own(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    table = pa.table({"s": ["a", "b" * 50_000, "c", "d"]})
    (file,) = lab.write(pyarrow_engine, table, row_group_bytes=1000)
    assert file.row_count == 4
    assert lab.read([file], table.schema).equals(table)


def test_files_roll_at_the_target(lab: Any, engine: Engine) -> None:
    table = numbers(200_000)
    target = 150_000
    files = lab.write(engine, table, target_file_bytes=target, row_group_rows=4096, compression="none")
    total = sum(file.size_bytes for file in files)
    assert 4 <= total / (2 * target) + 1 <= len(files) <= total / target + 1
    assert all(target <= file.size_bytes < 2 * target for file in files[:-1])
    assert sum(file.row_count for file in files) == 200_000
    assert lab.read(files, table.schema).sort_by("id").equals(table)
    assert sorted(lab.stored()) == sorted(file.path for file in files)


@pytest.mark.parametrize("limit", [1, 7, 1000, 2048, 2500, 9_999, 10_000, 20_000])
def test_no_file_has_more_rows_than_allowed(lab: Any, engine: Engine, limit: int) -> None:
    table = numbers(10_000 if limit > 7 else 50)
    files = lab.write(engine, table, max_rows_per_file=limit, row_group_rows=1000, batch_rows=777)
    rows = [file.row_count for file in files]
    assert rows[:-1] == [limit] * (len(rows) - 1)
    assert 0 < rows[-1] <= limit
    assert lab.read(files, table.schema).sort_by("id").equals(table)


@pytest.mark.parametrize("limit", [3, 1000])
def test_the_bound_on_rows_holds_in_partitions(lab: Any, engine: Engine, limit: int) -> None:
    count = 50 if limit == 3 else 10_000
    table = numbers(count).append_column("p", pa.array(np.arange(count) % 3))
    files = lab.write(engine, table, max_rows_per_file=limit, partition_by=("p",), batch_rows=777)
    for value in range(3):
        rows = [file.row_count for file in files if file.partition == {"p": str(value)}]
        assert rows[:-1] == [limit] * (len(rows) - 1)
        assert 0 < rows[-1] <= limit
    assert lab.read(files, table.schema).sort_by("id").equals(table)


def test_appending_to_a_folder_in_use_touches_nothing(any_lab: Any, engine: Engine) -> None:
    table = numbers(100).append_column("p", pa.array(["a", "b"] * 50))
    for options in ({}, {"partition_by": ("p",)}):
        first = any_lab.write(engine, table, **options)
        before = {file.path: any_lab.store.read_bytes(f"sales/orders/{file.path}") for file in first}
        second = any_lab.write(engine, table, **options)
        assert not {file.path for file in first} & {file.path for file in second}
        for path, content in before.items():
            assert any_lab.store.read_bytes(f"sales/orders/{path}") == content


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_files_are_forced_to_disk(
    lab: Any, engine: Engine, partition_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        forced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    table = numbers(100).append_column("p", pa.array(["a", "b"] * 50))
    files = lab.write(engine, table, partition_by=partition_by)
    for file in files:
        assert str(lab.path(file)) in forced
        assert str(lab.path(file).parent) in forced[forced.index(str(lab.path(file))) :]
    assert forced[-1] == str(Path(lab.store.full_path("x")).parent)


def _row_groups(lab: Any, files: list[Any]) -> list[pa.Table]:
    return [
        pq.ParquetFile(lab.path(file)).read_row_group(index)
        for file in files
        for index in range(len(file.row_group_rows))
    ]


@pytest.mark.parametrize("partition_by", [(), ("p",)])
def test_rows_are_sorted_within_row_groups(lab: Any, engine: Engine, partition_by: tuple[str, ...]) -> None:
    random = np.random.default_rng(5)
    count = 60_000
    table = pa.table(
        {
            "id": np.arange(count),
            "p": pa.array(random.integers(0, 3, count)),
            "k": pa.array(random.integers(0, 50, count), mask=random.random(count) < 0.1),
            "x": pa.array(np.where(random.random(count) < 0.1, np.nan, random.random(count))),
        }
    )
    files = lab.write(
        engine, table, sort_by=("k", "x"), partition_by=partition_by, row_group_rows=8192, batch_rows=5000
    )
    groups = _row_groups(lab, files)
    assert len(groups) >= 7
    for group in groups:
        in_order = group.take(pc.sort_indices(group, [("k", "ascending"), ("x", "ascending")]))
        assert repr(group.select(["k", "x"]).to_pylist()) == repr(in_order.select(["k", "x"]).to_pylist())
    assert groups[-1]["k"].null_count
    back = lab.read(files, table.schema).sort_by("id")
    assert repr(back.to_pydict()) == repr(table.to_pydict())


def test_duckdb_keeps_order_in_large_row_groups(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    table = numbers(600_000)
    files = lab.write(duckdb_engine, table, sort_by=("x",), row_group_rows=500_000)
    for group in _row_groups(lab, files):
        assert (np.diff(group["x"].to_numpy()) >= 0).all()


def test_sorting_by_a_list_is_refused(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    with pytest.raises(InvalidOptionError, match="cannot sort by xs"):
        lab.write(pyarrow_engine, pa.table({"xs": [[1], [2]]}), sort_by=("xs",))
    assert lab.stored() == []


def test_tiny_batches_are_joined_and_large_ones_are_not_copied() -> None:
    buffer = RowBuffer(max_rows=10_000, max_bytes=2**30)
    large = pa.record_batch({"a": np.arange(5000)})
    for batch in [large, *[pa.record_batch({"a": [index]}) for index in range(3000)], large]:
        buffer.push(batch)
    assert buffer.rows == 13_000
    assert buffer.full
    table = buffer.pop()
    assert table.num_rows == 10_000
    chunks = table.column(0).chunks
    assert len(chunks) <= 6
    assert chunks[0].buffers()[1].address == large.column(0).buffers()[1].address
    assert chunks[-1].buffers()[1].address == large.column(0).buffers()[1].address
    assert buffer.pop().num_rows == 3000
    assert buffer.rows == buffer.size_bytes == 0


def test_released_rows_are_told_of_once() -> None:
    released: list[str] = []
    buffer = RowBuffer(max_rows=3, max_bytes=2**30)
    for name in "ab":
        buffer.push(pa.record_batch({"a": range(5)}), release=lambda name=name: released.append(name))
    seen = []
    while buffer.rows:
        seen.append((buffer.pop().num_rows, "".join(released)))
    assert seen == [(3, ""), (3, "a"), (3, "a"), (1, "ab")]
