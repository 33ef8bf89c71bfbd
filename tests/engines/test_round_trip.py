"""Both engines keep every value of every type, and describe it in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parqlake.core.errors import ConstraintError
from parqlake.core.keys import Round, is_prunable, scalar_key
from parqlake.core.model import ColumnStatistics
from parqlake.core.pages import MAX_KEY
from parqlake.core.ports import Engine, Reader, WrittenFile
from parqlake.core.schema import assign_field_ids, leaves, without_ids
from parqlake.engines import DuckDBEngine, PyArrowEngine

HOSTILE = [
    *('we"ird', "o'clock", "a b", "sel;ect --", "ünï\u202eçode", "a.b", "[x]*", "{y}", "%s %", "order", "x=1/.."),
    "列",
]


def rows(table: pa.Table) -> str:
    """All values as text: NaN and negative zero are told apart from nothing else that way."""
    return repr(table.sort_by("id").to_pylist()) if "id" in table.column_names else repr(table.to_pylist())


def test_every_type_comes_back(any_lab: Any, engine: Engine, all_types: pa.Table) -> None:
    engine.check_schema(all_types.schema)
    files = any_lab.write(engine, all_types, schema=all_types.schema)
    back = any_lab.read(files, all_types.schema)
    assert back.schema.equals(without_ids(all_types.schema), check_metadata=True)
    assert rows(back) == rows(all_types)


def test_duckdb_reads_the_files_of_both(lab: Any, engine: Engine, all_types: pa.Table) -> None:
    import duckdb

    files = lab.write(engine, all_types, schema=all_types.schema)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"SELECT * FROM read_parquet('{lab.path(files[0])}')").to_arrow_table()
    assert rows(found.cast(without_ids(all_types.schema))) == rows(all_types)


def _by_id(statistics: tuple[ColumnStatistics, ...]) -> Mapping[int, ColumnStatistics]:
    return {one.column_id: one for one in statistics}


def test_both_engines_give_the_same_statistics(
    lab: Any, all_types: pa.Table, pyarrow_engine: PyArrowEngine, duckdb_engine: DuckDBEngine
) -> None:
    schema = all_types.schema
    (ours,) = lab.write(pyarrow_engine, all_types, schema=schema)
    (theirs,) = lab.write(duckdb_engine, all_types, schema=schema)
    assert ours.row_count == theirs.row_count == 5
    assert ours.row_group_rows.tolist() == theirs.row_group_rows.tolist() == [5]
    first, second = _by_id(ours.statistics), _by_id(theirs.statistics)
    with_nan = {"float_nan", "double_nan", "struct", "list_float", "map_float"}
    for leaf in leaves(schema):
        a, b = first[leaf.field_id], second[leaf.field_id]
        assert a.nulls.tolist() == b.nulls.tolist(), leaf
        assert list(a.maxs) == list(b.maxs), leaf
        # DuckDB leaves both bounds out where a NaN is; PyArrow still knows the lower one.
        if leaf.path[0] not in with_nan or not pa.types.is_floating(leaf.type):
            assert list(a.mins) == list(b.mins), leaf


def test_bounds_hold_all_values(lab: Any, engine: Engine, all_types: pa.Table) -> None:
    (file,) = lab.write(engine, all_types, schema=all_types.schema)
    found = _by_id(file.statistics)
    for leaf in leaves(all_types.schema):
        if len(leaf.path) > 1 or not is_prunable(leaf.type):
            continue
        column = all_types.column(leaf.path[0])
        one = found[leaf.field_id]
        assert one.nulls.tolist() == [column.null_count], leaf
        for scalar in column:
            if scalar.is_valid:
                assert one.mins[0] <= scalar_key(scalar, Round.DOWN), leaf
                assert scalar_key(scalar, Round.UP) <= one.maxs[0], leaf


def test_nan_makes_the_upper_bound_unknown_only_where_it_is(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    values = [1.0, 2.0, 3.0, float("nan"), float("inf"), float("-inf"), 5.0, None]
    table = pa.table({"id": range(8), "x": values, "s": [{"y": value} for value in values]})
    (file,) = lab.write(pyarrow_engine, table, row_group_rows=2)
    by_id = _by_id(file.statistics)
    for column_id in (2, 4):
        assert [int(high) == MAX_KEY for high in by_id[column_id].maxs] == [False, True, False, False]


def test_nan_that_no_row_shows_is_no_nan(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1.0, float("nan")])], names=["y"], mask=pa.array([False, True]))
    (file,) = lab.write(pyarrow_engine, pa.table({"s": hidden}))
    assert int(_by_id(file.statistics)[2].maxs[0]) != MAX_KEY


def test_footers_say_what_the_file_is(any_lab: Any, engine: Engine, all_types: pa.Table) -> None:
    footer = {"parqlake.table": "it's", "parqlake.txn": 'a "b" {c}'}
    seen: list[WrittenFile] = []
    (file,) = any_lab.write(engine, all_types, schema=all_types.schema, footer=footer, file_visitor=seen.append)
    metadata = any_lab.metadata(file)
    assert {key.encode(): value.encode() for key, value in footer.items()}.items() <= metadata.metadata.items()
    ids = [(leaf.path, leaf.field_id) for leaf in leaves(metadata.schema.to_arrow_schema())]
    expected = [(leaf.path, leaf.field_id) for leaf in leaves(all_types.schema)]
    assert [number for _, number in ids] == [number for _, number in expected]
    (visited,) = seen
    assert visited.path == file.path
    assert (
        visited.size
        == file.size_bytes
        == any_lab.store.filesystem.size(any_lab.store.full_path(f"sales/orders/{file.path}"))
    )
    assert visited.metadata.num_rows == metadata.num_rows == file.row_count
    group = metadata.row_group(0)
    assert file.row_group_bytes.tolist() == [
        sum(group.column(i).total_compressed_size for i in range(group.num_columns))
    ]
    assert file.row_group_offsets.tolist() == [4]


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("gzip", "GZIP"), ("lz4", "LZ4"), ("brotli", "BROTLI"),
        ("none", "UNCOMPRESSED"),
    ],
)  # fmt: skip
def test_codecs(lab: Any, engine: Engine, codec: str, stored: str) -> None:
    table = pa.table({"id": np.arange(5000) % 7})
    (file,) = lab.write(engine, table, compression=codec)
    assert lab.metadata(file).row_group(0).column(0).compression == stored
    assert lab.read([file], table.schema).equals(table)


def test_files_are_named_by_time(lab: Any, engine: Engine) -> None:
    import uuid

    (file,) = lab.write(engine, pa.table({"id": [1]}))
    name = file.path.removeprefix("part-").removesuffix(".parquet")
    assert uuid.UUID(name).version == 7
    assert lab.stored() == [file.path]


def test_no_rows_make_no_file(any_lab: Any, engine: Engine) -> None:
    schema = assign_field_ids(pa.schema([("id", pa.int64()), ("p", pa.string())]))
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    for batches in ([], [empty, empty]):
        for options in ({}, {"partition_by": ("p",)}, {"sort_by": ("id",)}, {"max_rows_per_file": 10}):
            assert any_lab.write(engine, iter(batches), schema=schema, **options) == []
    assert any_lab.stored() == []


def test_not_null_columns(lab: Any, engine: Engine) -> None:
    schema = assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())]))
    good = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([None, 3])], schema=schema)
    files = lab.write(engine, iter([good]), schema=schema)
    back = lab.read(files, schema)
    assert back.schema.equals(without_ids(schema))
    assert back["x"].to_pylist() == [None, 3]
    bad = pa.RecordBatch.from_arrays([pa.array([1, None]), pa.array([None, 3])], schema=schema)
    with pytest.raises(ConstraintError, match='"id" is NOT NULL'):
        lab.write(engine, iter([good, bad]), schema=schema)


def test_hostile_column_names(any_lab: Any, engine: Engine) -> None:
    table = pa.table({name: [index, index + 1] for index, name in enumerate(HOSTILE)} | {"id": [1, 2]})
    files = any_lab.write(engine, table, sort_by=tuple(HOSTILE[:3]))
    assert rows(any_lab.read(files, table.schema)) == rows(table)
    nested = pa.table({"id": [1], "s": [dict.fromkeys(HOSTILE, 1)]})
    assert rows(any_lab.read(any_lab.write(engine, nested), nested.schema)) == rows(nested)
    parts = any_lab.write(engine, table, partition_by=tuple(HOSTILE[:4]))
    assert [file.partition for file in parts] == [
        {name: str(index + row) for index, name in enumerate(HOSTILE[:4])} for row in (0, 1)
    ]
    assert rows(any_lab.read(parts, table.schema)) == rows(table)


def test_page_checksums_are_written(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    (file,) = lab.write(pyarrow_engine, pa.table({"id": np.arange(1000)}), compression="none")
    data = bytearray(lab.path(file).read_bytes())
    column = lab.metadata(file).row_group(0).column(0)
    data[4 + column.total_compressed_size // 2] ^= 1
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(pa.BufferReader(bytes(data)), page_checksum_verification=True)


def test_the_pyarrow_engine_is_a_reader(pyarrow_engine: PyArrowEngine) -> None:
    reader: Reader = pyarrow_engine
    engine: Engine = pyarrow_engine
    assert engine.name == "pyarrow"
    assert reader is engine
