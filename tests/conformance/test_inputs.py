"""Whatever speaks Arrow can be written, and gives the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, TypeCase, bag, data_files, ids, orders, rows, state
from parqlake.testing.plugin import Feed, Read

DATA = orders(30)


class Capsule:
    """An object that is known by its Arrow stream alone."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _generated() -> Iterator[pa.RecordBatch]:
    yield from DATA.to_batches(max_chunksize=7)


def _parquet_file(folder: Path) -> Path:
    path = folder / "orders.parquet"
    pq.write_table(DATA, path)
    return path


def _parquet_folder(folder: Path) -> str:
    ds.write_dataset(DATA.slice(0, 20), folder / "many", format="parquet", basename_template="a-{i}.parquet")
    ds.write_dataset(
        DATA.slice(20),
        folder / "many",
        format="parquet",
        basename_template="b-{i}.parquet",
        existing_data_behavior="overwrite_or_ignore",
    )
    return str(folder / "many")


def _relation(_: Path) -> Any:
    connection = duckdb.connect()
    connection.register("orders_view", DATA)
    return connection.sql("select * from orders_view")


KINDS: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: DATA.to_pandas(),
    "pandas with Arrow types": lambda _: DATA.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars eager": lambda _: pl.from_arrow(DATA),
    "Polars lazy": lambda _: pl.from_arrow(DATA).lazy(),
    "Arrow table": lambda _: DATA,
    "Arrow table in chunks": lambda _: pa.concat_tables([DATA.slice(0, 11), DATA.slice(11)]),
    "record batch": lambda _: DATA.combine_chunks().to_batches()[0],
    "list of batches": lambda _: DATA.to_batches(max_chunksize=4),
    "list of tables": lambda _: [DATA.slice(0, 10), DATA.slice(10)],
    "generator of batches": lambda _: _generated(),
    "reader": lambda _: DATA.to_reader(max_chunksize=9),
    "DuckDB relation": _relation,
    "__arrow_c_stream__": lambda _: Capsule(DATA),
    "dataset": lambda _: ds.dataset(DATA),
    "scanner": lambda _: ds.dataset(DATA).scanner(),
    "Parquet file": _parquet_file,
    "Parquet file as text": lambda folder: str(_parquet_file(folder)),
    "Parquet folder": _parquet_folder,
}


def test_every_kind_of_input_gives_the_same_rows(
    lake: Lake, tmp_path: Path, subtests: pytest.Subtests, feed: Feed
) -> None:
    kinds = {**KINDS, "the engine's own": lambda _: feed(DATA)}
    for number, (kind, make) in enumerate(kinds.items()):
        with subtests.test(kind=kind):
            folder = tmp_path / str(number)
            folder.mkdir()
            table = lake.create_table(f"inputs.t{number}", ORDERS)
            result = table.append(make(folder))
            assert result.row_count == DATA.num_rows
            assert bag(table.scan().to_arrow()) == bag(DATA)


def test_a_schema_can_be_taken_from_data(lake: Lake, tmp_path: Path, subtests: pytest.Subtests) -> None:
    loose = pa.schema([field.with_nullable(True) for field in ORDERS])
    for number, (kind, make) in enumerate(KINDS.items()):
        if kind in ("list of batches", "list of tables", "generator of batches"):
            continue  # nothing says what a list holds
        with subtests.test(kind=kind):
            folder = tmp_path / str(number)
            folder.mkdir()
            table = lake.create_table(f"inputs.t{number}", make(folder))
            assert pa.schema([field.with_nullable(True) for field in table.schema()]) == loose


def test_the_scan_of_one_table_is_input_for_another(lake: Lake, table: Table) -> None:
    table.append(DATA)
    copy = lake.create_table("sales.copy", table.scan().schema)
    copy.append(table.scan("id < 10"))
    copy.append(table.scan("id >= 20"))
    assert ids(copy.scan().to_arrow()) == [*range(10), *range(20, 30)]


def test_a_table_can_be_appended_to_itself(table: Table) -> None:
    table.append(DATA)
    table.append(table.scan())
    assert ids(table.scan().to_arrow()) == sorted([*range(30), *range(30)])


def test_layouts_are_cast_to_the_tables_types(
    lake: Lake, subtests: pytest.Subtests, must_hold: Callable[[pa.DataType], None]
) -> None:
    moment = datetime(2026, 1, 31, 12, 0, 1)  # noqa: DTZ001 (a column without a zone)
    cases: list[tuple[pa.DataType, pa.DataType, list[Any]]] = [
        (pa.string(), pa.large_string(), ["a", None, ""]),
        (pa.string(), pa.string_view(), ["a", None, "longer than twelve bytes"]),
        (pa.string(), pa.dictionary(pa.int32(), pa.string()), ["a", None, "a"]),
        (pa.binary(), pa.large_binary(), [b"a", None]),
        (pa.binary(), pa.binary_view(), [b"a", None]),
        (pa.binary(), pa.binary(2), [b"ab", None]),
        (pa.timestamp("us"), pa.timestamp("s"), [moment, None]),
        (pa.timestamp("us"), pa.timestamp("ns"), [moment, None]),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Paris"), [0, None]),
        (pa.time64("us"), pa.time32("s"), [time(1, 2, 3), None]),
        (pa.date32(), pa.date64(), [date(1960, 2, 29), None]),
        (pa.decimal128(9, 2), pa.decimal256(9, 2), [Decimal("1.10"), None]),
        (pa.list_(pa.int64()), pa.large_list(pa.int64()), [[1, None], None, []]),
        (pa.list_(pa.int64()), pa.list_(pa.int64(), 2), [[1, 2], None]),
        (pa.string(), pa.null(), [None, None]),
    ]
    for number, (kept, given, values) in enumerate(cases):
        with subtests.test(kept=str(kept), given=str(given)):
            must_hold(kept)
            table = lake.create_table(f"inputs.t{number}", pa.schema([("n", pa.int32()), ("a", kept)]))
            array = pa.array(values, given)
            table.append(pa.table({"n": pa.array(range(len(values)), pa.int32()), "a": array}))
            found = table.scan().to_arrow().column("a")
            assert found.type == table.schema().field("a").type
            assert found.to_pylist() == array.cast(kept).to_pylist()


def test_slices_of_larger_arrays_are_written_as_they_show_themselves(
    lake: Lake, types: tuple[TypeCase, ...], feed: Feed, read: Read
) -> None:
    whole = pa.table({case.name: pa.concat_arrays([case.array()] * 4)[:12] for case in types}).combine_chunks()
    table = lake.create_table("inputs.slices", whole)
    pieces = [whole.slice(1, 3), whole.slice(5, 1), whole.slice(7), whole.slice(0, 2)]
    table.append(feed(pieces[0]))
    table.append(pieces[1].to_batches()[0])
    table.append(feed(pieces[2:]), max_rows_per_file=2)
    found, expected = read(table.scan()), pa.concat_tables(pieces)
    for case in types:
        assert rows(found.select([case.name])) == rows(expected.select([case.name])), case.name


def test_columns_may_come_in_any_order(table: Table, feed: Feed, read: Read) -> None:
    table.append(feed(DATA.select(["day", "amount", "id", "region"])))
    found = read(table.scan())
    assert found.schema.names == ORDERS.names
    assert bag(found) == bag(DATA)


def test_empty_input_makes_a_version_without_files(table: Table, place: LakePlace, feed: Feed) -> None:
    nothing = DATA.slice(0, 0)
    for empty in (
        nothing,
        nothing.to_pandas(),
        pl.from_arrow(nothing),
        nothing.to_reader(),
        Capsule(nothing),
        feed(nothing),
    ):
        result = table.append(empty)
        assert (result.row_count, result.files) == (0, ())
    assert table.version == 6
    assert table.scan().to_arrow().num_rows == 0
    assert data_files(place.root) == set()


def test_a_named_pandas_index_is_a_column_and_an_unnamed_one_is_not(lake: Lake) -> None:
    table = lake.create_table("inputs.indexed", pa.schema([("key", pa.int64()), ("value", pa.float64())]))
    frame = pd.DataFrame({"key": [1, 2], "value": [0.5, 1.5]}, index=[7, 8])
    table.append(frame)
    table.append(frame.set_index("key"))
    assert ids(table.scan().to_arrow(), "key") == [1, 1, 2, 2]


def test_what_is_no_data_is_refused(table: Table, lake: Lake, tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "note.txt").write_text("no Parquet")
    before = state(lake)
    wrong: list[Any] = [
        None,
        7,
        b"bytes",
        {"id": [1]},
        [{"id": 1}],
        [1, 2],
        [],
        object(),
        pd.Series([1, 2], name="id"),
        str(tmp_path / "missing.parquet"),
        tmp_path / "note.txt",
        "",
    ]
    for data in wrong:
        with subtests.test(data=repr(data)):
            with pytest.raises(errors.UnsupportedInputError, match="cannot read"):
                table.append(data)
            with pytest.raises(errors.UnsupportedInputError):
                table.overwrite(data)
    assert state(lake) == before


def test_a_stream_that_breaks_half_way_leaves_nothing(table: Table, lake: Lake) -> None:
    table.append(DATA)
    before = state(lake)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from orders(5000, first=100).to_batches(max_chunksize=1000)
        raise ZeroDivisionError("the source broke")

    with pytest.raises(Exception, match="the source broke"):
        table.append(broken(), max_rows_per_file=1000)
    assert state(lake) == before


def test_a_value_that_does_not_fit_leaves_nothing(lake: Lake) -> None:
    table = lake.create_table("inputs.narrow", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    before = state(lake)
    fine = pa.table({"id": range(2000), "at": pa.array([1000] * 2000, pa.timestamp("ns"))})
    lossy = pa.table({"id": [1], "at": pa.array([1001], pa.timestamp("ns"))})
    with pytest.raises(errors.TypeMismatchError, match='column "at"'):
        table.append([fine, lossy], max_rows_per_file=500)
    assert state(lake) == before


def test_a_null_that_must_not_be_leaves_nothing(table: Table, lake: Lake, feed: Feed) -> None:
    before = state(lake)
    bad = orders(10).set_column(0, "id", pa.array([None, *range(9)], pa.int64()))
    with pytest.raises(errors.ConstraintError, match='column "id" is NOT NULL'):
        table.append(feed([orders(2000), bad]), max_rows_per_file=500)
    assert state(lake) == before
