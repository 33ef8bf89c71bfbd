"""Health: every finding is true, and the call that it names mends it, on every catalog, from the catalog alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from parqlake import HealthFinding, Lake, Table, errors
from parqlake.core.maintenance import health as judging
from parqlake.core.maintenance.health import HealthKind
from parqlake.core.model import TransactionRecord, TransactionStatus
from parqlake.table import health_look
from parqlake.testing.data import ORDERS, bag, orders, stored

Mend = Callable[[Table, HealthKind], HealthFinding]


@pytest.fixture
def mend(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Mend:
    """Finds something, does what the finding says, and sees that it is gone and no row with it."""

    def mended(table: Table, kind: HealthKind) -> HealthFinding:
        files, version = stored(lake.url), table.version
        with monkeypatch.context() as patched:
            patched.setattr(lake.context.store, "list_files", _no_listing, raising=False)
            before = table.health()
        assert (stored(lake.url), table.version) == (files, version)
        finding = before.of(kind)
        assert finding is not None, before
        assert finding.message in str(before)
        assert finding.to_dict() in before.to_dict()["findings"]
        rows = bag(table.scan().to_arrow())
        eval(finding.call, {"t": table, "lake": lake})
        after = table.health()
        assert after.of(kind) is None, after
        assert bag(table.scan().to_arrow()) == rows
        return finding

    return mended


def _no_listing(_: str) -> Any:
    raise AssertionError("health does not list the store")


def _fill(table: Table, times: int, count: int = 10) -> None:
    for number in range(times):
        table.append(orders(count, first=number * count))


@pytest.mark.catalog_work
def test_files_of_bad_sizes_are_found_and_mended(lake: Lake, mend: Mend) -> None:
    table = lake.create_table("sales.by_region", ORDERS, partition_by=["region"])
    assert table.health().ok
    assert (table.health().file_count, table.health().small_share) == (0, 0.0)
    table.append(orders(10))
    assert table.health().findings == ()  # one small file in each partition: nothing can be put together
    table.append(orders(3, first=10))
    shy = table.health().of("small_files")
    assert shy is not None
    assert (shy.severity, shy.cost.files, table.health().ok) == ("info", 6, True)
    table.append(orders(7, first=13))
    eu = orders(40).filter(pa.compute.equal(orders(40).column("region"), "eu"))
    for number in range(4):
        table.append(eu.slice(number, 1))
    table.append(orders(40).filter(pa.compute.is_null(orders(40).column("region"))))
    health = table.health()
    assert (health.file_count, health.small_files, health.partitions, health.row_count) == (16, 16, 4, 34)
    found = health.of(HealthKind.SMALL_FILES)
    assert found is not None
    assert found.severity == "warning"
    assert "16 of 16 files" in found.message
    plan = table.compact(dry_run=True)
    assert found.cost.files == plan.compacted_file_count
    assert found.cost.read_bytes == plan.rewritten_bytes
    assert f"leaves {plan.after_file_count} files" in found.message
    table.compact(where="region in ('us', 'asia') or region is null")
    assert mend(table, HealthKind.SMALL_FILES).call == "t.compact(where=\"region = 'eu'\")"
    large = lake.create_table("sales.large", ORDERS, properties={"maintain.target_mb_per_file": 0.01})
    large.append(orders(5000), compression="none")
    assert mend(large, HealthKind.OVER_LARGE_FILES).call == "t.compact(target_mb_per_file=0.01)"
    long = lake.create_table("sales.long", ORDERS, properties={"max_rows_per_file": 20})
    long.append(orders(50), max_rows_per_file=50)
    assert mend(long, HealthKind.OVER_LARGE_FILES).call == "t.compact(target_rows_per_file=20)"


@pytest.mark.catalog_work
def test_what_the_catalog_keeps_is_found_and_mended(
    table: Table, lake: Lake, mend: Mend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        table.overwrite(orders(10, first=number))
    health = table.health()
    assert (health.old_files, health.file_count, health.tombstone_files) == (2, 1, 0)
    assert health.old_bytes > health.size_bytes
    assert health.of("old_versions") is None  # they are younger than seven days, and no policy gives them up
    table.set_properties({"maintain.keep_last": 2, "maintain.expire_older_than": "0s"})
    found = mend(table, HealthKind.OLD_VERSIONS)
    assert (found.severity, found.call) == ("warning", "t.expire('0s', keep_last=2)")
    health = table.health()
    assert (health.old_files, health.tombstone_files, health.of("tombstones")) == (1, 1, None)
    with lake.context.catalog.write() as writer:  # a month passes
        paths = [tombstone.path for tombstone in writer.tombstones(table.info.table_id)]
        past = datetime.now(UTC) - timedelta(days=30)
        writer.add_tombstones(table.info.table_id, paths, txn_id="", reason="expired", at=past)
    assert mend(table, HealthKind.TOMBSTONES).call == "t.vacuum()"
    assert table.health().tombstone_files == 0
    now = datetime.now(UTC)
    record = TransactionRecord("dead", TransactionStatus.OPEN, "someone@host:1", past, past, "append", "pyarrow")
    lake.context.catalog.begin_transaction(record, [table.info.table_id])
    alive = TransactionRecord("alive", TransactionStatus.OPEN, "me", now, now + timedelta(hours=1), "append", "pyarrow")
    lake.context.catalog.begin_transaction(alive, [table.info.table_id])
    found = mend(table, HealthKind.LAPSED_TRANSACTIONS)
    assert (found.call, "1 transactions" in found.message) == ("lake.recover()", True)
    monkeypatch.setattr(judging, "MANY_SEGMENTS", 3)
    monkeypatch.setattr("parqlake.table.maintained.MANY_SEGMENTS", 3)
    assert table.health().of("statistics_segments") is None
    table.append(orders(1, first=50))
    version = table.version
    assert mend(table, HealthKind.STATISTICS_SEGMENTS).call == "t.maintain()"
    assert (table.version, table.health().segments) == (version, 1)
    assert table.scan("id = 50").count() == 1
    assert table.scan("id = 50").explain().files_read == 1
    table.append(orders(1, first=60))  # and commits go on as before
    assert table.scan("id >= 50").count() == 2


def test_layouts_are_found_and_mended(lake: Lake, mend: Mend) -> None:
    table = lake.create_table("sales.clustered", ORDERS, cluster_by=["id", "amount"])
    for _ in range(5):
        table.append(orders(50))
    health = table.health()
    assert health.depth == 5.0
    assert mend(table, HealthKind.CLUSTERING).call == "t.optimize(target_mb_per_file=128)"
    assert (table.health().ok, table.health().findings, table.health().depth) == (True, (), None)
    table.append(orders(5))
    shy = table.health().of("clustering")
    assert shy is not None
    assert (shy.severity, "1 of 2 files" in shy.message) == ("info", True)
    small = lake.create_table("sales.tiny", ORDERS, cluster_by=["id"])
    small.append(orders(60))
    small.optimize(target_rows_per_file=10)
    assert mend(small, HealthKind.SMALL_FILES).call == "t.optimize(target_mb_per_file=128)"
    large = lake.create_table("sales.huge", ORDERS, cluster_by=["id"], properties={"maintain.target_mb_per_file": 0.01})
    large.append(orders(5000), compression="none")
    found = mend(large, HealthKind.OVER_LARGE_FILES)
    assert (found.severity, found.call.startswith("t.optimize(target_rows_per_file=")) == ("info", True)
    table.set_properties({"cluster_by": '["nope"]', "note": "kept"})
    with pytest.raises(errors.ColumnNotFoundError, match="nope"):
        table.maintain()
    broken = mend(table, HealthKind.POLICY)
    assert (broken.severity, "Missing z-order columns: nope" in broken.message) == ("error", True)
    with lake.context.catalog.write() as writer:  # as another version may have left it
        writer.set_properties(table.info.table_id, {"maintain.keep_last": "few", "note": "kept"})
    assert "maintain.keep_last='few'" in mend(table, HealthKind.POLICY).message
    assert table.properties == {"note": "kept"}


def test_many_files_are_judged_by_a_sample(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = lake.create_table("sales.shuffled", ORDERS, cluster_by=["id"])
    ordered = lake.create_table("sales.ordered", ORDERS, cluster_by=["id"])
    _fill(ordered, 12)
    for _ in range(12):
        shuffled.append(orders(20))
    exact = shuffled.health()
    monkeypatch.setattr(health_look, "EXACT_FILES", 10)
    monkeypatch.setattr(health_look, "_SAMPLE", 6)
    health = shuffled.health()
    assert health.depth == pytest.approx(11.0)
    assert exact.depth == 12.0
    assert {finding.kind for finding in health.findings} == {finding.kind for finding in exact.findings}
    assert ordered.health().depth == 1.0
    assert ordered.health().of("clustering") is None
    assert ordered.health().of("small_files") is not None


def test_partitions_and_schemas_are_found_and_mended(lake: Lake, mend: Mend) -> None:
    tiny = {"maintain.target_mb_per_file": 0.01}
    skewed = lake.create_table("sales.skewed", ORDERS, partition_by=["region"], properties=tiny)
    skewed.append(orders(4))
    health = skewed.health()
    assert health.of("partition_skew") is None
    all_eu = orders(5_000)
    all_eu = all_eu.set_column(1, "region", pa.array(["eu"] * all_eu.num_rows))
    skewed.append(all_eu, compression="none")
    found = skewed.health().of("partition_skew")
    assert found is not None
    assert "region=eu" in found.message
    eval(found.call, {"t": skewed, "lake": lake})
    even = lake.table("sales.skewed_even")
    assert (even.partition_by, even.properties["cluster_by"], even.scan().count()) == ((), '["region"]', 5_004)
    assert even.health().of("partition_skew") is None
    many = lake.create_table("sales.many", ORDERS, partition_by=["id"])
    many.append(orders(12))
    found = many.health().of(HealthKind.SMALL_PARTITIONS)
    assert found is not None
    assert (found.severity, "12 partitions" in found.message, many.health().ok) == ("info", True, True)
    table = lake.create_table("sales.evolved", ORDERS, properties=tiny)
    table.append(orders(2000), compression="none")
    assert table.health().of("old_schemas") is None
    table.add_column("note", "string")
    table.append(pa.Table.from_pylist([{"id": 1, "note": "new"}], table.schema()))
    found = mend(table, HealthKind.OLD_SCHEMAS)
    assert (found.severity, "1 of 2 files" in found.message) == ("info", True)


def test_a_lake_tells_of_all_its_tables(lake: Lake) -> None:
    good, bad = lake.create_table("a.good", ORDERS), lake.create_table("b.bad", ORDERS)
    good.append(orders(1))
    _fill(bad, 6)
    health = lake.health()
    assert [table.table for table in health.tables] == ["a.good", "b.bad"]
    assert not health.ok
    assert [name for name, _ in health.findings] == ["b.bad"]
    assert "b.bad, version 6: needs care" in str(health)
    assert health.to_dict()["tables"][0]["ok"] is True
    assert lake.health("a").ok
    assert str(lake.health("nowhere")) == "no tables"
    lake.drop_table("b.bad")
    assert lake.health().ok
    with pytest.raises(errors.TableNotFoundError):
        bad.health()
