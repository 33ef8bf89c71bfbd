"""The registry of transactions: who is at work, who won, and keys that make a repeat a no-op."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from catalog_support import START, Lab, id_file, record

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.core.errors import (
    AlreadyExistsError,
    CatalogError,
    InputError,
    InvalidOptionError,
    TransactionExpiredError,
)
from parqlake.core.model import Operation, TransactionStatus
from parqlake.core.ports import IdempotencyKeyUsed, NewSnapshot


def test_a_transaction_is_registered_and_found(catalog: SqlCatalog) -> None:
    made = record("key", txn_id="t1")
    catalog.begin_transaction(made, [1, 2, 2])
    bare = replace(record(txn_id="t2", started_at=START + timedelta(1)), message=None)
    catalog.begin_transaction(bare)
    with catalog.read() as reader:
        assert reader.transaction("t1") == made
        assert reader.transaction("t2") == bare
        assert reader.transaction("t3") is None
        assert reader.transaction_by_key("key") is None, "a key is bound by a commit, not by an attempt"
        assert reader.transactions() == [bare, made]
        assert reader.transactions(limit=1) == [bare]
        assert reader.transactions(status="open", limit=9) == [bare, made]
        assert reader.transactions(status="aborted") == []
        with pytest.raises(InvalidOptionError, match="open, committed, aborted"):
            reader.transactions(status="lost")


def test_an_id_is_used_once_and_a_transaction_begins_open(catalog: SqlCatalog) -> None:
    made = record(txn_id="t1")
    catalog.begin_transaction(made)
    with pytest.raises(AlreadyExistsError, match="t1"):
        catalog.begin_transaction(made)
    with pytest.raises(InvalidOptionError, match="committed"):
        catalog.begin_transaction(replace(made, txn_id="t2", status=TransactionStatus.COMMITTED))


def test_a_key_is_as_long_as_every_database_can_hold(lab: Lab) -> None:
    longest = "é" * 512
    lab.change([id_file()], key=longest)
    with lab.catalog.read() as reader:
        assert reader.transaction_by_key(longest) is not None
    with pytest.raises(InputError, match="1024 bytes"):
        lab.begin(longest + "x")


def test_a_commit_ends_the_transaction_and_binds_its_key(lab: Lab) -> None:
    txn = lab.begin("key")
    lab.change([id_file()], txn_id=txn)
    with lab.catalog.read() as reader:
        found = reader.transaction(txn)
        assert found is not None
        assert (found.status, found.ended_at) == (TransactionStatus.COMMITTED, START)
        assert found.versions == {lab.table_id: 1}
        assert reader.transaction_by_key("key") == found
        assert reader.transactions(status="committed") == [found]
        assert reader.transactions(status="open") == []


def test_a_used_key_is_refused_with_the_first_transaction(lab: Lab) -> None:
    first = lab.begin("key")
    lab.change([id_file()], txn_id=first)
    with pytest.raises(IdempotencyKeyUsed) as caught:
        lab.change([id_file()], key="key")
    assert caught.value.txn_id == first
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1
        assert [found.status for found in reader.transactions(status="open")] == [TransactionStatus.OPEN]
    assert lab.change([id_file()], key="other").version == 2


def test_only_an_open_transaction_can_finish(lab: Lab) -> None:
    aborted = lab.begin()
    assert lab.catalog.abort_transaction(aborted)
    assert not lab.catalog.abort_transaction(aborted)
    with pytest.raises(TransactionExpiredError, match="lease"):
        lab.change([id_file()], txn_id=aborted)
    with pytest.raises(TransactionExpiredError, match="not registered"):
        lab.change([id_file()], txn_id="never")
    committed = lab.begin()
    lab.change([id_file()], txn_id=committed)
    with pytest.raises(TransactionExpiredError, match="committed already"):
        lab.change([id_file()], txn_id=committed)
    assert not lab.catalog.abort_transaction(committed)
    assert not lab.catalog.abort_transaction("never")
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1
        found = reader.transaction(aborted)
        assert found is not None
        assert found.status is TransactionStatus.ABORTED
        assert found.ended_at is not None


def test_a_lease_is_moved_on_while_the_transaction_is_open(lab: Lab) -> None:
    txn = lab.begin()
    before = datetime.now(UTC)
    assert lab.catalog.renew_lease(txn, timedelta(minutes=7))
    with lab.catalog.read() as reader:
        found = reader.transaction(txn)
        assert found is not None
        assert timedelta(0) <= found.lease_until - before - timedelta(minutes=7) < timedelta(minutes=1)
    lab.catalog.abort_transaction(txn)
    assert not lab.catalog.renew_lease(txn, timedelta(minutes=7))
    assert not lab.catalog.renew_lease("never", timedelta(minutes=7))


def test_an_abort_waits_for_a_commit_under_way_and_loses(lab: Lab) -> None:
    txn = lab.begin()
    answers: list[bool] = []
    aborter = threading.Thread(target=lambda: answers.append(lab.catalog.abort_transaction(txn)))
    with lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file()], [])
        writer.add_snapshot(new, txn_id=txn, committed_at=START)
        writer.finish_transaction(txn, versions={lab.table_id: 1}, at=START)
        aborter.start()
        aborter.join(0.3)
        assert aborter.is_alive(), "the abort must not overtake a commit that has marked its row"
    aborter.join(30)
    assert answers == [False]
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1


def test_an_abort_that_is_first_stops_the_commit(lab: Lab, kind: str) -> None:
    txn = lab.begin()
    entered = lab.catalog.write()
    if kind != "postgres":
        # One writer at a time: the abort comes before the whole commit.
        assert lab.catalog.abort_transaction(txn)
    with pytest.raises(TransactionExpiredError), entered as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file()], [])
        writer.add_snapshot(new, txn_id=txn, committed_at=START)
        if kind == "postgres":
            # Rows are locked one by one: the abort slips in between the new version and the end.
            assert lab.catalog.abort_transaction(txn)
        writer.finish_transaction(txn, versions={lab.table_id: 1}, at=START)
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 0
        assert reader.files(lab.table_id, 1) == []


def test_a_failed_finish_cannot_be_swallowed(lab: Lab) -> None:
    lab.change([id_file()], key="key")
    txn = lab.begin("key")
    with pytest.raises(CatalogError, match="nothing of it was committed"), lab.catalog.write() as writer:
        base = writer.lock([lab.table_id])[lab.table_id]
        new = NewSnapshot(lab.table_id, base, Operation.APPEND, True, [id_file()], [])
        writer.add_snapshot(new, txn_id=txn, committed_at=START)
        with pytest.raises(IdempotencyKeyUsed):
            writer.finish_transaction(txn, versions={lab.table_id: 2}, at=START)
    with lab.catalog.read() as reader:
        assert reader.head(lab.table_id).version == 1


def test_two_transactions_with_one_key_at_once_commit_once(lab: Lab) -> None:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(lab.change([id_file()], key="shared").version)
        except IdempotencyKeyUsed as used:
            results.append(used.txn_id)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results.count(1) == 1
    with lab.catalog.read() as reader:
        owner = reader.transaction_by_key("shared")
        assert owner is not None
        assert sorted(map(str, results)) == sorted(["1", *[owner.txn_id] * 7])
        assert reader.head(lab.table_id).version == 1


def test_many_threads_append_without_loss(lab: Lab) -> None:
    def run(worker: int) -> None:
        for number in range(12):
            lab.change([id_file(path=f"{worker}-{number}")])
            with lab.catalog.read() as reader:
                head = reader.head(lab.table_id)
                assert len(reader.files(lab.table_id, head.version)) == head.version

    errors: list[BaseException] = []

    def guarded(worker: int) -> None:
        try:
            run(worker)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    entries = lab.files(72)
    assert {entry.path for entry in entries} == {f"{w}-{n}" for w in range(6) for n in range(12)}
    assert [entry.file_id for entry in entries] == list(range(1, 73))
    assert sorted(entry.added for entry in entries) == list(range(1, 73))


def test_tombstones_are_kept_once_with_the_latest_reason(lab: Lab) -> None:
    with lab.catalog.write() as writer:
        writer.add_tombstones(lab.table_id, ["a", "b", "a"], txn_id="t", reason="failed", at=START)
    with lab.catalog.write() as writer:
        writer.add_tombstones(lab.table_id, ["b"], txn_id="t2", reason="expired", at=START + timedelta(1))
        writer.add_tombstones(lab.table_id, [], txn_id="t2", reason="expired", at=START)
        found = writer._session.rows("SELECT path, reason, txn_id FROM tombstone ORDER BY path")
    assert found == [("a", "failed", "t"), ("b", "expired", "t2")]
