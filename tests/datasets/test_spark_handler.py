"""`SparkParquetHandler` does what the other backends do: the same statistics, counts, rows and refusals."""

from __future__ import annotations

import datetime as dt
import os
import uuid
import warnings
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handlers_support import SIDES, contents, make, make_partitions, orders, parquet_files, row_counts, rows_of
from spark_handler_support import Spark, hive, same_everywhere, scattered

from parqlake.core.errors import ConstraintError, DataCorruptionError, InputError, InvalidOptionError
from parqlake.core.merging import AddedFile, DuplicateKeysWarning, MergeTarget, TargetFile, merge_rule
from parqlake.core.ports import WriteSpec
from parqlake.core.predicates import bind, parse
from parqlake.core.schema import assign_field_ids
from parqlake.core.statistics import describe_file
from parqlake.datasets import DuckDBParquetHandler, SparkParquetHandler, merge_parquet_dataset_pyarrow
from parqlake.engines.arrow import clustering as arrow_clustering
from parqlake.engines.arrow import merging as arrow_merging
from parqlake.engines.spark import merging as spark_merging
from parqlake.engines.spark.clustering import cluster_files
from parqlake.stores import open_store
from parqlake.testing.frames import to_frame

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.fixture
def handler(spark: Any) -> SparkParquetHandler:
    return SparkParquetHandler(spark)


def test_compaction_has_the_same_statistics_and_files(tmp_path: Path, handler: SparkParquetHandler) -> None:
    def fill(folder: Path) -> None:
        make_partitions(folder, days=2, files=2, rows=70)
        pq.write_table(orders(9000, 150), folder / "date=2025-11-01" / "long.parquet", row_group_size=40)

    def act(side: Any, folder: Path) -> Any:
        stats = side.compact(folder, target_rows_per_file=100, compression="zstd")
        again = side.compact(folder, target_rows_per_file=100, compression="zstd")
        assert max(row_counts(folder)) <= 100
        return stats, again

    stats, again = same_everywhere(tmp_path, handler, fill, act)
    assert stats["before_file_count"] == 5
    assert again["compacted_file_count"] == 0
    plans = [
        side.compact(tmp_path / "given", target_rows_per_file=150, dry_run=True) for side in (*SIDES, Spark(handler))
    ]
    assert plans[0] == plans[1] == plans[2]
    assert plans[0]["planned_groups"]


def test_optimization_has_the_same_statistics_and_files(tmp_path: Path, handler: SparkParquetHandler) -> None:
    def act(side: Any, folder: Path) -> Any:
        stats = side.optimize(folder, ["many", "city"], target_rows_per_file=25_000)
        again = side.optimize(folder, ["many", "city"], target_rows_per_file=25_000)
        assert again["compacted_file_count"] == 0
        return stats, again

    same_everywhere(tmp_path, handler, scattered, act)


@pytest.mark.parametrize("columns", [["many", "city"], pytest.param(["few"], marks=pytest.mark.slow)])
def test_rows_are_laid_out_by_many_tasks_as_by_one(tmp_path: Path, spark: Any, columns: list[str]) -> None:
    # With little memory rows go through a shuffle. Of few values there are more equal rows than a file takes.
    scattered(tmp_path / "given")
    schema = pq.read_schema(tmp_path / "given" / "0.parquet")
    found = []
    for name, cluster in (("arrow", arrow_clustering.cluster_files), ("spark", partial(cluster_files, spark))):
        names = (f"{name}-{number:02}.parquet" for number in range(12))
        made = cluster(
            open_store(tmp_path / "given"),
            [f"{number}.parquet" for number in range(3)],
            partial(next, names),
            columns=columns,
            schema=schema,
            rows=[5000] * 12,
            compression="snappy",
            memory_bytes=1 << 20,
        )
        assert [file.num_rows for file in made] == [5000] * 12
        found.append([pq.read_table(tmp_path / "given" / file.path) for file in made])
    assert all(one.equals(other) for one, other in zip(*found, strict=True))
    assert len(list((tmp_path / "given").iterdir())) == 3 + 12 + 12


@pytest.mark.parametrize(
    "strategy",
    [
        "upsert",
        "full_merge",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("insert", "update", "deduplicate")),
    ],
)
def test_merges_have_the_same_counts_and_rows(tmp_path: Path, handler: SparkParquetHandler, strategy: str) -> None:
    # Updates in place, moves to another partition and to a new one, new rows, and a key that comes twice.
    ids, months = [0, 10, 50, 90, 500, 501, 50], [1, 2, 2, 7, 1, 7, 3]
    changes = pa.table({"id": ids, "month": months, "x": [f"new {number}" for number in range(7)]})
    found = []
    for name, merge in (("arrow", merge_parquet_dataset_pyarrow), ("spark", handler.merge_parquet_dataset)):
        folder = tmp_path / name
        hive(folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stats = merge(changes, folder, ["id"], strategy=strategy)
        said = [(str(one.message), Path(one.filename)) for one in caught if one.category is DuplicateKeysWarning]
        untouched = [path.relative_to(folder) for path in parquet_files(folder) if path.name.startswith("in-")]
        folders = {path.parent.name for path in parquet_files(folder)}
        rows = sorted(str(row) for row in pq.read_table(folder).to_pylist())
        found.append((stats, said, untouched, folders, rows))
        assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    assert found[0] == found[1]
    assert bool(found[1][1]) == (strategy != "deduplicate")


def test_a_large_merge_in_little_memory(tmp_path: Path, handler: SparkParquetHandler) -> None:
    # Parts, spans and packs by the dozen; one key lies in the target a thousand times, another comes so in the source.
    chance = np.random.default_rng(3)
    for number in range(3):
        ids = np.append(np.arange(number * 10_000, (number + 1) * 10_000), np.zeros(400, dtype=np.int64))
        table = pa.table({"key": [f"key {value:06}" for value in ids], "x": chance.random(len(ids))})
        for side in ("arrow", "spark"):
            (tmp_path / side).mkdir(exist_ok=True)
            pq.write_table(table, tmp_path / side / f"{number}.parquet", row_group_size=2000)
    ids = np.concatenate((np.arange(5000, 35_000, 2), np.full(1000, 77), [0]))
    source = pa.table({"key": [f"key {value:06}" for value in ids], "x": np.arange(len(ids), dtype=float)})
    options: Any = {"strategy": "deduplicate", "memory_limit": "1MB"}
    expected = merge_parquet_dataset_pyarrow(source, tmp_path / "arrow", ["key"], **options)
    assert handler.merge_parquet_dataset(source.to_reader(3000), tmp_path / "spark", ["key"], **options) == expected
    rows = [
        pq.read_table(tmp_path / side).sort_by([("key", "ascending"), ("x", "ascending")])
        for side in ("arrow", "spark")
    ]
    assert rows[0].equals(rows[1])
    assert expected["inserted"] == 2500


def test_keys_of_every_type(tmp_path: Path, handler: SparkParquetHandler) -> None:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    columns = {
        "whole": pa.array([1, -2, 3, 4], pa.int64()),
        "unsigned": pa.array([2**64 - 1, 0, 7, 8], pa.uint64()),
        "text": pa.array(["ä", "", "a.b", "😀"], pa.large_string()),
        "coded": pa.array(["u", "v", "u", "w"]).dictionary_encode(),
        "raw": pa.array([b"\0", b"\xff", b"", b"x"]),
        "exact": pa.array([Decimal("1.10"), Decimal("-2.00"), Decimal(0), Decimal(7)], pa.decimal128(9, 2)),
        "float": pa.array([0.5, float("nan"), -0.0, 1e300]),
        "at": pa.array([when + dt.timedelta(microseconds=number) for number in range(4)], pa.timestamp("us", "UTC")),
        "fine": pa.array([1, 2, 3, 2**60], pa.timestamp("ns")),
        "day": pa.array([when.date()] * 4),
        "clock": pa.array([dt.time(1, 2, 3, number) for number in range(4)]),
        "flag": pa.array([True, False, True, False]),
    }
    source = pa.table({**columns, "x": ["new"] * 4})
    target = pa.table({**columns, "float": pa.array([0.5, float("nan"), 0.0, 2.0]), "x": ["old"] * 4})
    found = []
    for name, merge in (("arrow", merge_parquet_dataset_pyarrow), ("spark", handler.merge_parquet_dataset)):
        (tmp_path / name).mkdir()
        pq.write_table(target, tmp_path / name / "0.parquet")
        stats = merge(source, tmp_path / name, list(columns))
        found.append((stats, sorted(map(str, pq.read_table(tmp_path / name).to_pylist()))))
    assert found[0] == found[1]
    assert found[1][0] == {"inserted": 1, "updated": 3, "deleted": 0, "total": 5}


def test_frames_and_files_are_merged_where_they_are(tmp_path: Path, spark: Any, handler: SparkParquetHandler) -> None:
    make(tmp_path / "d", files=3)
    new = orders(250, 100)
    frame = to_frame(spark, new).withColumnRenamed("city", "a.b").withColumnRenamed("a.b", "city")
    expected = {"inserted": 50, "updated": 50, "deleted": 0, "total": 350}
    assert handler.merge_parquet_dataset(frame, tmp_path / "d", ["id"]) == expected
    assert rows_of(tmp_path / "d")[250:] == new.to_pylist()
    # Of a frame's rows with one key the highest is taken; of a file's the last.
    twice = spark.sql("SELECT 7L AS id, 1 AS customer, c AS city, 0.5D AS amount FROM VALUES ('b'), ('c'), ('a') t(c)")
    with pytest.warns(DuplicateKeysWarning, match="2 more rows than keys"):
        handler.merge_parquet_dataset(twice, tmp_path / "d", "id")
    assert rows_of(tmp_path / "d")[7]["city"] == "c"
    (tmp_path / "s" / "customer=3").mkdir(parents=True)
    for number, city in enumerate(["z", "y"]):
        table = pa.table({"id": [8, 9], "city": [city, city], "amount": [1.0, 2.0]})
        pq.write_table(table, tmp_path / "s" / "customer=3" / f"{number}.parquet")
    stored = make(tmp_path / "t", files=1).drop(["customer"]).append_column("customer", pa.array([1] * 100, pa.int64()))
    pq.write_table(stored, tmp_path / "t" / "in-000.parquet")
    assert handler.merge_parquet_dataset(tmp_path / "s", tmp_path / "t", "id", strategy="deduplicate")["updated"] == 2
    assert [(row["city"], row["customer"]) for row in rows_of(tmp_path / "t")[8:10]] == [("y", 3), ("y", 3)]


def test_a_frame_makes_a_dataset_and_empties_it(tmp_path: Path, spark: Any, handler: SparkParquetHandler) -> None:
    made = handler.merge_parquet_dataset(spark.range(5), tmp_path / "d", "id")
    assert made == {"inserted": 5, "updated": 0, "deleted": 0, "total": 5}
    gone = handler.merge_parquet_dataset(spark.range(0), tmp_path / "d", "id", strategy="full_merge")
    assert gone == {"inserted": 0, "updated": 0, "deleted": 5, "total": 0}
    assert [pq.read_schema(path) for path in parquet_files(tmp_path / "d")] == [pa.schema({"id": pa.int64()})]


def test_frames_are_written_by_their_executors(tmp_path: Path, spark: Any, handler: SparkParquetHandler) -> None:
    rows = orders(0, 100)
    frame = to_frame(spark, rows).repartition(2)
    handler.write_parquet_dataset(frame, tmp_path / "d", max_rows_per_file=30, basename_template="data_{}.parquet")
    assert sorted(path.name for path in parquet_files(tmp_path / "d"))[0] == "data_000.parquet"
    assert (max(row_counts(tmp_path / "d")), sum(row_counts(tmp_path / "d"))) == (30, 100)
    assert rows_of(tmp_path / "d") == rows.to_pylist()
    handler.write_parquet_dataset(frame.where("id < 0"), tmp_path / "d", mode="overwrite")
    assert row_counts(tmp_path / "d") == [0]
    assert pq.read_schema(parquet_files(tmp_path / "d")[0]).names == rows.schema.names
    handler.write_parquet(frame.orderBy("amount"), tmp_path / "one.parquet", compression="zstd")
    assert pq.read_table(tmp_path / "one.parquet")["amount"].to_pylist() == sorted(rows["amount"].to_pylist())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "one.parquet"]
    assert handler.read_parquet(tmp_path / "one.parquet", columns=["id"]).num_rows == 100
    query = f"SELECT count(*) AS n, max(id) AS top FROM parquet.`{tmp_path / 'one.parquet'}` WHERE id < :below"
    assert handler.execute_sql(query, {"below": 50}).to_pylist() == [{"n": 50, "top": 49}]


@pytest.mark.parametrize("strategy", ["upsert", "full_merge"])
def test_the_engine_tells_what_a_catalog_needs(tmp_path: Path, spark: Any, strategy: str) -> None:
    # As a table merges: names that workers choose, a schema with field ids, and a predicate on rows to change.
    schema = assign_field_ids(pa.schema({"id": pa.int64(), "x": pa.float64()}))
    rule = replace(merge_rule("id", strategy), where=bind(parse("x < 300"), schema))
    source = pa.table({"id": [5, 150, 350, 900], "x": [0.5, float("nan"), 1.5, None]}, schema=schema)
    found = []

    def path(folder: str) -> str:
        return f"{folder}/part-{uuid.uuid4()}.parquet"

    for name in ("arrow", "spark"):
        store = open_store(tmp_path / name)
        files = []
        for number in range(4):
            ids = np.arange(number * 100, number * 100 + 100)
            (tmp_path / name / "t").mkdir(parents=True, exist_ok=True)
            pq.write_table(
                pa.table({"id": ids, "x": ids.astype(float)}, schema=schema),
                tmp_path / name / "t" / f"{number}.parquet",
            )
            files.append(TargetFile(f"t/{number}.parquet", 100))
        target = MergeTarget(store, tuple(files), WriteSpec("t", schema), path, worker_path=path)
        if name == "arrow":
            made = arrow_merging.merge(source, target, rule)
        else:
            made = spark_merging.merge(spark, to_frame(spark, source), target, rule)
        described = sorted(map(_described, made.added))
        rows = pa.concat_tables([pq.read_table(tmp_path / name / file.path) for file in made.added]).sort_by("id")
        found.append((made.removed, made.counts, made.read, made.key_bounds, described, rows.to_pylist()))
    assert repr(found[0]) == repr(found[1])


def _described(file: AddedFile) -> Any:
    known = file.data_file
    if known is None:
        known = describe_file(
            file.path.removeprefix("t/"),
            file.size_bytes,
            file.metadata,
            assign_field_ids(pa.schema({"id": pa.int64(), "x": pa.float64()})),
            partition=file.partition,
            nans=file.nans,
        )
    assert known.path == file.path.removeprefix("t/")
    statistics = [(one.column_id, list(one.mins), list(one.maxs), one.nulls.tolist()) for one in known.statistics]
    return str(file.replaces), known.row_count, known.size_bytes, known.row_group_rows.tolist(), statistics


def test_a_worker_that_dies_leaves_a_file_that_nobody_knows(tmp_path: Path, spark: Any) -> None:
    root = str(tmp_path)
    schema = pa.schema({"id": pa.int64(), "x": pa.string()})

    def path(folder: str) -> str:
        new = f"{folder}/part-{uuid.uuid4()}.parquet"
        if not Path(root, "died").exists():
            Path(root, "died").touch()
            Path(root, new).write_bytes(b"half a file")
            os._exit(1)
        return new

    (tmp_path / "t").mkdir()
    for number in range(2):
        table = pa.table({"id": [number, number + 10], "x": ["old", "old"]}, schema=schema)
        pq.write_table(table, tmp_path / "t" / f"{number}.parquet")
    files = tuple(TargetFile(f"t/{number}.parquet", 2) for number in range(2))
    target = MergeTarget(open_store(tmp_path), files, WriteSpec("t", schema), path, worker_path=path)
    source = pa.table({"id": [0, 1, 99], "x": ["new", "new", "new"]}, schema=schema)
    made = spark_merging.merge(spark, source, target, merge_rule("id"))
    found = pa.concat_tables([pq.read_table(tmp_path / file.path) for file in made.added]).sort_by("id")
    assert (tmp_path / "died").exists()
    assert found["id"].to_pylist() == [0, 1, 10, 11, 99]
    assert found["x"].to_pylist() == ["new", "new", "old", "old", "new"]
    known = {file.path for file in (*made.added, *files)}
    unknown = [path for path in (tmp_path / "t").iterdir() if f"t/{path.name}" not in known]
    assert b"half a file" in [path.read_bytes() for path in unknown]


def test_what_is_refused(tmp_path: Path, spark: Any, handler: SparkParquetHandler) -> None:
    make(tmp_path / "d", files=2)
    before = contents(tmp_path)
    null_key = to_frame(spark, orders(0, 3)).selectExpr("nullif(id, 1L) AS id", "customer", "city", "amount")
    with pytest.raises(ConstraintError, match="Key column 'id' of the source contains 1 NULL values"):
        handler.merge_parquet_dataset(null_key, tmp_path / "d", ["id"])
    with pytest.raises(ConstraintError, match=r"Key column 'city' of the target contains \d+ NULL values"):
        handler.merge_parquet_dataset(orders(1, 3), tmp_path / "d", ["city"])
    narrow = to_frame(spark, orders(0, 3)).selectExpr("cast(id AS int) AS id", "customer", "city", "amount")
    with pytest.raises(TypeError, match=r"(?s)id.*int32.*int64.*type mismatch"):
        handler.merge_parquet_dataset(narrow, tmp_path / "d", ["id"])
    for call in (
        lambda: handler.compact_parquet_dataset("memory://d", target_mb_per_file=1),
        lambda: handler.merge_parquet_dataset("memory://d", tmp_path / "d", ["id"]),
        lambda: handler.write_parquet_dataset(orders(0, 1), "memory://d"),
    ):
        with pytest.raises(InvalidOptionError, match="which only this process sees"):
            call()
    with pytest.raises(InvalidOptionError, match="give a SparkSession"):
        SparkParquetHandler({})
    with SparkParquetHandler(spark) as closing:
        assert closing.execute_sql("SELECT 1 AS a").num_rows == 1
    assert closing._connection is None
    with pytest.raises(InputError, match="this SparkParquetHandler is closed"):
        closing.read_parquet(tmp_path / "d")
    assert spark.range(1).count() == 1, "the session is the user's"
    assert contents(tmp_path) == before


def test_a_task_that_fails_leaves_the_old_rows(tmp_path: Path, spark: Any, handler: SparkParquetHandler) -> None:
    make(tmp_path / "d", files=3, rows=3000)
    with DuckDBParquetHandler() as writer:  # page checksums
        writer.compact_parquet_dataset(tmp_path / "d", target_rows_per_file=3000, compression="zstd")
    victim = parquet_files(tmp_path / "d")[1]
    data = bytearray(victim.read_bytes())
    column = pq.read_metadata(victim).row_group(0).column(3)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    victim.write_bytes(bytes(data))
    before = contents(tmp_path)
    with pytest.raises(DataCorruptionError, match="is damaged"):
        handler.merge_parquet_dataset(orders(2990, 6000), tmp_path / "d", ["id"])
    with pytest.raises(DataCorruptionError, match="is damaged"):
        handler.compact_parquet_dataset(tmp_path / "d", target_rows_per_file=2000)
    with pytest.raises(DataCorruptionError, match="is damaged"):
        handler.optimize_parquet_dataset(tmp_path / "d", ["amount"], target_rows_per_file=2000)
    from pyspark.errors import PySparkException

    broken = to_frame(spark, orders(0, 3)).selectExpr(
        "id", "customer", "city", "amount / raise_error('mine') AS amount"
    )
    with pytest.raises(PySparkException, match="mine"):
        handler.merge_parquet_dataset(broken, tmp_path / "d", ["id"])
    with pytest.raises(PySparkException, match="mine"):
        handler.write_parquet_dataset(broken, tmp_path / "d", mode="overwrite")
    assert contents(tmp_path) == before
