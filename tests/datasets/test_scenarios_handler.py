"""The scenarios of the handler itself: its life, its file systems, single files, SQL, errors."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from handlers_support import codecs, contents, make, make_partitions, memory, memory_path, orders

import parqlake.datasets
from parqlake.core.errors import DataCorruptionError, InputError, ParqlakeError, TypeMismatchError
from parqlake.datasets import DuckDBParquetHandler
from parqlake.storage_options import AwsStorageOptions, LocalStorageOptions

PUBLIC = [
    value for name, value in vars(DuckDBParquetHandler).items() if callable(value) and not name.startswith("_")
] + [getattr(parqlake.datasets, name) for name in parqlake.datasets.__all__ if name.endswith("_pyarrow")]


def test_initialize_with_storage_options(tmp_path: Path) -> None:
    with DuckDBParquetHandler(storage_options=LocalStorageOptions(auto_mkdir=True)) as handler:
        assert handler._filesystem.auto_mkdir is True
        assert "file" in handler._connection.list_filesystems()
        handler.write_parquet(orders(0, 3), tmp_path / "a.parquet")
        assert handler.read_parquet(tmp_path / "a.parquet").equals(orders(0, 3))
    with DuckDBParquetHandler({"protocol": "file"}) as handler:
        assert handler.read_parquet(tmp_path / "a.parquet").num_rows == 3


def test_initialize_with_filesystem_instance(tmp_path: Path) -> None:
    fs = memory()
    with DuckDBParquetHandler(filesystem=fs) as handler:
        assert handler._filesystem is fs
        assert handler._connection.list_filesystems() == ["memory"]
    local = fsspec.filesystem("file", skip_instance_cache=True)
    assert DuckDBParquetHandler(filesystem=local)._filesystem is local
    with DuckDBParquetHandler(storage_options=LocalStorageOptions(), filesystem=fs) as handler:
        assert handler._filesystem is fs, "the filesystem wins"
    with DuckDBParquetHandler(filesystem=pyarrow.fs.LocalFileSystem()) as handler:
        handler.write_parquet(orders(0, 3), tmp_path / "a.parquet")
        assert handler.read_parquet(tmp_path / "a.parquet").num_rows == 3
    mapped = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    with DuckDBParquetHandler(filesystem=mapped) as handler:
        assert handler.read_parquet("a.parquet").num_rows == 3
    with pytest.raises(ValueError, match="filesystem is a str"):
        DuckDBParquetHandler(filesystem="memory")


def test_initialize_with_default_filesystem(tmp_path: Path) -> None:
    with DuckDBParquetHandler() as handler:
        assert isinstance(handler._filesystem, type(fsspec.filesystem("file")))
        handler.write_parquet(orders(0, 3), str(tmp_path / "a.parquet"))
        assert handler.read_parquet(str(tmp_path / "a.parquet")).num_rows == 3


def test_register_s3_filesystem() -> None:
    options = AwsStorageOptions(key="AKIA", secret="hush", region="us-east-1", endpoint_url="http://127.0.0.1:9")
    with DuckDBParquetHandler(storage_options=options) as handler:
        assert "s3" in handler._connection.list_filesystems()
        assert handler._filesystem.endpoint_url == "http://127.0.0.1:9"
        assert "hush" not in repr(handler)


def test_register_local_filesystem(tmp_path: Path) -> None:
    with DuckDBParquetHandler() as handler:
        handler.write_parquet(orders(0, 3), tmp_path / "a.parquet")
        for path in (tmp_path / "a.parquet", f"file://{tmp_path}/a.parquet"):
            assert handler.execute_sql(f"SELECT count(*) AS n FROM parquet_scan('{path}')").to_pylist() == [{"n": 3}]


def test_read_single_parquet_file(tmp_path: Path) -> None:
    pq.write_table(orders(0, 10), tmp_path / "a.pq")
    assert DuckDBParquetHandler().read_parquet(tmp_path / "a.pq").equals(orders(0, 10))


def test_read_parquet_dataset_directory(tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    pq.write_table(orders(0, 1), tmp_path / "d" / "date=2025-11-01" / "_hidden.parquet")
    found = DuckDBParquetHandler().read_parquet(tmp_path / "d")
    assert found.num_rows == 180
    assert found.column_names == ["id", "customer", "city", "amount", "date"]
    assert set(found["date"].to_pylist()) == {"2025-11-01", "2025-11-02", "2025-11-03"}
    by_day = found.filter(pa.compute.field("date") == "2025-11-02")["id"].to_pylist()
    assert by_day == list(range(60, 120))


def test_partition_columns_of_every_spelling(tmp_path: Path) -> None:
    for folder in ("n=1/s=a%20b", "n=-20/s=__HIVE_DEFAULT_PARTITION__", "n=3/s=%C3%BC"):
        (tmp_path / "d" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), tmp_path / "d" / folder / "f.parquet")
    found = DuckDBParquetHandler().read_parquet(tmp_path / "d").sort_by("n")
    assert found.schema.field("n").type == pa.int64()
    assert found.select(["n", "s"]).to_pylist() == [{"n": -20, "s": None}, {"n": 1, "s": "a b"}, {"n": 3, "s": "ü"}]
    (tmp_path / "z" / "m=01").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1], "m": [7]}), tmp_path / "z" / "m=01" / "holds-it.parquet")
    assert DuckDBParquetHandler().read_parquet(tmp_path / "z").to_pylist() == [{"x": 1, "m": 7}]


def test_read_with_column_selection(tmp_path: Path) -> None:
    make_partitions(tmp_path / "d")
    handler = DuckDBParquetHandler()
    assert handler.read_parquet(tmp_path / "d", columns=["date", "id"]).column_names == ["date", "id"]
    file = tmp_path / "d" / "date=2025-11-01" / "in-000.parquet"
    assert handler.read_parquet(file, columns=["city"]).equals(orders(0, 20).select(["city"]))
    with pytest.raises(ValueError, match=r'no column "custmer"; did you mean "customer"\? columns: id'):
        handler.read_parquet(file, columns=["custmer"])
    with pytest.raises(ValueError, match="give a list of column names"):
        handler.read_parquet(file, columns="city")


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"small": range(1000), "big": [bytes([n % 256]) * 500 for n in range(1000)]}), path)
    footer = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    chunk = footer.row_group(0).column(1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    assert DuckDBParquetHandler().read_parquet(path, columns=["small"]).num_rows == 1000
    with pytest.raises(DataCorruptionError, match="damaged"):
        DuckDBParquetHandler().read_parquet(path)


def test_files_of_other_columns_and_types_are_read_together(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "s": ["x"]}), tmp_path / "0.parquet")
    later = {"b": [True], "a": pa.array([2], pa.int64()), "s": pa.array(["y"], pa.large_string())}
    pq.write_table(pa.table(later), tmp_path / "1.parquet")
    found = DuckDBParquetHandler().read_parquet(tmp_path)
    assert found.to_pylist() == [{"a": 1, "s": "x", "b": None}, {"a": 2, "s": "y", "b": True}]
    assert found.schema.field("a").type == pa.int64()
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "2.parquet")
    with pytest.raises(TypeMismatchError, match=r'column "a" is .*int.* in "0.parquet" and string in "2.parquet"'):
        DuckDBParquetHandler().read_parquet(tmp_path)


def test_read_from_remote_storage() -> None:
    path = memory_path()
    with memory().open(f"{path}/x/a.parquet", "wb") as file:
        pq.write_table(orders(0, 5), file)
    for handler in (DuckDBParquetHandler(), DuckDBParquetHandler(filesystem=memory())):
        assert handler.read_parquet(f"{path}/x/a.parquet").equals(orders(0, 5))
        assert handler.read_parquet(path).equals(orders(0, 5))
    with pytest.raises(ValueError, match="is not for the filesystem given"):
        DuckDBParquetHandler(filesystem=memory()).read_parquet("s3://bucket/x.parquet")


def test_write_parquet_file_with_default_compression(tmp_path: Path) -> None:
    DuckDBParquetHandler().write_parquet(orders(0, 10), tmp_path / "a" / "out.parquet")
    assert pq.read_table(tmp_path / "a" / "out.parquet").equals(orders(0, 10))
    assert codecs(tmp_path) == {"SNAPPY"}


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd", "brotli"])
def test_write_with_custom_compression(codec: str, tmp_path: Path) -> None:
    handler = DuckDBParquetHandler()
    handler.write_parquet(orders(0, 10), tmp_path / "out.parquet", compression=codec)
    assert codecs(tmp_path) == {codec.upper()}
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"compression 'zsdt' is not known; did you mean \"zstd\"\? use one of"):
        handler.write_parquet(orders(0, 1), tmp_path / "out.parquet", compression="zsdt")
    assert contents(tmp_path) == before


def test_write_to_remote_storage() -> None:
    path = memory_path()
    for handler in (DuckDBParquetHandler(), DuckDBParquetHandler(filesystem=memory())):
        handler.write_parquet(orders(0, 5), f"{path}/y/out.parquet")
        with memory().open(f"{path}/y/out.parquet") as file:
            assert pq.read_table(file).equals(orders(0, 5))
    assert memory().find(path) == [f"{memory()._strip_protocol(path)}/y/out.parquet"], "nothing else is left"


def test_write_to_nested_directory(tmp_path: Path) -> None:
    DuckDBParquetHandler().write_parquet(orders(0, 2), tmp_path / "a" / "b=1" / "c" / "out.parquet")
    assert pq.read_table(tmp_path / "a" / "b=1" / "c" / "out.parquet", partitioning=None).num_rows == 2


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> Any:
        yield orders(0, 5).to_batches()[0]
        raise RuntimeError("the source broke")

    handler = DuckDBParquetHandler()
    handler.write_parquet(orders(0, 10), tmp_path / "out.parquet")
    with pytest.raises(RuntimeError, match="the source broke"):
        handler.write_parquet(
            pa.RecordBatchReader.from_batches(orders(0, 1).schema, broken()), tmp_path / "out.parquet"
        )
    assert list(contents(tmp_path)) == ["out.parquet"]
    assert handler.read_parquet(tmp_path / "out.parquet").num_rows == 10
    handler.write_parquet(orders(0, 3), tmp_path / "out.parquet")
    assert handler.read_parquet(tmp_path / "out.parquet").num_rows == 3
    with pytest.raises(ValueError, match="is a folder"):
        handler.write_parquet(orders(0, 3), tmp_path)
    with pytest.raises(TypeError):
        handler.write_parquet(17, tmp_path / "out.parquet")  # type: ignore[arg-type]


def test_execute_sql_query_on_parquet_file(tmp_path: Path) -> None:
    pq.write_table(orders(0, 20), tmp_path / "file.parquet")
    found = DuckDBParquetHandler().execute_sql(
        f"SELECT * FROM parquet_scan('{tmp_path / 'file.parquet'}') WHERE id > 10"
    )
    assert isinstance(found, pa.Table)
    assert found["id"].to_pylist() == list(range(11, 20))


def test_execute_parameterized_query(tmp_path: Path) -> None:
    pq.write_table(orders(0, 20), tmp_path / "file.parquet")
    query = f"SELECT id FROM parquet_scan('{tmp_path / 'file.parquet'}') WHERE id > ? AND city = ?"
    handler = DuckDBParquetHandler()
    assert handler.execute_sql(query, parameters=[2, "city 5"])["id"].to_pylist() == [5, 16]
    assert handler.execute_sql(query, parameters=[2, "' OR 1=1 --"]).num_rows == 0
    assert handler.execute_sql("SELECT $a + 1 AS b", {"a": 1}).to_pylist() == [{"b": 2}]


def test_execute_aggregation_query(tmp_path: Path) -> None:
    make(tmp_path / "d")
    found = DuckDBParquetHandler().execute_sql(
        f"SELECT customer, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS place "
        f"FROM parquet_scan('{tmp_path / 'd'}/*.parquet') GROUP BY customer"
    )
    assert sum(found["n"].to_pylist()) == 600
    assert min(found["place"].to_pylist()) == 1


def test_execute_query_on_remote_parquet() -> None:
    path = memory_path()
    with DuckDBParquetHandler(filesystem=memory()) as handler:
        handler.write_parquet_dataset(orders(0, 9), path, max_rows_per_file=3)
        assert handler.execute_sql(f"SELECT max(id) AS m FROM '{path}/*.parquet'").to_pylist() == [{"m": 8}]


def test_statements_and_python_variables() -> None:
    handler = DuckDBParquetHandler()
    handler.execute_sql("CREATE TABLE t (a INTEGER)")
    handler.execute_sql("INSERT INTO t VALUES (1), (2)")
    assert handler.execute_sql("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 3}]
    with pytest.raises(duckdb.CatalogException, match="connection"):
        handler.execute_sql("SELECT * FROM connection")  # a name inside our own code


def test_use_with_statement() -> None:
    with DuckDBParquetHandler() as handler:
        assert handler._connection is not None
        assert handler.execute_sql("SELECT 1 AS a").num_rows == 1
    assert handler._connection is None
    with pytest.raises(RuntimeError, match="mine"), DuckDBParquetHandler() as handler:
        raise RuntimeError("mine")
    assert handler._connection is None


def test_manual_resource_management(tmp_path: Path) -> None:
    handler = DuckDBParquetHandler()
    assert handler.execute_sql("SELECT 1 AS a").num_rows == 1
    handler.close()
    handler.close()
    assert handler._connection is None
    calls: list[Any] = [
        lambda: handler.execute_sql("SELECT 1"),
        lambda: handler.read_parquet(tmp_path),
        lambda: handler.write_parquet(orders(0, 1), tmp_path / "a.parquet"),
        lambda: handler.write_parquet_dataset(orders(0, 1), tmp_path),
        lambda: handler.merge_parquet_dataset(orders(0, 1), tmp_path, ["id"]),
        lambda: handler.compact_parquet_dataset(tmp_path, target_mb_per_file=1),
        lambda: handler.optimize_parquet_dataset(tmp_path, ["id"]),
        handler.__enter__,
    ]
    for call in calls:
        with pytest.raises(InputError, match="this DuckDBParquetHandler is closed; make a new one"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__name__)
def test_type_hints_for_all_methods(function: Any) -> None:
    hints = typing.get_type_hints(function)
    assert set(inspect.signature(function).parameters) - {"self"} | {"return"} == set(hints)


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__name__)
def test_comprehensive_docstrings(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    if function.__name__ == "close":
        assert text
        return
    assert "Args:" in text
    assert "Example:" in text
    if typing.get_type_hints(function)["return"] is not type(None):
        assert "Returns:" in text
    for name in set(inspect.signature(function).parameters) - {"self"}:
        assert f"    {name}: " in text


def test_invalid_path_error(tmp_path: Path) -> None:
    handler = DuckDBParquetHandler()
    for path in (tmp_path / "no.parquet", tmp_path / "no" / "way", memory_path()):
        with pytest.raises(FileNotFoundError, match=r"there is nothing at .*; check the path"):
            handler.read_parquet(path)
    with pytest.raises(FileNotFoundError, match="No parquet files found"):
        handler.read_parquet(tmp_path)
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(ParqlakeError, match="no Parquet file or is damaged"):
        handler.read_parquet(tmp_path / "text.parquet")
    for path in ("", None, 7):
        with pytest.raises(ValueError, match="path"):
            handler.read_parquet(path)  # type: ignore[arg-type]


def test_invalid_storage_options_error() -> None:
    with pytest.raises(ValueError, match="key is given without secret; give both"):
        DuckDBParquetHandler(storage_options=AwsStorageOptions(key="AKIA"))
    with pytest.raises(ValueError, match="storage options need a protocol"):
        DuckDBParquetHandler(storage_options={"key": "AKIA"})


def test_sql_execution_error(tmp_path: Path) -> None:
    pq.write_table(orders(0, 2), tmp_path / "f.parquet")
    handler = DuckDBParquetHandler()
    with pytest.raises(duckdb.ParserException, match="syntax error at or near"):
        handler.execute_sql("SELEC 1")
    with pytest.raises(duckdb.BinderException, match='column "nope" not found'):
        handler.execute_sql(f"SELECT nope FROM '{tmp_path / 'f.parquet'}'")
    assert handler.execute_sql("SELECT 1 AS a").num_rows == 1, "and it goes on working"
