"""Records: small values that are committed with versions, under conditions that hold at the commit."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

import pytest

from parqlake import ABSENT, ANY, Lake, Record, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, data_files, ids, orders, state

DYING = """
import os, sys
import parqlake
from parqlake.catalogs.writer import SqlWriter
from parqlake.testing.data import orders

root, catalog = sys.argv[1:]
SqlWriter.finish_transaction = lambda *_, **__: os._exit(9)  # all is written, and COMMIT is next
with parqlake.connect(root, catalog=catalog, create=False) as lake, lake.transaction() as tx:
    tx.table("sales.orders").append(orders(7))
    tx.record("watermarks", "orders", 7, expect=parqlake.ABSENT)
"""


def put(lake: Lake, scope: str, **values: object) -> None:
    with lake.transaction() as tx:
        tx.record_many(scope, values, expect=ANY)


def test_what_is_put_on_record_is_found_again(lake: Lake, table: Table) -> None:
    value = {"until": "2026-11-15", "n": [1, 2.5, None, True], "ü": "漢字 🦆 \0 \ud800"}
    began = datetime.now(UTC)
    with lake.transaction(message="the first") as tx:
        tx.table("sales.orders").append(orders(3))
        tx.record("watermarks", "orders", value)
        assert lake.record("watermarks", "orders") is None
    found = lake.record("watermarks", "orders")
    assert isinstance(found, Record)
    assert (found.scope, found.key, found.value, found.revision) == ("watermarks", "orders", value, 1)
    assert began <= found.recorded_at <= datetime.now(UTC)
    assert found.transaction == table.history()[0].transaction_id
    assert lake.record("watermarks", "other") is None
    assert lake.record("other", "orders") is None


@pytest.mark.catalog_work
def test_records_are_listed_by_key_and_by_age(lake: Lake) -> None:
    keys = ["b", "Z", "ä", "a/b", "a", "10", "9", "%", "a_", "'; drop table lake_record; --"]
    put(lake, "files/x", **dict.fromkeys(keys, 0))
    put(lake, "files/x", b=1)
    put(lake, "files", x=0)
    in_order = sorted(keys, key=str.encode)
    assert [record.key for record in lake.records("files/x")] == in_order
    assert [record.key for record in lake.records("files/x", after=in_order[3], limit=2)] == in_order[4:6]
    newest = lake.records("files/x", newest_first=True)
    assert [record.key for record in newest] == ["b", *[key for key in reversed(keys) if key != "b"]]
    assert newest[0].value == 1
    assert lake.records("files/x", newest_first=True, after="b", limit=2) == newest[1:3]
    assert lake.records("files/x", limit=0) == lake.records("nothing") == []
    assert len({record.revision for record in newest}) == len(keys)
    assert lake.recorded("files/x", ["a", "A", "b", "nothing", "a"]) == {"a", "b"}
    assert lake.recorded("files/x", []) == set()
    assert lake.record_scopes() == ["files", "files/x"]
    assert lake.record_scopes("files/") == ["files/x"]


def test_what_is_forgotten_is_gone_and_its_revision_never_comes_back(lake: Lake) -> None:
    put(lake, "s", a=1, b=2)
    before = lake.record("s", "b")
    assert before is not None
    assert lake.forget("s", ["b", "c"]) == 1
    assert [record.key for record in lake.records("s")] == ["a"]
    put(lake, "s", b=2)
    with pytest.raises(errors.RecordConflictError), lake.transaction() as tx:
        tx.record("s", "b", 3, expect=before.revision)
    assert lake.forget("s", ["a", "b"]) == 2
    assert lake.record_scopes() == []


@pytest.mark.catalog_work
def test_an_expectation_that_does_not_hold_stops_everything(lake: Lake, table: Table, place: LakePlace) -> None:
    put(lake, "watermarks", orders="old")
    there = lake.record("watermarks", "orders")
    assert there is not None
    before, files = state(lake), data_files(place.root)
    for expect, wanted in ((ABSENT, "to be absent"), (there.revision + 1, f"to have revision {there.revision + 1}")):
        with pytest.raises(errors.RecordConflictError) as caught, lake.transaction() as tx:
            tx.table("sales.orders").append(orders(3))
            tx.record("files", "new", 1, expect=ABSENT)
            tx.record("watermarks", "orders", "new", expect=expect)
        for text in ('record "orders" of scope "watermarks"', wanted, f"revision {there.revision}", '"old"'):
            assert text in str(caught.value)
        assert (caught.value.scope, caught.value.key, caught.value.found) == ("watermarks", "orders", there)
        assert isinstance(caught.value, errors.ConflictError)
    with pytest.raises(errors.RecordConflictError, match="it is not there"), lake.transaction() as tx:
        tx.record("watermarks", "lines", 1, expect=7)
    assert (state(lake), data_files(place.root)) == (before, files)
    assert lake.records("watermarks") == [there]
    assert lake.records("files") == []
    with lake.transaction() as tx:
        tx.table("sales.orders").append(orders(3))
        tx.record("watermarks", "orders", "new", expect=there.revision)
    assert (table.version, lake.records("watermarks")[0].value) == (1, "new")


def test_records_alone_commit_and_make_no_version(lake: Lake, table: Table) -> None:
    table.append(orders(3))
    with lake.transaction(idempotency_key="run-1") as tx:
        tx.record("s", "a", 1, expect=ABSENT)
        tx.record("s", "a", 2)  # the last value counts, and so does what the first expected
    assert (tx.versions, tx.replayed, table.version) == ({}, False, 1)
    first = lake.record("s", "a")
    assert first is not None
    assert first.value == 2
    with lake.transaction(idempotency_key="run-1") as tx:
        tx.record("s", "a", 3)
    assert tx.replayed
    assert lake.record("s", "a") == first
    with pytest.raises(errors.RecordConflictError), lake.transaction() as tx:
        tx.record("s", "a", 1, expect=ABSENT)
        tx.record("s", "a", 2)


@pytest.mark.catalog_work
def test_of_those_who_expect_the_same_one_commits(place: LakePlace) -> None:
    users = 4
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
        put(lake, "watermarks", orders=0)
        seen = lake.records("watermarks")[0].revision
        barrier = Barrier(users)

        def run(number: int) -> str:
            with place.connect() as mine:
                try:
                    with mine.transaction(idempotency_key="same" if number < 2 else f"run-{number}") as tx:
                        tx.table("sales.orders").append(orders(2, first=10 * number))
                        tx.record("watermarks", "orders", number, expect=seen)
                        barrier.wait()
                except errors.RecordConflictError:
                    return "conflict"
                return "replayed" if tx.replayed else "committed"

        with ThreadPoolExecutor(users) as pool:
            ends = list(pool.map(run, range(users)))
        assert ends.count("committed") == 1
        winner = ends.index("committed")
        # The same work under the same key is done when the other has done it; that is no conflict.
        assert all(ends[number] == "replayed" for number in {0, 1} - {winner} if winner < 2)
        assert lake.records("watermarks")[0].value == winner
        assert ids(lake.table("sales.orders").scan().to_arrow()) == [10 * winner, 10 * winner + 1]
        assert len(data_files(place.root)) == 1


def test_a_crash_before_commit_leaves_no_record(place: LakePlace) -> None:
    if place.backend.store == "memory" or place.backend.engine != "pyarrow":
        pytest.skip("what is in memory:// ends with its process; and who writes files is nothing to a record")
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
    done = subprocess.run([sys.executable, "-c", DYING, place.root, place.catalog], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr
    with place.connect() as lake:
        assert (lake.record("watermarks", "orders"), lake.table("sales.orders").version) == (None, 0)
        with lake.transaction() as tx:
            tx.table("sales.orders").append(orders(7))
            tx.record("watermarks", "orders", 7, expect=ABSENT)
        assert (lake.records("watermarks")[0].value, lake.table("sales.orders").version) == (7, 1)


def test_ten_thousand_keys_in_one_go(lake: Lake) -> None:
    values = {f"landing/2026/{number:05}.json": {"size": number} for number in range(10_000)}
    with lake.transaction() as tx:
        tx.record_many("files/orders", values)
    found = lake.records("files/orders")
    assert {record.key: record.value for record in found} == values
    assert lake.recorded("files/orders", [*values, "more"]) == set(values)
    with pytest.raises(errors.RecordConflictError, match=r"00007\.json.*and so with 1 more"), lake.transaction() as tx:
        tx.record_many("files/orders", dict.fromkeys(("a", *list(values)[7:9])))
    assert len(lake.records("files/orders")) == 10_000


def test_bad_input_is_refused_at_once(lake: Lake) -> None:
    with lake.transaction() as tx:
        for value in (math.nan, {1, 2}, b"x", datetime.now(UTC), object()):
            with pytest.raises(errors.InputError, match=r'record "key" of scope "scope" cannot be kept as JSON'):
                tx.record("scope", "key", value)
        for bad in ("", None, 7, "a\0b", "\ud800", "ä" * 1000):
            with pytest.raises(errors.InvalidOptionError, match="scope"):
                tx.record(bad, "key", 1)  # type: ignore[arg-type]
            with pytest.raises(errors.InvalidOptionError, match="key"):
                tx.record("scope", bad, 1)  # type: ignore[dict-item]
        for expect in (0, -1, True, None, "absent"):
            with pytest.raises(errors.InvalidOptionError, match="expect"):
                tx.record("scope", "key", 1, expect=expect)  # type: ignore[arg-type]
        tx.record("scope", "twice", 1, expect=ABSENT)
        with pytest.raises(errors.InputError, match="it cannot expect 3 as well"):
            tx.record("scope", "twice", 2, expect=3)
    assert [record.key for record in lake.records("scope")] == ["twice"]
    with pytest.raises(errors.InputError, match="has ended"):
        tx.record("scope", "late", 1)
    with pytest.raises(errors.InvalidOptionError, match="list of keys"):
        lake.recorded("scope", "twice")
    with pytest.raises(errors.InvalidOptionError, match="limit"):
        lake.records("scope", limit=-1)
    with pytest.raises(errors.NotFoundError, match='no record "gone"'):
        lake.records("scope", newest_first=True, after="gone")
