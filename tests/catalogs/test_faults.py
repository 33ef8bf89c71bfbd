"""Faults on the way: cut connections, lost answers, busy, full and read-only databases. Each error tells the truth."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from catalog_support import START, Lab, id_file

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.catalogs.writer import SqlWriter
from parqlake.core.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogUnavailableError,
    ConflictError,
    UnknownOutcomeError,
)
from parqlake.core.model import Operation, TransactionStatus
from parqlake.core.ports import NewSnapshot
from parqlake.testing.postgres import PostgresServer

Open = Callable[..., SqlCatalog]
HERE = Path(__file__).parent


def write_version(lab: Lab, writer: SqlWriter, txn: str) -> None:
    base = writer.lock([lab.table_id])[lab.table_id]
    new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file()], [])
    snapshot = writer.add_snapshot(new, txn_id=txn, committed_at=START)
    writer.finish_transaction(txn, versions={lab.table_id: snapshot.version}, at=START)


def status(catalog: SqlCatalog, txn: str) -> TransactionStatus:
    with catalog.read() as reader:
        found = reader.transaction(txn)
    assert found is not None
    return found.status


def backend_of(writer: SqlWriter) -> int:
    return int(writer._session.rows("SELECT pg_backend_pid()")[0][0])


# ---- PostgreSQL: connections that are cut


@pytest.fixture
def postgres_lab(postgres_url: str, opened: Open) -> Lab:
    return Lab(opened(postgres_url))


def terminate(server: PostgresServer, backend: int) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (backend,))


def test_a_connection_cut_before_commit_has_committed_nothing(postgres_lab: Lab, server: PostgresServer) -> None:
    lab = postgres_lab
    txn = lab.begin("key")
    with pytest.raises(CatalogUnavailableError, match="nothing was written"), lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        terminate(server, backend_of(writer))
        writer.head(lab.table_id)
    assert status(lab.catalog, txn) is TransactionStatus.OPEN
    assert lab.files(1) == []
    lab.change([id_file()], txn_id=txn)
    assert status(lab.catalog, txn) is TransactionStatus.COMMITTED


def test_a_connection_cut_just_before_commit_is_an_unknown_outcome(postgres_lab: Lab, server: PostgresServer) -> None:
    lab = postgres_lab
    txn = lab.begin()
    with pytest.raises(UnknownOutcomeError, match="look the transaction up"), lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        terminate(server, backend_of(writer))
    assert status(lab.catalog, txn) is TransactionStatus.OPEN
    assert lab.catalog.abort_transaction(txn)


def test_a_connection_cut_during_commit_is_an_unknown_outcome(
    postgres_lab: Lab, postgres_url: str, server: PostgresServer
) -> None:
    lab = postgres_lab
    address, _, schema = postgres_url.partition("?parqlake_schema=")
    with psycopg.connect(address) as connection:
        connection.execute(f'SET search_path TO "{schema}"')
        connection.execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON snapshot DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION linger()"
        )
    txn = lab.begin()
    started = threading.Event()
    backends: list[int] = []

    def cut() -> None:
        started.wait(30)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
            deadline = time.monotonic() + 30
            while connection.execute(busy, (backends[0],)).fetchone() is None and time.monotonic() < deadline:
                time.sleep(0.01)
        terminate(server, backends[0])

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(UnknownOutcomeError), lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        backends.append(backend_of(writer))
        started.set()
    cutter.join(60)
    assert status(lab.catalog, txn) is TransactionStatus.OPEN
    assert lab.catalog.abort_transaction(txn)
    assert lab.files(1) == []


class CuttingProxy:
    """Passes bytes between clients and the server; when told to, cuts after the server has answered a COMMIT."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut_answers = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.create_connection(("127.0.0.1", self._target))
        doomed = threading.Event()

        def answers() -> None:
            with contextlib.suppress(OSError):
                while data := upstream.recv(65536):
                    if doomed.is_set():
                        break
                    client.sendall(data)
            for end in (client, upstream):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

        threading.Thread(target=answers, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.cut_answers and b"COMMIT\0" in data:
                    doomed.set()
                upstream.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[CuttingProxy]:
    made = CuttingProxy(server.port)
    yield made
    made.close()


def test_an_answer_lost_after_commit_can_be_found_out(
    proxy: CuttingProxy, server: PostgresServer, postgres_url: str, opened: Open
) -> None:
    address = postgres_url.replace(f":{server.port}/", f":{proxy.port}/").replace(
        "?", "?sslmode=disable&gssencmode=disable&"
    )
    lab = Lab(opened(address))
    txn = lab.begin("key")
    with pytest.raises(UnknownOutcomeError), lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        proxy.cut_answers = True
    proxy.cut_answers = False
    assert status(lab.catalog, txn) is TransactionStatus.COMMITTED
    assert not lab.catalog.abort_transaction(txn)
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1
        assert reader.transaction_by_key("key") is not None


def test_the_registry_asks_again_when_an_answer_is_lost(
    proxy: CuttingProxy, server: PostgresServer, postgres_url: str, opened: Open
) -> None:
    address = postgres_url.replace(f":{server.port}/", f":{proxy.port}/").replace(
        "?", "?sslmode=disable&gssencmode=disable&"
    )
    lab = Lab(opened(address))
    proxy.cut_answers = True
    healer = threading.Timer(0.05, lambda: setattr(proxy, "cut_answers", False))
    healer.start()
    txn = lab.begin("key")
    healer.join()
    assert status(lab.catalog, txn) is TransactionStatus.OPEN
    lab.change([id_file()], txn_id=txn)


def test_idle_connections_that_were_cut_are_replaced(postgres_lab: Lab, server: PostgresServer) -> None:
    lab = postgres_lab
    with lab.catalog.write() as writer, lab.catalog.read() as reader:
        backends = [backend_of(writer), int(reader._session.rows("SELECT pg_backend_pid()")[0][0])]
    for backend in backends:
        terminate(server, backend)
    assert lab.change([id_file()]).version == 1
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1


def test_a_deadlock_has_a_victim_that_may_run_again(postgres_lab: Lab) -> None:
    lab = postgres_lab
    other = lab.new_table().table_id
    both_hold_one = threading.Barrier(2, timeout=30)
    outcomes: list[str] = []

    def run(first: int, second: int) -> None:
        try:
            with lab.catalog.write() as writer:
                writer.lock([first])
                both_hold_one.wait()
                writer.lock([second])
            outcomes.append("done")
        except CatalogBusyError:
            outcomes.append("victim")

    threads = [threading.Thread(target=run, args=pair) for pair in ((lab.table_id, other), (other, lab.table_id))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["done", "victim"]


def test_a_second_writer_of_a_table_waits_and_sees_the_first(lab: Lab) -> None:
    versions: list[int] = []
    first_is_in = threading.Event()

    def second() -> None:
        first_is_in.wait(30)
        versions.append(lab.change([id_file()]).version)

    thread = threading.Thread(target=second)
    thread.start()
    txn = lab.begin()
    with lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        first_is_in.set()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(60)
    assert versions == [2]


# ---- every database


def test_a_writer_that_waits_too_long_is_told_that_others_are_busy(url: str, opened: Open) -> None:
    lab = Lab(opened(url))
    impatient = opened(url, busy_timeout=0.2)
    txn = lab.begin()
    with lab.catalog.write() as writer:
        write_version(lab, writer, txn)
        began = time.monotonic()
        with pytest.raises(CatalogBusyError, match="nothing was written"), impatient.write() as other:
            other.lock([lab.table_id])
        assert 0.15 < time.monotonic() - began < 10
        with impatient.read() as reader:
            assert reader.head(lab.table_id).version == 0
    with impatient.write() as other:
        assert other.lock([lab.table_id])[lab.table_id].version == 1


def test_after_a_failed_statement_nothing_more_is_run_or_committed(lab: Lab) -> None:
    with pytest.raises(CatalogError, match="earlier statement"), lab.catalog.write() as writer:
        writer.set_properties(lab.table_id, {"half": "done"})
        with pytest.raises(CatalogError):
            writer._session.rows("SELECT no_such_column FROM lake")
        with pytest.raises(CatalogError, match="earlier statement"):
            writer.set_properties(lab.table_id, {"more": "done"})
    with lab.catalog.read() as reader:
        assert reader.table_by_id(lab.table_id) == lab.table
    with lab.catalog.write() as writer:
        writer.set_properties(lab.table_id, {})


def test_a_key_that_is_there_already_is_a_conflict(lab: Lab) -> None:
    with pytest.raises(ConflictError), lab.catalog.write() as writer:
        writer._session.change("INSERT INTO table_name VALUES (?, ?, ?)", ("a", "b", 1))
        writer._session.change("INSERT INTO table_name VALUES (?, ?, ?)", ("a", "b", 2))


def test_an_error_of_the_caller_rolls_back_and_comes_through(lab: Lab) -> None:
    with pytest.raises(KeyboardInterrupt), lab.catalog.write() as writer:
        writer.drop_table(lab.table_id, START)
        raise KeyboardInterrupt
    with pytest.raises(ZeroDivisionError), lab.catalog.read() as reader:
        assert reader.table(lab.table.name) == lab.table
        raise ZeroDivisionError
    assert lab.change([id_file()]).version == 1


# ---- SQLite


def test_a_full_disk_commits_nothing(tmp_path: Path, opened: Open) -> None:
    lab = Lab(opened(tmp_path / "catalog.sqlite"))
    txn = lab.begin()
    with pytest.raises(CatalogError, match="disk is full"), lab.catalog.write() as writer:
        (pages,) = writer._session.rows("PRAGMA page_count")[0]
        writer._session.rows(f"PRAGMA max_page_count = {pages}")
        base = writer.lock([lab.table_id])[lab.table_id]
        new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file() for _ in range(500)], [])
        writer.add_snapshot(new, txn_id=txn, committed_at=START)
    lab.catalog._pool._idle.clear()
    assert status(lab.catalog, txn) is TransactionStatus.OPEN
    assert lab.change([id_file()], txn_id=txn).version == 1
