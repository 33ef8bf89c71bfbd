"""One lake object serves many threads: no version, no row is lost or doubled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import ORDERS, data_files, ids, orders

pytestmark = pytest.mark.catalog_work

THREADS = 8
APPENDS = 10
ROWS = 3


def test_appends_from_many_threads(lake: Lake, table: Table, place: LakePlace) -> None:
    barrier = Barrier(THREADS)

    def work(thread: int) -> list[int]:
        mine = lake.table("sales.orders")
        barrier.wait()
        return [
            mine.append(orders(ROWS, first=(thread * APPENDS + number) * ROWS)).version for number in range(APPENDS)
        ]

    with ThreadPoolExecutor(THREADS) as pool:
        versions = list(pool.map(work, range(THREADS)))
    assert sorted(version for part in versions for version in part) == list(range(1, THREADS * APPENDS + 1))
    assert all(part == sorted(part) for part in versions)
    assert ids(table.scan().to_arrow()) == list(range(THREADS * APPENDS * ROWS))
    assert [entry.row_count for entry in reversed(table.history())] == [
        ROWS * number for number in range(1, THREADS * APPENDS + 1)
    ]
    assert len(data_files(place.root)) == THREADS * APPENDS


def test_readers_see_whole_versions_while_others_write(lake: Lake, table: Table) -> None:
    table.append(orders(10))

    def write(_: int) -> None:
        for number in range(5):
            table.overwrite(orders(10 + number, first=1000), max_rows_per_file=3)

    def read(_: int) -> list[tuple[int, int, int]]:
        found = []
        for _attempt in range(8):
            scan = table.scan()
            found.append((scan.version, scan.to_arrow().num_rows, scan.count()))
        return found

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, number) for number in range(2)]
        reading = [pool.submit(read, number) for number in range(2)]
        for future in writing:
            future.result()
        seen = [entry for future in reading for entry in future.result()]
    rows = {entry.version: entry.row_count for entry in table.history()}
    assert table.version == 11
    assert all(rows[version] == read == counted for version, read, counted in seen)


def test_a_counter_that_threads_raise_together_counts_right(lake: Lake) -> None:
    table = lake.create_table("t.counter", ORDERS)
    table.append(orders(1))
    rounds, threads = 3, 4

    def raise_it(_: int) -> int:
        tries = 0
        for _round in range(rounds):
            while True:
                tries += 1
                try:
                    with lake.transaction() as tx:
                        inside = tx.table("t.counter")
                        (current,) = inside.scan().to_arrow().column("id").to_pylist()
                        inside.overwrite(orders(1, first=current + 1))
                    break
                except errors.ConflictError:
                    continue
        return tries

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(raise_it, range(threads)))
    assert table.scan().to_arrow().column("id").to_pylist() == [rounds * threads]
    assert table.version == rounds * threads + 1


def test_one_thread_gets_a_name(lake: Lake) -> None:
    barrier = Barrier(THREADS)

    def create(_: int) -> bool:
        barrier.wait()
        try:
            lake.create_table("t.wanted", ORDERS)
        except errors.TableExistsError:
            return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(create, range(THREADS))) == 1
    assert lake.tables() == ["t.wanted"]
