"""A version exported as Delta or Iceberg is read, by the packages that people read those with, exactly as it is."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

import parqlake
from parqlake import Lake, Table, errors
from parqlake.testing.data import orders

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "tiny": pa.int8(),
        "single": pa.float32(),
        "double": pa.float64(),
        "word": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "plain": pa.timestamp("us"),
        "zoned": pa.timestamp("us", "UTC"),
        "sum": pa.decimal128(20, 3),
        "flag": pa.bool_(),
        "list": pa.list_(pa.struct({"y": pa.int32()})),
        "map": pa.map_(pa.string(), pa.float64()),
        "inner": pa.struct({"a": pa.struct({"b": pa.string()})}),
        "nothing": pa.int32(),
        "region": pa.string(),
        "month": pa.int32(),
    }
)
PREDICATES: tuple[tuple[str, pc.Expression, str], ...] = (
    ("id = 3", pc.field("id") == 3, "id == 3"),
    ("double < -1", pc.field("double") < -1, "double < -1"),
    ("word >= 'wörd2'", pc.field("word") >= "wörd2", "word >= 'wörd2'"),
    ("day > date '1970-01-05'", pc.field("day") > pa.scalar(4, pa.date32()), "day > '1970-01-05'"),
    ("plain = timestamp '1970-01-01 00:00:00.005005'", pc.field("plain") == pa.scalar(5005, pa.timestamp("us")), ""),
    ("sum = 1.25", pc.field("sum") == Decimal("1.250"), "sum == 1.250"),
    ("flag = true", pc.field("flag") == True, "flag == true"),  # noqa: E712
    ("region = 'a/b'", pc.field("region") == "a/b", "region == 'a/b'"),
    ("region is null", pc.field("region").is_null(), "region is null"),
    ("month = 1 and nothing is null", (pc.field("month") == 1) & pc.field("nothing").is_null(), "month == 1"),
    ("word = 'nowhere'", pc.field("word") == "nowhere", "word == 'nowhere'"),
)


def rows(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    columns: dict[str, list[Any]] = {
        "id": list(numbers),
        "tiny": [n % 100 - 50 for n in numbers],
        "single": [n / 4 for n in numbers],
        "double": [None if n % 5 == 0 else (float("nan") if n == 7 else -n / 7) for n in numbers],
        "word": [f"wörd{n}" * 4 for n in numbers],
        "bytes": [bytes([n % 256]) * 9 for n in numbers],
        "day": list(numbers),
        "plain": [n * 1001 for n in numbers],
        "zoned": [n * 1001 for n in numbers],
        "sum": [Decimal(n) / 8 for n in numbers],
        "flag": [n % 2 == 0 for n in numbers],
        "list": [
            [{"y": n}, None] if n % 3 else [] for n in numbers
        ],  # pyiceberg 0.12 reads a NULL list of structs as []
        "map": [[("k", 1.5)] if n % 2 else [] for n in numbers],
        "inner": [{"a": {"b": str(n)}} if n % 4 else None for n in numbers],
        "nothing": [None for _ in numbers],
        "region": [("eu", "a/b", None)[n % 3] for n in numbers],
        "month": [n % 2 for n in numbers],
    }
    return pa.table({name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()})


def text(table: pa.Table) -> str:
    """The rows by id, as values that can be compared, NaN included."""
    return str(table.select(SCHEMA.names).sort_by("id").to_pydict())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A local lake: the other packages see no memory of ours."""
    with parqlake.connect(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)  # it says that it reads dictionaries as text


def delta(table: Table, **options: Any) -> DeltaTable:
    return DeltaTable(table.export("delta", **options).url)


def iceberg(table: Table, **options: Any) -> StaticTable:
    return StaticTable.from_metadata(table.export("iceberg", **options).url)


@pytest.mark.parametrize("engine", ["pyarrow", "duckdb"])
def test_all_types_partitions_and_bounds_are_read_as_they_are(lake: Lake, engine: str) -> None:
    table = lake.create_table("sales.all", SCHEMA, partition_by=["region", "month"])
    table.append(rows(30), engine=engine)
    table.append(rows(5, first=100), engine=engine)
    whole = table.scan().to_arrow()
    from_delta, from_iceberg = delta(table), iceberg(table)
    assert text(from_delta.to_pyarrow_table()) == text(whole)
    assert text(from_iceberg.scan().to_arrow()) == text(whole)
    dataset = from_delta.to_pyarrow_dataset()
    query = QueryBuilder().register("t", from_delta)
    for where, expression, row_filter in PREDICATES:
        wanted = table.scan(where).count()
        assert dataset.to_table(filter=expression).num_rows == wanted, where
        assert pa.table(query.execute(f"select id from t where {where}")).num_rows == wanted, where
        if row_filter:
            found = from_iceberg.scan(row_filter=row_filter)
            assert found.to_arrow().num_rows == table.scan(where.partition(" and ")[0]).count(), where
    files = table.files().num_rows
    assert 0 < len(list(dataset.get_fragments(pc.field("id") == 103))) < files
    assert 0 < len(list(from_iceberg.scan(row_filter="id == 103").plan_files())) < files
    assert list(from_iceberg.scan(row_filter="word == 'zzz'").plan_files()) == []


def test_a_repeat_adds_what_changed_and_keeps_the_versions_files(lake: Lake) -> None:
    table = lake.create_table("sales.all", SCHEMA)
    empty = table.export("delta")
    assert (empty.export_version, empty.tag, DeltaTable(empty.url).to_pyarrow_table().num_rows) == (0, None, 0)
    assert iceberg(table).scan().to_arrow().num_rows == 0
    table.append(rows(4))
    first = table.export("delta")
    assert (first.export_version, first.changed, first.tag) == (1, True, "exported-delta")
    assert not table.export("delta").changed and iceberg(table).scan().to_arrow().num_rows == 4
    assert not table.export("iceberg").changed
    table.append(rows(3, first=10))
    table.delete("id = 1")
    table.add_column("later", pa.string())
    second = table.export("delta")
    log = (Path(lake.url) / second.metadata).read_text().splitlines()
    assert sorted(line.split('"')[1] for line in log) == ["add", "add", "commitInfo", "metaData", "remove"]
    for number, count in ((1, 4), (2, 6)):
        assert DeltaTable(second.url, version=number).to_pyarrow_table().num_rows == count
    assert "later" in DeltaTable(second.url).to_pyarrow_table().column_names
    snapshots = iceberg(table)
    counts = [snapshots.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in snapshots.metadata.snapshots]
    assert counts == [4, 6] and "later" in snapshots.scan().to_arrow().column_names
    exported = table.version
    table.overwrite(rows(1).append_column("later", pa.array(["x"])))
    table.expire(keep_last=1)
    table.vacuum(older_than=0, force=True)
    assert table.tags() == {"exported-delta": exported, "exported-iceberg": exported}
    assert DeltaTable(second.url).to_pyarrow_table().num_rows == 6
    assert snapshots.scan().to_arrow().num_rows == 6
    back = table.export("delta", version="exported-delta", tag=False)
    assert (back.version, back.changed) == (exported, False)


def test_imported_files_are_exported_where_they_lie(lake: Lake) -> None:
    root = Path(lake.url)
    for region, first in (("eu", 0), ("us", 10)):
        folder = root / "landing" / f"region={region}"
        folder.mkdir(parents=True)
        plain = rows(5, first).drop_columns(["region"])
        pq.write_table(plain.set_column(4, "word", plain["word"].dictionary_encode()), folder / "a b.parquet")
    lake.import_parquet("sales.old", "landing")
    table = lake.table("sales.old")
    whole = table.scan().to_arrow()
    with pytest.raises(errors.InvalidOptionError, match='path="landing"'):
        table.export("delta")
    assert text(delta(table, path="landing").to_pyarrow_table()) == text(whole)
    assert text(iceberg(table).scan().to_arrow()) == text(whole)
    assert text(iceberg(table, path=root / "shown" / "old").scan().to_arrow()) == text(whole)
    assert {path.name for path in (root / "landing").iterdir()} == {"_delta_log", "region=eu", "region=us"}
    ids = pa.schema([field.with_metadata({"PARQUET:field_id": str(90 + n)}) for n, field in enumerate(plain.schema)])
    pq.write_table(plain.cast(ids), root / "numbered.parquet")
    lake.import_parquet("sales.numbered", "numbered.parquet")
    with pytest.raises(errors.InvalidOptionError, match="field ids of another format"):
        lake.table("sales.numbered").export("iceberg")


def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(lake.url)
    types = {"a": pa.uint32(), "b": pa.timestamp("ns"), "c": pa.list_(pa.uint8())}
    for name, type_ in types.items():
        table = lake.create_table(f"odd.{name}", pa.schema({"id": pa.int64(), name: type_}))
        for format_ in ("delta", "iceberg"):
            with pytest.raises(errors.UnsupportedTypeError, match=f'column "{name}.*nothing was exported'):
                table.export(format_)
    times = lake.create_table("odd.times", pa.schema({"at": pa.time64("us")}))
    with pytest.raises(errors.UnsupportedTypeError, match=r"time64\[us\]"):
        times.export("delta")
    assert iceberg(times).scan().to_arrow().num_rows == 0
    blank = lake.create_table("odd.blank", pa.schema({"a b": pa.int64()}))
    with pytest.raises(errors.InvalidOptionError, match="rename_column"):
        blank.export("delta")
    empty = lake.create_table("odd.empty", pa.schema({"id": pa.int64(), "p": pa.string()}), partition_by=["p"])
    empty.append(pa.table({"id": [1], "p": [""]}))
    with pytest.raises(errors.InvalidOptionError, match="empty string"):
        empty.export("delta")

    table = lake.create_table("sales.orders", orders(1))
    table.append(orders(3))
    with pytest.raises(errors.InvalidOptionError, match='"delta" or "iceberg"'):
        table.export("hudi")
    with pytest.raises(errors.UnsafePathError, match="below the lake's root"):
        table.export("iceberg", "/elsewhere")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "fastavro", None)
        with pytest.raises(errors.MissingExtraError, match="iceberg"):
            table.export("iceberg")
    table.export("delta")
    table.rename_column("amount", "price")
    with pytest.raises(errors.InvalidOptionError, match=r'"price" was renamed.*compact\(old_schemas=True\)'):
        table.export("delta")
    assert pc.sum(iceberg(table).scan().to_arrow()["price"]) == pc.sum(orders(3)["amount"])
    other = lake.create_table("sales.other", orders(1))
    with pytest.raises(errors.AlreadyExistsError, match="another Delta table"):
        other.export("delta", path=table.location)
    with pytest.raises(errors.AlreadyExistsError, match="another Iceberg table"):
        other.export("iceberg", path=table.location)
    log = root / table.location / "_delta_log"
    assert [path.name for path in log.iterdir()] == ["00000000000000000000.json"]
    table.compact(old_schemas=True)
    assert pc.sum(delta(table).to_pyarrow_table()["price"]) == pc.sum(orders(3)["amount"])
