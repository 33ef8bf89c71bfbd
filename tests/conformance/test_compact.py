"""Compaction changes files and no rows, on every engine alike, beside whatever else is done to the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, connect, errors
from parqlake.core.maintenance.rewriting import RewriteGroup
from parqlake.core.model import DataFile, Operation
from parqlake.engines.arrow import PyArrowEngine
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ORDERS, TypeCase, bag, data_files, ids, orders, rows, state
from parqlake.testing.plugin import Feed, Read


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Lake]:
    """One lake, for what does not depend on engine, catalog or store."""
    with connect(tmp_path / "lake") as lake:
        yield lake


def _counts(table: Table) -> list[int]:
    return sorted(table.files().column("row_count").to_pylist())


def _fill(table: Table, times: int, count: int = 10) -> None:
    for number in range(times):
        table.append(orders(count, first=number * count), engine="pyarrow")


class Between(PyArrowEngine):
    """Rewrites, and then lets somebody else act before the commit."""

    def __init__(self, *acts: Callable[[], Any]) -> None:
        super().__init__()
        self.acts = list(acts)
        self.groups: list[int] = []

    def rewrite_groups(self, groups: Sequence[RewriteGroup], *args: Any, **options: Any) -> list[list[DataFile]]:
        made = super().rewrite_groups(groups, *args, **options)
        self.groups.append(len(groups))
        if self.acts:
            self.acts.pop(0)()
        return made


@pytest.mark.engine_work
def test_small_files_become_few_and_rows_stay(by_region: Table, read: Read, place: LakePlace, lake: Lake) -> None:
    _fill(by_region, 4)
    before = {version: rows(by_region.scan(version=version).to_arrow()) for version in range(1, 5)}
    files = data_files(place.root)
    planned = by_region.compact(dry_run=True)
    assert planned.dry_run
    assert planned.version == by_region.version == 4
    assert sorted(path for group in planned.planned_groups or [] for path in group) == sorted(
        by_region.files().column("path").to_pylist()
    )
    assert data_files(place.root) == files
    stats = by_region.compact(message="tidy")
    assert (stats.before_file_count, stats.after_file_count, stats.compacted_file_count) == (16, 4, 16)
    assert stats.after_file_count == planned.after_file_count == by_region.files().num_rows
    assert stats.rewritten_bytes == stats.before_total_bytes == planned.before_total_bytes
    assert stats.after_total_bytes == sum(by_region.files().column("size_bytes").to_pylist())
    assert bag(read(by_region.scan())) == bag(orders(40))
    assert {v: rows(by_region.scan(version=v).to_arrow()) for v in before} == before
    eu = by_region.scan("region = 'eu'")
    assert rows(eu.to_arrow()) == rows(by_region.scan("region = 'eu'", version=4).to_arrow())
    entry = by_region.history()[0]
    assert (entry.operation, entry.message, entry.transaction_id) == ("compact", "tidy", stats.transaction_id)
    assert (entry.added_files, entry.removed_files, entry.added_rows, entry.removed_rows) == (4, 16, 0, 0)
    assert by_region.added(4).to_arrow().num_rows == 0
    unchanged = state(lake)
    again = by_region.compact()
    assert (again.version, again.compacted_file_count, again.transaction_id) == (5, 0, "")
    assert state(lake) == unchanged


@pytest.mark.engine_work
def test_all_engines_give_the_same_statistics(lake: Lake, backend: Backend) -> None:
    found: list[Any] = []
    for number, engine in enumerate(("pyarrow", backend.engine)):
        table = lake.create_table(f"sales.t{number}", ORDERS, partition_by=["region"], sort_by=["day"])
        _fill(table, 3)
        stats = [table.compact(None, 6, engine=engine), table.compact(engine=engine, sort=True, compression="gzip")]
        found.append(([each.to_dict() for each in stats], rows(table.scan().to_arrow())))
    assert found[0] == found[1]
    assert set(found[0][0][0]) == {
        "before_file_count",
        "after_file_count",
        "before_total_bytes",
        "after_total_bytes",
        "compacted_file_count",
        "rewritten_bytes",
        "compression_codec",
        "dry_run",
    }


@pytest.mark.engine_work
def test_long_files_are_split_and_only_those_in_view_are_touched(by_region: Table, read: Read) -> None:
    by_region.append(orders(100))
    one = by_region.compact(None, 10, where="region = 'eu'")
    assert (one.before_file_count, one.after_file_count) == (1, 3)
    assert _counts(by_region) == [5, 10, 10, 25, 25, 25]
    assert rows(by_region.scan("region = 'eu'").to_arrow()) == rows(
        by_region.scan("region = 'eu'", version=1).to_arrow()
    )
    assert by_region.compact(None, 10, where="region = 'eu'").version == one.version
    assert by_region.compact(None, 10, where="id > 1000").before_file_count == 0
    late = by_region.compact(None, 1000, where="id >= 95")
    assert late.version == one.version  # one file of each partition: there is nothing to put together
    by_region.compact(None, 100)
    assert _counts(by_region) == [25, 25, 25, 25]
    assert bag(read(by_region.scan())) == bag(orders(100))


@pytest.mark.engine_work
def test_statistics_still_tell_files_apart(table: Table, feed: Feed) -> None:
    _fill(table, 6, 50)
    odd = orders(4, first=300).set_column(2, "amount", pa.array([math.nan, None, math.inf, -0.0]))
    table.append(feed(odd))
    table.compact(None, 100, commit="per_run")
    assert _counts(table) == [4, 100, 100, 100]
    plan = table.scan("id between 120 and 130").explain()
    assert plan.files_read == 1, plan
    everything = table.scan().to_arrow()
    for where in ("id = 7", "amount > 1e300", "amount is null", "day >= '2026-01-20'", "region = 'asia'"):
        expected = bag(table.scan(where, version=7).to_arrow())
        assert bag(table.scan(where).to_arrow()) == expected
        assert sum(expected.values()) > 0
    assert everything.num_rows == 304


@pytest.mark.engine_work
def test_every_type_comes_through(lake: Lake, types: tuple[TypeCase, ...], read: Read) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *((case.name, case.type) for case in types)])
    table = lake.create_table("types.all", schema)
    for number in range(3):
        columns = [pa.array([number * 2, number * 2 + 1], pa.int64())]
        columns += [case.array().take(pa.array([number % len(case.array()), 1])) for case in types]
        table.append(pa.Table.from_arrays(columns, schema=schema))
    before = rows(table.scan().to_arrow())
    assert table.compact().after_file_count == 1
    assert rows(table.scan().to_arrow()) == before
    assert bag(read(table.scan())) == bag(table.scan(version=3).to_arrow())


@pytest.mark.engine_work
def test_old_files_get_the_newest_schema(table: Table, read: Read, place: LakePlace) -> None:
    table.append(orders(5))
    table.rename_column("amount", "price")
    table.add_column("currency", "string", nullable=False, default="EUR")
    table.append(pa.Table.from_pylist([{"id": 9, "currency": "USD", "price": 2.0}], table.schema()))
    table.drop_column("day")
    table.append(pa.Table.from_pylist([{"id": 10, "currency": "CHF"}], table.schema()))
    before = rows(table.scan().to_arrow())
    version = table.version
    assert table.compact().after_file_count == 1
    assert rows(table.scan().to_arrow()) == before
    assert bag(read(table.scan("currency = 'EUR' and price >= 1"))) == bag(
        table.scan("currency = 'EUR' and price >= 1", version=version).to_arrow()
    )
    table.rename_column("price", "cost")
    assert rows(table.scan().to_arrow()) == before
    assert table.schema(1).names == ["id", "region", "amount", "day"]
    assert rows(table.scan(version=1).to_arrow()) == rows(orders(5))


@pytest.mark.engine_work
def test_sort_goes_across_files(lake: Lake) -> None:
    table = lake.create_table("sales.sorted", ORDERS, sort_by=["region", "id"])
    table.append(orders(60), row_group_size=20, engine="pyarrow")
    table.compact(None, 30, sort=True)
    assert _counts(table) == [30, 30]
    found = [(row["region"] is None, row["region"] or "", row["id"]) for row in table.scan().to_arrow().to_pylist()]
    assert found == sorted(found)
    assert bag(table.scan().to_arrow()) == bag(orders(60))
    plain = lake.create_table("sales.plain", ORDERS)
    with pytest.raises(errors.InvalidOptionError, match="no sort_by"):
        plain.compact(sort=True)


def test_appends_go_on_beside_it(table: Table, lake: Lake) -> None:
    _fill(table, 3)
    engine = Between(lambda: table.append(orders(10, first=30)))
    stats = table.compact(engine=engine)
    assert (stats.version, table.files().num_rows, engine.groups) == (5, 2, [1])
    assert bag(table.scan().to_arrow()) == bag(orders(40))


@pytest.mark.parametrize("commit", ["per_run", "per_group"])
def test_rows_that_were_removed_meanwhile_never_come_back(by_region: Table, place: LakePlace, commit: str) -> None:
    _fill(by_region, 4)
    changes: list[Callable[[], Any]] = [
        lambda: by_region.delete("id < 5"),
        lambda: by_region.merge(orders(1, first=30).set_column(2, "amount", pa.array([-1.0])), on="id"),
        lambda: by_region.update("id = 17", set={"amount": -2.0}),
    ]
    engine = Between(*changes)
    stats = by_region.compact(engine=engine, commit=commit)
    expected = [row for row in orders(40).to_pylist() if row["id"] >= 5]
    for row in expected:
        row["amount"] = {30: -1.0, 17: -2.0}.get(row["id"], row["amount"])
    assert bag(by_region.scan().to_arrow()) == bag(pa.Table.from_pylist(expected, ORDERS))
    assert not engine.acts
    assert by_region.files().num_rows < 16
    assert stats.version == by_region.version
    # What was written for nothing is gone again.
    live = {path for v in range(1, by_region.version + 1) for path in by_region.files(v).column("path").to_pylist()}
    assert {path.removeprefix(f"{by_region.location}/") for path in data_files(place.root)} == live


def test_another_compaction_and_a_new_schema_meanwhile(table: Table, place: LakePlace) -> None:
    _fill(table, 4)
    engine = Between(table.compact)
    assert table.compact(engine=engine).compacted_file_count == 0
    assert (table.version, table.files().num_rows, engine.groups) == (5, 1, [1])
    _fill(table, 2)
    again = Between(lambda: table.add_column("note", pa.string()))
    table.compact(engine=again)
    assert again.groups == [1, 1]
    assert table.scan(columns=["note"]).to_arrow().column("note").null_count == 60
    assert ids(table.scan().to_arrow()) == sorted([*range(40), *range(20)])


def test_groups_are_committed_one_by_one_and_a_repeat_does_the_rest(here: Lake) -> None:
    by_region = here.create_table("sales.by_region", ORDERS, partition_by=["region"])
    _fill(by_region, 3)

    def fail() -> None:
        raise RuntimeError("the power went")

    with pytest.raises(RuntimeError, match="power"):
        by_region.compact(engine=Between(lambda: None, fail), commit="per_group")
    assert (by_region.version, by_region.files().num_rows) == (4, 10)
    rest = by_region.compact(commit="per_group")
    assert (rest.compacted_file_count, rest.after_file_count, by_region.version) == (9, 4, 7)
    assert bag(by_region.scan().to_arrow()) == bag(orders(30))


def test_a_repeat_with_the_same_key_does_nothing(here: Lake) -> None:
    table = here.create_table("sales.orders", ORDERS)
    _fill(table, 3)
    first = table.compact(idempotency_key="night-1")
    _fill(table, 2)
    second = table.compact(idempotency_key="night-1")
    assert second.replayed
    assert (second.version, second.to_dict()) == (first.version, first.to_dict())
    assert table.files().num_rows == 3
    assert table.compact(idempotency_key="night-2").version == 7


def test_bad_options_are_refused_before_anything_is_written(here: Lake) -> None:
    table = here.create_table("sales.orders", ORDERS)
    _fill(table, 2)
    before = state(here)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"target_mb_per_file": 0}, "target_mb_per_file must be > 0, not 0"),
        ({"target_mb_per_file": None}, "at least one of target_mb_per_file"),
        ({"target_rows_per_file": 1.5}, "whole number"),
        ({"commit": "sometimes"}, '"per_run" or "per_group"'),
        ({"commit": "per_group", "idempotency_key": "k"}, "idempotency_key goes with one commit"),
        ({"dry_run": "yes"}, "True or False"),
        ({"sort": ["id"]}, "True or False"),
        ({"memory_limit": "much"}, "memory_limit is 'much'"),
        ({"compression": "zip"}, "compression='zip' is unknown"),
    ]
    for options, message in bad:
        with pytest.raises(errors.InvalidOptionError, match=message):
            table.compact(**options)
    with pytest.raises(errors.ColumnNotFoundError, match="regoin"):
        table.compact(where="regoin = 'eu'")
    assert state(here) == before
    assert here.create_table("sales.empty", ORDERS).compact().to_dict()["before_file_count"] == 0


def test_history_keeps_what_was_done(here: Lake) -> None:
    table = here.create_table("sales.orders", ORDERS)
    _fill(table, 3)
    stats = table.compact()
    with here.context.catalog.read() as reader:
        snapshot = reader.snapshot(table.info.table_id, stats.version)
    assert snapshot is not None
    assert (snapshot.operation, snapshot.data_change) == (Operation.COMPACT, False)
    assert snapshot.summary["rewritten_bytes"] == stats.rewritten_bytes > 0
    assert snapshot.summary["compacted_file_count"] == 3
