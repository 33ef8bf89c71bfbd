"""Partitioned writes: right folders, right values, few files, whatever the order of rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parqlake.core.ports import Engine, WriteSpec
from parqlake.core.schema import assign_field_ids, leaves
from parqlake.engines import PyArrowEngine
from parqlake.engines.arrow.grouping import group_rows
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.part_writer import WriteJob
from parqlake.engines.arrow.partition_writer import PartitionedWriter

HOSTILE: list[str | None] = [
    *("", None, "NULL", "null", "__HIVE_DEFAULT_PARTITION__", "..", ".", "../../x", "/etc/passwd", "a/b", "a\\b"),
    *("x=y", "100%", "%2F", "ä ü", "日本", "'q\"", "nl\nx", "tab\t", " ", " lead", "trail.", "*?[1]", "{uuid}", "CON"),
    *("x" * 300, "x" * 299 + "y", "ä" * 300, "\U0001f600", "a:b", "c:", "~", "#?&", "\x7f"),
]


def test_hostile_values_stay_values(any_lab: Any, engine: Engine) -> None:
    table = pa.table({"id": range(len(HOSTILE)), "p": HOSTILE})
    files = any_lab.write(engine, table, partition_by=("p",))
    assert len(files) == len(HOSTILE)
    assert {file.partition["p"] for file in files} == set(HOSTILE)
    # Everything lies in one folder below the table's own, whatever the values say.
    assert all(path.count("/") == 1 and path.startswith("p=") for path in any_lab.stored())
    assert sorted(any_lab.stored()) == sorted(file.path for file in files)
    back = any_lab.read(files, table.schema)
    assert back.sort_by("id").equals(table)
    for file in files:
        one = any_lab.read([file], table.schema)
        assert one["p"].to_pylist() == [file.partition["p"]]


def test_folders_of_the_pyarrow_engine(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    table = pa.table({"id": range(5), "a b": ["x", None, "", "é/=", "1" * 300], "d": [dt.date(2024, 1, 2)] * 5})
    files = lab.write(pyarrow_engine, table, partition_by=("d", "a b"))
    folders = [file.path.rpartition("/")[0] for file in files]
    assert folders[:4] == [
        "d=2024-01-02/a b=x",
        "d=2024-01-02/a b=__HIVE_DEFAULT_PARTITION__",
        "d=2024-01-02/a b=",
        "d=2024-01-02/a b=%C3%A9%2F%3D",
    ]
    assert len(folders[4].rpartition("/")[2]) < 255


_VALUES: list[tuple[pa.DataType, list[Any], list[str | None]]] = [
    (pa.bool_(), [True, False, None], ["true", "false", None]),
    (pa.int8(), [-128, 127, None], ["-128", "127", None]),
    (pa.uint64(), [0, 2**64 - 1, None], ["0", "18446744073709551615", None]),
    (pa.uint32(), [0, 2**32 - 1], ["0", "4294967295"]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29), None], ["0001-01-01", "2024-02-29", None]),
    (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0)], ["01:02:03.000004", "00:00:00"]),
    (pa.timestamp("us"), [0, 1], ["1970-01-01T00:00:00", "1970-01-01T00:00:00.000001"]),
    (pa.timestamp("ns"), [1, None], ["1970-01-01T00:00:00.000000001", None]),
    (pa.timestamp("us", "Europe/Berlin"), [0, -1], ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z"]),
    (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-0.01"), None], ["1.50", "-0.01", None]),
    (pa.decimal128(38, 3), [Decimal("123456789012345678901.500"), Decimal(0)], ["123456789012345678901.500", "0.000"]),
    (pa.string(), ["a", "", None], ["a", "", None]),
]


@pytest.mark.parametrize(("type_", "values", "texts"), _VALUES, ids=[str(value[0]) for value in _VALUES])
def test_values_of_every_type(
    lab: Any, engine: Engine, type_: pa.DataType, values: list[Any], texts: list[str | None]
) -> None:
    column = pa.array(values * 2, type_)
    table = pa.table({"id": range(len(column)), "p": column})
    files = lab.write(engine, table, partition_by=("p",))
    assert len(files) == len(values)
    assert {file.partition["p"] for file in files} == set(texts)
    assert lab.read(files, table.schema).sort_by("id").equals(table)
    for file in files:
        text = file.partition["p"]
        expected = pa.array([values[texts.index(text)]] * 2, type_)
        assert lab.read([file], table.schema)["p"].combine_chunks().equals(expected)


def test_the_partition_columns_are_in_the_files(lab: Any, engine: Engine) -> None:
    import pyarrow.parquet as pq

    table = pa.table({"p": ["a", "b"], "id": [1, 2], "q": [3, 4]})
    files = lab.write(engine, table, partition_by=("p", "q"))
    for file in files:
        stored = pq.ParquetFile(lab.path(file)).read()
        assert stored.column_names == ["p", "id", "q"]
        assert len(file.statistics) == len(leaves(assign_field_ids(table.schema)))


def batches(schema: pa.Schema, count: int, partitions: int, *, clustered: bool) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(3)
    size = 8192
    for start in range(0, count, size):
        rows = np.arange(start, min(start + size, count))
        keys = rows * partitions // count if clustered else random.integers(0, partitions, len(rows))
        arrays = [pa.array(rows), pa.array(rows * 0.5), pa.array(keys.astype(np.int32))]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


SCHEMA = assign_field_ids(pa.schema([("id", pa.int64()), ("x", pa.float64()), ("p", pa.int32())]))


def run(lab: Any, data: Iterator[pa.RecordBatch], **options: Any) -> tuple[list[Any], PartitionedWriter]:
    files: list[Any] = []
    spec = WriteSpec("sales/orders", SCHEMA, partition_by=("p",), **options)
    job = WriteJob(spec, lab.store, NanFinder(SCHEMA), lambda _, file: files.append(file))
    writer = PartitionedWriter(job)
    for batch in data:
        writer.push(batch)
    writer.finish()
    return files, writer


def check(lab: Any, files: list[Any], count: int) -> None:
    back = lab.read(files, SCHEMA).sort_by("id")
    assert np.array_equal(back["id"].to_numpy(), np.arange(count))
    assert np.array_equal(back["x"].to_numpy(), np.arange(count) * 0.5)
    for file in files:
        assert set(lab.read([file], SCHEMA)["p"].to_pylist()) == {int(file.partition["p"])}


def test_a_thousand_partitions_in_random_order_make_a_thousand_files(lab: Any, engine: Engine) -> None:
    count = 100_000
    data = batches(SCHEMA, count, 1000, clustered=False)
    files = lab.write(engine, data, schema=SCHEMA, partition_by=("p",), memory_bytes=400_000)
    assert len(files) == 1000
    assert sum(file.row_count for file in files) == count
    back = lab.read(files, SCHEMA)
    assert np.array_equal(np.sort(back["id"].to_numpy()), np.arange(count))


def test_rows_that_do_not_fit_are_spilled(lab: Any) -> None:
    files, writer = run(lab, batches(SCHEMA, 200_000, 50, clustered=False), memory_bytes=500_000)
    assert writer.spilled_bytes > 1_000_000
    assert len(files) == 50
    assert all(len(file.row_group_rows) == 1 for file in files)
    check(lab, files, 200_000)


def test_rows_that_fit_are_not_spilled(lab: Any) -> None:
    files, writer = run(lab, batches(SCHEMA, 100_000, 50, clustered=False))
    assert writer.spilled_bytes == 0
    assert len(files) == 50


def test_clustered_rows_stream_without_spilling(lab: Any) -> None:
    files, writer = run(lab, batches(SCHEMA, 200_000, 100, clustered=True), memory_bytes=200_000)
    assert writer.spilled_bytes == 0
    assert len(files) == 100
    check(lab, files, 200_000)


def test_clustered_rows_of_one_partition_above_memory_are_written_as_they_come(lab: Any) -> None:
    files, writer = run(lab, batches(SCHEMA, 200_000, 3, clustered=True), memory_bytes=200_000)
    assert writer.spilled_bytes == 0
    assert len(files) == 3
    check(lab, files, 200_000)


def test_more_busy_partitions_than_open_files(lab: Any) -> None:
    """Each of 100 partitions fills row groups all the time, and still each gets one file."""
    options = {"row_group_rows": 100, "memory_bytes": 1_000_000}
    files, writer = run(lab, batches(SCHEMA, 100_000, 100, clustered=False), **options)
    assert len(files) == 100
    assert writer.spilled_bytes > 0
    assert max(max(file.row_group_rows) for file in files) == 100
    check(lab, files, 100_000)


def test_busy_partitions_in_large_chunks(lab: Any) -> None:
    """At first nothing tells random rows from clustered ones; no file may be closed too early."""
    options = {"row_group_rows": 20, "memory_bytes": 2_000_000}
    files, _ = run(lab, batches(SCHEMA, 60_000, 100, clustered=False), **options)
    assert len(files) == 100
    check(lab, files, 60_000)


def test_more_clustered_partitions_than_open_files(lab: Any) -> None:
    options = {"row_group_rows": 100, "memory_bytes": 1_000_000}
    files, writer = run(lab, batches(SCHEMA, 100_000, 100, clustered=True), **options)
    assert len(files) == 100
    assert writer.spilled_bytes == 0
    check(lab, files, 100_000)


def test_one_large_partition_among_many_small_ones(lab: Any) -> None:
    """Slices of the small ones keep the memory of whole chunks alive; that must count."""
    random = np.random.default_rng(1)

    def skewed() -> Iterator[pa.RecordBatch]:
        for start in range(0, 300_000, 10_000):
            keys = np.where(random.random(10_000) < 0.99, 0, random.integers(1, 200, 10_000)).astype(np.int32)
            rows = np.arange(start, start + 10_000)
            yield pa.RecordBatch.from_arrays([pa.array(rows), pa.array(rows * 0.5), pa.array(keys)], schema=SCHEMA)

    files, writer = run(lab, skewed(), row_group_rows=20_000, memory_bytes=1_000_000)
    assert len(files) == 200
    assert 0 < writer.spilled_bytes < 1_000_000
    check(lab, files, 300_000)


def test_spilled_rows_come_before_later_ones(lab: Any) -> None:
    files, writer = run(lab, batches(SCHEMA, 100_000, 20, clustered=False), memory_bytes=500_000)
    assert writer.spilled_bytes > 0
    for file in files:
        ids = lab.read([file], SCHEMA)["id"].to_numpy()
        assert (np.diff(ids) > 0).all()


def test_groups_keep_order_and_do_not_copy_what_lies_together() -> None:
    table = pa.table({"p": ["b", "b", None, "a"], "q": [1, 1, 1, 2], "id": range(4)})
    groups = list(group_rows(table, ["p", "q"]))
    assert [group.key for group in groups] == [("b", "1"), (None, "1"), ("a", "2")]
    (batch,) = groups[0].batches
    assert batch.column(2).buffers()[1].address == table.column("id").chunk(0).buffers()[1].address
    mixed = pa.table({"p": ["b", "a", "b", None, "a", "b"], "q": [1, 1, 2, 1, 1, 1], "id": range(6)})
    found = {group.key: group.batches[0].column(2).to_pylist() for group in group_rows(mixed, ["p", "q"])}
    assert found == {("b", "1"): [0, 5], ("a", "1"): [1, 4], ("b", "2"): [2], (None, "1"): [3]}
    assert next(reversed(found)) == ("b", "1")


def test_more_than_65536_groups() -> None:
    keys = np.concatenate([np.arange(70_000), np.arange(70_000)])
    groups = list(group_rows(pa.table({"p": keys, "id": np.arange(140_000)}), ["p"]))
    assert len(groups) == 70_000
    assert all(
        group.batches[0].column(1).to_pylist() == [int(group.key[0] or 0), int(group.key[0] or 0) + 70_000]
        for group in groups[::7001]
    )
