"""What is special about the DuckDB engine."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake.core.errors import InputError, MissingExtraError, StoreError, UnsupportedTypeError
from parqlake.core.ports import Engine, WrittenFile
from parqlake.core.schema import assign_field_ids
from parqlake.engines import DuckDBEngine, PyArrowEngine
from parqlake.engines.duck.copy_statement import identifier, literal
from parqlake.engines.duck.feed import VECTOR_ROWS, Feed


def test_it_is_an_engine(duckdb_engine: DuckDBEngine) -> None:
    engine: Engine = duckdb_engine
    assert engine.name == "duckdb"
    assert repr(engine) == "DuckDBEngine()"


def test_importing_engines_loads_no_duckdb() -> None:
    code = "import sys, parqlake.engines; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'parqlake\[duckdb\]'"):
        DuckDBEngine()


@pytest.mark.parametrize("where", ["top", "nested"])
def test_the_name_that_duckdb_keeps_for_itself(duckdb_engine: DuckDBEngine, where: str) -> None:
    inner = pa.field("__DuckDB_field_id", pa.int64())
    schema = pa.schema([inner if where == "top" else pa.field("s", pa.list_(pa.struct([inner])))])
    with pytest.raises(UnsupportedTypeError, match="__DuckDB_field_id"):
        duckdb_engine.check_schema(schema)
    PyArrowEngine().check_schema(schema)


def test_types_that_no_table_holds_are_refused(engine: Engine) -> None:
    for type_ in (pa.duration("s"), pa.month_day_nano_interval(), pa.null(), pa.decimal256(60, 2)):
        with pytest.raises(UnsupportedTypeError, match='"c"'):
            engine.check_schema(pa.schema([("c", type_)]))


def test_values_that_duckdb_cannot_hold_are_an_input_error(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    far = pa.table({"t": pa.array([-(2**63) + 10], pa.int64()).cast(pa.timestamp("us"))})
    with pytest.raises(InputError, match='engine="pyarrow"'):
        lab.write(duckdb_engine, far)
    assert lab.stored() == []
    assert lab.write(PyArrowEngine(), far)[0].row_count == 1


def test_too_little_memory_says_what_to_do(lab: Any) -> None:
    engine = DuckDBEngine(memory_limit="1MB", threads=1)
    with pytest.raises(StoreError, match="memory_limit"):
        lab.write(engine, pa.table({"x": np.random.default_rng(0).random(1_000_000)}), sort_by=("x",))


def test_spilling_leaves_nothing_behind(lab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir()
    engine = DuckDBEngine(memory_limit="60MB", threads=1, temp_directory=str(folder))
    table = pa.table({"x": np.random.default_rng(0).random(3_000_000), "y": np.arange(3_000_000)})
    files = lab.write(engine, table, sort_by=("x",), row_group_rows=100_000)
    assert sum(file.row_count for file in files) == 3_000_000
    assert list(folder.iterdir()) == []


def test_many_threads_share_one_engine(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    def one(number: int) -> int:
        table = pa.table({"id": np.arange(number * 1000, number * 1000 + 1000), "p": ["a", "b"] * 500})
        options = [{}, {"partition_by": ("p",)}, {"sort_by": ("id",)}, {"max_rows_per_file": 300}][number % 4]
        return sum(file.row_count for file in lab.write(duckdb_engine, table, **options))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(16))) == [1000] * 16


@pytest.mark.parametrize("options", [{}, {"sort_by": ("x",)}, {"partition_by": ("p",)}, {"max_rows_per_file": 7000}])
@pytest.mark.parametrize("bound", [100, 2048, 5000, 20_000])
def test_no_row_group_has_more_rows_than_allowed(
    lab: Any, duckdb_engine: DuckDBEngine, options: dict[str, Any], bound: int
) -> None:
    count = 30_000
    table = pa.table({"id": np.arange(count), "x": np.arange(count) % 97, "p": np.arange(count) % 3})
    files = lab.write(duckdb_engine, table, row_group_rows=bound, batch_rows=700, **options)
    groups = [rows for file in files for rows in file.row_group_rows.tolist()]
    assert sum(groups) == count
    assert max(groups) <= bound
    assert max(groups) > min(bound * 0.8, 6000)
    assert lab.read(files, table.schema).sort_by("id").equals(table)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 300_000), max_size=6), st.integers(20_000, 400_000))
def test_feeds_are_cut_into_whole_vectors(sizes: list[int], bound: int) -> None:
    schema = pa.schema([("a", pa.int64())])
    starts = np.cumsum([0, *sizes]).tolist()
    batches = [pa.record_batch([np.arange(a, b)], schema=schema) for a, b in itertools.pairwise(starts)]
    feed = Feed(pa.RecordBatchReader.from_batches(schema, batches), schema)
    seen = 0
    while feed.has_more():
        part = list(feed.reader(bound))
        assert all(batch.num_rows % VECTOR_ROWS == 0 for batch in part[:-1])
        rows = sum(batch.num_rows for batch in part)
        assert 0 < rows <= bound
        for batch in part:
            assert batch.column(0)[0].as_py() == seen
            seen += batch.num_rows
    assert seen == feed.rows == starts[-1]


def test_slices_of_nested_arrays(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    """DuckDB refuses, rather than misreads, structs that are slices of larger ones."""
    inner = pa.StructArray.from_arrays([pa.array(range(100)).slice(20, 50)], names=["x"])
    outer = pa.StructArray.from_arrays([inner], names=["in"]).slice(7, 30)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 31), pa.int32()), inner.slice(3))
    table = pa.table({"id": pa.array(range(60)).slice(10, 30), "s": outer, "l": lists})
    back = lab.read(lab.write(duckdb_engine, table), table.schema)
    assert back.to_pylist() == table.to_pylist()


def test_files_that_nobody_was_told_of_are_deleted(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    told: list[str] = []

    def visit(file: WrittenFile) -> None:
        told.append(file.path)
        if len(told) == 2:
            raise RuntimeError("enough")

    table = pa.table({"id": range(5), "p": list("abcde")})
    with pytest.raises(RuntimeError, match="enough"):
        lab.write(duckdb_engine, table, partition_by=("p",), file_visitor=visit)
    assert sorted(lab.stored()) == sorted(told)


def test_quoting() -> None:
    assert identifier('a"b') == '"a""b"'
    assert literal("it's") == "'it''s'"


def test_a_location_with_quotes_and_globs(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    from parqlake.core.ports import PlannedFile, ReadPlan, WriteSpec

    schema = assign_field_ids(pa.schema([("id", pa.int64())]))
    table = pa.table([pa.array([1, 2])], schema=schema)
    for location in ("it's", 'a "b"', "a[1]*", "{x}", "ü/%2F"):
        (file,) = duckdb_engine.write(table.to_reader(), WriteSpec(location, schema), lab.store)
        planned = PlannedFile(f"{location}/{file.path}", file.size_bytes, None, 2, file.size_bytes, {}, 1, 1)
        assert PyArrowEngine().batches(ReadPlan(schema, (planned,)), lab.store).read_all().num_rows == 2


def test_a_forked_process_gets_an_instance_of_its_own(tmp_path: Path) -> None:
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("no fork here")
    code = f"""
import os, pyarrow as pa
from parqlake.core.ports import WriteSpec
from parqlake.core.schema import assign_field_ids
from parqlake.engines import DuckDBEngine
from parqlake.stores import open_store
engine, store = DuckDBEngine(), open_store({str(tmp_path)!r})
schema = assign_field_ids(pa.schema([("id", pa.int64())]))
table = pa.table([pa.array([1, 2])], schema=schema)
child = os.fork()
rows = engine.write(table.to_reader(), WriteSpec("t", schema), store)[0].row_count
if child == 0:
    os._exit(rows)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == rows == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_infinite_moments_keep_their_value(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    """DuckDB takes the greatest numbers for infinity; they must come back as the numbers they are."""
    ticks = pa.array([2**63 - 1, -(2**63) + 1, 0], pa.int64())
    table = pa.table({"t": ticks.cast(pa.timestamp("us")), "z": ticks.cast(pa.timestamp("us", "UTC"))})
    back = lab.read(lab.write(duckdb_engine, table), table.schema)
    assert back["t"].cast(pa.int64()).to_pylist() == ticks.to_pylist()
    assert back["z"].cast(pa.int64()).to_pylist() == ticks.to_pylist()
