"""Opening catalogs: URLs, creation by many at once, wrong places, formats, and no secret anywhere."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import duckdb
import psycopg
import pytest
from catalog_support import Lab, id_file

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.catalogs.open import open_catalog, safe_url
from parqlake.core.errors import (
    CatalogError,
    CatalogUnavailableError,
    CatalogVersionError,
    InvalidOptionError,
    LakeNotFoundError,
    MissingExtraError,
)
from parqlake.testing.postgres import PostgresServer

OPENER = Path(__file__).with_name("opener.py")
Open = Callable[..., SqlCatalog]
SHARED = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
"""DuckDB allows one process."""


def run_openers(url: str, action: str, count: int) -> list[str]:
    """Starts processes, lets them go together, and returns what each printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(OPENER), url, action], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].strip() for process in processes]


def raw(url: str, sql: str) -> None:
    """Runs a statement past the catalog."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute(sql)
        connection.commit()
        connection.close()
    elif url.startswith("duckdb"):
        database = duckdb.connect(url.removeprefix("duckdb:///"))
        database.execute(sql)
        database.close()
    else:
        address, _, schema = url.partition("?parqlake_schema=")
        with psycopg.connect(address) as server:
            server.execute(f'SET search_path TO "{schema}"')
            server.execute(sql)


def test_a_catalog_is_new_once_and_keeps_its_identity(url: str, opened: Open) -> None:
    first = opened(url)
    assert first.is_new
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first.lake_id)
    second = opened(url)
    assert (second.lake_id, second.is_new) == (first.lake_id, False)
    first.close()
    second.close()
    third = opened(url, create=False)
    assert (third.lake_id, third.is_new) == (first.lake_id, False)


def test_a_catalog_that_must_be_there(url: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(LakeNotFoundError, match="no catalog"):
        open_catalog(url, create=False)
    assert list(tmp_path.iterdir()) == []


@SHARED
def test_eight_processes_create_one_catalog(url: str) -> None:
    answers = [line.split() for line in run_openers(url, "open", 8)]
    assert len({lake_id for lake_id, _ in answers}) == 1
    assert sorted(is_new for _, is_new in answers) == ["False"] * 7 + ["True"]


def test_eight_threads_create_one_catalog(url: str, opened: Open) -> None:
    found: list[SqlCatalog] = []
    threads = [threading.Thread(target=lambda: found.append(opened(url))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({catalog.lake_id for catalog in found}) == 1
    assert sorted(catalog.is_new for catalog in found) == [False] * 7 + [True]


@SHARED
def test_processes_write_side_by_side(url: str, opened: Open) -> None:
    answers = [line.split() for line in run_openers(url, "append", 4)]
    catalog = opened(url)
    assert {lake_id for lake_id, _ in answers} == {catalog.lake_id}
    assert sorted(int(table_id) for _, table_id in answers) == [1, 2, 3, 4]
    with catalog.read() as reader:
        assert [head.version for head in reader.heads().values()] == [10] * 4
        assert len(reader.transactions(status="committed")) == 40


def test_a_second_process_is_told_that_duckdb_allows_one(tmp_path: Path, opened: Open) -> None:
    url = f"duckdb:///{tmp_path / 'catalog.duckdb'}"
    opened(url)
    (answer,) = run_openers(url, "open", 1)
    assert answer.startswith("CatalogUnavailableError")
    assert "one process" in answer
    assert "SQLite or PostgreSQL" in answer


def test_a_crash_leaves_nothing_of_the_commit(url: str, opened: Open) -> None:
    (answer,) = run_openers(url, "crash", 1)
    table_id, txn = answer.split()
    catalog = opened(url)
    with catalog.read() as reader:
        assert reader.head(int(table_id)).version == 1
        assert [entry.file_id for entry in reader.files(int(table_id), 9)] == [1]
        assert reader.segment_ids(int(table_id), 9) == [1]
        found = reader.transaction(txn)
        assert found is not None
        assert found.status == "open"
        assert reader.transaction_by_key("key") is None
    assert catalog.abort_transaction(txn)


@pytest.mark.parametrize("old", [1, 3])
def test_a_catalog_of_an_older_format_is_brought_up_to_date(url: str, opened: Open, old: int) -> None:
    """Later formats added tables and changed none: without them a catalog is one of an older one."""
    first = open_catalog(url)
    identity, lab = first.lake_id, Lab(first)
    table, version = lab.table.table_id, lab.change([id_file()]).version
    first.close()
    second = ("past_snapshot", "retention", "reader_lease") if old == 1 else ()
    third = ("record_scope", "lake_record") if old < 3 else ()
    for name in (*second, *third, "footer"):
        raw(url, f"DROP TABLE {name}")
    raw(url, f"DELETE FROM migration WHERE number > {old}")
    raw(url, f"UPDATE lake SET format_version = {old}")
    upgraded = opened(url)
    assert (upgraded.lake_id, upgraded.is_new) == (identity, False)
    with upgraded.read() as reader:
        assert reader.kept_versions(table) == [version]
        assert reader.expired_snapshots(table) == []
        assert reader.forgotten_until(table) == 0
        assert reader.record_scopes() == []
        assert reader.footers(table, [1]) == {}


def test_a_newer_format_is_refused(url: str) -> None:
    open_catalog(url).close()
    raw(url, "UPDATE lake SET format_version = 99")
    with pytest.raises(CatalogVersionError, match=r"format 99.*up to 4.*upgrade parqlake"):
        open_catalog(url)


def test_a_database_of_others_is_refused_and_left_alone(url: str, kind: str, server: PostgresServer) -> None:
    if kind == "postgres":
        address, _, schema = url.partition("?parqlake_schema=")
        with psycopg.connect(address) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"')
    raw(url, "CREATE TABLE customers (a INTEGER)")
    with pytest.raises(CatalogError, match=r"no parqlake catalog.*customers"):
        open_catalog(url)
    raw(url, "DROP TABLE customers")
    assert_opens(url)


def assert_opens(url: str) -> None:
    catalog = open_catalog(url)
    assert catalog.is_new
    catalog.close()


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_wrong_places(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="is a folder"):
        open_catalog(f"{scheme}:///{tmp_path}")
    text = tmp_path / f"notes.{scheme}"
    text.write_text("this is no database, " * 100)
    with pytest.raises(CatalogError, match="not a database"):
        open_catalog(text)
    assert text.read_text().startswith("this is no database")
    with pytest.raises(CatalogUnavailableError, match=r"folder.*does not exist"):
        open_catalog(f"{scheme}:///{tmp_path}/missing/catalog.{scheme}")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@host/db",
        "warehouse",
        "",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.sqlite?mode=ro",
        "duckdb://a.duckdb",
        "postgresql://me:s3cret@host:port/db",
        "postgresql://me:s3cret@host/db?unknown_option=1",
        "postgresql://me:s3cret@host/db?parqlake_schema=a b",
        "postgresql://me:s3cret@[broken/db",
        "a\0b.sqlite",
    ],
)
def test_urls_that_mean_nothing(url: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        open_catalog(url)
    assert "s3cret" not in str(caught.value)
    if "://" not in url and "\0" not in url:
        for example in ("sqlite:///", "duckdb:///", "postgresql://"):
            assert example in str(caught.value)


def test_urls_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open) -> None:
    monkeypatch.chdir(tmp_path)
    odd = "a b%20'ü#?.sqlite"
    assert opened("sqlite:///relative.sqlite").url == f"sqlite:///{tmp_path}/relative.sqlite"
    assert opened(f"sqlite:///{tmp_path}/absolute.sqlite").is_new
    assert opened("plain.db").url == f"sqlite:///{tmp_path}/plain.db"
    assert opened(tmp_path / odd).is_new
    assert opened(Path("plain.duckdb")).url == f"duckdb:///{tmp_path}/plain.duckdb"
    names = {path.name for path in tmp_path.iterdir()}
    assert {"relative.sqlite", "absolute.sqlite", "plain.db", odd, "plain.duckdb"} <= names
    monkeypatch.chdir("/")
    catalog = opened(tmp_path / "relative.sqlite", create=False)
    with catalog.read() as reader:
        assert reader.tables() == []


def test_no_password_in_url_repr_or_errors(server: PostgresServer, opened: Open) -> None:
    url = server.dsn("secrets")
    assert server.password in url
    catalog = opened(url)
    wrong = url.replace(server.password, "wr0ng-passw0rd")
    texts = [catalog.url, repr(catalog)]
    assert catalog.url == f"postgresql://parqlake@127.0.0.1:{server.port}/postgres?parqlake_schema=secrets"
    unreachable = re.sub(r":\d+/", ":1/", wrong)
    elsewhere = wrong.replace("/postgres?", "/nowhere?")
    for bad in (wrong, unreachable, elsewhere):
        with pytest.raises(CatalogUnavailableError) as caught:
            open_catalog(bad)
        texts += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]
    for text in texts:
        assert server.password not in text
        assert "wr0ng" not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@host:5/db", "postgresql://me@host:5/db"),
        ("postgresql://me:p@w/x:y@host/db?sslmode=require&password=pw", "postgresql://me@host/db?sslmode=require"),
        ("postgres://host/db?sslpassword=pw", "postgres://host/db"),
        ("warehouse/catalog.sqlite", "warehouse/catalog.sqlite"),
    ],
)
def test_shown_urls(url: str, shown: str) -> None:
    assert safe_url(url) == shown


def test_the_schema_of_the_url_wins_over_the_default(server: PostgresServer, opened: Open) -> None:
    plain = opened(server.dsn(), default_schema="by_default")
    assert plain.url.endswith("?parqlake_schema=by_default")
    same = opened(server.dsn("by_default").replace("postgresql://", "postgres://"), default_schema="other")
    assert (same.lake_id, same.is_new) == (plain.lake_id, False)
    upper = opened(server.dsn("By_Default"))
    assert upper.is_new


@pytest.mark.parametrize(
    ("module", "url", "extra"), [("duckdb", "a.duckdb", "duckdb"), ("psycopg", "postgresql://h/d", "postgres")]
)
def test_a_missing_driver_names_the_extra(
    module: str, url: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingExtraError, match=rf"parqlake\[{extra}\]"):
        open_catalog(url)


def test_only_the_owner_can_read_a_sqlite_catalog(tmp_path: Path, opened: Open) -> None:
    lab = Lab(opened(tmp_path / "catalog.sqlite"))
    lab.change([id_file()])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"], 0o600)


def test_sqlite_is_durable_and_keeps_a_log(tmp_path: Path, opened: Open) -> None:
    catalog = opened(tmp_path / "catalog.sqlite")
    for _ in range(2):
        with catalog.write() as writer:
            # 2 is FULL.
            assert writer._session.rows("PRAGMA synchronous") == [(2,)]
            assert writer._session.rows("PRAGMA journal_mode") == [("wal",)]
        assert not catalog.renew_lease("nobody", timedelta(1))


def test_a_closed_catalog_says_so(catalog: SqlCatalog) -> None:
    catalog.close()
    catalog.close()
    with pytest.raises(CatalogError, match="closed"), catalog.read():
        pass
    with pytest.raises(CatalogError, match="closed"), catalog.write():
        pass


def test_a_catalog_that_was_moved_away_is_not_made_anew(tmp_path: Path, opened: Open) -> None:
    catalog = opened(tmp_path / "catalog.sqlite")
    catalog._pool.close()
    catalog._pool._closed = False
    (tmp_path / "catalog.sqlite").rename(tmp_path / "elsewhere.sqlite")
    with pytest.raises(LakeNotFoundError), catalog.read():
        pass
    assert not (tmp_path / "catalog.sqlite").exists()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_connections_alone(lab: Lab, kind: str) -> None:
    lab.change([id_file()])
    with lab.catalog.read(), lab.catalog.read():
        pass
    with lab.catalog.read() as reader:
        before = reader.head(lab.table_id)
        parents = [reader._session, *lab.catalog._pool._idle]
        assert len(parents) == 2
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            answer = "?"
            try:
                with lab.catalog.read() as inner:
                    seen = inner.head(lab.table_id).version
                    shared = inner._session in parents
                answer = f"{seen} {lab.change([id_file()]).version} {shared}"
                lab.catalog.close()
            except BaseException as error:
                answer = type(error).__name__
            finally:
                os.write(writing, answer.encode())
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        answer = os.read(reading, 100).decode()
        os.close(reading)
        assert answer == ("CatalogUnavailableError" if kind == "duckdb" else "1 2 False")
        assert reader.head(lab.table_id) == before
    assert lab.change([id_file()]).version == (2 if kind == "duckdb" else 3)
