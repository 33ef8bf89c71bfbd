"""Whatever the batches, limits and values: no row is lost, doubled or moved, and no bound is broken."""

from __future__ import annotations

import math
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.ports import PlannedFile, ReadPlan, WriteSpec
from parqlake.core.schema import assign_field_ids, leaves
from parqlake.engines import PyArrowEngine
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.row_buffer import RowBuffer
from parqlake.stores import open_store


@given(
    sizes=st.lists(st.integers(0, 6000), max_size=12),
    max_rows=st.integers(1, 9000),
    max_bytes=st.integers(8, 60_000),
    eager=st.booleans(),
)
def test_a_buffer_gives_back_what_it_took(sizes: list[int], max_rows: int, max_bytes: int, eager: bool) -> None:
    buffer = RowBuffer(max_rows=max_rows, max_bytes=max_bytes)
    released: list[int] = []
    out: list[pa.Table] = []
    start = 0
    for number, size in enumerate(sizes):
        batch = pa.record_batch({"a": np.arange(start, start + size)})
        start += size
        if number % 2:
            buffer.push(batch, release=lambda number=number: released.append(number))
        else:
            buffer.push(batch)
        while eager and buffer.full:
            out.append(buffer.pop())
    while buffer.rows:
        out.append(buffer.pop())
    assert [value for table in out for value in table["a"].to_pylist()] == list(range(start))
    assert all(0 < table.num_rows <= max_rows for table in out)
    assert all(table.nbytes <= max(max_bytes, 8) for table in out)
    assert released == [number for number, size in enumerate(sizes) if number % 2 and size]
    assert buffer.size_bytes == 0


_FLOATS = st.one_of(st.none(), st.floats(width=32))
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "f": _FLOATS,
            "i": st.integers(0, 5),
            "s": st.one_of(
                st.none(), st.fixed_dictionaries({"a": _FLOATS, "b": st.one_of(st.none(), st.lists(_FLOATS))})
            ),
            "m": st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), _FLOATS).map(lambda d: list(d.items()))),
            "l": st.lists(st.one_of(st.none(), st.fixed_dictionaries({"x": st.just("t"), "y": _FLOATS}))),
        }
    ),
    min_size=1,
    max_size=8,
)
_NESTED = pa.schema(
    [
        ("f", pa.float32()),
        ("i", pa.int64()),
        ("s", pa.struct([("a", pa.float64()), ("b", pa.list_(pa.float32()))])),
        ("m", pa.map_(pa.string(), pa.float64())),
        ("l", pa.list_(pa.struct([("x", pa.string()), ("y", pa.float64())]))),
    ]
)


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, list | tuple) and any(_has_nan(item) for item in value)


def _expected(rows: list[dict[str, Any]]) -> list[int]:
    structs = [row["s"] for row in rows if row["s"] is not None]
    items = [item for row in rows for item in row["l"] if item is not None]
    found = {
        ("f",): [row["f"] for row in rows],
        ("s", "a"): [struct["a"] for struct in structs],
        ("s", "b", "item"): [struct["b"] for struct in structs],
        ("m", "value"): [value for row in rows if row["m"] is not None for _, value in row["m"]],
        ("l", "item", "y"): [item["y"] for item in items],
    }
    return [index for index, leaf in enumerate(leaves(_NESTED)) if _has_nan(found.get(leaf.path))]


@given(_ROWS, st.data())
def test_nans_are_found_wherever_they_hide(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    table = pa.Table.from_pylist(rows, schema=_NESTED)
    finder = NanFinder(_NESTED)
    assert finder.find(table) == _expected(rows)
    start = data.draw(st.integers(0, len(rows) - 1))
    length = data.draw(st.integers(1, len(rows) - start))
    assert finder.find(table.slice(start, length)) == _expected(rows[start : start + length])


@settings(max_examples=30)
@given(
    keys=st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "a/b", "é"])), min_size=1, max_size=300),
    batch_rows=st.integers(1, 100),
    options=st.fixed_dictionaries(
        {
            "memory_bytes": st.sampled_from([1, 500, 5000, 10**6]),
            "row_group_rows": st.sampled_from([1, 3, 50, 10**6]),
            "max_rows_per_file": st.sampled_from([None, 1, 7, 100]),
            "target_file_bytes": st.sampled_from([1, 2000, 10**9]),
            "sort_by": st.sampled_from([(), ("p", "x")]),
        }
    ),
)
def test_partitioned_writes_lose_nothing(keys: list[str | None], batch_rows: int, options: dict[str, Any]) -> None:
    schema = assign_field_ids(pa.schema([("id", pa.int64()), ("p", pa.string()), ("q", pa.bool_()), ("x", pa.int64())]))
    count = len(keys)
    flags = [None if index % 5 == 0 else index % 2 == 0 for index in range(count)]
    columns = [pa.array(range(count)), pa.array(keys, pa.string()), pa.array(flags), pa.array(range(count, 0, -1))]
    table = pa.table(columns, schema=schema)
    store = open_store(f"memory://{uuid.uuid4()}")
    spec = WriteSpec("t", schema, partition_by=("p", "q"), **options)
    files = PyArrowEngine().write(table.to_reader(batch_rows), spec, store)
    limit = options["max_rows_per_file"]
    assert all(limit is None or file.row_count <= limit for file in files)
    assert all(max(file.row_group_rows) <= options["row_group_rows"] for file in files)
    planned = tuple(
        PlannedFile(f"t/{f.path}", f.size_bytes, None, f.row_count, f.size_bytes, f.partition, 1, 1) for f in files
    )
    reader = PyArrowEngine()
    assert reader.batches(ReadPlan(schema, planned), store).read_all().sort_by("id").equals(table)
    for file, plan in zip(files, planned, strict=True):
        rows = reader.batches(ReadPlan(schema, (plan,)), store).read_all()
        text = {True: "true", False: "false", None: None}
        assert {(p, text[q]) for p, q in zip(rows["p"].to_pylist(), rows["q"].to_pylist(), strict=True)} == {
            (file.partition["p"], file.partition["q"])
        }
