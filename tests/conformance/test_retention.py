"""Expire, vacuum, recover: what is kept reads as before, what is not is refused by name, and files go in between."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import fsspec
import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table, errors
from parqlake.core.model import Operation, TransactionRecord, TransactionStatus
from parqlake.core.retention import ReaderLease
from parqlake.table import holding
from parqlake.table.commit import TableChange
from parqlake.table.unit import Unit
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ORDERS, bag, data_files, ids, orders, state, stored

pytestmark = pytest.mark.catalog_work

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def one_engine(backend: Backend) -> None:
    if backend.engine != "pyarrow":
        pytest.skip("no engine takes part in keeping and deleting; the pyarrow cells cover every catalog and store")


@pytest.fixture
def filled(table: Table) -> Table:
    """Five versions: 10 rows, 20, then 5 others, 8, and 7 of those."""
    table.append(orders(10))
    table.append(orders(10, first=10))
    table.overwrite(orders(5, first=100))
    table.append(orders(3, first=200))
    table.delete("id = 101")
    return table


def contents(table: Table) -> dict[int, Counter[tuple[object, ...]]]:
    """All kept versions with their rows."""
    return {entry.version: bag(table.scan(version=entry.version).to_arrow()) for entry in table.history()}


def backdate(lake: Lake, table: Table, age: timedelta = 30 * DAY) -> int:
    """Makes the table's tombstones as old as if they had been expired that long ago; returns how many there are."""
    with lake.context.catalog.write() as writer:
        paths = [tombstone.path for tombstone in writer.tombstones(table.info.table_id)]
        at = datetime.now(UTC) - age
        writer.add_tombstones(table.info.table_id, paths, txn_id="", reason="expired", at=at)
    return len(paths)


def part_born(age: timedelta, number: int = 0) -> str:
    millis = f"{int((datetime.now(UTC) - age).timestamp() * 1000):012x}"
    return f"part-{millis[:8]}-{millis[8:]}-7000-8000-{number:012x}.parquet"


def put(place: LakePlace, path: str, content: bytes = b"torn") -> None:
    filesystem, root = fsspec.core.url_to_fs(place.root)
    filesystem.makedirs(f"{root}/{path}".rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(f"{root}/{path}", content)


def open_transaction(
    lake: Lake, txn_id: str, *, age: timedelta = timedelta(0), lapsed: bool = False, table: Table | None = None
) -> None:
    now = datetime.now(UTC)
    until = now - timedelta(minutes=5) if lapsed else now + timedelta(hours=1)
    record = TransactionRecord(txn_id, TransactionStatus.OPEN, "someone@host:1", now - age, until, "append", "pyarrow")
    lake.context.catalog.begin_transaction(record, [table.info.table_id] if table else [])


# ------------------------------------------------------------------------------------------------ expire


def test_expired_versions_are_refused_by_name_and_others_read_as_before(filled: Table, place: LakePlace) -> None:
    filled.tag("first", version=1)
    before, files = contents(filled), stored(place.root)
    moments = {entry.version: entry.committed_at for entry in filled.history()}
    planned = filled.expire(keep_last=2, dry_run=True)
    assert contents(filled) == before
    result = filled.expire(keep_last=2)
    assert (result.versions, result.tags, result.kept) == ((2, 3), (), 3)
    assert (planned.versions, planned.files, planned.size_bytes) == (result.versions, result.files, result.size_bytes)
    assert result.files == 1  # the second file of version 2; that of 1 is tagged, and those of 3 live on in 4
    assert stored(place.root) == files
    assert contents(filled) == {version: before[version] for version in (1, 4, 5)}
    for version in (2, 3):
        for call in (filled.scan, filled.files, filled.row_groups, filled.schema, filled.restore):
            with pytest.raises(errors.VersionNotFoundError, match=f"version {version} .*expired"):
                call(version=version)
        # The tagged version 1 is the newest kept one before these moments, and would be the wrong answer.
        with pytest.raises(errors.VersionNotFoundError, match=f"version {version} .*expired"):
            filled.scan(as_of=moments[version])
        with pytest.raises(errors.VersionNotFoundError, match="expired"):
            filled.tag("late", version=version)
    assert filled.scan(as_of=moments[1]).count() == 10
    assert filled.scan(version=0).count() == 0
    with pytest.raises(errors.VersionNotFoundError, match=r"version 3 .*expired"):
        filled.added(after=1, allow_removals=True).to_arrow()
    assert filled.added(after=3, until=4).count() == 3
    assert filled.expire(keep_last=2).versions == ()


def test_what_expires_follows_age_number_and_tags(filled: Table) -> None:
    assert filled.expire().versions == ()  # all are younger than seven days
    assert filled.expire("0s", keep_last=4, dry_run=True).versions == (1,)
    filled.tag("old", version=1)
    assert filled.expire(0, dry_run=True).versions == (2, 3, 4)
    result = filled.expire(timedelta(0), keep_tags=False)
    assert (result.versions, result.tags, filled.tags()) == ((1, 2, 3, 4), ("old",), {})
    filled.append(orders(1))
    assert [entry.version for entry in filled.history()] == [6, 5]


def test_bad_rules_change_nothing(filled: Table, lake: Lake) -> None:
    before = state(lake)
    wrong: list[dict[str, object]] = [{"keep_last": 0}, {"keep_last": True}, {"older_than": "soon"}, {"older_than": 3}]
    for rule in wrong:
        with pytest.raises(errors.InvalidOptionError, match=f"{next(iter(rule))}="):
            filled.expire(**rule)  # type: ignore[arg-type]
    for age in ("1m", 0, timedelta(minutes=14)):
        with pytest.raises(errors.InvalidOptionError, match="force=True"):
            filled.vacuum(age)  # type: ignore[arg-type]
    assert state(lake) == before


# ------------------------------------------------------------------------------------------------ vacuum


def test_vacuum_deletes_exactly_what_only_expired_versions_held(filled: Table, lake: Lake, place: LakePlace) -> None:
    before = contents(filled)
    filled.expire(keep_last=1)
    everything = data_files(place.root)
    assert filled.vacuum().files == 0  # they became of no use just now
    assert filled.vacuum().held == backdate(lake, filled) == 3
    planned = filled.vacuum(dry_run=True)
    assert data_files(place.root) == everything
    result = filled.vacuum()
    assert (result.files, result.expired, result.size_bytes) == (planned.files, planned.files, planned.size_bytes) != 0
    assert everything - data_files(place.root) == set(result.paths) == set(planned.paths)
    needed = {f"{filled.location}/{path}" for path in filled.files().column("path").to_pylist()}
    assert data_files(place.root) == needed
    assert filled.vacuum() == type(result)()
    with place.connect() as other:
        again = other.table("sales.orders")
        assert contents(again) == {5: before[5]}
        assert ids(again.scan("id >= 100 and id < 103").to_arrow()) == [100, 102]
    filled.append(orders(2, first=300))
    filled.delete("id = 300")
    assert ids(filled.scan("id > 201").to_arrow()) == [202, 301]


def test_a_restored_file_is_kept(table: Table, lake: Lake, place: LakePlace) -> None:
    table.append(orders(10))
    table.overwrite(orders(5, first=50))
    table.restore(1)
    table.expire(keep_last=1)
    backdate(lake, table)
    assert table.vacuum().files == 1
    assert ids(table.scan().to_arrow()) == list(range(10))
    assert len(data_files(place.root)) == 1


def test_leftovers_go_by_age_and_never_those_of_open_transactions(filled: Table, lake: Lake, place: LakePlace) -> None:
    before = contents(filled)
    old, older, young = part_born(10 * DAY), part_born(20 * DAY), part_born(timedelta(hours=1))
    strays = [f"{filled.location}/{name}" for name in ("notes.txt", "region=eu/part-0.parquet")]
    for path in (*(f"{filled.location}/{name}" for name in (old, f"region=eu/{older}", young)), *strays):
        put(place, path)
    open_transaction(lake, "long", age=15 * DAY)
    result = lake.vacuum()
    assert (result.files, result.leftovers, result.held) == (1, 1, 2)
    assert result.paths == (f"{filled.location}/region=eu/{older}",)
    assert set(result.strays) == set(strays)
    assert lake.context.catalog.abort_transaction("long")
    assert filled.vacuum().paths == (f"{filled.location}/{old}",)
    assert set(stored(place.root)) >= {*strays, f"{filled.location}/{young}"}
    assert contents(filled) == before


def test_open_transactions_keep_what_expired_after_they_began(filled: Table, lake: Lake) -> None:
    open_transaction(lake, "reads", age=40 * DAY)
    filled.expire(keep_last=1)
    held = backdate(lake, filled)
    assert (filled.vacuum().files, filled.vacuum().held) == (0, held)
    lake.context.catalog.abort_transaction("reads")
    assert filled.vacuum().files == held


def test_readers_keep_versions_from_expiring_and_files_from_being_deleted(filled: Table, lake: Lake) -> None:
    before = contents(filled)
    expired = filled.expire(keep_last=3)
    assert expired.versions == (1, 2)
    now = datetime.now(UTC)
    with lake.context.catalog.write() as writer:
        for name, version, until in (("late", 2, now + DAY), ("at work", 3, now + DAY), ("gone", 4, now - DAY)):
            writer.hold_versions(ReaderLease(name, filled.info.table_id, version, version, "me", until))
    assert filled.expire(keep_last=1).versions == (4,)
    assert contents(filled) == {version: before[version] for version in (3, 5)}
    assert backdate(lake, filled) == 2
    assert filled.vacuum().held == 2
    with lake.context.catalog.write() as writer:
        writer.release_versions("late")
    assert filled.vacuum().files == 2
    assert contents(filled) == {version: before[version] for version in (3, 5)}


def test_a_long_scan_is_heard_of(filled: Table, lake: Lake, place: LakePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "REGISTER_AFTER_SECONDS", 0.02)

    def leases() -> list[tuple[int, int]]:
        with lake.context.catalog.read() as reader:
            return [(lease.first, lease.last) for lease in reader.reader_leases(datetime.now(UTC))]

    def wait_for(wanted: list[tuple[int, int]]) -> None:
        deadline = time.monotonic() + 20
        while leases() != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        assert leases() == wanted

    stream: Iterator[object] = iter(filled.scan(version=2).to_batches())
    wait_for([(2, 2)])
    with place.connect() as other:
        assert 2 not in other.table("sales.orders").expire(keep_last=1).versions
        other.vacuum(0, force=True)
    assert sum(batch.num_rows for batch in stream) == 20  # type: ignore[attr-defined]
    wait_for([])
    dataset = filled.scan(version=2).dataset()
    wait_for([(2, 2)])
    assert dataset.count_rows() == 20
    filled.scan(version=5).hold("1h")
    assert sorted(leases()) == [(2, 2), (5, 5)]
    filled.append(orders(1))
    with place.connect() as other:
        other.table("sales.orders").expire(keep_last=1)
        other.vacuum(0, force=True)
        assert {2, 5, 6} == {entry.version for entry in other.table("sales.orders").history()}
    for _ in range(3):  # as often as Spark is given it: one lease
        filled.scan(version=6)._guard.hand_off()
    deadline = time.monotonic() + 20
    while (6, 6) not in leases() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    assert leases().count((6, 6)) == 1


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_scan_whose_files_are_gone_says_so_and_never_gives_other_rows(
    filled: Table, lake: Lake, *, warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = [filled.scan(where, version=2) for where in (None, "id < 15", "id >= 0")]
    counts = [20, 15, 20]
    if warm:
        assert [scan.plan.files for scan in scans]
        assert [filled.scan(where, version=2).to_arrow().num_rows for where in (None, "id < 15", "id >= 0")] == counts
    added = filled.added(after=0, until=2)
    filled.expire(keep_last=1)
    filled.vacuum(0, force=True)  # deletes the files; what it would forget waits for a while
    for scan in (*scans, added):
        with pytest.raises(errors.VersionNotFoundError, match=r"version 2 .*expired"):
            scan.to_arrow()
    backdate(lake, filled)
    assert filled.vacuum().files == 0  # forgotten only now
    monkeypatch.setattr(holding, "FRESH_SECONDS", 0.0)  # a minute has passed
    for scan in scans:
        with pytest.raises(errors.VersionNotFoundError, match=r"version 2 .*expired"):
            scan.to_arrow()
    with pytest.raises(errors.VersionNotFoundError, match=r"version 2 .*expired"):
        filled.scan("id < 15", version=5)._guard.planned(scans[1].to_batches)


# ------------------------------------------------------------------------------------------------ beside other work


@pytest.mark.parametrize("forgotten", [False, True], ids=["kept", "forgotten"])
def test_conflicts_are_found_across_expire_and_vacuum(filled: Table, lake: Lake, *, forgotten: bool) -> None:
    with pytest.raises(errors.ConflictError), lake.transaction() as tx:
        inside = tx.table("sales.orders")
        assert inside.scan("id >= 200").count() == 3
        filled.overwrite(orders(1, first=200), where="id >= 200")
        filled.expire(keep_last=1)
        if forgotten:
            backdate(lake, filled)
            assert filled.vacuum().files > 0
        inside.append(orders(1, first=400))
    assert ids(filled.scan("id >= 200").to_arrow()) == [200]
    with lake.transaction() as tx:  # blind, so that nothing can be in its way
        tx.table("sales.orders").append(orders(1, first=500))
        filled.append(orders(1, first=600))
        filled.expire(keep_last=1)
    assert ids(filled.scan("id >= 500").to_arrow()) == [500, 600]


def test_a_version_is_tagged_or_expired_and_never_both(filled: Table, place: LakePlace) -> None:
    """Two at once, many times: whoever comes second has to see what the first one did."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def sweep() -> None:
        try:
            with place.connect() as other:
                while not stop.is_set():
                    other.table("sales.orders").expire(keep_last=1)
        except BaseException as error:
            failures.append(error)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(25):
            before = filled.version
            filled.append(orders(1, first=1000 + number))
            with contextlib.suppress(errors.VersionNotFoundError):
                filled.tag(f"tag-{number}", version=before)
    finally:
        stop.set()
        sweeper.join()
    assert failures == []
    kept = {entry.version for entry in filled.history()}
    assert set(filled.tags().values()) <= kept
    assert filled.scan(version=filled.version).count() == 7 + 25


def test_a_dropped_table_comes_back_until_vacuum_has_deleted_it(filled: Table, lake: Lake, place: LakePlace) -> None:
    other = lake.create_table("sales.other", ORDERS)
    other.append(orders(4))
    before = contents(filled)
    lake.drop_table("sales.orders")
    assert lake.vacuum().files == 0
    assert contents(lake.undrop_table("sales.orders")) == before
    lake.drop_table("sales.orders")
    put(place, f"{filled.location}/notes.txt")
    planned = lake.vacuum(0, force=True, dry_run=True)
    result = lake.vacuum(0, force=True)
    assert (result.tables, result.files, result.dropped) == (("sales.orders",), planned.files, planned.files)
    assert result.strays == (f"{filled.location}/notes.txt",)
    with pytest.raises(errors.TableNotFoundError, match="no dropped table"):
        lake.undrop_table("sales.orders")
    with pytest.raises(errors.TableNotFoundError, match="dropped"):
        filled.scan()
    assert {path for path in data_files(place.root) if not path.startswith(other.location)} == set()
    assert lake.vacuum(0, force=True).files == 0
    assert ids(other.scan().to_arrow()) == [0, 1, 2, 3]
    assert lake.create_table("sales.orders", ORDERS).scan().count() == 0


def test_recovery_ends_what_is_abandoned_and_nothing_else(filled: Table, lake: Lake, place: LakePlace) -> None:
    before = contents(filled)
    open_transaction(lake, "dead", lapsed=True, table=filled)
    open_transaction(lake, "alive")
    live_file = filled.files().column("path").to_pylist()[0]
    filesystem, root = fsspec.core.url_to_fs(place.root)
    with filesystem.open(f"{root}/{filled.location}/{live_file}") as file:
        rows = pq.read_table(file)
    paths = {}
    for number, owner in enumerate(("dead", "alive")):
        paths[owner] = f"{filled.location}/{part_born(timedelta(0), number)}"
        with filesystem.open(f"{root}/{paths[owner]}", "wb") as file:
            writer = pq.ParquetWriter(file, rows.schema)
            writer.add_key_value_metadata({"parqlake.transaction_id": owner})
            writer.write_table(rows)
            writer.close()
    report = lake.recover()
    assert [record.txn_id for record in report.aborted] == ["dead"]
    assert [record.txn_id for record in report.running] == ["alive"]
    assert (report.files, report.size_bytes) == (1, stored(place.root)[paths["dead"]])
    assert lake.recover().aborted == ()
    with pytest.raises(errors.TransactionExpiredError, match="lease had run out"), lake.context.catalog.write() as w:
        w.finish_transaction("dead", versions={}, at=datetime.now(UTC))
    lake.context.catalog.abort_transaction("alive")
    backdate(lake, filled)
    assert filled.vacuum().paths == (paths["dead"],)
    assert paths["alive"] in stored(place.root)  # too young to be judged by its age
    assert contents(filled) == before


def test_a_writer_that_recovery_gave_up_is_refused_and_may_try_again(filled: Table, lake: Lake) -> None:
    unit = Unit(lake.context, operation="append", engine="pyarrow", table_ids=[filled.info.table_id])
    with pytest.raises(errors.TransactionExpiredError), unit:
        lake.context.catalog.renew_lease(unit.txn_id, timedelta(hours=-1))
        assert [record.txn_id for record in lake.recover().aborted] == [unit.txn_id]
        with lake.context.catalog.read() as reader:
            head = reader.head(filled.info.table_id)
        unit.commit([TableChange(filled.info, head, Operation.APPEND)])
    assert filled.version == 5
