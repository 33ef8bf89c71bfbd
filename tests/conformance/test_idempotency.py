"""A repeated call with the same idempotency key does nothing and gives the first answer."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, data_files, ids, orders, state
from parqlake.testing.plugin import Feed

pytestmark = pytest.mark.catalog_work

REPEAT = """
import sys
import parqlake
from parqlake.testing.data import orders

root, catalog, engine = sys.argv[1:]
with parqlake.connect(root, catalog=catalog, engine=engine, create=False) as lake:
    result = lake.table("sales.orders").append(orders(7), idempotency_key="job-7/batch-12")
    print(result.version, result.row_count, result.replayed)
"""


def test_a_repeated_append_returns_the_first_result(table: Table, place: LakePlace, feed: Feed) -> None:
    first = table.append(feed(orders(5)), idempotency_key="job/1")
    before = data_files(place.root)
    again = table.append(feed(orders(5)), idempotency_key="job/1")
    assert not first.replayed
    assert again.replayed
    assert (again.version, again.row_count, again.files) == (first.version, first.row_count, first.files)
    assert again.transaction_id == first.transaction_id
    assert table.version == 1
    assert data_files(place.root) == before


def test_a_repeat_does_not_even_read_its_input(table: Table, feed: Feed) -> None:
    table.append(feed(orders(5)), idempotency_key="job/1")
    stream = orders(5).to_reader()
    table.append(stream, idempotency_key="job/1")
    assert stream.read_all().num_rows == 5


def test_every_writing_call_takes_a_key(table: Table, feed: Feed) -> None:
    table.append(feed(orders(5)))
    for _ in range(2):
        table.overwrite(feed(orders(3, first=10)), where="id >= 10", idempotency_key="some")
        table.restore(1, idempotency_key="restore")
        table.overwrite(feed(orders(2, first=20)), idempotency_key="all")
    assert [str(entry.operation) for entry in table.history()] == ["overwrite", "restore", "overwrite", "append"]


def test_other_keys_are_other_calls(table: Table, feed: Feed) -> None:
    keys = ["a", "A", "a ", "ä", "a/b", "'; drop table transactions; --", "k" * 1000]
    for key in keys:
        table.append(feed(orders(1)), idempotency_key=key)
    assert table.version == len(keys)


def test_a_key_outlives_the_connection(table: Table, place: LakePlace, feed: Feed) -> None:
    table.append(feed(orders(5)), idempotency_key="job/1")
    with place.connect() as other:
        assert other.table("sales.orders").append(feed(orders(5)), idempotency_key="job/1").replayed
    assert table.version == 1


def test_a_key_outlives_the_process(place: LakePlace, feed: Feed) -> None:
    if place.backend.store == "memory":
        pytest.skip("what is in memory:// ends with its process")
    with place.connect() as lake:
        lake.create_table("sales.orders", ORDERS)
    # Who wrote is nothing to a key: the other process does without a Spark session, which talks on stderr.
    engine = "pyarrow" if place.backend.engine == "spark" else place.backend.engine
    command = [sys.executable, "-c", REPEAT, place.root, place.catalog, engine]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.stdout.strip(), answer.stderr) == ("1 7 False", "")
    with place.connect() as lake:
        assert lake.table("sales.orders").append(feed(orders(7)), idempotency_key="job-7/batch-12").replayed
        assert ids(lake.table("sales.orders").scan().to_arrow()) == list(range(7))


def test_two_at_the_same_time_write_once(table: Table, place: LakePlace, feed: Feed) -> None:
    users = 4
    barrier = Barrier(users)

    def append(_: int) -> bool:
        with place.connect() as lake:
            mine = lake.table("sales.orders")
            barrier.wait()
            return mine.append(feed(orders(5)), idempotency_key="same").replayed

    with ThreadPoolExecutor(users) as pool:
        replayed = list(pool.map(append, range(users)))
    assert sorted(replayed) == [False] + [True] * (users - 1)
    assert table.version == 1
    assert ids(table.scan().to_arrow()) == list(range(5))
    assert len(data_files(place.root)) == 1


def test_a_failed_call_does_not_use_its_key_up(table: Table, feed: Feed) -> None:
    with pytest.raises(errors.SchemaMismatchError):
        table.append(feed(orders(5).drop_columns(["id"])), idempotency_key="job/1")
    bad = [orders(5), orders(5).set_column(0, "id", orders(5).column("amount").cast("int64", safe=False))]
    with pytest.raises(errors.ConstraintError):
        table.append(feed(bad), idempotency_key="job/1")
    assert not table.append(feed(orders(5)), idempotency_key="job/1").replayed
    assert table.version == 1


def test_a_key_that_was_used_on_another_table_is_refused(table: Table, lake: Lake, feed: Feed) -> None:
    other = lake.create_table("sales.other", ORDERS)
    table.append(feed(orders(5)), idempotency_key="job/1")
    before = state(lake)
    with pytest.raises(errors.InvalidOptionError, match=r"job/1.*other tables"):
        other.append(feed(orders(5)), idempotency_key="job/1")
    assert state(lake) == before


def test_a_repeated_transaction_does_nothing(lake: Lake, table: Table, feed: Feed) -> None:
    lake.create_table("sales.lines", ORDERS)
    versions = []
    for attempt in range(3):
        with lake.transaction(idempotency_key="job-7/batch-12") as tx:
            tx.table("sales.orders").append(feed(orders(5)))
            tx.table("sales.lines").overwrite(feed(orders(5)))
            tx.table("sales.lines").overwrite(feed(orders(0)), where="id = 1")
        assert tx.replayed == (attempt > 0)
        versions.append(tx.versions)
    assert versions == [{"sales.orders": 1, "sales.lines": 1}] * 3
    assert table.version == 1
    assert lake.table("sales.lines").scan().count() == 4


def test_a_transaction_that_failed_can_be_repeated_with_its_key(lake: Lake, table: Table, feed: Feed) -> None:
    with pytest.raises(ZeroDivisionError), lake.transaction(idempotency_key="job") as tx:
        tx.table("sales.orders").append(feed(orders(5)))
        raise ZeroDivisionError
    with lake.transaction(idempotency_key="job") as tx:
        tx.table("sales.orders").append(feed(orders(5)))
    assert not tx.replayed
    assert table.version == 1


def test_transactions_that_share_a_key_and_overlap_write_once(
    lake: Lake, table: Table, place: LakePlace, feed: Feed
) -> None:
    with place.connect() as other:
        with lake.transaction(idempotency_key="same") as mine:
            mine.table("sales.orders").append(feed(orders(5)))
            with other.transaction(idempotency_key="same") as theirs:
                theirs.table("sales.orders").append(feed(orders(5)))
        assert not theirs.replayed
        assert mine.replayed
        assert mine.versions == theirs.versions == {"sales.orders": 1}
    assert ids(table.scan().to_arrow()) == list(range(5))
    assert len(data_files(place.root)) == 1


def test_a_key_of_a_transaction_answers_a_single_call_too(lake: Lake, table: Table, feed: Feed) -> None:
    with lake.transaction(idempotency_key="job") as tx:
        tx.table("sales.orders").append(feed(orders(5)))
    result = table.append(feed(orders(5)), idempotency_key="job")
    assert (result.replayed, result.version) == (True, tx.versions["sales.orders"])


def test_a_key_that_cannot_be_stored(lake: Lake) -> None:
    for key in ("", "k" * 1001, 7, b"x"):
        with pytest.raises(errors.InvalidOptionError, match="idempotency_key"):
            lake.transaction(idempotency_key=key)  # type: ignore[arg-type]
