"""Files are written again in several streams: in order, with rows left out or changed, and one error for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.errors import DataCorruptionError
from parqlake.core.ports import ReadPlan, WriteSpec
from parqlake.core.predicates.bind import bind
from parqlake.core.predicates.parse import parse
from parqlake.core.schema import assign_field_ids
from parqlake.core.updating import row_change
from parqlake.engines import PyArrowEngine

LOCATION = "sales/orders"
SCHEMA = assign_field_ids(pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())]))
MEGABYTE = 1024 * 1024


def planned(lab: Any, count: int, *, partition_by: tuple[str, ...] = (), where: str | None = None) -> ReadPlan:
    """A plan over files of a thousand rows, each said to be large enough for a stream of its own."""
    ids = list(range(count * 1000))
    parts = [f"p{number % 3}" for number in ids]
    rows = pa.table([pa.array(ids), pa.array(parts), pa.array([i / 2 for i in ids])], schema=SCHEMA)
    files = lab.write(PyArrowEngine(), rows, schema=SCHEMA, max_rows_per_file=1000, partition_by=partition_by)
    plan = lab.plan(files, SCHEMA, predicate=None if where is None else bind(parse(where), SCHEMA))
    return replace(plan, files=tuple(replace(file, read_bytes=8 * MEGABYTE) for file in plan.files))


def test_streams_keep_the_order_of_the_plan_and_tell_of_each_file_once(lab: Any) -> None:
    told: list[str] = []
    spec = WriteSpec(LOCATION, SCHEMA, file_visitor=lambda file: told.append(file.path))
    plan = planned(lab, 6, where="id % 5 != 0")
    made = PyArrowEngine(streams=3).rewrite(plan, spec, lab.store)
    assert [file.row_count for file in made] == [1600] * 3  # two old files each
    assert sorted(told) == sorted(file.path for file in made)
    assert lab.read(made, SCHEMA)["id"].to_pylist() == [i for i in range(6000) if i % 5]
    change = row_change({"x": "x + 1", "p": None}, bind(parse("id >= 5000"), SCHEMA), SCHEMA)
    changed = PyArrowEngine(streams=2).rewrite_changed(replace(plan, predicate=None), change, spec, lab.store)
    rows = lab.read(changed, SCHEMA)
    assert rows["x"].to_pylist() == [i / 2 + (i >= 5000) for i in range(6000)]
    assert rows["p"].null_count == 1000


def test_large_streams_end_with_a_file_and_a_partition_stays_in_one_stream(lab: Any) -> None:
    plan = planned(lab, 4)
    small = WriteSpec(LOCATION, SCHEMA, target_file_bytes=8 * MEGABYTE)
    assert [file.row_count for file in PyArrowEngine(streams=2).rewrite(plan, small, lab.store)] == [1000] * 4
    parted = planned(lab, 6, partition_by=("p",))
    assert len(parted.files) == 6
    spec = WriteSpec(LOCATION, SCHEMA, partition_by=("p",))
    made = PyArrowEngine(streams=2).rewrite(parted, spec, lab.store)
    assert sorted(file.partition["p"] for file in made) == ["p0", "p1", "p2"]


def test_a_damaged_file_ends_all_streams_and_is_named(lab: Any) -> None:
    plan = planned(lab, 4)
    path = plan.files[-1].path
    place = lab.store.full_path(path)
    pq.read_table(place)
    with open(place, "r+b") as file:  # noqa: PTH123
        file.seek(100)
        file.write(b"\0" * 200)
    before = {file.path for file in lab.store.list_files(LOCATION)}
    told: list[str] = []
    spec = WriteSpec(LOCATION, SCHEMA, file_visitor=lambda file: told.append(f"{LOCATION}/{file.path}"))
    with pytest.raises(DataCorruptionError, match=path.rpartition("/")[2]):
        PyArrowEngine(streams=2).rewrite(plan, spec, lab.store)
    assert {file.path for file in lab.store.list_files(LOCATION)} - before == set(told)
