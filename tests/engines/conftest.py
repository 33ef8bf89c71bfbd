"""What the tests of engines share: a place to write to, and data of every type."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parqlake.core.model import DataFile
from parqlake.core.ports import Engine, PlannedFile, ReadPlan, WriteSpec
from parqlake.core.schema import assign_field_ids, canonical_schema
from parqlake.engines import DuckDBEngine, PyArrowEngine
from parqlake.stores import FsspecStore, open_store

LOCATION = "sales/orders"
_ENGINES: dict[str, Callable[[], Engine]] = {"pyarrow": PyArrowEngine, "duckdb": DuckDBEngine}
_READY: dict[str, Engine] = {}


def engine_named(name: str) -> Engine:
    """One engine of each kind for the entire run: starting DuckDB takes time."""
    if name not in _READY:
        _READY[name] = _ENGINES[name]()
    return _READY[name]


@pytest.fixture
def pyarrow_engine() -> PyArrowEngine:
    return PyArrowEngine()


@pytest.fixture
def duckdb_engine() -> DuckDBEngine:
    engine = engine_named("duckdb")
    assert isinstance(engine, DuckDBEngine)
    return engine


@pytest.fixture(params=["pyarrow", "duckdb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return engine_named(request.param)


@dataclass
class Lab:
    """A store, and short words for writing to it and reading from it."""

    store: FsspecStore

    def write(self, engine: Engine, data: pa.Table | Iterable[pa.RecordBatch], **options: Any) -> list[DataFile]:
        """Writes a table, or batches with a schema given; field ids are added where there are none."""
        schema = options.pop("schema", None)
        if schema is None:
            assert isinstance(data, pa.Table)
            schema = assign_field_ids(canonical_schema(data.schema))
        batch_rows = options.pop("batch_rows", None)
        if isinstance(data, pa.Table):
            reader = data.cast(schema).to_reader(batch_rows)
        else:
            reader = pa.RecordBatchReader.from_batches(schema, data)
        return engine.write(reader, WriteSpec(location=LOCATION, schema=schema, **options), self.store)

    def plan(self, files: Sequence[DataFile], schema: pa.Schema, **options: Any) -> ReadPlan:
        """A plan to read all of the files, or the row groups named by path."""
        groups = options.pop("row_groups", {})
        return ReadPlan(schema=schema, files=tuple(_planned(f, groups.get(f.path)) for f in files), **options)

    def read(self, files: Sequence[DataFile], schema: pa.Schema, **options: Any) -> pa.Table:
        return PyArrowEngine().batches(self.plan(files, schema, **options), self.store).read_all()

    def path(self, file: DataFile) -> Path:
        """Where a file of a local store lies."""
        return Path(self.store.full_path(f"{LOCATION}/{file.path}"))

    def stored(self) -> list[str]:
        """Paths of all files, relative to the table's location."""
        return [file.path.removeprefix(LOCATION + "/") for file in self.store.list_files(LOCATION)]

    def metadata(self, file: DataFile) -> Any:
        """The Parquet metadata, read back from the file."""
        import pyarrow.parquet as pq

        full = self.store.full_path(f"{LOCATION}/{file.path}")
        return pq.read_metadata(full, filesystem=self.store.arrow_filesystem())


def _planned(file: DataFile, row_groups: tuple[int, ...] | None) -> PlannedFile:
    rows = file.row_count if row_groups is None else int(sum(file.row_group_rows[i] for i in row_groups))
    return PlannedFile(
        path=f"{LOCATION}/{file.path}",
        size_bytes=file.size_bytes,
        row_groups=row_groups,
        row_count=rows,
        read_bytes=int(file.row_group_bytes.sum()),
        partition=file.partition,
        file_id=1,
        schema_id=1,
    )


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A local store."""
    store = open_store(str(tmp_path / "lake"))
    store.prepare_root()
    return Lab(store)


@pytest.fixture(params=["local", "memory"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """Each kind of store in turn."""
    store = open_store(str(tmp_path / "lake") if request.param == "local" else f"memory://lake-{uuid.uuid4()}")
    store.prepare_root()
    return Lab(store)


def _moments(unit: str, tz: str | None) -> pa.Array:
    ticks = [0, 1, None, -1, 1_700_000_000_123_456]
    return pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, tz))


@pytest.fixture
def all_types() -> pa.Table:
    """Five rows of every type that tables hold: extremes, NULL, NaN, negative zero, nesting."""
    nan, inf = float("nan"), float("inf")
    columns: dict[str, pa.Array] = {"id": pa.array(range(5), pa.int64())}
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        columns[f"int{bits}"] = pa.array([low, high, None, 0, 1], getattr(pa, f"int{bits}")())
        columns[f"uint{bits}"] = pa.array([0, 2**bits - 1, None, 1, 2], getattr(pa, f"uint{bits}")())
    for name, type_ in (("float", pa.float32()), ("double", pa.float64())):
        columns[name] = pa.array([1.5, -0.0, None, -inf, inf], type_)
        columns[f"{name}_nan"] = pa.array([1.5, nan, None, -inf, 0.0], type_)
        columns[f"{name}_zero"] = pa.array([-0.0, 0.0, -0.0, 0.0, 0.0], type_)
    columns["bool"] = pa.array([True, False, None, True, True])
    columns["string"] = pa.array(["", "z" * 300, None, "é\0ß", "\U0001f600"])
    columns["binary"] = pa.array([b"", b"\xff" * 80, None, b"\x00", b"ab"])
    dates = [dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
    columns["date"] = pa.array(dates)
    columns["time"] = pa.array([0, 86_399_999_999, None, 1, 2], pa.int64()).cast(pa.time64("us"))
    columns["time_ns"] = pa.array([0, 86_399_999_999_999, None, 1, 2], pa.int64()).cast(pa.time64("ns"))
    columns["moment"] = _moments("us", None)
    columns["moment_ns"] = _moments("ns", None)
    columns["utc"] = _moments("us", "UTC")
    columns["berlin"] = _moments("us", "Europe/Berlin")
    columns["berlin_ns"] = _moments("ns", "Europe/Berlin")
    for precision, scale in ((4, 2), (9, 0), (18, 4), (38, 10), (38, 0)):
        top = Decimal("9" * precision).scaleb(-scale) if precision < 28 else Decimal("9" * 27).scaleb(-scale)
        columns[f"decimal_{precision}_{scale}"] = pa.array(
            [top, -top, None, Decimal(0), Decimal(1)], pa.decimal128(precision, scale)
        )
    columns["all_null"] = pa.array([None] * 5, pa.int32())
    columns["struct"] = pa.array(
        [{"a": 1, "b": {"c": "x", "d": 1.5}}, {"a": None, "b": None}, None, {"a": 3, "b": {"c": None, "d": nan}}, None],
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.float64())]))]),
    )
    columns["list"] = pa.array([[1, None], [], None, [2], [3]], pa.list_(pa.int16()))
    columns["list_float"] = pa.array([[1.0, nan], [], None, [2.0], [3.0]], pa.list_(pa.float32()))
    columns["list_list"] = pa.array([[["a"], []], [None], None, [], [["b", None]]], pa.list_(pa.list_(pa.string())))
    columns["list_struct"] = pa.array(
        [[{"x": 1, "y": [1.5]}], [None], None, [], [{"x": None, "y": None}]],
        pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))])),
    )
    columns["map"] = pa.array([[("k", 1)], [], None, [("a", None), ("b", 2)], []], pa.map_(pa.string(), pa.int32()))
    columns["map_float"] = pa.array([[("k", nan)], [], None, [("a", 1.0)], []], pa.map_(pa.string(), pa.float64()))
    table = pa.table(columns)
    return table.cast(assign_field_ids(canonical_schema(table.schema)))
