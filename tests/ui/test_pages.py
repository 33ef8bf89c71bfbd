"""Every page and its JSON twin: what it knows is true, and what cannot be shown is said in words."""

from __future__ import annotations

import doctest
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from ui_lake import PAGES

import parqlake
from parqlake.ui import app, buckets, plain, rendering, words
from parqlake.ui.explorer import Ask, Explorer
from parqlake.ui.page_sql import run_sql

pytestmark = pytest.mark.xdist_group("ui")
TABLES = ("sales.orders", "sales.events", "staging.empty", "gold.daily")
LAKE_PAGES = {"/": "/lake.json", "/health": "/health.json", "/runs": "/runs.json", "/sql": "/sql.json"}


@pytest.mark.parametrize("table", TABLES)
def test_every_page_of_a_table_has_a_twin(client: TestClient, table: str) -> None:
    for page in PAGES:
        place = f"/tables/{table}/{page}"
        html = client.get(place)
        assert (html.status_code, html.headers["content-type"]) == (200, "text/html; charset=utf-8"), place
        assert f'href="{place}.json"' in html.text
        assert f'href="{place}" aria-current="page"' in html.text
        twin = client.get(f"{place}.json")
        assert twin.headers["content-type"] == "application/json"
        assert twin.json()["table"]["name"] == table
    asked = client.get(place, headers={"accept": "application/json"})
    assert (asked.status_code, asked.json().keys()) == (200, twin.json().keys())


def test_every_page_of_the_lake_has_a_twin(client: TestClient) -> None:
    for page, twin in LAKE_PAGES.items():
        html = client.get(page)
        assert html.status_code == 200
        assert f'href="{twin}"' in html.text
        assert isinstance(client.get(twin).json(), dict)


def test_the_lake_tells_what_its_tables_hold(client: TestClient, shown: parqlake.Lake) -> None:
    found = client.get("/lake.json").json()
    assert [row["name"] for row in found["tables"]] == shown.tables()
    rows = {row["name"]: row for row in found["tables"]}
    for name in TABLES:
        table = shown.table(name)
        assert rows[name]["row_count"] == table.scan().count()
        assert rows[name]["file_count"] == table.files().num_rows
        assert rows[name]["size_bytes"] == sum(table.files()["size_bytes"].to_pylist())
        assert rows[name]["small_share"] == pytest.approx(table.health().small_share)
    assert rows["sales.orders"]["message"] == "day 9"
    assert rows["staging.empty"]["committed_at"] is None
    assert found["totals"]["row_count"] == sum(row["row_count"] for row in rows.values())
    by_size = [row["size_bytes"] for row in client.get("/lake.json?sort=size").json()["tables"]]
    assert by_size == sorted(by_size, reverse=True)
    assert [row["name"] for row in client.get("/lake.json?q=gold").json()["tables"]] == ["gold.daily"]
    assert (
        client.get("/search?q=gold.daily", follow_redirects=False).headers["location"] == "/tables/gold.daily/overview"
    )
    assert "Nothing found" in client.get("/?q=nowhere").text


def test_columns_have_the_bounds_of_their_rows(client: TestClient, shown: parqlake.Lake) -> None:
    found = client.get("/tables/sales.orders/overview.json").json()
    rows = shown.table("sales.orders").scan().to_arrow()
    columns = {column["name"]: column for column in found["columns"]}
    assert list(columns) == rows.schema.names
    for name in ("id", "amount", "customer"):
        values = [value for value in rows[name].to_pylist() if value is not None]
        assert columns[name]["low"] <= min(values)
        assert columns[name]["high"] >= max(values)
    assert (columns["id"]["low"], columns["region"]["roles"]) == (min(rows["id"].to_pylist()), ["partition"])
    assert columns["note"]["null_count"] == rows["note"].null_count
    assert len(found["sample"]["rows"]) == 10
    assert found["sample"]["columns"] == rows.schema.names
    known = {tuple(row.values()) for row in rows.select(["id", "region", "customer"]).to_pylist()}
    assert {tuple(row[:3]) for row in found["sample"]["rows"]} <= known
    assert found["checks"] == {"positive": "amount >= 0"}
    engines = [item["engine"] for item in found["snippets"]]
    assert engines == ["Spark", "DuckDB", "Polars", "pandas", "Command line"]
    for item in found["snippets"][1:4]:
        exec(item["code"], {})


def test_history_tells_who_did_what_and_which_run(client: TestClient, shown: parqlake.Lake) -> None:
    found = client.get("/tables/sales.orders/history.json").json()
    expected = shown.table("sales.orders").history()
    assert [row["version"] for row in found["versions"]] == [entry.version for entry in expected]
    for row, entry in zip(found["versions"], expected, strict=True):
        assert (row["operation"], row["who"], row["message"]) == (entry.operation, entry.who, entry.message)
        assert (row["added_rows"], row["removed_rows"]) == (entry.added_rows, entry.removed_rows)
    assert [point["version"] for point in found["timeline"]] == [row["version"] for row in found["versions"][::-1]]
    runs = [row["run"] for row in client.get("/tables/gold.daily/history.json").json()["versions"]]
    assert {run["pipeline"] for run in runs} == {"daily-sales"}
    assert len({run["run_id"] for run in runs}) == 6


def test_a_diff_shows_rows_columns_and_files(client: TestClient, shown: parqlake.Lake) -> None:
    table = shown.table("sales.orders")
    versions = {entry.message: entry for entry in table.history()}
    deleted = versions["customers who asked to be forgotten"]
    found = client.get(f"/tables/sales.orders/diff.json?before={deleted.version - 1}&after={deleted.version}").json()
    assert {row[0] for row in found["rows"]["rows"]} == {"delete"}
    assert len(found["rows"]["rows"]) == min(60, deleted.removed_rows)
    place = found["rows"]["columns"].index("customer") + 1
    assert all(row[place] < 500 for row in found["rows"]["rows"])
    evolved = versions["money needs a unit"].version
    found = client.get(f"/tables/sales.orders/diff.json?before={evolved - 1}&after={evolved}").json()
    assert [(c["kind"], c["column"]) for c in found["schema"]] == [("added", "currency")]
    compacted = versions["nightly"].version
    found = client.get(f"/tables/sales.orders/diff.json?before={compacted - 1}&after={compacted}").json()
    assert (found["rows"]["rows"], found["files"]["added"]["files"] > 0) == ([], True)
    assert "No row differs" in client.get(f"/tables/sales.orders/diff?before={compacted - 1}&after={compacted}").text


def test_files_add_up(client: TestClient, shown: parqlake.Lake) -> None:
    table = shown.table("sales.orders")
    files = table.files().to_pylist()
    found = client.get("/tables/sales.orders/files.json").json()
    assert sum(row["files"] for row in found["histogram"]) == len(files)
    assert sum(row["size_bytes"] for row in found["histogram"]) == sum(file["size_bytes"] for file in files)
    for row in found["histogram"]:
        inside = [f for f in files if row["low_bytes"] < f["size_bytes"] <= row["high_bytes"]]
        assert len(inside) == row["files"]
    assert sum(row["size_bytes"] for row in found["partitions"]["shown"]) == sum(file["size_bytes"] for file in files)
    assert {row["path"] for row in found["files"]} == {file["path"] for file in files}
    assert sum(len(group["cells"]) for group in found["map"]) == len(files)
    largest = client.get("/tables/sales.orders/files.json?sort=largest").json()["files"][0]
    assert largest["size_bytes"] == max(file["size_bytes"] for file in files)
    old = client.get("/tables/sales.orders/files.json?version=2").json()
    assert {row["path"] for row in old["files"]} == set(table.files(version=2)["path"].to_pylist())


@pytest.mark.parametrize(
    "where", ["customer between 1000 and 1500", "region = 'eu'", "id < 300 and amount > 5", "note is null", "id < -5"]
)
def test_lit_files_are_those_that_a_scan_plans(client: TestClient, shown: parqlake.Lake, where: str) -> None:
    for name in ("sales.events", "sales.orders"):
        plan = shown.table(name).scan(where).plan
        found = client.get(f"/tables/{name}/clustering.json", params={"where": where}).json()
        assert found["lit"]["files"]["kept"] == len(plan.files)
        assert found["lit"]["rows"]["kept"] == sum(file.row_count for file in plan.files)
        explained = client.get(f"/tables/{name}/explain.json", params={"where": where}).json()["plan"]
        told = shown.table(name).scan(where).explain()
        assert explained["row_groups"]["kept"] == told.row_groups_read
        assert explained["files"] == found["lit"]["files"]
        assert [item["text"] for item in explained["conditions"]] == [item.text for item in told.conditions]
        assert len(explained["read_files"]) == min(25, len(plan.files))


def test_ranges_are_those_of_the_files(client: TestClient, shown: parqlake.Lake) -> None:
    found = client.get("/tables/sales.events/clustering.json?column=id&where=id < 300").json()
    (panel,) = found["columns"]
    groups = shown.table("sales.events").row_groups().to_pylist()
    ranges: dict[str, list[int]] = {}
    for group in groups:
        if group["column"] == "id":
            ranges.setdefault(group["path"], []).extend([int(group["lower_bound"]), int(group["upper_bound"])])
    assert sorted((bar["low"], bar["high"]) for bar in panel["bars"]) == sorted(
        (min(v), max(v)) for v in ranges.values()
    )
    assert {bar["lit"] for bar in panel["bars"] if bar["low"] < 300} == {True}
    assert not any(bar["lit"] for bar in panel["bars"] if bar["low"] >= 300)
    assert all(0 <= bar["from"] <= bar["to"] <= 1 for bar in panel["bars"])


def test_of_many_files_some_are_drawn_and_all_are_counted(
    client: TestClient, shown: parqlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("page_files._EXACT", 5),
        ("page_files._MAP", 6),
        ("ranges._BARS", 4),
        ("footprint._AT_ONCE", 3),
    ):
        monkeypatch.setattr(f"parqlake.ui.{name}", value)
    files = shown.table("sales.events").files().num_rows
    found = client.get("/tables/sales.events/files.json").json()
    assert sum(len(group["cells"]) for group in found["map"]) == found["map_files"] == 6
    assert sum(row["files"] for row in found["histogram"]) == len(found["files"]) == files
    found = client.get("/tables/sales.events/clustering.json?column=customer&where=customer < 5000").json()
    assert found["lit"]["files"] == {
        "kept": len(shown.table("sales.events").scan("customer < 5000").plan.files),
        "all": files,
    }
    (panel,) = found["columns"]
    assert 4 <= len(panel["bars"]) <= 8
    assert {bar["lit"] for bar in panel["bars"]} == {True, False}


def test_a_wrong_predicate_is_explained_and_the_page_stays(client: TestClient) -> None:
    for page in ("clustering", "explain"):
        answer = client.get(f"/tables/sales.events/{page}", params={"where": "custmer = 1"})
        assert (answer.status_code, "did you mean" in answer.text, 'value="custmer = 1"' in answer.text) == (
            200,
            True,
            True,
        )
        twin = client.get(f"/tables/sales.events/{page}.json", params={"where": "custmer = 1"})
        assert (twin.status_code, "did you mean" in twin.json()["error"]) == (400, True)


def test_maintenance_shows_before_after_and_what_would_go(client: TestClient, shown: parqlake.Lake) -> None:
    found = client.get("/tables/sales.events/maintenance.json?vacuum=0s&plan=1").json()
    (run,) = found["runs"]
    assert (run["operation"], run["files_before"]) == ("optimize", 12)
    assert [item["name"] for item in found["picture"]["columns"]] == ["customer", "placed_at"]
    before, after = found["picture"]["columns"][0]["sides"]
    assert before["overlap"] > 2 * after["overlap"]
    assert "less than" in found["vacuum"]["error"]
    assert [step["name"] for step in found["plan"]["steps"]] == ["optimize", "statistics", "expire", "vacuum"]
    real = client.get("/tables/sales.events/maintenance.json?vacuum=7d").json()["vacuum"]
    assert (real["error"], real["files"]) == (None, shown.table("sales.events").vacuum("7d", dry_run=True).files)
    assert any("--dry-run" in item["shell"] for item in found["commands"])


def test_runs_and_lineage(client: TestClient) -> None:
    found = client.get("/runs.json").json()
    assert len(found["runs"]) == 7
    assert found["runs"][0]["status"] == "failed"
    rules = {item["rule"]: [run["rows"] for run in item["rejected"]] for item in found["expectations"]}
    assert rules["amount > 0"][-1] == 412
    graph = client.get("/tables/gold.daily/runs.json").json()["graph"]
    assert {(edge["from"], edge["to"]) for edge in graph["edges"]} == {
        ("sales.orders", "gold.daily"),
        ("landing/rates", "gold.daily"),
    }
    assert '<svg class="graph"' in client.get("/tables/gold.daily/runs").text


def test_sql_reads_some_rows_and_nothing_else(client: TestClient, shown: parqlake.Lake) -> None:
    asked = {"q": "select region, count(*) as n from sales.orders group by all order by region"}
    found = client.post("/sql.json", data=asked).json()["result"]
    assert sum(row[1] for row in found["rows"]) == shown.table("sales.orders").scan().count()
    many = client.post("/sql.json", data={"q": "select * from sales.events"}).json()["result"]
    assert (len(many["rows"]), many["more"]) == (500, True)
    all_of_it = client.post("/sql.json", data={"q": "select * from range(500)"}).json()["result"]
    assert (len(all_of_it["rows"]), all_of_it["more"]) == (500, False)
    large = "select repeat('ä', 9000) t, 'short' s, encode(repeat('b', 9000)) b, null::text n from range(300)"
    found = client.post("/sql.json", data={"q": large}).json()["result"]
    assert (len(found["rows"]), found["more"]) == (300, False)
    assert found["rows"][7] == ["ä" * 5_000 + "…", "short", "62" * 5_000, None]
    lists = client.post("/sql.json", data={"q": "select range(600_000) as l from range(9)"}).json()["result"]
    assert (len(lists["rows"]), lists["more"]) == (1, True), "fewer rows, if they are large"
    for bad in ("drop table sales.orders", "select * from read_csv('/etc/passwd')", "", "select"):
        answer = client.post("/sql.json", data={"q": bad})
        assert (answer.status_code, bool(answer.json()["error"])) == (400, True)
    assert "Run" in client.get("/sql?q=select 1").text


def test_a_query_that_takes_too_long_is_stopped(shown: parqlake.Lake) -> None:
    ask = Ask(values={"q": ["select sum(a.id * b.id) from sales.events a, sales.events b, sales.events c"]})
    found = run_sql(Explorer(shown), ask, seconds=0.3)
    assert "longer than 0.3 seconds" in found["error"]


def test_what_is_not_there_is_said_in_words(client: TestClient) -> None:
    for place, text in (
        ("/tables/sales.order/overview", "did you mean &#34;sales.orders&#34;?"),
        ("/tables/sales.orders/overview?version=999", "has no version 999"),
        ("/tables/nonsense/overview", "no namespace"),
        ("/nowhere", "There is no such page"),
        ("/tables/sales.orders/files?page=x", "must be a whole number"),
    ):
        answer = client.get(place)
        assert answer.status_code in (400, 404)
        assert text in answer.text, answer.text
        assert "Traceback" not in answer.text
        twin = client.get(place, headers={"accept": "application/json"})
        assert (twin.status_code, twin.json()["status"]) == (answer.status_code, answer.status_code)


def test_the_examples_in_the_code_are_true() -> None:
    for module in (buckets, plain, rendering, words):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0


def test_an_empty_lake_says_so(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        asks = TestClient(app(lake), base_url="http://localhost")
        assert "No tables yet" in asks.get("/").text
        assert "No runs on record" in asks.get("/runs").text
        assert asks.get("/health").status_code == 200
        lake.create_table("a.nested", pa.schema([("s", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.int8()))]))]))
        rows = [{"s": {"x": 1, "l": [1, 2]}}, {"s": None}]
        lake.table("a.nested").append(pa.Table.from_pylist(rows, lake.table("a.nested").schema()))
        columns = asks.get("/tables/a.nested/overview.json").json()["columns"]
        assert [column["name"] for column in columns] == ["s", "s.x", "s.l.element"]
        assert (columns[1]["low"], columns[1]["high"]) == (1, 1)
