"""Whoever a scan is handed to reads the same rows: one body over all connectors, and over both kinds of stores."""

from __future__ import annotations

import math
import subprocess
import time
import venv
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import parqlake
from parqlake import Lake, Scan, Table, errors
from parqlake.connectors import daft_source, datafusion_tables, duckdb_views, polars_frames
from parqlake.table import holding
from parqlake.testing.data import ORDERS, TYPES, bag, data_files, ids, orders

ROOT = Path(__file__).resolve().parents[2]
NAN = math.nan
Connector = Callable[[Scan], pa.Table]
CONNECTORS: dict[str, Connector] = {
    "__arrow_c_stream__": lambda scan: pa.RecordBatchReader.from_stream(scan).read_all(),
    "pandas": lambda scan: pa.Table.from_pandas(scan.to_pandas(types_mapper=pd.ArrowDtype), schema=scan.schema),
    "DuckDB": lambda scan: _duckdb_view(scan),
    "Polars": lambda scan: scan.to_polars().to_arrow(),
    "Polars lazy": lambda scan: scan.scan_polars().collect().to_arrow(),
    "DataFusion": lambda scan: _datafusion_table(scan),
}
OPENS_FILES = ("DuckDB",)
"""Who opens files itself, and for whom it matters where they are."""


@cache
def _connection() -> Any:
    con = duckdb.connect()
    con.execute("set TimeZone = 'America/New_York'")  # moments stay what they are
    return con


def _duckdb_view(scan: Scan) -> pa.Table:
    scan.to_duckdb(_connection(), 'it\'s a "view"')
    return _connection().sql('select * from "it\'s a ""view"""').to_arrow_table()


def _datafusion_table(scan: Scan) -> pa.Table:
    ctx = datafusion.SessionContext()
    scan.to_datafusion(ctx, "a_table")
    return ctx.sql("select * from a_table").to_arrow_table()


def _connectors(lake: Lake) -> dict[str, Connector]:
    return {name: use for name, use in CONNECTORS.items() if lake.context.store.is_local or name in OPENS_FILES}


both_stores = pytest.mark.parametrize("lake", ["local", "memory"], indirect=True)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """A lake in a folder with an odd name, or in memory, which DuckDB reaches through fsspec."""
    in_memory = getattr(request, "param", "local") == "memory"
    root = f"memory://connect-{tmp_path.name}" if in_memory else str(tmp_path / "odd [name]*" / "lake")
    with parqlake.connect(root, catalog=f"sqlite:///{tmp_path / 'catalog.sqlite'}") as opened:
        yield opened


def typed(lake: Lake) -> Table:
    """A column of every type, with all its awkward values; one file of each engine."""
    longest = max(len(case.values) for case in TYPES)
    columns = [pa.array(range(longest), pa.int64())]
    columns += [pa.concat_arrays([case.array(), pa.nulls(longest - len(case.values), case.type)]) for case in TYPES]
    rows = pa.table(columns, pa.schema([("id", pa.int64()), *((case.name, case.type) for case in TYPES)]))
    table = lake.create_table("types.every", rows)
    table.append(rows)
    table.append(rows, engine="duckdb")
    return table


def evolved(lake: Lake) -> Table:
    """Files of three schemas: renamed, wider, dropped, added with a default, inside structs too."""
    inner = pa.struct([("a", pa.int32()), ("f", pa.float64())])
    first = pa.schema(
        [
            ("id", pa.int32()),
            ("x", pa.float32()),
            ("s", inner),
            ("items", pa.list_(pa.struct([("q", pa.int16())]))),
            ("map", pa.map_(pa.string(), inner)),
            ("gone", pa.string()),
            ("day", pa.date32()),
        ]
    )
    table = lake.create_table("types.evolved", first)
    rows = [
        {"id": 1, "x": 1.5, "s": {"a": 1, "f": 2.0}, "items": [{"q": 7}, None], "map": [("k", {"a": 1, "f": NAN})]},
        {"id": 2, "x": NAN, "s": None, "items": None, "map": None, "gone": "b", "day": datetime(2026, 1, 1).date()},  # noqa: DTZ001
    ]
    table.append(pa.Table.from_pylist(rows, first))
    table.rename_column("x", "y")
    table.widen_column("id", pa.int64())
    table.widen_column("y", pa.float64())
    table.widen_column("day", pa.timestamp("us"))
    table.drop_column("gone")
    table.add_column("gone", pa.int64(), default=7)
    table.append(pa.Table.from_pylist([{"id": 3, "y": 9.5, "s": {"a": 5, "f": NAN}}], table.schema()))
    table.add_column("s.z", pa.string(), default="it's")
    table.widen_column("items.element.q", pa.int64())
    table.rename_column("map.value.f", "g")
    table.append(pa.Table.from_pylist([{"id": 4, "items": [], "map": [("n", None)]}], table.schema()))
    return table


def with_text(lake: Lake) -> Table:
    """Numbers that became text, which every engine would spell in its own way."""
    table = lake.create_table("types.text", pa.schema([("id", pa.int64()), ("v", pa.float64())]))
    table.append(pa.table({"id": [1, 2], "v": [1.0, 2.5]}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ColumnBecameTextWarning)
        table.append(pa.table({"id": [3], "v": ["x"]}), schema_mode="promote")
    return table


def with_nan(lake: Lake) -> Table:
    """NaNs that the bounds of Parquet's footers say nothing of."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("s", pa.struct([("f", pa.float32())]))])
    table = lake.create_table("types.nan", schema)
    values = [1.0, NAN, 1.0, None, -0.0, 1.0]
    rows = {"id": list(range(6)), "f": values, "s": [{"f": value} for value in values]}
    for engine in ("pyarrow", "duckdb"):
        table.append(pa.table(rows, schema), engine=engine)
    return table


def imported(lake: Lake) -> Table:
    """Files whose folders alone tell the region."""
    place = {"base_dir": lake.context.store.full_path("landing"), "filesystem": lake.context.store.arrow_filesystem()}
    folders = ds.partitioning(pa.schema([ORDERS.field("region")]), flavor="hive")
    ds.write_dataset(orders(30), format="parquet", partitioning=folders, **place)
    lake.import_parquet("types.imported", "landing")
    return lake.table("types.imported")


def by_region(lake: Lake) -> Table:
    table = lake.create_table("sales.orders", ORDERS, partition_by=["region"])
    for start in range(0, 100, 20):
        table.append(orders(20, first=start))
    return table


def _scans(lake: Lake) -> dict[str, Scan]:
    every, older, text, nan, parts = typed(lake), evolved(lake), with_text(lake), with_nan(lake), by_region(lake)
    others = imported(lake)
    return {
        "every type": every.scan(),
        "every type, filtered": every.scan("id > 1 and id < 5"),
        "every type, no rows": every.scan("id < 0"),
        "every type, some columns": every.scan("id > 2", columns=["timestamp_ns_utc", "map", "uint64"]),
        "every type, first version": every.scan(version=1),
        "every type, empty version": every.scan(version=0),
        "evolved": older.scan(),
        "evolved, filtered": older.scan("y > 2 or gone = 7", columns=["s", "y", "id"]),
        "evolved, inside a struct": older.scan("s.f > 100", columns=["items", "map", "s"]),
        "evolved, before that": older.scan(version=1),
        "text": text.scan(),
        "text, filtered": text.scan("v = '2.5'"),
        "NaN": nan.scan("f > 5"),
        "NaN, inside a struct": nan.scan("s.f > 5"),
        "NaN, zero": nan.scan("f = 0"),
        "partitions": parts.scan("region = 'eu' and id >= 60"),
        "imported": others.scan(),
        "imported, filtered": others.scan("region = 'eu' or region is null", columns=["region", "id"]),
        "partitions, NULL": parts.scan("region is null", columns=["day"]),
    }


@both_stores
def test_all_connectors_give_the_same_rows(lake: Lake, subtests: pytest.Subtests) -> None:
    for case, scan in _scans(lake).items():
        expected = scan.to_arrow()
        for name, connector in _connectors(lake).items():
            with subtests.test(case=case, connector=name):
                found = connector(scan)
                assert found.column_names == expected.column_names
                assert bag(found.cast(scan.schema)) == bag(expected)
    assert lake.table("types.nan").scan("f > 5").to_duckdb().shape[0] == 2
    assert lake.table("types.nan").scan("f = 0").to_polars()["id"].to_list() == [4, 4]
    for engine in ("duckdb", "datafusion"):
        assert ids(lake.sql("select id from types.nan where f > 5", engine=engine).to_arrow()) == [1, 1]


def test_a_limit_holds_everywhere(lake: Lake, subtests: pytest.Subtests) -> None:
    table = by_region(lake)
    matching = set(ids(table.scan("id >= 30").to_arrow()))
    for name, connector in _connectors(lake).items():
        with subtests.test(connector=name):
            assert connector(table.scan(limit=7)).num_rows == 7
            found = ids(connector(table.scan("id >= 30", limit=9)))
            assert len(found) == 9 and set(found) <= matching
    limited = table.scan(limit=40)
    assert limited.scan_polars().filter(pl.col("id") >= 0).collect().height == 40
    assert limited.to_datafusion().filter(datafusion.col("id") >= 0).count() == 40
    with pytest.raises(errors.InvalidOptionError, match="at most 40 rows"):
        limited.narrowed("id > 3")


CONDITIONS = (
    "id >= 85",
    "id >= 80 and region = 'eu'",
    "85 <= id",
    "id in (81, 99, 92)",
    "id between 90 and 93",
    "not (id < 90)",
    "day >= date '2026-01-10'",
    "id > 80 and (region is null or region = 'us')",
    "id > 80 and amount is null",
    "id > 80 and amount > 42.5",
    "id >= 80 and id % 7 = 0",
    "id > 500",
)
QUERIES: dict[str, Callable[[Lake, str], pa.Table]] = {
    "Polars": lambda lake, where: lake.table("sales.orders").scan().scan_polars().filter(pl.sql_expr(where)).collect(),
    "DataFusion": lambda lake, where: _datafusion_query(lake, where),
    "SQL, DuckDB": lambda lake, where: lake.sql(f"select * from sales.orders where {where}").to_arrow(),
    "SQL, DataFusion": lambda lake, where: lake.sql(
        f"select * from sales.orders where {where}", engine="datafusion"
    ).to_arrow(),
}


def _datafusion_query(lake: Lake, where: str) -> pa.Table:
    ctx = datafusion.SessionContext()
    lake.attach(ctx, namespace="sales")
    return ctx.sql(f"select * from sales.orders where {where}").to_arrow_table()


@both_stores
def test_conditions_of_queries_prune_through_the_catalog(lake: Lake, subtests: pytest.Subtests) -> None:
    table = by_region(lake)
    expected = {where: bag(table.scan(where).to_arrow()) for where in CONDITIONS}
    needed = {file.path for file in table.scan("id >= 80").plan.files}
    for path in {file.path for file in table.scan().plan.files} - needed:
        lake.context.store.delete([path])  # whoever opens a file that cannot match fails
    with pytest.raises(errors.DataCorruptionError):
        table.scan().to_arrow()
    chosen = QUERIES if lake.context.store.is_local else {"SQL, DuckDB": QUERIES["SQL, DuckDB"]}
    for name, query in chosen.items():
        for where in CONDITIONS if lake.context.store.is_local else CONDITIONS[:3]:
            with subtests.test(engine=name, where=where):
                found = query(lake, where)
                rows = found.to_arrow() if isinstance(found, pl.DataFrame) else found
                assert bag(rows.cast(ORDERS)) == expected[where]
    frame = table.scan().scan_polars()
    assert frame.filter(pl.col("id") > 90).head(3).collect().height == 3
    assert frame.filter(pl.col("id") > 90).select(pl.len()).collect().item() == 9
    odd = pl.col("id").map_elements(lambda number: str(number)[-1] == "4", pl.Boolean)  # Polars has to do it itself
    assert frame.filter(pl.col("id") > 80, odd).collect()["id"].sort().to_list() == [84, 94]


@both_stores
def test_attached_tables_are_queried_by_name(lake: Lake) -> None:
    table = by_region(lake)
    lines = lake.create_table("stock.lines", pa.schema([("order_id", pa.int64()), ("n", pa.int64())]))
    lines.append(pa.table({"order_id": [1, 2, 2], "n": [5, 6, 7]}))
    query = "select o.region, sum(l.n) as n from sales.orders o join stock.lines l on o.id = l.order_id group by 1"
    expected = {("us", 5), (None, 13)}
    con, ctx = duckdb.connect(), datafusion.SessionContext()
    for target, run in ((con, lambda: con.sql(query).to_arrow_table()), (ctx, lambda: ctx.sql(query).to_arrow_table())):
        assert lake.attach(target) == ["sales.orders", "stock.lines"]
        assert {(row["region"], row["n"]) for row in run().to_pylist()} == expected
    table.append(orders(5, first=100))
    count = "select count(*) from sales.orders"
    assert con.sql(count).fetchall() == [(100,)]  # the version that was the newest then
    assert lake.attach(con, namespace="sales") == ["sales.orders"] == lake.attach(ctx, namespace="sales")
    assert con.sql(count).fetchall() == [(105,)]
    assert con.cursor().sql(count).fetchall() == [(105,)]
    assert ctx.sql(count).to_arrow_table().column(0).to_pylist() == [105]


def test_what_cannot_be_attached_is_refused(lake: Lake) -> None:
    by_region(lake)
    with pytest.raises(errors.InvalidOptionError, match="cannot be attached to a dict"):
        lake.attach({})
    with pytest.raises(errors.InvalidOptionError, match="no DuckDB connection"):
        lake.table("sales.orders").scan().to_duckdb("con")
    with pytest.raises(errors.InvalidOptionError, match="no DataFusion context"):
        lake.table("sales.orders").scan().to_datafusion("ctx")
    with pytest.raises(errors.InvalidOptionError, match="no name for a view"):
        lake.table("sales.orders").scan().to_duckdb(name=" ")
    lake.create_table("sales.ORDERS", ORDERS)
    con = duckdb.connect()
    with pytest.raises(errors.InvalidOptionError, match="differ only in case"):
        lake.attach(con)
    assert con.sql("select count(*) from duckdb_views() where not internal").fetchall() == [(0,)]


def test_what_is_handed_out_can_be_written_back(lake: Lake, subtests: pytest.Subtests) -> None:
    source = by_region(lake)
    scan = source.scan("id >= 20")
    forms: dict[str, Any] = {
        "scan": scan,
        "pandas": scan.to_pandas(types_mapper=pd.ArrowDtype),
        "DuckDB relation": scan.to_duckdb(),
        "Polars": scan.to_polars(),
        "Polars lazy": scan.scan_polars(),
        "DataFusion": scan.to_datafusion(),
        "SQL, DuckDB": lake.sql("select * from sales.orders where id >= 20"),
        "SQL, DataFusion": lake.sql("select * from sales.orders where id >= 20", engine="datafusion"),
    }
    for number, (name, data) in enumerate(forms.items()):
        with subtests.test(form=name):
            target = lake.create_table(f"back.t{number}", source.schema())
            assert target.append(data).row_count == 80
            assert bag(target.scan().to_arrow()) == bag(scan.to_arrow())
    made = lake.create_table("back.made", scan.to_datafusion())
    assert [field.name for field in made.schema()] == ORDERS.names


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        (duckdb_views, "duckdb", lambda scan: scan.to_duckdb()),
        (polars_frames, "polars", lambda scan: scan.to_polars()),
        (polars_frames, "polars", lambda scan: scan.scan_polars()),
        (datafusion_tables, "datafusion", lambda scan: scan.to_datafusion()),
        (daft_source, "daft", lambda scan: scan.to_daft()),
    ],
    ids=["duckdb", "polars", "polars lazy", "datafusion", "daft"],
)
def test_a_missing_extra_is_named(
    module: Any, extra: str, use: Callable[[Scan], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parqlake.connect(tmp_path / "lake").create_table("sales.orders", ORDERS)
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(errors.MissingExtraError, match=rf"{extra} is not installed.*parqlake\[{extra}\]"):
        use(table.scan())


def test_handed_over_versions_are_held(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "REGISTER_AFTER_SECONDS", 0.01)
    table = lake.create_table("sales.orders", ORDERS)
    for start in range(4):
        table.append(orders(5, first=5 * start))
    con, ctx = duckdb.connect(), datafusion.SessionContext()
    relation, frame = table.scan(version=1).to_duckdb(con), table.scan(version=2).scan_polars()
    table.scan(version=3).to_datafusion(ctx, "third")
    result = lake.sql("select * from sales.orders@4")

    def held() -> set[int]:
        with lake.context.catalog.read() as reader:
            return {lease.last for lease in reader.reader_leases(datetime.now(UTC))}

    deadline = time.monotonic() + 10
    while held() != {1, 2, 3, 4} and time.monotonic() < deadline:
        time.sleep(0.02)
    assert held() == {1, 2, 3, 4}
    table.overwrite(orders(1))
    assert table.expire(keep_last=1).versions == ()
    assert len(data_files(lake.url)) == 5
    found = relation.shape[0], frame.collect().height, ctx.table("third").count(), result.to_arrow().num_rows
    assert found == (5, 10, 15, 20)


@pytest.mark.slow  # an environment of its own is made, because Daft wants an older PyArrow
def test_daft_reads_prunes_and_writes_back(tmp_path: Path) -> None:
    python = ROOT / ".venv" / "peers" / "daft" / "bin" / "python"
    check = [str(python), "-c", "import daft, parqlake"]
    if not python.exists() or subprocess.run(check, check=False, capture_output=True).returncode:
        venv.create(python.parent.parent, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", f"{ROOT}[daft]"]
        made = subprocess.run(install, check=False, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"Daft cannot be installed here: {made.stderr.strip().splitlines()[-1:]}")
    program = Path(__file__).with_name("daft_program.py")
    done = subprocess.run(
        [str(python), str(program), str(tmp_path / "lake")], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.endswith("done\n"), done.stderr
