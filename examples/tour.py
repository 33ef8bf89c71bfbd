"""A tour of parqlake without Java, in under a minute: a million orders, a race, a crash, and nothing lost.

Run it with `make tour`. It builds a lake in ./tour-lake, checks every promise that it shows, and exits with 1 if one
is broken. The lake stays there to look at; the next run replaces it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from showing import Show, fresh_folder, megabytes, parquet_files

import parqlake

REGIONS = ["apac", "eu", "latam", "us"]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAY = 86_400_000_000
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("region", pa.string()),
        pa.field("customer", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("placed_at", pa.timestamp("us", tz="UTC")),
    ]
)
LINES = pa.schema({"order_id": pa.int64(), "sku": pa.string()})


def make_orders(first_id: int, count: int, *, day: int, days: int = 1) -> pa.Table:
    """Makes orders of some days, the same ones each time."""
    random = np.random.default_rng(first_id)
    placed = int(START.timestamp() * 1_000_000) + day * DAY + np.sort(random.integers(0, days * DAY, count))
    columns = [
        pa.array(np.arange(first_id, first_id + count)),
        pa.DictionaryArray.from_arrays(pa.array(random.integers(0, len(REGIONS), count)), REGIONS),
        pa.array(random.integers(0, 50_000, count, dtype=np.int32)),
        pa.array(np.round(random.gamma(2.0, 40.0, count), 2)),
        pa.array(placed, pa.timestamp("us", tz="UTC")),
    ]
    return pa.table(columns, names=ORDERS.names)


# ---------------------------------------------------------------------------------------------- other processes


def append_often(folder: str, worker: int, times: int, rows: int) -> None:
    """Appends small batches, as one of several processes that know nothing of each other."""
    with parqlake.connect(folder) as lake:
        orders = lake.table("sales.orders")
        for number in range(times):
            first = 10_000_000 + (worker * times + number) * rows
            orders.append(make_orders(first, rows, day=100), message=f"worker {worker}")


def append_until_killed(folder: str) -> None:
    """Begins an append that has no end, and so can only be ended from outside."""

    def endless() -> Iterator[pa.RecordBatch]:
        for number in itertools.count():
            yield from make_orders(20_000_000 + number * 100_000, 100_000, day=200).cast(ORDERS).to_batches()

    with parqlake.connect(folder) as lake:
        data = pa.RecordBatchReader.from_batches(ORDERS, endless())
        lake.table("sales.orders").append(data, max_rows_per_file=100_000)


# ---------------------------------------------------------------------------------------------- the tour


def load(show: Show, lake: parqlake.Lake, rows: int) -> None:
    """Appends a million orders in ten commits, one per ten days."""
    orders = lake.create_table("sales.orders", ORDERS, partition_by=["region"], properties={"row_group_size": 16_384})
    batch = rows // 10
    started = time.perf_counter()
    for number in range(10):
        data = make_orders(number * batch, batch, day=10 * number, days=10)
        result = orders.append(data, message=f"days {10 * number + 1} to {10 * number + 10}")
        show.fact(f"version {result.version:>2}: +{result.row_count:,} rows in {len(result.files)} files")
    seconds = time.perf_counter() - started
    last = orders.history(limit=1)[0]
    show.fact(f"{last.row_count / seconds:,.0f} rows/s, {megabytes(last.size_bytes)} in {last.file_count} files")
    show.check(f"{rows:,} rows are there", orders.scan().count() == batch * 10)


def prune(show: Show, lake: parqlake.Lake) -> None:
    """Reads two days of one region, and shows what did not have to be read."""
    orders = lake.table("sales.orders")
    since, until = START + dt.timedelta(days=42), START + dt.timedelta(days=44)
    scan = orders.scan(
        f"region = 'eu' and placed_at >= '{since.isoformat()}' and placed_at < '{until.isoformat()}' and amount > 100",
        columns=["id", "amount"],
    )
    started = time.perf_counter()
    found = scan.to_arrow()
    show.fact(f"{found.num_rows:,} orders in {(time.perf_counter() - started) * 1000:.0f} ms")
    show.fact(scan.explain())
    everything = orders.scan().to_arrow()
    wanted = (
        (pc.field("region") == "eu")
        & (pc.field("placed_at") >= since)
        & (pc.field("placed_at") < until)
        & (pc.field("amount") > 100)
    )
    by_hand = everything.filter(wanted).select(["id", "amount"])
    show.check("the same rows as by reading everything", found.sort_by("id").equals(by_hand.sort_by("id")))
    show.check("the same rows with a pyarrow expression", orders.scan(wanted).count() == found.num_rows)


def travel(show: Show, lake: parqlake.Lake) -> None:
    """Spoils the table, reads it as it was, and brings it back."""
    orders = lake.table("sales.orders")
    before, good = orders.scan(columns=["amount"]), orders.version
    total = pc.sum(before.to_arrow()["amount"]).as_py()
    orders.tag("before-the-mistake")
    spoilt = orders.scan("region = 'us'").to_arrow()
    zeroes = pa.array(np.zeros(spoilt.num_rows))
    spoilt = spoilt.set_column(spoilt.schema.get_field_index("amount"), ORDERS.field("amount"), zeroes)
    orders.overwrite(spoilt, where="region = 'us'", message="oops: all amounts set to 0")
    newest = orders.history(limit=1)[0]
    show.fact(
        f"version {newest.version}: {newest.message}; {newest.removed_files} files replaced, the others untouched"
    )
    now = pc.sum(orders.scan(columns=["amount"]).to_arrow()["amount"]).as_py()
    then = pc.sum(orders.scan(version=good, columns=["amount"]).to_arrow()["amount"]).as_py()
    show.fact(f"sum of amounts: {now:,.2f} now, {then:,.2f} in version {good}")
    show.check("the version before reads as it was", now < total and np.isclose(then, total))
    orders.restore("before-the-mistake")
    again = pc.sum(orders.scan(columns=["amount"]).to_arrow()["amount"]).as_py()
    show.check("restore brings it back, without writing a single data file", np.isclose(again, total))


def transact(show: Show, lake: parqlake.Lake, folder: Path) -> None:
    """Writes to two tables: once it fails in the middle, once it is run twice."""
    orders = lake.table("sales.orders")
    lines = lake.create_table("sales.lines", LINES)
    rows, version, on_disk = orders.scan().count(), orders.version, len(parquet_files(folder))
    new_orders = make_orders(5_000_000, 1000, day=99)
    new_lines = pa.table({"order_id": pa.array(np.arange(5_000_000, 5_001_000)), "sku": ["apple"] * 1000})
    try:
        with lake.transaction(message="will fail") as tx:
            tx.table("sales.orders").append(new_orders)
            show.fact(
                f"inside, the transaction sees its own {tx.table('sales.orders').scan('id >= 5000000').count():,} rows"
            )
            tx.table("sales.lines").append(new_lines.drop_columns(["sku"]))
    except parqlake.errors.SchemaMismatchError as error:
        show.fact(f"{type(error).__name__}: {error}")
    unchanged = (orders.scan().count(), orders.version, lines.scan().count()) == (rows, version, 0)
    show.check("neither table changed", unchanged)
    show.check("and no file was left behind", len(parquet_files(folder)) == on_disk)
    for attempt in ("first", "second"):
        with lake.transaction(message="order and lines", idempotency_key="demo/batch-1") as tx:
            tx.table("sales.orders").append(new_orders)
            tx.table("sales.lines").append(new_lines)
        show.fact(f"{attempt} run: {tx.versions}{', nothing done: the key was used before' if tx.replayed else ''}")
    both = (orders.scan("id >= 5000000").count(), lines.scan().count())
    show.check("run twice with one idempotency key, the rows are there once", both == (1000, 1000))


def race(show: Show, lake: parqlake.Lake, folder: Path) -> None:
    """Lets four processes append to one table at once."""
    orders = lake.table("sales.orders")
    workers, times, rows = 4, 10, 500
    version, count = orders.version, orders.scan().count()
    processes = multiprocessing.get_context("spawn")
    racers = [processes.Process(target=append_often, args=(str(folder), n, times, rows)) for n in range(workers)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    entries = orders.history(limit=workers * times)
    seconds = (entries[0].committed_at - entries[-1].committed_at).total_seconds()
    show.fact(f"{workers} processes × {times} appends: {(len(entries) - 1) / max(seconds, 0.001):,.0f} commits/s")
    show.check("no process saw an error", all(racer.exitcode == 0 for racer in racers))
    show.check(f"{workers * times} versions were made", orders.version == version + workers * times)
    ids = orders.scan("id >= 10000000", columns=["id"]).to_arrow()["id"]
    exact = len(ids) == workers * times * rows == pc.count_distinct(ids).as_py()
    show.check("no row is lost and none is doubled", exact and orders.scan().count() == count + len(ids))


def crash(show: Show, lake: parqlake.Lake, folder: Path) -> None:
    """Kills a writer in the middle of a large append."""
    orders = lake.table("sales.orders")
    version, digest = orders.version, orders.scan(columns=["id"]).to_arrow()["id"]
    on_disk = len(parquet_files(folder))
    writer = multiprocessing.get_context("spawn").Process(target=append_until_killed, args=(str(folder),))
    writer.start()
    deadline = time.monotonic() + 60
    while len(parquet_files(folder)) < on_disk + 10 and writer.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    writer.kill()  # SIGKILL: no clean-up of any kind
    writer.join()
    left = len(parquet_files(folder)) - on_disk
    show.fact(f"killed half-way (exit code {writer.exitcode}); it left {left} files that no version refers to")
    show.check("the writer was in the middle of it", writer.exitcode == -signal.SIGKILL and left >= 10)
    with parqlake.connect(folder) as again:
        table = again.table("sales.orders")
        whole = table.version == version and table.scan(columns=["id"]).to_arrow()["id"].equals(digest)
        show.check("opened anew, the last version reads whole and nothing else is visible", whole)
        table.append(make_orders(30_000_000, 100, day=300))
        show.check("and the table can be written to at once", table.version == version + 1)


def report(show: Show, lake: parqlake.Lake, folder: Path) -> None:
    """Closes with sizes and timings."""
    table = lake.table("sales.orders")
    last, files = table.history(limit=1)[0], table.files()
    show.fact(
        f"{last.version} versions, {last.row_count:,} rows, {last.file_count} files, {megabytes(last.size_bytes)}"
    )
    catalog = sum(path.stat().st_size for path in folder.glob("catalog.*"))
    show.fact(
        f"catalog: {megabytes(catalog)}, with statistics of {table.row_groups().num_rows // len(ORDERS):,} row groups"
    )
    one = folder / table.location / files["path"][0].as_py()
    show.fact(f"plain Parquet: {one.relative_to(folder)} has {pq.read_metadata(one).num_rows:,} rows")
    for title, seconds in show.timings:
        show.fact(f"{seconds:6.1f} s  {title}")


def main() -> int:
    """Runs the tour; returns 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="A tour of parqlake in under a minute.")
    parser.add_argument("--folder", type=Path, default=Path("tour-lake"), help="where to build the lake")
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many orders to generate")
    arguments = parser.parse_args()
    folder, show = arguments.folder, Show()
    fresh_folder(folder)
    started = time.perf_counter()
    with parqlake.connect(folder) as lake:
        print(f"parqlake {parqlake.__version__}: {lake!r}")
        with show.step(f"A table, and {arguments.rows:,} orders in ten commits"):
            load(show, lake, arguments.rows)
        with show.step("Two days of one region: only what may match is read"):
            prune(show, lake)
        with show.step("A mistake, and the way back"):
            travel(show, lake)
        with show.step("Two tables, all or nothing"):
            transact(show, lake, folder)
        with show.step("Four processes append at once"):
            race(show, lake, folder)
        with show.step("kill -9 in the middle of an append"):
            crash(show, lake, folder)
        with show.step("What there is now"):
            report(show, lake, folder)
    return show.result(folder, time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
