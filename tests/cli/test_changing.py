"""Commands that change a lake, one after the other, as somebody at a prompt or a script would call them."""

from __future__ import annotations

import bz2
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parqlake
from parqlake.cli.finding import LakeAddress
from parqlake.cli.starting import _write_config

Cli = Callable[..., Any]
Orders = Callable[[int, int], pa.Table]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """A folder whose parqlake.toml names a lake in it."""
    folder = tmp_path_factory.mktemp("place")
    made = cli("init", "warehouse", "--json", cwd=folder)
    assert made.code == 0, made.err
    assert made.json["tables"] == 0
    assert (folder / "parqlake.toml").read_text() == 'lake = "warehouse"\n'
    (folder / "below").mkdir()
    return folder


def test_a_password_is_not_written_down(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = cli("init", "lake", "--catalog", "postgresql://me:hush@127.0.0.1:1/d", cwd=tmp_path)
    assert refused.code == 1
    assert "hush" not in refused.err
    for words in (
        ("init", "sftp://u:hush@h/x", "--lake", "b"),
        ("init", "lake", "--catalog", "host=h password=hush x"),
    ):
        refused = cli(*words, cwd=tmp_path)
        assert (refused.code, "hush" in refused.err) == (2, False), refused.err
    address = LakeAddress("lake", "postgresql://me:hush@h/d?x=1", "")
    monkeypatch.chdir(tmp_path)
    assert _write_config(address).read_text() == 'lake = "lake"\ncatalog = "${PARQLAKE_CATALOG}"\n'


def test_rows_are_written_merged_and_deleted(place: Path, cli: Cli) -> None:
    new = "id,region,amount\n1,eu,0.5\n2,us,1.5\n3,,2.5\n"
    first = cli("write", "sales.orders", "-", "--format", "csv", "--key", "day-1", cwd=place, stdin=new)
    assert first.code == 0, first.err
    assert (first.fields["version"], first.fields["added_rows"], first.fields["changed"]) == ("1", "3", "true")
    again = cli("write", "sales.orders", "-", "--format", "csv", "--key", "day-1", cwd=place / "below", stdin=new)
    assert (again.fields["version"], again.fields["changed"]) == ("1", "false")
    (place / "more.jsonl").write_text(
        '{"id": 3, "region": "eu", "amount": 9}\n{"id": 4, "region": "us", "amount": 1}\n'
    )
    merged = cli("merge", "sales.orders", "more.jsonl", "--on", "id", "--json", cwd=place).json
    assert (merged["inserted_rows"], merged["updated_rows"], merged["row_count"]) == (1, 1, 4)

    asked = cli("delete", "sales.orders", "-w", "amount < 1", cwd=place)
    assert asked.code == 2
    assert asked.out == ""
    assert re.search(r"deleted rows +1\n", asked.err)
    assert "--yes" in asked.err
    with parqlake.connect(place / "warehouse") as lake:
        assert lake.table("sales.orders").version == 2
    gone = cli("delete", "sales.orders", "-w", "amount < 1", "--yes", "--json", cwd=place)
    assert gone.json["deleted_rows"] == 1
    assert re.search(r"deleted rows +1\n", gone.err)

    bad = cli("write", "sales.orders", "-", "--format", "csv", cwd=place, stdin="id,region\n1,eu\n")
    assert bad.code == 1
    assert '"amount": missing' in bad.err
    dry = cli("restore", "sales.orders", "--to", "1", "--dry-run", "--json", cwd=place).json
    assert (dry["version"], dry["restored_version"], dry["restored_rows"]) == (3, 1, 3)
    assert cli("restore", "sales.orders", "--to", "1", "-y", cwd=place).fields["version"] == "4"
    assert cli("tag", "sales.orders", "good", "--at", "2", cwd=place).fields["version"] == "2"
    assert cli("tag", "sales.orders", "good", "--at", "2", cwd=place).code == 0
    for change in (["--at", "3"], ["--delete"]):
        asked = cli("tag", "sales.orders", "good", *change, cwd=place)
        assert (asked.code, "keeps version 2" in asked.err) == (2, True)
    assert cli("tag", "sales.orders", "--json", cwd=place).json["tags"] == [{"tag": "good", "version": 2}]
    assert cli("tag", "sales.orders", "good", "--yes", cwd=place).fields["version"] == "4"
    assert cli("tag", "sales.orders", "good", "--delete", "--yes", cwd=place).fields["deleted"] == "true"


def test_texts_stay_what_they_are(place: Path, cli: Cli) -> None:
    words = 'w,f\nNA,NaN\nnull,1.5\n,\n"",2\n"a,b\nc",\n'
    assert cli("write", "odd.words", "-", "--format", "csv", cwd=place, stdin=words).code == 0
    for sign, ending in ((",", "csv"), ("\t", "tsv")):
        (place / f"late.{ending}").write_text(f"w{sign}f\n" + f"x{sign}1\n" * 400_000 + "short\n")
        late = cli("write", "odd.words", f"late.{ending}", cwd=place)
        assert (late.code, f"cannot read late.{ending} as csv" in late.err) == (1, True), late.err
    odd = ['"q', "C:\\dir\\temp", 'z"', "tab\there", "line\nend", None, "NA"]
    with parqlake.connect(place / "warehouse") as lake:
        rows = lake.table("odd.words").scan().to_arrow()
        assert rows["w"].to_pylist() == ["NA", "null", None, "", "a,b\nc"]
        assert str(rows["f"].to_pylist()) == "[nan, 1.5, None, 2.0, None]"
        lake.write(pa.table({"text": odd}), "odd.one")
        lake.write(pa.table({"a\\b": odd, "n": range(len(odd))}), "odd.two")
    for name, ending in (("odd.one", "tsv"), ("odd.two", "tsv.bz2")):
        said = cli("head", name, "--limit", "0", cwd=place).out.encode()
        (place / f"x.{ending}").write_bytes(bz2.compress(said) if ending.endswith("bz2") else said)
        for target in (name, f"{name}_again"):  # with the types of a table, and without
            done = cli("write", target, f"x.{ending}", cwd=place)
            assert (done.code, done.fields["added_rows"]) == (0, str(len(odd))), done.err
        with parqlake.connect(place / "warehouse") as lake:
            first, *_ = lake.table(f"{name}_again").scan().to_arrow().columns
            assert first.to_pylist() == odd
            assert lake.table(name).scan().to_arrow().column(0).to_pylist() == [*odd, *odd]


def test_files_are_kept_in_shape(place: Path, cli: Cli, make_orders: Orders) -> None:
    with parqlake.connect(place / "warehouse") as lake:
        table = lake.create_table("sales.many", make_orders(0, 0).schema)
        for start in range(0, 80, 10):
            table.append(make_orders(start, start + 10))
    dry = cli("compact", "sales.many", "--dry-run", "--json", cwd=place).json
    assert (dry["dry_run"], dry["version"], dry["planned_groups"][0]["file_count"]) == (True, 8, 8)
    laid = cli("zorder", "sales.many", "--by", "id,amount", cwd=place)
    assert (laid.fields["before_files"], laid.fields["after_files"], laid.fields["version"]) == ("8", "1", "9")
    refused = cli("expire", "sales.many", "--keep-last", "1", cwd=place)
    assert refused.code == 2
    assert cli("expire", "sales.many", "--keep-last", "1", "--yes", "--json", cwd=place).json["versions"] == list(
        range(1, 9)
    )
    held = cli("vacuum", "sales.many", "--dry-run", "--json", cwd=place).json
    assert (held["deleted_files"], held["held_files"]) == (0, 8)
    freed = cli("vacuum", "--older-than", "0s", "--force", "--yes", "--json", cwd=place).json
    assert freed["deleted_files"] == 8 == len(freed["paths"])


def test_files_are_taken_over_and_handed_on(place: Path, cli: Cli, make_orders: Orders) -> None:
    landing = place / "warehouse/landing"
    landing.mkdir()
    pq.write_table(make_orders(0, 50), landing / "a.parquet")
    taken = cli("import", "sales.old", "landing", "--json", cwd=place).json
    assert (taken["row_count"], taken["file_count"]) == (50, 1)
    given = cli("export", "sales.old", "delta", "--to", "landing", "--json", cwd=place)
    assert given.code == 0, given.err
    assert (given.json["format"], given.json["tag"], given.json["changed"]) == ("delta", "exported-delta", True)
    (landing / "a.parquet").write_bytes(b"gone")
    damaged = cli("check", "--json", cwd=place)
    assert damaged.code == 5
    assert damaged.json["healthy"] is False
    assert damaged.json["findings"][0]["table"] == "sales.old"
    assert cli("recover", "--json", cwd=place).json["transactions"] == []


def test_doctor_reaches_the_lake_and_shows_no_secret(place: Path, cli: Cli) -> None:
    found = cli("doctor", "--json", cwd=place)
    checks = {check["check"]: check for check in found.json["checks"]}
    assert checks["lake"]["status"] == "ok"
    assert "parqlake.toml" in checks["lake"]["detail"]
    assert checks["extra duckdb"]["status"] == "ok"
    secret = "hush-hush"
    broken = cli(
        "doctor", PARQLAKE_LAKE=str(place / "warehouse"), PARQLAKE_CATALOG=f"postgresql://me:{secret}@127.0.0.1:1/d"
    )
    assert broken.code == 5
    assert "failed\tlake" in broken.out
    assert secret not in broken.out + broken.err
