"""Commands that look: through real processes, as pipes and programs see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Cli = Callable[..., Any]


def test_ls_is_the_same_wherever_the_options_stand(cli: Cli, lake: Path) -> None:
    piped = cli("ls", lake=lake, fresh=True)
    assert (piped.code, piped.err) == (0, "")
    header, odd, orders = piped.lines
    assert header == ["table", "version", "row_count", "file_count", "size_bytes", "changed_at", "partition_by"]
    assert odd[:3] == ["odd.values", "1", "5"]
    assert orders[:4] == ["sales.orders", "4", "300", "6"]
    assert orders[6] == "region"
    assert orders[5].endswith("+00:00")
    before = cli("--json", "--lake", lake, "ls", "sales")
    after = cli("ls", "sales", "--json", "-l", lake)
    assert before.out == after.out
    (table,) = after.json["tables"]
    assert table["table"] == "sales.orders"
    assert table["row_count"] == 300
    assert table["partition_by"] == ["region"]
    assert str(table["size_bytes"]) == orders[4]


def test_show_schema_and_log_have_a_stable_shape(cli: Cli, lake: Path) -> None:
    shown = cli("show", "sales.orders", "--json", lake=lake).json
    assert shown["version"] == 4
    assert shown["tags"] == ["three (3)"]
    assert [column["column"] for column in shown["columns"]] == ["id", "region", "amount", "note"]
    assert shown["columns"][3]["default"] == "none"
    assert [version["version"] for version in shown["last_versions"]] == [4, 3, 2, 1]
    assert set(shown) >= {"row_count", "file_count", "size_bytes", "healthy", "findings", "properties"}
    changed = cli("schema", "sales.orders", "--diff", "three", "4", lake=lake)
    assert changed.lines[0] == ["change", "column", "before", "after"]
    assert changed.lines[1][:2] == ["added", "note"]
    (newest,) = cli("log", "sales.orders", "-n", "1", "--json", lake=lake).json["versions"]
    assert (newest["version"], newest["operation"], newest["row_count"]) == (4, "evolve", 300)


def test_head_travels_in_time_and_nothing_is_cut_or_can_drive_a_terminal(cli: Cli, lake: Path) -> None:
    rows = cli("head", "sales.orders", "--at", "2", "-w", "id >= 100 and region = 'us'", "-c", "id,amount", lake=lake)
    assert rows.lines[0] == ["id", "amount"]
    assert len(rows.lines) == 21
    assert rows.lines[1] == ["101", "25.25"]
    odd = cli("head", "odd.values", lake=lake)
    assert "\x1b" not in odd.out
    assert odd.lines[1:] == [
        ["tab\\there", "1970-01-01T00:00:00.000000001Z", "00ff"],
        ["line\\nend", "1970-01-01T00:00:00.000000002Z", ""],
        ["\\x1b[31mred", "1970-01-01T00:00:00.000000003Z", ""],
        ["", "", "61"],
        ["[bold]x[/bold]", "1978-01-11T21:31:40.800000000Z", "62"],
    ]


def test_sql_streams_to_pipes_and_programs(cli: Cli, lake: Path) -> None:
    query = "select region, count(*) as n, sum(amount) as total from sales.orders@three group by all order by 1"
    found = cli("sql", query, "--json", lake=lake).json
    assert found["columns"][0] == {"name": "region", "type": "string"}
    assert found["rows"] == [
        {"region": "eu", "n": 150, "total": 5587.5},
        {"region": "us", "n": 150, "total": 5625.0},
    ]
    times = "select timestamptz '2026-01-01 00:00:00Z' as z, timestamp '2026-01-01 12:00' as t, date '2026-01-01' as d"
    assert cli("sql", times, lake=lake).lines[1] == [
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T12:00:00.000000",
        "2026-01-01",
    ]
    wide = cli("sql", "-", lake=lake, stdin="select repeat('x', 5000) as x, i from range(3000) t(i)")
    assert wide.code == 0, wide.err
    assert len(wide.lines) == 3001
    assert wide.lines[-1] == ["x" * 5000, "2999"]


def test_a_date_is_a_moment_for_every_command(cli: Cli, lake: Path) -> None:
    for words in (["sql", "select count(*) as n from sales.orders"], ["head", "sales.orders"]):
        assert cli(*words, "--at", "2999-01-31", lake=lake).code == 0
        early = cli(*words, "--at", "1999-01-31", lake=lake)
        assert (early.code, "did not exist at 1999-01-31" in early.err) == (4, True), early.err


def test_explain_says_what_is_skipped(cli: Cli, lake: Path) -> None:
    found = cli("explain", "sales.orders", "-w", "region = 'eu' and id < 50", "--json", lake=lake).json
    assert (found["files_total"], found["files_read"]) == (6, 1)
    assert found["skipped"][0]["by"] == "partition region"


def test_errors_are_a_paragraph_on_stderr_with_a_code(cli: Cli, lake: Path, tmp_path: Path) -> None:
    missing = cli("show", "sales.ordrs", lake=lake)
    assert (missing.code, missing.out) == (4, "")
    assert missing.err.startswith('error: no table "sales.ordrs"; did you mean "sales.orders"?')
    assert "hint: parqlake ls lists the tables" in missing.err
    as_json = cli("head", "sales.orders", "-w", "amont > 3", "--json", lake=lake)
    assert (as_json.code, as_json.out) == (2, "")
    assert '"kind": "ColumnNotFoundError"' in as_json.err
    nowhere = cli("ls", cwd=tmp_path)
    assert nowhere.code == 4
    assert "PARQLAKE_LAKE" in nowhere.err
    empty = cli("ls", "--lake", tmp_path)
    assert empty.code == 4
    assert "named by --lake" in empty.err
    usage = cli("lss")
    assert usage.code == 2
    assert "ls" in usage.err
    assert usage.out == ""
