"""Files that are there become a table where they lie: rows, statistics and partitions as the files have them, and no
file is ever lost.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parqlake
from parqlake import Lake, errors
from parqlake.core.keys import is_prunable
from parqlake.core.schema import canonical_schema
from parqlake.testing.backends import Backend
from parqlake.testing.data import orders, state
from parqlake.testing.frames import spark_holds
from parqlake.testing.plugin import Read

NULL = "__HIVE_DEFAULT_PARTITION__"


def put(lake: Lake, path: str, rows: pa.Table | bytes, **options: Any) -> None:
    """Somebody else's file."""
    store = lake.context.store
    store.make_folders([path.rpartition("/")[0]])
    if isinstance(rows, bytes):
        store.write_bytes(path, rows)
        return
    with store.arrow_filesystem().open_output_stream(store.full_path(path)) as sink:
        pq.write_table(rows, sink, **options)


def kept(lake: Lake, folder: str) -> dict[str, bytes]:
    """All files of a folder, byte by byte."""
    store = lake.context.store
    return {file.path: store.read_bytes(file.path) for file in store.list_files(folder)}


def rows(first: int, count: int = 6, **columns: pa.Array) -> pa.Table:
    own: dict[str, Any] = {
        "id": pa.array(range(first, first + count), pa.int64()),
        "price": pa.array([1.5, 2.0, float("nan"), None, -0.0, 3.0][:count]),
        "word": pa.array(["a", "b", None, "c", "d", "e"][:count]).dictionary_encode(),
        "sum": pa.array([Decimal("1.25")] * count, pa.decimal128(9, 2)),
        "at": pa.array([1_700_000_000_000 + n for n in range(count)], pa.timestamp("ms")),
        "list": pa.array([[n] if n % 2 else None for n in range(count)], pa.large_list(pa.int32())),
        "inner": pa.array([{"x": n} for n in range(count)]),
    }
    return pa.table(own | columns)


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """A folder of Hive partitions whose files differ: narrower types, missing columns, a column of NULLs alone."""
    put(lake, "landing/region=eu/day=2024-01-01/a.parquet", rows(0), row_group_size=2)
    narrow = rows(10, id=pa.array(range(10, 16), pa.int32()), extra=pa.array(list("uvwxyz"), pa.large_string()))
    put(lake, "landing/region=a%2Fb/day=2024-01-02/b.parquet", narrow.drop_columns(["price"]))
    put(lake, f"landing/region={NULL}/day=2024-01-03/c 1.parquet", rows(20, word=pa.nulls(6)))
    put(lake, "landing/region=eu/day=2024-01-01/none.parquet", rows(0).slice(0, 0))
    put(lake, "landing/_SUCCESS", b"")
    put(lake, "landing/region=eu/_metadata", b"not for readers")
    put(lake, "landing/.part.crc", b"nor this")
    return lake


def expected() -> pa.Table:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "price": pa.float64(),
            "word": pa.string(),
            "sum": pa.decimal128(9, 2),
            "at": pa.timestamp("us"),
            "list": pa.list_(pa.field("element", pa.int32())),
            "inner": pa.struct({"x": pa.int64()}),
            "extra": pa.string(),
            "region": pa.string(),
            "day": pa.date32(),
        }
    )
    parts = []
    for first, region, day in ((0, "eu", 1), (10, "a/b", 2), (20, None, 3)):
        part = rows(first).to_pydict()
        part |= {"region": [region] * 6, "day": [dt.date(2024, 1, day)] * 6, "extra": [None] * 6}
        part |= {"price": [None] * 6, "extra": list("uvwxyz")} if first == 10 else {}
        part |= {"word": [None] * 6} if first == 20 else {}
        parts.append(pa.table({name: pa.array(part[name], schema.field(name).type) for name in schema.names}))
    return pa.concat_tables(parts)


def same_rows(found: pa.Table, wanted: pa.Table) -> bool:
    """NaN included."""
    return found.schema == wanted.schema and str(found.sort_by("id").to_pydict()) == str(wanted.to_pydict())


def test_a_folder_is_adopted_read_changed_and_never_lost(landed: Lake, read: Read) -> None:
    whole_life(landed, read)


@pytest.mark.slow
@pytest.mark.engine_work
@pytest.mark.catalog_work
def test_every_engine_adopts_and_changes_a_folder(landed: Lake, read: Read) -> None:
    whole_life(landed, read)


@pytest.mark.catalog_work
def test_every_catalog_keeps_several_kinds_of_files_in_one_commit(lake: Lake) -> None:
    put(lake, "landing/p=1/a.parquet", pa.table({"id": pa.array([1, 2], pa.int32())}))
    put(lake, "landing/p=2/b.parquet", pa.table({"id": pa.array([3, 4], pa.int64()), "more": ["x", "y"]}))
    made = lake.import_parquet("sales.old", "landing")
    table = lake.table("sales.old")
    assert (made.schemas, table.version) == (2, 1)
    table.add_column("later", pa.int8())
    table.append(pa.table({"id": [5], "more": ["z"], "p": [1], "later": pa.array([7], pa.int8())}))
    assert table.scan().to_arrow().sort_by("id").to_pydict() == {
        "id": [1, 2, 3, 4, 5],
        "more": [None, None, "x", "y", "z"],
        "p": [1, 1, 2, 2, 1],
        "later": [None, None, None, None, 7],
    }
    assert table.scan("p = 1").count() == 3 and len(table.scan("more = 'x'").plan.files) == 1


def whole_life(lake: Lake, read: Read) -> None:
    before = kept(lake, "landing")
    planned = lake.import_parquet("sales.old", "landing", dry_run=True)
    assert lake.tables() == [] and (planned.version, planned.files, planned.row_count) == (0, 3, 18)
    made = lake.import_parquet("sales.old", "landing", message="adopted", idempotency_key="import/1")
    assert (made.version, made.partition_by, made.schemas) == (1, ("region", "day"), 3)
    assert made.schema == expected().schema
    assert made.ignored == ("landing/.part.crc", "landing/_SUCCESS", "landing/region=eu/_metadata")
    assert lake.import_parquet("sales.old", "landing", idempotency_key="import/1").replayed
    with pytest.raises(errors.TableExistsError, match="deletes no imported file"):
        lake.import_parquet("sales.old", "landing")
    table = lake.table("sales.old")
    assert [(e.version, e.operation, e.message) for e in table.history()] == [(1, "import", "adopted")]
    assert same_rows(read(table.scan()), expected())
    for where, files, found in (
        ("region = 'a/b'", 1, 6),
        ("region is null", 1, 6),
        ("day >= date '2024-01-02' and id < 21", 2, 7),
        ("extra is not null", 1, 6),
        ("word = 'a'", 2, 2),
        ("price > 2.5", 2, 4),
        ("id between 2 and 3", 1, 2),
        ("sum = 1.25 and at < timestamp '2024-01-01'", 3, 18),
    ):
        scan = table.scan(where)
        assert (len(scan.plan.files), scan.count(), read(scan).num_rows) == (files, found, found), where
    assert table.scan("id between 2 and 3").plan.files[0].row_groups == (1,)
    assert read(table.scan(columns=["region"])).num_rows == 18
    assert lake.check(full=True).findings == ()

    wanted = {row["id"]: row for row in expected().to_pylist()}
    table.append(expected().slice(0, 1).set_column(0, "id", pa.array([100])))
    table.delete("id in (11, 20)")
    table.update("region = 'eu' and id = 3", {"word": "'changed'"})
    merged = expected().slice(4, 1).set_column(2, "word", pa.array(["merged"]))
    table.merge(pa.concat_tables([merged, merged.set_column(0, "id", pa.array([101]))]), on=["id"])
    wanted |= {100: wanted[0] | {"id": 100}, 101: wanted[4] | {"id": 101, "word": "merged"}}
    wanted[3]["word"], wanted[4]["word"] = "changed", "merged"
    del wanted[11], wanted[20]
    table.compact()
    assert str(read(table.scan()).sort_by("id").to_pylist()) == str([wanted[key] for key in sorted(wanted)])
    assert all(path.startswith("region=") for path in table.files().column("path").to_pylist())
    assert same_rows(table.scan(version=1).to_arrow(), expected())
    assert table.expire(keep_last=1).versions
    table.vacuum(older_than=0, force=True)
    assert kept(lake, "landing") == before
    lake.drop_table("sales.old")
    lake.vacuum(older_than=0, force=True)
    assert kept(lake, "landing") == before
    again = lake.import_parquet("sales.new", ["landing/*/*/[ab].parquet", "landing/**/c*"])
    assert again.row_count == 18 and same_rows(lake.table("sales.new").scan().to_arrow(), expected())


def test_files_with_parqlake_names_are_their_owners_too(lake: Lake) -> None:
    name = "part-019a3c2e-5c00-7000-8000-00000000000{}.parquet"
    for number in range(2):
        put(lake, f"copied/{name.format(number)}", orders(5, first=number * 5))
    lake.import_parquet("sales.some", f"copied/{name.format(0)}")
    before = kept(lake, "copied")
    table = lake.table("sales.some")
    table.overwrite(orders(1))
    table.expire(keep_last=1)
    result = table.vacuum(older_than=0, force=True)
    assert (result.files, result.strays) == (0, ())
    lake.recover()
    lake.drop_table("sales.some")
    lake.vacuum(older_than=0, force=True)
    assert kept(lake, "copied") == before


def test_what_cannot_be_imported_is_named_and_nothing_is_written(lake: Lake) -> None:
    for number in range(3):
        put(lake, f"good/{number}.parquet", rows(number))
    whole = kept(lake, "good")["good/0.parquet"]
    put(lake, "torn/a.parquet", rows(0))
    put(lake, "torn/empty.parquet", b"")
    put(lake, "torn/short.parquet", whole[:-20])
    put(lake, "torn/table.csv", b"id,price\n1,2\n")
    put(lake, "clash/a.parquet", rows(0))
    put(lake, "clash/b.parquet", rows(0, id=pa.array(list("abcdef"))))
    put(lake, "units/a.parquet", rows(0))
    put(lake, "units/b.parquet", rows(0, at=pa.array([1] * 6, pa.timestamp("ns"))))
    put(lake, "nothing/a.parquet", rows(0, none=pa.nulls(6)))
    put(lake, "odd/a.parquet", rows(0, took=pa.array([1] * 6, pa.duration("s"))))
    put(lake, "depth/x=1/a.parquet", rows(0))
    put(lake, "depth/b.parquet", rows(0))
    put(lake, "both/id=7/a.parquet", rows(0))
    put(lake, "zeros/p=01/a.parquet", rows(0))
    put(lake, "zeros/p=2/a.parquet", rows(0))
    put(lake, "delta/a.parquet", rows(0))
    put(lake, "delta/_delta_log/00000000000000000000.json", b"{}")
    put(lake, "_hidden/_a.parquet", rows(0))
    lake.create_table("sales.own", orders(1)).append(orders(3))
    own = lake.table("sales.own").location
    before = state(lake)

    def refused(error: type[Exception], source: Any, *texts: str, **options: Any) -> None:
        with pytest.raises(error) as caught:
            lake.import_parquet("sales.bad", source, **options)
        for text in texts:
            assert text in str(caught.value)

    refused(errors.DataCorruptionError, "torn", "3 of 4", "torn/empty.parquet", "0 bytes", "torn/short.parquet", "csv")
    refused(errors.TypeMismatchError, "clash", '"id"', "clash/a.parquet", "clash/b.parquet", "schema=")
    refused(errors.TypeMismatchError, "units", '"at"', "units/b.parquet", "append()")
    refused(errors.SchemaMismatchError, "nothing", '"none"', "schema=")
    refused(errors.DataCorruptionError, "odd", '"took"', "duration", "odd/a.parquet")
    refused(errors.SchemaMismatchError, "depth", "depth/x=1/a.parquet", "depth/b.parquet", "partition_by")
    refused(errors.SchemaMismatchError, "both", '"id"', "'7'", "partition_by")
    refused(errors.InvalidOptionError, "good", '"shop"', partition_by=["shop"])
    refused(errors.SchemaMismatchError, "good", '"price"', schema=pa.schema({"id": pa.int64()}))
    refused(errors.TypeMismatchError, "zeros", "p='01'", schema=rows(0).schema.append(pa.field("p", pa.date32())))
    refused(errors.ConstraintError, "good", '"price"', schema=_not_null(rows(0).schema, "price"))
    refused(errors.InvalidOptionError, "delta", "Delta", "_delta_log")
    refused(errors.InvalidOptionError, own, "sales.own", "append()")
    refused(
        errors.FileNotInStoreError, "goood/*.parquet" if not lake.context.store.is_local else "good/*.csv", "no file"
    )
    refused(errors.FileNotInStoreError, "_hidden", "only hidden")
    refused(errors.UnsafePathError, "/elsewhere/files", "below the root", "append()")
    refused(errors.UnsafePathError, "s3://other/files", "append()")
    refused(errors.UnsafePathError, "good/../../etc", "below the root")
    refused(errors.InvalidOptionError, [], "empty")
    refused(errors.InvalidOptionError, [7], "7")
    assert state(lake) == before

    assert lake.import_parquet("main.both", "both", partition_by=[]).row_count == 6
    assert lake.import_parquet("main.zeros", "zeros").schema.field("p").type == pa.string()
    texts = lake.import_parquet("main.texts", "clash", schema=rows(0, id=pa.array(["a"] * 6)).schema)
    assert texts.row_count == 12 and lake.table("main.texts").scan("id = '3'").count() == 1
    given = rows(0).schema.append(pa.field("later", pa.int8()))
    assert lake.import_parquet("main.later", "good/0.parquet", schema=given).schema.names[-1] == "later"


def _not_null(schema: pa.Schema, name: str) -> pa.Schema:
    return pa.schema([field.with_nullable(field.name != name) for field in schema])


def in_groups(*counts: int) -> bytes:
    """A file of row groups of so many rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema({"id": pa.int64()}), compression="none", use_dictionary=False) as writer:
        for count in counts:
            writer.write_table(pa.table({"id": pa.array(range(count), pa.int64())}))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def test_files_that_were_changed_after_the_import_are_found(lake: Lake) -> None:
    for name in "abc":
        put(lake, f"landing/{name}.parquet", in_groups(2, 4))
    source = f"{lake.url}/landing" if "://" in lake.url else "landing"
    assert lake.import_parquet("sales.old", source).row_count == 18
    assert lake.check().findings == ()
    lake.context.store.delete(["landing/a.parquet"])
    put(lake, "landing/b.parquet", in_groups(2, 3))
    assert len(in_groups(4, 2)) == len(in_groups(2, 4))
    put(lake, "landing/c.parquet", in_groups(4, 2))
    findings = {finding.file: finding.message for finding in lake.check().findings}
    assert "missing" in findings["landing/a.parquet"]
    assert "changed after its import" in findings["landing/b.parquet"]
    assert "changed after its import" in findings["landing/c.parquet"]


def test_statistics_of_other_writers_never_hide_a_row(lake: Lake, backend: Backend) -> None:
    """Types whose footers speak in other units or encodings; a NaN that a writer took for the least value."""
    columns = {
        "half": pa.array([1, 2, 3], pa.float32()).cast(pa.float16()),
        "fixed": pa.array([b"ab", b"cd", b"\xff\xff"], pa.binary(2)),
        "time": pa.array([1, 2, 3], pa.time32("ms")),
        "nano": pa.array([1, 1001, 999_999], pa.timestamp("ns")),
        "zone": pa.array([1, 2, 3], pa.timestamp("ms", "Asia/Tokyo")),
        "wide": pa.array([2**63, 1, 0], pa.uint64()),
        "tiny": pa.array([-128, 0, 127], pa.int8()),
        "big": pa.array([Decimal("12345678901234567890.12"), None, Decimal("-1.00")], pa.decimal128(24, 2)),
        "small": pa.array([Decimal("1.50"), None, Decimal("-1.00")], pa.decimal128(5, 2)),
        "view": pa.array(["ü" * 40, "", "z"], pa.string_view()),
        "long": pa.array(["x" * 100, "x" * 99, "x" * 64 + "y"], pa.large_string()),
        "day": pa.array([1, 2, 3], pa.date64()).cast(pa.date64(), safe=False),
        "nan": pa.array([float("nan"), 1.0, -1.0]),
    }
    table = pa.table(columns)
    if backend.engine == "spark":  # which refuses the other types by name; the other engines see them all
        table = table.select([field.name for field in canonical_schema(table.schema) if spark_holds(field.type)])
        assert {"zone", "tiny", "big", "long", "nan"} <= set(table.column_names)
    put(lake, "types/a.parquet", table, row_group_size=1, store_decimal_as_integer=True)
    other = table.drop_columns(["zone"])  # which the timestamps that Spark once wrote do not know
    put(lake, "types/b.parquet", other, use_deprecated_int96_timestamps=True)
    lake.import_parquet("types.all", "types")
    made = lake.table("types.all")
    whole = made.scan().to_arrow()
    assert lake.check(full=True).findings == ()
    for field in whole.schema:
        assert is_prunable(field.type)
        for value in whole.column(field.name).unique():
            if value.is_valid and str(value) != "nan":
                found = made.scan([(field.name, "=", value.as_py())]).count()
                assert found == whole.column(field.name).to_pylist().count(value.as_py()), (field.name, value)


def test_a_local_path_may_be_given_in_any_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        put(lake, "landing/a[1].parquet", orders(4))
        monkeypatch.chdir(tmp_path / "lake" / "landing")
        full = tmp_path / "lake" / "landing"
        spellings = ["landing", full, f"file://{full}", "a[1].parquet", [full / "a[1].parquet"], f"{full}/*.parquet"]
        for number, source in enumerate(spellings):
            assert lake.import_parquet(f"main.t{number}", source).row_count == 4


def test_a_lost_catalog_is_not_made_of_half_a_table(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        put(lake, "landing/a.parquet", orders(4))
        lake.import_parquet("sales.old", "landing")
        lake.table("sales.old").append(orders(2))
    for path in (tmp_path / "lake").glob("catalog.sqlite*"):
        path.unlink()
    with pytest.raises(errors.AmbiguousFilesError, match="append beside imported files"):
        parqlake.rebuild(tmp_path / "lake")


def test_others_read_what_only_folders_say(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        for number, region in enumerate(["eu", NULL]):
            put(lake, f"landing/region={region}/a.parquet", orders(3, first=number * 3).drop_columns(["region"]))
        lake.import_parquet("sales.old", "landing")
        query = "select id, region from sales.old where id > 1"
        for found in (
            lake.sql(query).to_arrow(),
            lake.sql(query, engine="datafusion").to_arrow(),
            lake.table("sales.old").scan("id > 1", columns=["id", "region"]).to_polars().to_arrow(),
        ):
            assert found.sort_by("id").to_pydict() == {"id": [2, 3, 4, 5], "region": ["eu", None, None, None]}
