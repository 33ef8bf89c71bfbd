"""Spark's executors write and rewrite files as the PyArrow engine does, and leave nothing where they fail."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from parqlake.core.errors import ConstraintError, DataCorruptionError, InvalidOptionError
from parqlake.core.model import DataFile
from parqlake.core.ports import WriteSpec, WrittenFile
from parqlake.core.schema import assign_field_ids, canonical_schema
from parqlake.engines import PyArrowEngine
from parqlake.engines.spark import SparkEngine
from parqlake.stores import open_store
from parqlake.testing.frames import spark_holds, to_frame

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

LOCATION = "sales/orders"
MUCH = 1 << 30


@pytest.fixture
def spark_engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def small_batches(spark: Any) -> Iterator[None]:
    """Rows reach the workers three at a time, so that files are finished before the last row is seen."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "3")
    yield
    spark.conf.set(setting, before)


def numbers(count: int) -> pa.Table:
    return pa.table({"id": range(count), "part": [f"p{i % 3}" for i in range(count)]})


def spec_of(data: pa.Table, **options: Any) -> WriteSpec:
    return WriteSpec(location=LOCATION, schema=assign_field_ids(canonical_schema(data.schema)), **options)


def described(file: DataFile) -> Any:
    """All that a file's record says but its name and its place of bytes."""
    statistics = [(one.column_id, list(one.mins), list(one.maxs), one.nulls.tolist()) for one in file.statistics]
    return file.row_count, file.row_group_rows.tolist(), dict(file.partition), statistics


def test_the_records_are_those_of_the_pyarrow_engine(
    lab: Any, spark: Any, spark_engine: SparkEngine, all_types: pa.Table
) -> None:
    held = all_types.select([field.name for field in all_types.schema if spark_holds(field.type)])
    assert held.num_columns > 20
    spec = replace(spec_of(held), schema=held.schema, row_group_rows=2)
    (ours,) = spark_engine.write_frame(to_frame(spark, held), spec, lab.store)
    (theirs,) = PyArrowEngine().write(held.to_reader(), spec, lab.store)
    assert described(ours) == described(theirs)
    assert ours.size_bytes == lab.path(ours).stat().st_size
    assert ours.row_group_offsets.tolist() == theirs.row_group_offsets.tolist()


def test_the_records_of_partitions_are_those_of_the_pyarrow_engine(
    lab: Any, spark: Any, spark_engine: SparkEngine
) -> None:
    data = numbers(30)
    spec = spec_of(data, partition_by=("part",), sort_by=("id",))
    ours = spark_engine.write_frame(to_frame(spark, data), spec, lab.store)
    theirs = PyArrowEngine().write(data.cast(spec.schema).to_reader(), spec, lab.store)
    assert sorted(map(described, ours), key=repr) == sorted(map(described, theirs), key=repr)
    assert len(ours) == 3


def test_a_visitor_can_look_into_each_file(lab: Any, spark: Any, spark_engine: SparkEngine) -> None:
    seen: list[WrittenFile] = []
    data = numbers(10)
    files = spark_engine.write_frame(
        to_frame(spark, data), spec_of(data, max_rows_per_file=4, file_visitor=seen.append), lab.store
    )
    assert [(file.path, file.size, file.metadata.num_rows) for file in seen] == [
        (file.path, file.size_bytes, file.row_count) for file in files
    ]
    assert [file.metadata.num_rows for file in seen] == [4, 4, 2]


def test_files_that_no_visitor_hears_of_are_deleted(lab: Any, spark: Any, spark_engine: SparkEngine) -> None:
    seen: list[str] = []

    def refuse(file: WrittenFile) -> None:
        seen.append(file.path)
        raise RuntimeError("no more")

    data = numbers(10)
    spec = spec_of(data, max_rows_per_file=2, file_visitor=refuse)
    with pytest.raises(RuntimeError, match="no more"):
        spark_engine.write_frame(to_frame(spark, data), spec, lab.store)
    assert lab.stored() == seen


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_meets_bad_rows_takes_its_files_away(lab: Any, spark: Any, spark_engine: SparkEngine) -> None:
    data = pa.table({"id": pa.array([*range(9), None], pa.int64())})
    schema = assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    spec = replace(spec_of(data, max_rows_per_file=2), schema=schema)
    with pytest.raises(ConstraintError, match='"id" is NOT NULL'):
        spark_engine.write_frame(to_frame(spark, data), spec, lab.store)
    assert lab.stored() == []


@pytest.mark.usefixtures("small_batches")
def test_every_attempt_of_a_task_that_fails_takes_its_files_away(
    lab: Any, spark: Any, spark_engine: SparkEngine
) -> None:
    def breaks(batch: pa.RecordBatch) -> None:
        if 8 in batch.column(0).to_pylist():
            raise ZeroDivisionError(f"there were {len(lab.stored())} files")

    data = numbers(10)
    with pytest.raises(Exception, match=r"there were [1-9] files"):
        spark_engine.write_frame(to_frame(spark, data), spec_of(data, max_rows_per_file=2), lab.store, [breaks])
    assert lab.stored() == []


def test_a_store_that_only_this_process_sees_is_refused(spark: Any, spark_engine: SparkEngine) -> None:
    store = open_store(f"memory://lake-{uuid.uuid4()}")
    store.prepare_root()
    data = numbers(3)
    with pytest.raises(InvalidOptionError, match="only this process sees"):
        spark_engine.write_frame(to_frame(spark, data), spec_of(data), store)
    assert list(store.list_files(LOCATION)) == []


def test_files_are_rewritten_by_tasks_over_groups_of_files(lab: Any, spark_engine: SparkEngine) -> None:
    data = numbers(30)
    spec = spec_of(data, max_rows_per_file=5)
    files = PyArrowEngine().write(data.cast(spec.schema).to_reader(), spec, lab.store)
    plan = lab.plan(files, spec.schema)
    large = replace(plan, files=tuple(replace(file, read_bytes=MUCH) for file in plan.files))
    seen: list[WrittenFile] = []
    again = spark_engine.rewrite(large, replace(spec, max_rows_per_file=3, file_visitor=seen.append), lab.store)
    assert sorted(file.row_count for file in again) == [2] * 6 + [3] * 6
    assert [file.path for file in again] == [file.path for file in seen]
    assert lab.read(again, spec.schema).sort_by("id").equals(data)
    assert len(lab.stored()) == len(files) + len(again)


def test_a_damaged_file_is_named_by_the_task_that_meets_it(lab: Any, spark_engine: SparkEngine) -> None:
    data = numbers(30)
    spec = spec_of(data, max_rows_per_file=5)
    files = PyArrowEngine().write(data.cast(spec.schema).to_reader(), spec, lab.store)
    lab.path(files[3]).write_bytes(b"no Parquet")
    plan = lab.plan(files, spec.schema)
    large = replace(plan, files=tuple(replace(file, read_bytes=MUCH) for file in plan.files))
    seen: list[str] = []
    visiting = replace(spec, max_rows_per_file=1, file_visitor=lambda file: seen.append(file.path))
    with pytest.raises(DataCorruptionError, match=files[3].path):
        spark_engine.rewrite(large, visiting, lab.store)
    assert set(lab.stored()) == {file.path for file in files} | set(seen)
    assert len(seen) == 25
