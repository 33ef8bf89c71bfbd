"""Plans become rows: filtered, projected, limited, in order; damaged files are named."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from parqlake.core.errors import ColumnNotFoundError, DataCorruptionError
from parqlake.core.ports import Engine, Reader
from parqlake.core.predicates.bind import bind
from parqlake.core.predicates.parse import parse
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.schema import assign_field_ids, without_ids
from parqlake.engines import DuckDBEngine, PyArrowEngine

SCHEMA = assign_field_ids(
    pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64()), ("s", pa.struct([("a", pa.int32())]))])
)


def table(count: int = 1000) -> pa.Table:
    ids = range(count)
    values = [
        list(ids),
        [["a", "b", None][i % 3] for i in ids],
        [float("nan") if i % 10 == 9 else i / 2 for i in ids],
        [{"a": i} for i in ids],
    ]
    return pa.table([pa.array(v, f.type) for v, f in zip(values, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture
def files(lab: Any, engine: Engine) -> list[Any]:
    """Ten files of a hundred rows, two row groups each where the engine can."""
    return list(lab.write(engine, table(), schema=SCHEMA, max_rows_per_file=100, row_group_rows=50))


def where(text: str) -> Any:
    return bind(parse(text), SCHEMA)


def test_all_rows_in_the_order_of_the_plan(lab: Any, files: list[Any]) -> None:
    back = lab.read(files, SCHEMA)
    assert back.schema.equals(without_ids(SCHEMA), check_metadata=True)
    assert back["id"].to_pylist() == list(range(1000))
    backward = lab.read(files[::-1], SCHEMA)["id"].to_pylist()
    assert backward == [i for start in range(900, -1, -100) for i in range(start, start + 100)]


def test_projection_keeps_the_order_asked_for(lab: Any, files: list[Any]) -> None:
    back = lab.read(files, SCHEMA, columns=("x", "id"), predicate=where("p = 'a' and s.a < 10"))
    assert back.schema == pa.schema([("x", pa.float64()), ("id", pa.int64())])
    assert back["id"].to_pylist() == [0, 3, 6, 9]
    with pytest.raises(ColumnNotFoundError, match='"idd"; did you mean "id"'):
        lab.read(files, SCHEMA, columns=("idd",))


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("id >= 995", lambda i: i >= 995),
        ("p is null and id < 10", lambda i: i % 3 == 2 and i < 10),
        ("x > 490", lambda i: i % 10 == 9 or i / 2 > 490),
        ("x <= 1", lambda i: i % 10 != 9 and i / 2 <= 1),
        ("id < 0", lambda i: i < 0),
        ("s.a = 500 or p = 'b' and id = 1", lambda i: i in (500, 1)),
    ],
)
def test_predicates(lab: Any, files: list[Any], text: str, keeps: Any) -> None:
    found = lab.read(files, SCHEMA, predicate=where(text))["id"].to_pylist()
    assert found == [i for i in range(1000) if keeps(i)]


@pytest.mark.parametrize(
    "text", ["isnan(x)", "not isnan(x)", "x > 9", "x <= 9", "x != 2.5", "x = 2.5", "x > 9 or id < 0"]
)
@pytest.mark.parametrize("numbers", [[2.5, 2.5], [-0.0, 0.0], [2.5, None], [1.0, 2.0], [None, None]])
def test_nan_beside_any_numbers(lab: Any, engine: Engine, text: str, numbers: list[float | None]) -> None:
    """Arrow takes equal bounds to mean that there is nothing else, NaN included."""
    schema = assign_field_ids(pa.schema([("id", pa.int64()), ("x", pa.float64())]))
    data = pa.table([pa.array([0, 1, 2]), pa.array([numbers[0], float("nan"), numbers[1]])], schema=schema)
    condition = bind(parse(text), schema)
    found = lab.read(lab.write(engine, data, schema=schema), schema, predicate=condition, columns=("id",))
    assert found["id"].to_pylist() == data.filter(to_arrow(condition))["id"].to_pylist()


def test_counting_without_columns(lab: Any, files: list[Any]) -> None:
    for text, count in (("id < 10", 10), ("x > 490", 100 + 17)):
        plan = lab.plan(files, SCHEMA, columns=(), predicate=where(text))
        found = sum(batch.num_rows for batch in PyArrowEngine().batches(plan, lab.store))
        assert found == count


@pytest.mark.parametrize("limit", [0, 1, 49, 100, 101, 1000, 5000])
def test_limits(lab: Any, files: list[Any], limit: int) -> None:
    assert lab.read(files, SCHEMA, limit=limit)["id"].to_pylist() == list(range(min(limit, 1000)))
    odd = lab.read(files, SCHEMA, limit=limit, predicate=where("id % 2 = 1"))["id"].to_pylist()
    assert odd == list(range(1, 1000, 2))[:limit]


def test_a_limit_opens_no_file_that_it_does_not_need(lab: Any, files: list[Any]) -> None:
    lab.path(files[2]).unlink()
    assert lab.read(files, SCHEMA, limit=200).num_rows == 200
    with pytest.raises(DataCorruptionError):
        lab.read(files, SCHEMA, limit=201)


def test_nothing_to_read(lab: Any) -> None:
    back = lab.read([], SCHEMA, columns=("p",))
    assert back.num_rows == 0
    assert back.schema == pa.schema([("p", pa.string())])


def test_only_the_planned_row_groups(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    (file,) = lab.write(pyarrow_engine, table(), schema=SCHEMA, row_group_rows=100)
    plan = lab.plan([file], SCHEMA, row_groups={file.path: (2, 7)})
    expected = [*range(200, 300), *range(700, 800)]
    assert pyarrow_engine.batches(plan, lab.store).read_all()["id"].to_pylist() == expected
    dataset = pyarrow_engine.dataset(plan, lab.store)
    assert isinstance(dataset, ds.FileSystemDataset)
    assert dataset.to_table()["id"].to_pylist() == expected
    assert dataset.count_rows() == 200
    assert dataset.to_table(columns=[]).num_rows == 200
    assert dataset.count_rows(filter=pc.field("id") < 250) == 50
    assert dataset.filter(pc.field("id") < 250).count_rows() == 50
    assert dataset.replace_schema(pa.schema([("id", pa.int64())])).count_rows() == 200
    assert dataset.head(5)["id"].to_pylist() == expected[:5]


def test_duckdb_scans_the_dataset(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    import duckdb

    (file,) = lab.write(pyarrow_engine, table(), schema=SCHEMA, row_group_rows=100)
    dataset = pyarrow_engine.dataset(lab.plan([file], SCHEMA, row_groups={file.path: (1,)}), lab.store)
    with duckdb.connect() as connection:
        connection.register("planned", dataset)
        assert connection.execute("SELECT count(*), min(id) FROM planned").fetchall() == [(100, 100)]


def test_the_dataset_knows_the_partitions(any_lab: Any, engine: Engine) -> None:
    files = any_lab.write(engine, table(), schema=SCHEMA, partition_by=("p",))
    plan = any_lab.plan(files, SCHEMA)
    dataset = PyArrowEngine().dataset(plan, any_lab.store)
    assert dataset.schema.equals(without_ids(SCHEMA), check_metadata=True)
    for value in ("a", "b"):
        assert len(list(dataset.get_fragments(filter=pc.field("p") == value))) == 1
    assert len(list(dataset.get_fragments(filter=pc.field("p").is_null()))) == 1
    assert sorted(dataset.to_table(filter=pc.field("p").is_null())["id"].to_pylist()) == list(range(2, 1000, 3))


def test_planning_a_dataset_opens_no_file(lab: Any, pyarrow_engine: PyArrowEngine, files: list[Any]) -> None:
    plan = lab.plan(files, SCHEMA)
    for file in files:
        lab.path(file).unlink()
    assert pyarrow_engine.dataset(plan, lab.store).count_rows() == 1000


def test_rewriting_reads_and_writes(lab: Any, files: list[Any], engine: Engine) -> None:
    from parqlake.core.ports import WriteSpec

    plan = lab.plan(files, SCHEMA, predicate=where("id < 500"))
    (one,) = engine.rewrite(plan, WriteSpec("sales/orders", SCHEMA, sort_by=("x", "id")), lab.store)
    assert one.row_count == 500
    assert sorted(lab.read([one], SCHEMA)["id"].to_pylist()) == list(range(500))


def test_files_of_a_table_before_a_column_was_added(lab: Any, engine: Engine) -> None:
    old = pa.table({"id": [1, 2]})
    files = lab.write(engine, old)
    wider = pa.schema([("id", pa.int64()), ("new", pa.list_(pa.field("element", pa.string())))])
    assert lab.read(files, wider).to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": None}]


def _damage(lab: Any, file: Any, how: str) -> None:
    path: Path = lab.path(file)
    data = bytearray(path.read_bytes())
    match how:
        case "missing":
            path.unlink()
            return
        case "empty":
            data = bytearray()
        case "short":
            data = data[: len(data) // 2]
        case "footer":
            data[-20:-10] = b"\xff" * 10
        case "other":
            data = bytearray(b"not a Parquet file " * 50)
        case "flip":
            chunk = lab.metadata(file).row_group(0).column(0)
            data[4 + chunk.total_compressed_size - 20] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["missing", "empty", "short", "footer", "other", "flip"])
@pytest.mark.parametrize("position", [0, 4, 9])
def test_damage_names_the_file(lab: Any, pyarrow_engine: PyArrowEngine, how: str, position: int) -> None:
    files = lab.write(pyarrow_engine, table(), schema=SCHEMA, max_rows_per_file=100, compression="none")
    _damage(lab, files[position], how)
    with pytest.raises(DataCorruptionError) as caught:
        lab.read(files, SCHEMA)
    assert f'"sales/orders/{files[position].path}"' in str(caught.value)
    assert ("is missing" if how == "missing" else "is damaged") in str(caught.value)
    assert "restore it" in str(caught.value)
    with pytest.raises(DataCorruptionError, match=files[position].path):
        lab.read(files, SCHEMA, predicate=where("id >= 0"), columns=("id",))
    rest = files[:position] + files[position + 1 :]
    assert lab.read(rest, SCHEMA).num_rows == 900


def test_damage_is_found_when_rewriting(lab: Any, pyarrow_engine: PyArrowEngine, engine: Engine) -> None:
    """With DuckDB too, which by itself would copy the wrong values."""
    from parqlake.core.ports import WriteSpec

    files = lab.write(pyarrow_engine, table(), schema=SCHEMA, compression="none")
    _damage(lab, files[0], "flip")
    with pytest.raises(DataCorruptionError, match=files[0].path):
        engine.rewrite(lab.plan(files, SCHEMA), WriteSpec("sales/orders", SCHEMA), lab.store)
    assert lab.stored() == [files[0].path]


def test_a_reader_that_is_dropped_early_harms_nothing(
    lab: Any, files: list[Any], pyarrow_engine: PyArrowEngine
) -> None:
    reader: Reader = pyarrow_engine
    for _ in range(20):
        stream = reader.batches(lab.plan(files, SCHEMA), lab.store)
        assert next(iter(stream)).num_rows
        del stream


def test_batches_are_small(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    big = pa.table({"id": np.arange(600_000)})
    files = lab.write(pyarrow_engine, big)
    plan = lab.plan(files, big.schema)
    sizes = [batch.num_rows for batch in pyarrow_engine.batches(plan, lab.store)]
    assert sum(sizes) == 600_000
    assert max(sizes) <= 131_072


def test_many_files(lab: Any, pyarrow_engine: PyArrowEngine) -> None:
    files = lab.write(pyarrow_engine, table(), schema=SCHEMA, max_rows_per_file=4)
    assert len(files) == 250
    assert lab.read(files, SCHEMA)["id"].to_pylist() == list(range(1000))


def test_types_that_duckdb_spells_otherwise_are_cast_back(lab: Any, duckdb_engine: DuckDBEngine) -> None:
    schema = assign_field_ids(
        pa.schema(
            [
                pa.field("t", pa.timestamp("us", "Europe/Berlin"), nullable=False),
                ("xs", pa.list_(pa.field("element", pa.struct([("at", pa.timestamp("us", "Asia/Tokyo"))])))),
            ]
        )
    )
    batch = pa.RecordBatch.from_pylist([{"t": 0, "xs": [{"at": 1}]}, {"t": 1, "xs": None}], schema=schema)
    files = lab.write(duckdb_engine, iter([batch]), schema=schema)
    back = lab.read(files, schema)
    assert back.schema.equals(without_ids(schema), check_metadata=True)
    assert back.equals(pa.Table.from_batches([batch]).cast(without_ids(schema)))
    assert lab.read(files, schema, columns=("xs",)).num_rows == 2
    for limit in itertools.islice(range(3), 1, None):
        assert lab.read(files, schema, limit=limit).num_rows == limit
