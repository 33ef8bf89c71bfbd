"""What went wrong elsewhere and must not here: each a test, on both backends."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets_support import Fault, _failing, faulty_memory, left_behind
from handlers_support import (
    SIDES,
    Backend,
    Duck,
    contents,
    make,
    make_partitions,
    on_both,
    orders,
    parquet_files,
    row_counts,
    rows_of,
)

from parqlake.core.errors import ConflictError, ParqlakeError, UnknownOutcomeError
from parqlake.datasets import DuckDBParquetHandler, recover
from parqlake.datasets.place import Place
from parqlake.datasets.reading import StoredRows
from parqlake.datasets.recovery import recover_place
from parqlake.datasets.swap import Swap


@on_both
@pytest.mark.parametrize("columns", [["amount"], ["customer", "city"]])
def test_optimize_twice(side: Backend, columns: list[str], tmp_path: Path) -> None:
    table = make(tmp_path / "d", files=5)
    for _ in range(2):
        side.optimize(tmp_path / "d", columns, target_rows_per_file=200)
        assert rows_of(tmp_path / "d") == table.to_pylist()
        assert row_counts(tmp_path / "d") == [167, 167, 166] or sorted(row_counts(tmp_path / "d")) == [166, 167, 167]
    make(tmp_path / "d", files=1)  # the name of a file that was there before
    side.optimize(tmp_path / "d", columns, target_rows_per_file=200)
    assert len(rows_of(tmp_path / "d")) == 600


@on_both
def test_compact_append_two_files_compact_again(side: Backend, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    make(folder, files=4)
    side.compact(folder, target_mb_per_file=1)
    with DuckDBParquetHandler() as handler:
        for number in (4, 5):
            handler.write_parquet_dataset(orders(number * 100, 100), folder)
    assert side.compact(folder, target_mb_per_file=1)["compacted_file_count"] == 3
    assert len(parquet_files(folder)) == 1
    assert [row["id"] for row in rows_of(folder)] == list(range(600))


Operation = Callable[[Backend, Any], None]


def overwrite(side: Backend, files: Any) -> None:
    with DuckDBParquetHandler(filesystem=files) as handler:
        handler.write_parquet_dataset(orders(90, 20), "bucket/data", mode="overwrite", max_rows_per_file=15)


def merge(side: Backend, files: Any) -> None:
    side.merge(orders(35, 20), "bucket/data", ["id"], strategy="full_merge", filesystem=files)


def compact(side: Backend, files: Any) -> None:
    side.compact("bucket/data", target_rows_per_file=25, compression="zstd", filesystem=files)


def optimize(side: Backend, files: Any) -> None:
    side.optimize("bucket/data", ["amount"], target_rows_per_file=30, filesystem=files)


def filled(fault: Fault, *, folders: bool) -> Any:
    """A file system that fails as told, also where files are opened, with a dataset of two folders."""
    files = faulty_memory(fault, folders=folders)
    type(files)._open = _failing("_open")
    if not folders:  # it goes by the name of s3 and knows only memory:// itself
        strip = files._strip_protocol
        type(files)._strip_protocol = staticmethod(lambda path: strip(path.removeprefix("s3://")))
    for number in range(4):
        path = f"bucket/data/{'sub/' if number == 3 else ''}in-{number}.parquet"
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with files.open(path, "wb") as file:
            pq.write_table(orders(number * 10, 10), file)
    return files


def rows_in(files: Any) -> list[dict[str, Any]]:
    return StoredRows("bucket/data", files).table().sort_by("id").to_pylist()


FAILING = [(overwrite, Duck()), *((operation, side) for operation in (merge, compact, optimize) for side in SIDES)]


@pytest.mark.parametrize(
    ("operation", "side"),
    [
        pytest.param(
            operation,
            side,
            id=f"{operation.__name__}-{side.name}",
            # Files are put in place by the same steps whoever writes them; a merge differs most between the two.
            marks=[pytest.mark.slow] if side.name == "duckdb" and operation in (compact, optimize) else [],
        )
        for operation, side in FAILING
    ],
)
@pytest.mark.parametrize(
    ("folders", "late", "lasting"),
    [
        (True, False, False),
        pytest.param(False, True, False, marks=pytest.mark.slow),
        pytest.param(True, True, True, marks=pytest.mark.slow),
        pytest.param(False, False, True, marks=pytest.mark.slow),
    ],
    ids=["once", "objects-late", "late-from-then-on", "objects-from-then-on"],
)
def test_write_fails_in_the_middle(
    side: Backend, operation: Operation, folders: bool, late: bool, lasting: bool
) -> None:
    files = filled(Fault(0), folders=folders)
    before = rows_in(files)
    operation(side, files)
    after = rows_in(files)
    at = 0
    while True:
        at += 1
        fault = Fault(at, after=late, lasting=lasting)
        files = filled(fault, folders=folders)
        error: Exception | None = None
        with fault.on():
            try:
                operation(side, files)
            except (ParqlakeError, OSError) as raised:
                error = raised
        if fault.calls < at:
            break
        where = f"call {at} ({fault.names[at - 1]}): {error!r}"
        found = rows_in(files)  # the next call ends what was interrupted
        assert found in (before, after), where
        place = Place("bucket/data", files)
        recover_place(place)
        assert rows_in(files) == found, where
        if error is None:
            assert found == after, where
        elif not isinstance(error, UnknownOutcomeError):
            assert found == before, where
        assert left_behind(place) == [], where
    assert at > 20, "the file operations are counted"


@on_both
def test_compaction_across_hive_partitions(side: Backend, tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    before = rows_of(tmp_path / "d")
    assert side.compact(tmp_path / "d", target_mb_per_file=128)["after_file_count"] == 3
    assert [path.parent.name for path in parquet_files(tmp_path / "d")] == [f"date=2025-11-0{day}" for day in (1, 2, 3)]
    assert rows_of(tmp_path / "d") == before, "the partition column too"
    side.optimize(tmp_path / "d", ["amount"])
    assert rows_of(tmp_path / "d") == before
    assert {path.parent.name for path in parquet_files(tmp_path / "d")} == {f"date=2025-11-0{day}" for day in (1, 2, 3)}


def test_overwrite_with_nested_folders(tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    (tmp_path / "d" / "date=2025-11-01" / "notes.txt").write_text("mine")
    with DuckDBParquetHandler() as handler:
        handler.write_parquet_dataset(orders(0, 5), tmp_path / "d", mode="overwrite")
        assert handler.read_parquet(tmp_path / "d").equals(orders(0, 5))
    assert len(parquet_files(tmp_path / "d")) == 1
    assert sorted(path.name for path in (tmp_path / "d").iterdir() if path.is_dir()) == ["date=2025-11-01"]
    assert (tmp_path / "d" / "date=2025-11-01" / "notes.txt").read_text() == "mine"


def test_deduplicate_twice_on_one_handler(tmp_path: Path) -> None:
    source = pa.table({"id": [1, 1, 2], "x": ["a", "b", "c"]})
    with DuckDBParquetHandler() as handler:
        first = handler.merge_parquet_dataset(source, tmp_path / "d", ["id"], strategy="deduplicate")
        again = handler.merge_parquet_dataset(source, tmp_path / "d", ["id"], strategy="deduplicate")
    assert first == {"inserted": 2, "updated": 0, "deleted": 0, "total": 2}
    assert again == {"inserted": 0, "updated": 2, "deleted": 0, "total": 2}
    assert rows_of(tmp_path / "d") == [{"id": 1, "x": "b"}, {"id": 2, "x": "c"}]


@on_both
def test_empty_existing_target_directory(side: Backend, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "readme.txt").write_text("not Parquet")
    assert side.merge(orders(0, 5), tmp_path / "d", ["id"])["inserted"] == 5
    (new,) = parquet_files(tmp_path / "d")
    assert pq.read_table(new).equals(orders(0, 5))


@on_both
def test_full_merge_with_an_empty_source(side: Backend, tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    source = orders(0, 0).append_column("date", pa.array([], pa.string()))
    stats = side.merge(source, tmp_path / "d", ["id"], strategy="full_merge")
    assert stats == {"inserted": 0, "updated": 0, "deleted": 180, "total": 0}
    with DuckDBParquetHandler() as handler:
        assert handler.read_parquet(tmp_path / "d").num_rows == 0
    assert side.compact(tmp_path / "d", target_mb_per_file=1)["compacted_file_count"] == 0
    assert side.optimize(tmp_path / "d", ["id"])["compacted_file_count"] == 0


KEYS: dict[str, tuple[list[Any], pa.DataType]] = {
    "int8": ([-128, 0, 127], pa.int8()),
    "uint64": ([0, 5, 2**64 - 1], pa.uint64()),
    "float64": ([-1.5, 0.0, float("inf")], pa.float64()),
    "decimal": ([Decimal("-1.50"), Decimal("0.00"), Decimal("99999.99")], pa.decimal128(7, 2)),
    "bool": ([True, False, None], pa.bool_()),
    "string": (["", "a'b;--", "ü\n漢"], pa.string()),
    "large_string": (["a", "b", "c" * 5000], pa.large_string()),
    "binary": ([b"", b"\x00\xff", b"z" * 100], pa.binary()),
    "fixed": ([b"0123", b"abcd", b"\x00\x00\x00\x00"], pa.binary(4)),
    "date": ([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)], pa.date32()),
    "timestamp": ([-(10**15), 0, 10**15 + 5], pa.timestamp("us")),
    "nanoseconds": ([1, 10**18, 10**18 + 1], pa.timestamp("ns")),
    "zoned": ([0, 1, 2], pa.timestamp("ms", "Asia/Tokyo")),
    "time": ([dt.time(0), dt.time(23, 59, 59, 999999)], pa.time64("us")),
    "dictionary": (["x", "y", "z"], pa.dictionary(pa.int32(), pa.string())),
    "uuid": ([uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes], pa.binary(16)),
}


@on_both
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_column_of_every_type(side: Backend, kind: str, tmp_path: Path) -> None:
    values, type_ = KEYS[kind]
    keys = pa.array([value for value in values if value is not None], type_)
    old = pa.table({"key": keys, "x": pa.array([0] * len(keys))})
    (tmp_path / "d").mkdir()
    pq.write_table(old.slice(1), tmp_path / "d" / "a.parquet")
    stats = side.merge(pa.table({"key": keys, "x": pa.array([1] * len(keys))}), tmp_path / "d", ["key"])
    assert stats == {"inserted": 1, "updated": len(keys) - 1, "deleted": 0, "total": len(keys)}
    with DuckDBParquetHandler() as handler:
        read = handler.read_parquet(tmp_path / "d")
    assert read.schema.field("key").type == type_
    assert read["x"].to_pylist() == [1] * len(keys)
    assert set(read["key"].cast(keys.type).to_pylist()) == set(keys.to_pylist())


@on_both
def test_the_second_maintainer_gets_a_clear_error(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d")
    before = contents(tmp_path / "d")
    with Swap(Place(tmp_path / "d")):
        for call in (
            lambda: side.compact(tmp_path / "d", target_mb_per_file=1),
            lambda: side.optimize(tmp_path / "d", ["amount"]),
            lambda: side.merge(orders(0, 5), tmp_path / "d", ["id"]),
        ):
            with pytest.raises(ConflictError, match=r"is being rewritten by .*wait until it is done"):
                call()
    assert contents(tmp_path / "d") == before


@on_both
def test_appends_beside_a_compaction_are_not_lost(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=30)
    failures: list[BaseException] = []

    def append() -> None:
        try:
            with DuckDBParquetHandler() as handler:
                for number in range(20):
                    handler.write_parquet_dataset(orders(100_000 + number * 10, 10), tmp_path / "d")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    for _ in range(3):
        side.compact(tmp_path / "d", target_rows_per_file=700)
    thread.join()
    assert not failures
    recover(tmp_path / "d")
    ids = [row["id"] for row in rows_of(tmp_path / "d")]
    assert ids == [*range(3000), *range(100_000, 100_200)]


@on_both
def test_a_reader_beside_compactions_misses_no_row(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=4)
    done = threading.Event()
    failures: list[BaseException] = []

    def churn() -> None:
        try:
            with DuckDBParquetHandler() as handler:
                for number in range(12):
                    handler.write_parquet_dataset(orders(100_000 + number, 1), tmp_path / "d")
                    side.compact(tmp_path / "d", target_mb_per_file=1)
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=churn)
    thread.start()
    read = 0
    with DuckDBParquetHandler() as handler:
        while not done.is_set():
            ids = handler.read_parquet(tmp_path / "d", columns=["id"])["id"].to_pylist()
            assert set(range(400)) <= set(ids)
            read += 1
    thread.join()
    assert not failures
    assert read > 5


@on_both
def test_what_was_interrupted_is_finished_before_the_next_call(side: Backend, tmp_path: Path) -> None:
    make(tmp_path / "d", files=2)
    with pytest.raises(RuntimeError, match="killed"), Swap(Place(tmp_path / "d")) as swap:
        Path(swap.stage("half.parquet").full_path).write_bytes(b"PAR1 not whole")
        raise RuntimeError("killed")
    side.compact(tmp_path / "d", target_mb_per_file=1)
    assert len(rows_of(tmp_path / "d")) == 200
    assert not (tmp_path / "d" / ".parqlake").exists()
