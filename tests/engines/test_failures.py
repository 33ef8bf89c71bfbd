"""When something fails: the cause is told, unfinished files are gone, finished ones stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parqlake.core.errors import StoreError, StoreReadOnlyError, UnsafePathError
from parqlake.core.ports import Engine, WriteSpec, WrittenFile
from parqlake.core.schema import assign_field_ids
from parqlake.engines import PyArrowEngine
from parqlake.stores import open_store

SCHEMA = assign_field_ids(pa.schema([("id", pa.int64()), ("p", pa.int64())]))
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits and permissions")


class BoomError(Exception):
    """What a user's own source raises."""


def batch(start: int, count: int = 1000) -> pa.RecordBatch:
    rows = np.arange(start, start + count)
    return pa.RecordBatch.from_arrays([pa.array(rows), pa.array(rows % 3)], schema=SCHEMA)


def broken(error: BaseException, good: int = 5) -> Iterator[pa.RecordBatch]:
    for index in range(good):
        yield batch(index * 1000)
    raise error


@pytest.mark.parametrize("options", [{}, {"partition_by": ("p",)}, {"sort_by": ("id",)}], ids=str)
def test_an_error_of_the_source_comes_through_unchanged(any_lab: Any, engine: Engine, options: Any) -> None:
    error = BoomError("the source broke")
    with pytest.raises(BoomError) as caught:
        any_lab.write(engine, broken(error), schema=SCHEMA, row_group_rows=500, **options)
    assert caught.value is error
    assert any_lab.stored() == []


def test_finished_files_stay_for_the_caller_to_decide(lab: Any, engine: Engine) -> None:
    with pytest.raises(BoomError):
        lab.write(engine, broken(BoomError()), schema=SCHEMA, row_group_rows=500, max_rows_per_file=1500)
    assert len(lab.stored()) == 3
    for path in lab.stored():
        from pyarrow.parquet import read_metadata

        assert read_metadata(lab.store.full_path(f"sales/orders/{path}")).num_rows == 1500


def test_interrupts_clean_up_too(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    with pytest.raises(KeyboardInterrupt):
        lab.write(pyarrow_engine, broken(KeyboardInterrupt()), schema=SCHEMA, row_group_rows=500)
    assert lab.stored() == []


def test_an_error_of_the_visitor_keeps_the_finished_file(lab: Any, engine: Engine) -> None:
    def visit(_: WrittenFile) -> None:
        raise BoomError

    with pytest.raises(BoomError):
        lab.write(engine, iter([batch(0)]), schema=SCHEMA, file_visitor=visit)
    assert len(lab.stored()) == 1


def test_nothing_spilled_is_left_behind(lab: Any, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    engine = PyArrowEngine(spill_folder=str(spill))
    rows = np.random.default_rng(0).permutation(100_000)

    def mixed() -> Iterator[pa.RecordBatch]:
        for start in range(0, 100_000, 5000):
            part = rows[start : start + 5000]
            yield pa.RecordBatch.from_arrays([pa.array(part), pa.array(part % 50)], schema=SCHEMA)
            assert list(spill.iterdir()) == []  # its name is gone as soon as it is open
        raise BoomError

    with pytest.raises(BoomError):
        lab.write(engine, mixed(), schema=SCHEMA, partition_by=("p",), memory_bytes=200_000)
    assert list(spill.iterdir()) == []
    assert lab.stored() == []


def test_a_spill_folder_that_is_missing_is_named(lab: Any, tmp_path: Path) -> None:
    engine = PyArrowEngine(spill_folder=str(tmp_path / "nowhere"))
    rows = np.random.default_rng(0).permutation(20_000)
    data = pa.table([pa.array(rows), pa.array(rows % 50)], schema=SCHEMA)
    with pytest.raises(StoreError, match=r"nowhere.*spill_folder"):
        lab.write(engine, data, schema=SCHEMA, partition_by=("p",), memory_bytes=10_000, batch_rows=500)


def test_a_location_outside_of_the_root_is_refused(lab: Any, engine: Engine) -> None:
    for location in ("../out", "/etc", "a/../../b"):
        spec = WriteSpec(location=location, schema=SCHEMA)
        with pytest.raises(UnsafePathError):
            engine.write(pa.RecordBatchReader.from_batches(SCHEMA, iter([batch(0)])), spec, lab.store)


def _as_nobody(action: Callable[[], None]) -> None:
    """Permissions do not bind the superuser: become nobody for a while."""
    if os.geteuid() != 0:
        action()
        return
    os.seteuid(65534)
    try:
        action()
    finally:
        os.seteuid(0)


@posix_only
def test_a_folder_without_the_right_to_write_is_named(engine: Engine) -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        for folder in ("sales", "sales/orders"):
            (Path(top) / folder).mkdir()
        (Path(top) / "sales/orders").chmod(0o555)
        store = open_store(top)

        def write() -> None:
            with pytest.raises(StoreReadOnlyError, match="sales/orders") as caught:
                data = pa.RecordBatchReader.from_batches(SCHEMA, iter([batch(0)]))
                engine.write(data, WriteSpec("sales/orders", SCHEMA), store)
            assert isinstance(caught.value, PermissionError)

        _as_nobody(write)


_FULL = """
import resource, signal, sys
import numpy as np, pyarrow as pa
from parqlake.core.errors import StoreError
from parqlake.core.ports import WriteSpec
from parqlake.core.schema import assign_field_ids
from parqlake.engines import DuckDBEngine, PyArrowEngine
from parqlake.stores import open_store

engine = DuckDBEngine() if sys.argv[1] == "duckdb" else PyArrowEngine()
store = open_store(sys.argv[2])
schema = assign_field_ids(pa.schema([("x", pa.float64())]))
table = pa.table([pa.array(np.random.default_rng(0).random(500_000))], schema=schema)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    engine.write(table.to_reader(10_000), WriteSpec("t", schema, row_group_rows=10_000), store)
except StoreError as error:
    print("StoreError:", error)
print([file.path for file in store.list_files("t")])
"""


@posix_only
def test_a_file_that_cannot_grow_is_a_store_error(tmp_path: Path, engine: Engine) -> None:
    """The system refuses to write on, as it does when the disk is full."""
    command = [sys.executable, "-c", _FULL, engine.name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("StoreError: cannot write")
    assert "File too large" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
