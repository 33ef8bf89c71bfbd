"""`lake.sql`: right rows, pruned by the query's own conditions, and nothing but reading."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import parqlake
from parqlake import Lake, errors
from parqlake.connectors.sql_duckdb import pruned
from parqlake.connectors.sql_pruning import needed
from parqlake.connectors.sql_reading import read_query
from parqlake.core.predicates import bind
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import TRUE
from parqlake.table.lake_reading import Pin, pinned_scans
from parqlake.testing.data import ORDERS, bag, orders, state

LINES = pa.schema([("order_id", pa.int64()), ("n", pa.int64()), ("note", pa.string()), ("id", pa.int64())])


def lines(count: int) -> pa.Table:
    notes = ("x", None, "it's")
    rows = [{"order_id": 3 * i, "n": i % 5, "note": notes[i % 3], "id": i} for i in range(count)]
    return pa.Table.from_pylist(rows, LINES)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Orders in ten versions, ten a version, and lines; only read here."""
    with parqlake.connect(tmp_path_factory.mktemp("sql") / "lake") as opened:
        table = opened.create_table("sales.orders", ORDERS)
        for start in range(0, 100, 10):
            table.append(orders(10, first=start))
        table.tag("release-1", version=2)
        opened.create_table("sales.lines", LINES).append(lines(30))
        yield opened


def _count(lake: Lake, query: str, **options: Any) -> Any:
    return lake.sql(query, **options).to_arrow().column(0).to_pylist()


def _files(lake: Lake, text: str, parameters: Any = None) -> list[int]:
    """How many files of each table are left for DuckDB."""
    query = read_query(text)
    scans = pinned_scans(lake.context, [Pin(found.table, found.version) for found in query.references])
    return [len(scan.plan.files) for scan in pruned(query, scans, parameters)]


@pytest.mark.parametrize("engine", ["duckdb", "datafusion"])
def test_versions_parameters_and_forms(lake: Lake, engine: str) -> None:
    count = "select count(*) from sales.orders"
    assert _count(lake, count, engine=engine) == [100]
    assert _count(lake, f"{count}@3", engine=engine) == [30]
    assert _count(lake, 'select count(*) from sales."orders@release-1"', engine=engine) == [20]
    assert _count(lake, "select count(*) from sales.orders@1 a, sales.orders@2 b, sales.orders c", engine=engine) == [
        10 * 20 * 100
    ]
    assert _count(lake, count, engine=engine, version=4) == [40]
    assert _count(lake, count, engine=engine, version="release-1") == [20]
    both = "select count(*) from sales.orders, sales.lines"
    assert _count(lake, both, engine=engine, version={"sales.orders": 1}) == [300]
    assert _count(lake, f"{count}@5", engine=engine, version=4) == [50]
    moment = lake.table("sales.orders").history()[-3].committed_at
    assert _count(lake, count, engine=engine, as_of=moment) == [30]
    assert _count(lake, f"{count} where id >= ? and region = ?", engine=engine, parameters=[40, "eu"]) == [15]
    assert _count(lake, f"{count} where id >= $low", engine=engine, parameters={"low": 90}) == [10]
    assert _count(lake, f"{count} where id >= $2 and id < $1", engine=engine, parameters=[7, 3]) == [4]

    result = lake.sql("select id, region as r from sales.orders where id < 3 order by id", engine=engine)
    assert result.columns == ["id", "r"] == result.schema.names
    assert repr(result) == "<SqlResult with columns id, r>"
    expected = [{"id": 0, "r": "eu"}, {"id": 1, "r": "us"}, {"id": 2, "r": None}]
    for _ in range(2):  # it can be asked again
        assert result.to_arrow().to_pylist() == expected
    assert pa.RecordBatchReader.from_stream(result).read_all().to_pylist() == expected
    assert pa.schema(result) == result.schema
    assert pl.DataFrame(expected).equals(result.to_polars())
    assert result.to_pandas()["id"].tolist() == [0, 1, 2]
    one, other = result.to_batches(), result.to_batches()  # side by side
    assert one.read_next_batch().num_rows == other.read_next_batch().num_rows == 3
    assert lake.sql("select * from sales.orders where false", engine=engine).to_arrow().num_rows == 0


def test_versions_stay_what_they_were(tmp_path: Path) -> None:
    lake = parqlake.connect(tmp_path / "lake")
    table = lake.create_table("sales.orders", ORDERS)
    table.append(orders(10))
    result = lake.sql("select count(*) from sales.orders")
    table.overwrite(orders(3))
    assert result.to_arrow().column(0).to_pylist() == [10]
    assert _count(lake, "select count(*) from sales.orders") == [3]
    early = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(errors.VersionNotFoundError, match="did not exist"):
        lake.sql("select * from sales.orders", as_of=early)


def test_conditions_prune_each_table(lake: Lake) -> None:
    table = "sales.orders"
    for where, files in (
        ("id = 42", 1),
        ("id = 42 or id = 77", 2),
        ("id in (1, 2, 55)", 2),
        ("ID between 18 and 21", 2),
        ("not id < 95", 1),
        ("day >= '2026-01-09'", 2),
        ("day >= date '2026-01-09' and amount > 1", 2),
        ("amount < 3", 1),
        ("amount < 3.5e0", 1),
        ("id > 94 and length(region) = 2", 1),
        ("sales.orders.id = 5 -- and so on", 1),
        ("id + 1 = 5", 10),
        ("cast(id as varchar) = '5'", 10),
    ):
        assert _files(lake, f"select * from {table} where {where}") == [files], where
    assert _files(lake, f"select * from {table} where day = ?", parameters=[date(2026, 1, 2)]) == [1]
    assert _files(lake, f"select * from {table} where id in (?, ?)", parameters=[1, -2]) == [1]
    assert _files(lake, f"select * from {table} where day = ?", parameters=["2026-01-02"]) == [10]
    join = "select * from sales.orders o join sales.lines l on o.id = l.order_id"
    assert _files(lake, f"{join} and o.id < 5 where n = 1") == [1, 1]
    assert _files(lake, "with a as (select * from sales.orders where id = 3) select * from a where region = 'us'") == [
        1
    ]
    assert _files(
        lake, "select * from sales.orders where id = 3 union all select * from sales.orders where id = 93"
    ) == [2]
    assert _files(lake, "select (select max(id) from sales.orders where id < 7), * from sales.lines") == [1, 1]
    assert _files(lake, "select * from sales.orders@3 where id >= 25") == [1]


CONDITIONS = (
    "{a}.id < 20",
    "{a}.id = 15",
    "{a}.id in (3, 9, 60)",
    "{a}.region = 'eu'",
    "{a}.region is null",
    "{a}.region is not null",
    "{a}.region like 'e%'",
    "{a}.amount > 30",
    "not ({a}.amount > 10)",
    "({a}.id < 9 or {a}.region is null)",
    "{a}.day < date '2026-01-04'",
    "{b}.n = 2",
    "{b}.n is null",
    "{b}.note is null",
    "{b}.note is not null",
    "{b}.note = 'it''s'",
    "{b}.order_id > 30",
    "({b}.order_id > 30 or {b}.n is null)",
    "{b}.id <= 12",
    "coalesce({b}.n, 9) = 9",
    "{a}.id < {b}.order_id + 5",
)
JOINS = (
    "join {t} {b} on {a}.id = {b}.order_id",
    "join {t} {b} on {a}.id = {b}.order_id and {c}",
    "left join {t} {b} on {a}.id = {b}.order_id",
    "left join {t} {b} on {a}.id = {b}.order_id and {c}",
    "right join {t} {b} on {a}.id = {b}.order_id and {c}",
    "full join {t} {b} on {a}.id = {b}.order_id and {c}",
    "join {t} {b} using (id)",
    "natural join {t} {b}",
    "asof join {t} {b} on {a}.id >= {b}.order_id",
    "asof left join {t} {b} on {a}.id >= {b}.order_id",
    "semi join {t} {b} on {a}.id = {b}.order_id and {c}",
    "anti join {t} {b} on {a}.id = {b}.order_id and {c}",
    "positional join {t} {b}",
    "cross join {t} {b}",
    ", {t} {b}",
)
SHAPES = (
    "select count(*), sum(o.id) from sales.orders o {join} where {where}",
    "select * from sales.lines where id in (select o.id from sales.orders o {join} where {where})",
    "with r as (select o.id as region, o.region as x from sales.orders o {join} where {where}) "
    "select * from r where region < 30",
    "select o.id + 1 as id, id as n from sales.orders o where id < 12 and exists "
    "(select 1 from sales.lines o {inner} where {where})",
    "select * from (from sales.orders o {join} select o.id where {where}) union "
    "select order_id from sales.lines where n = 1",
)


def _random_query(rng: random.Random) -> str:
    def condition(a: str, b: str) -> str:
        return rng.choice(CONDITIONS).format(a=a, b=b)

    join = rng.choice(JOINS).format(t="sales.lines", a="o", b="l", c=condition("o", "l"))
    gone = join.startswith(("semi", "anti"))
    conditions = CONDITIONS[:11] if gone else CONDITIONS
    where = " and ".join(rng.choice(conditions).format(a="o", b="l") for _ in range(rng.choice((1, 2))))
    if rng.random() < 0.2:
        where = where.replace("o.region", "region").replace("l.n ", "n ")
    inner = ", ".join(["", "sales.orders l"]) if rng.random() < 0.5 else "left join sales.orders l on l.id = o.order_id"
    shape = rng.choice(SHAPES)
    if "{inner}" in shape:
        where = " and ".join(condition("l", "o") for _ in range(2))
    return shape.format(join=join, where=where, inner=inner)


def test_pruning_never_changes_the_rows_of_a_query() -> None:
    """The same query over whole tables, and over the rows alone that it was found to need."""
    whole = {"orders": orders(60), "lines": lines(40)}
    con = duckdb.connect()
    con.execute("create schema sales; create schema few")
    for name, rows in whole.items():
        con.register(f"all_{name}", rows)
        con.execute(f"create table sales.{name} as from all_{name}")
    rng, run = random.Random(7), 0
    for _ in range(120):
        query = read_query(_random_query(rng))
        schemas = {id(node): whole[found.name].schema for found in query.references for node in found.nodes}
        conditions = {found.name: needed(found.nodes, schemas, None) for found in query.references}
        if all(condition == TRUE for condition in conditions.values()):
            continue
        try:
            expected = con.sql(query.text).to_arrow_table()
        except duckdb.BinderException:
            continue  # an ambiguous name, or a column that a join has taken away
        run += 1
        for name, condition in conditions.items():
            kept = whole[name].filter(to_arrow(bind(condition, whole[name].schema)))
            con.register(f"few_{name}", kept)
            con.execute(f"create or replace view few.{name} as from few_{name}")
        found = con.sql(query.text.replace("sales.", "few.")).to_arrow_table()
        assert bag(found) == bag(expected), (query.text, conditions)
    assert run > 40


REFUSED = (
    ("insert into sales.orders values (1)", "only queries are run here"),
    ("update sales.orders set id = 1", "only queries are run here"),
    ("delete from sales.orders", "only queries are run here"),
    ("merge into sales.orders using x on true when matched then delete", "only queries are run here"),
    ("create table x as select 1", "only queries are run here"),
    ("drop table sales.orders", "only queries are run here"),
    ("copy sales.orders to '/tmp/x.csv'", "only queries are run here"),
    ("attach '/tmp/x.db'", "only queries are run here"),
    ("pragma version", "only queries are run here"),
    ("set threads = 1", "only queries are run here"),
    ("install httpfs", "only queries are run here"),
    ("call pragma_version()", "only queries are run here"),
    ("explain select 1", "only queries are run here"),
    ("-- a comment\ndrop table sales.orders", "only queries are run here"),
    ("with x as (delete from sales.orders returning *) select * from x", "does more than read"),
    ("select * into y from sales.orders", "does more than read"),
    ("select * from sales.orders; drop table sales.orders", "holds 2 statements"),
    ("select * from read_csv('/etc/passwd')", "reads something else than tables"),
    ("select * from read_parquet('/etc/passwd')", "reads something else than tables"),
    ("select (select content from read_text('/etc/passwd'))", "reads something else than tables"),
    ("select * from sales.orders, lateral read_csv('/etc/passwd')", "reads something else than tables"),
    ("select * from glob('/etc/*')", "reads something else than tables"),
    ("from query('select 1')", "reads something else than tables"),
    ("select * from duckdb_settings()", "reads something else than tables"),
    ("select * from '/etc/passwd'", "no table of the lake"),
    ("select * from 'https://example.org/x.parquet'", "no table of the lake"),
    ("select * from pg_class", "no table of the lake"),
    ("select * from orders", "no table of the lake"),
    ("select * from a.sales.orders", "no table of the lake"),
    ('select * from sales."../orders"', "no table of the lake"),
    ("select * from sales.orders at (version => 3)", "write sales.orders@7"),
    ("select 'open", "a quote or comment may be left open"),
    ("select from where", "not understood"),
    ("", "give the text of a SELECT"),
    ("select * from sales.orders where id = ?", r"has the parameters \$1, and parameters gives none"),
    ("select * from sales.orders where id = ? and id = $1", "both"),
    ("select custmer from sales.orders", "cannot run the query"),
)


@pytest.mark.parametrize("engine", ["duckdb", "datafusion"])
def test_only_reading_of_tables_is_possible(lake: Lake, engine: str, subtests: pytest.Subtests) -> None:
    before = state(lake)
    for query, message in REFUSED:
        with subtests.test(query=query), pytest.raises(errors.InvalidQueryError, match=message):
            lake.sql(query, engine=engine)
    assert state(lake) == before


def test_wrong_options_are_refused(lake: Lake) -> None:
    ask = "select * from sales.orders"
    with pytest.raises(errors.InvalidOptionError, match="use one of duckdb, datafusion"):
        lake.sql(ask, engine="spark")
    with pytest.raises(errors.InvalidOptionError, match="not both"):
        lake.sql(ask, version=1, as_of="2026-01-01")
    with pytest.raises(errors.InvalidOptionError, match=r"version names 'sales\.x'"):
        lake.sql(ask, version={"sales.x": 1})
    with pytest.raises(errors.InvalidOptionError, match="must be a list"):
        lake.sql(ask, parameters="abc")
    with pytest.raises(errors.InvalidQueryError, match=r"parameters gives \$1"):
        lake.sql(ask, parameters=[1])
    with pytest.raises(errors.TableNotFoundError, match=r'did you mean "sales\.orders"'):
        lake.sql("select * from sales.order")
    with pytest.raises(errors.VersionNotFoundError, match="no version 99"):
        lake.sql(f"{ask}@99")


def test_the_engine_is_locked_besides(lake: Lake) -> None:
    """Should a query ever get past the reading of its text, DuckDB itself can open nothing else."""
    connection = lake.sql("select * from sales.orders")._query._connection
    folder = Path(lake.url) / "catalog.sqlite"
    for query in (
        "select * from read_text('/etc/passwd')",
        f"select * from read_blob('{folder}')",
        "copy (select 1) to '/tmp/parqlake-should-not-be.csv'",
        "set enable_external_access = true",
        "select * from glob('/etc/*')",
    ):
        with pytest.raises(duckdb.Error, match=r"disabled by configuration|Cannot (access|change)|locked"):
            connection.execute(query)
