"""Maintain does what the policy says where it is worth it, tells what and why, and a second run does nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parqlake import Lake, Maintained, Progress, Table, TableMaintenance, connect, errors
from parqlake.engines.arrow import PyArrowEngine
from parqlake.testing.data import ORDERS, bag, orders, rows, state

POLICY: dict[str, Any] = {
    "maintain.target_mb_per_file": 1,
    "maintain.min_files": 2,
    "maintain.keep_last": 1,
    "maintain.vacuum_older_than": "15m",
}
BAD = [
    ("maintain.target_mb_per_file", "much", "must be a number > 0"),
    ("maintain.target_mb_per_file", "-1", "must be a number > 0"),
    ("maintain.target_rows_per_file", "1.5", "whole number"),
    ("maintain.min_files", "0", "whole number >= 1"),
    ("maintain.rewrite", "perhaps", "true or false"),
    ("maintain.expire_older_than", "a month", 'write it like "7d"'),
    ("maintain.keep_last", "0", "whole number >= 1"),
    ("maintain.vacuum_older_than", "1m", "less than 15 minutes"),
    ("maintain.vacum_older_than", "7d", 'did you mean "maintain.vacuum_older_than"'),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Lake]:
    """One lake, for what does not depend on engine, catalog or store."""
    with connect(tmp_path / "lake", catalog=f"sqlite:///{tmp_path / 'catalog.sqlite'}") as lake:
        yield lake


def _fill(table: Table, times: int, count: int = 10) -> None:
    for number in range(times):
        table.append(orders(count, first=number * count), engine="pyarrow")


def _wait(lake: Lake, table: Table) -> None:
    """A month passes for what became of no use."""
    with lake.context.catalog.write() as writer:
        paths = [tombstone.path for tombstone in writer.tombstones(table.info.table_id)]
        past = datetime.now(UTC) - timedelta(days=30)
        writer.add_tombstones(table.info.table_id, paths, txn_id="", reason="expired", at=past)


def _done(made: Maintained) -> list[str]:
    return [step.name for step in made.done]


def _noise(count: int, seed: int) -> pa.Table:
    """Orders that no codec makes small: a row has about 16 bytes."""
    random = np.random.default_rng(seed)
    columns = [
        pa.array(random.integers(0, 2**62, count)),
        pa.array(["eu"] * count),
        pa.array(random.random(count)),
        pa.nulls(count, pa.date32()),
    ]
    return pa.Table.from_arrays(columns, schema=ORDERS)


@pytest.mark.engine_work
def test_a_policy_is_carried_out_and_once(lake: Lake, read: Any) -> None:
    table = lake.create_table("sales.kept", ORDERS, partition_by=["region"], properties=POLICY)
    _fill(table, 3)
    before, told = bag(table.scan().to_arrow()), list[Progress]()
    unchanged = state(lake)
    planned = table.maintain(dry_run=True)
    assert state(lake) == unchanged
    assert (planned.dry_run, _done(planned)) == (True, ["compact", "expire"])
    made = table.maintain(progress=told.append)
    assert (_done(made), made.version, made.table) == (["compact", "expire"], 4, "sales.kept")
    assert [(p.operation, p.table, p.unit, p.total) for p in told[:1]] == [("compact", "sales.kept", "rows", 30)]
    assert (told[0].done, told[-1].done, told[-1].total) == (0, 30, 30)
    assert [p.done for p in told] == sorted(p.done for p in told)
    compacted = made.steps[0].result
    assert isinstance(compacted, TableMaintenance)
    assert (compacted.before_file_count, compacted.after_file_count) == (12, 4)
    assert "12 of 12 files rewritten" in made.steps[0].reason
    assert [entry.version for entry in table.history()] == [4]
    assert table.history()[0].message == "maintain"
    assert "done        compact: 12 of 12 files" in str(made)
    assert "left alone  vacuum: no file has been of no use for 15m; 12 wait" in str(made)
    unchanged = state(lake)
    again = table.maintain()
    assert (again.done, again.version) == ((), 4)
    assert state(lake) == unchanged
    _wait(lake, table)
    assert _done(table.maintain(dry_run=True)) == ["vacuum"]
    told.clear()
    last = table.maintain(progress=told.append)
    assert (_done(last), last.version) == (["vacuum"], 4)
    assert [(p.operation, p.unit, p.done, p.total) for p in told] == [
        ("vacuum", "files", 0, 12),
        ("vacuum", "files", 12, 12),
    ]
    assert last.to_dict()["steps"][3]["result"]["files"] == 12
    assert bag(read(table.scan())) == before
    assert lake.check().ok


@pytest.mark.engine_work
def test_clustering_and_compaction_do_not_fight(lake: Lake, read: Any) -> None:
    policy = {"maintain.target_rows_per_file": 40, "maintain.keep_last": 20}
    table = lake.create_table("sales.clustered", ORDERS, cluster_by=["id", "amount"], properties=policy)
    for _ in range(4):
        table.append(orders(60), engine="pyarrow")
    before = bag(table.scan().to_arrow())
    made = table.maintain(commit="per_group")
    assert (_done(made), made.step("compact"), made.version) == (["optimize"], None, 5)
    assert table.health().ok
    for name in ("optimize", "compact"):  # nor does anybody else see something to do
        plan = getattr(table, name)(target_mb_per_file=128, target_rows_per_file=40, dry_run=True)
        assert plan.planned_groups == [], name
    unchanged = state(lake)
    assert table.maintain().done == ()
    assert state(lake) == unchanged
    table.append(orders(10), engine="pyarrow")
    left = table.maintain().step("optimize")
    assert left is not None
    assert (left.done, "not worth it" in left.reason, table.version) == (False, True, 6)
    for _ in range(3):
        table.append(orders(10), engine="pyarrow")
    assert _done(table.maintain()) == ["optimize"]
    assert table.maintain().done == ()
    assert bag(read(table.scan())) == before + bag(pa.concat_tables([orders(10)] * 4))


def test_what_is_not_worth_it_is_left_alone(here: Lake) -> None:
    table = here.create_table("sales.plain", ORDERS, properties={"maintain.target_mb_per_file": 1})
    for seed in range(2):
        table.append(_noise(25_000, seed))  # 400 KB each: below half a target, and they fit together
    table.append(orders(1))
    assert table.compact(1, dry_run=True).after_file_count == 1
    made = table.maintain()
    assert made.done == ()
    assert "would save 2, which is not worth it (maintain.min_files is 4)" in made.steps[0].reason
    _fill(table, 3)
    assert table.maintain().done == ()  # five files fewer, at 150 KB each: more than an eighth of the target
    _fill(table, 3)
    assert _done(table.maintain()) == ["compact"]
    assert table.files().num_rows == 1
    lone = here.create_table("sales.lone", ORDERS)
    _fill(lone, 4)
    assert lone.maintain().done == ()  # four files into one saves three
    _fill(lone, 1)
    assert _done(lone.maintain()) == ["compact"]
    huge = here.create_table("sales.huge", ORDERS, properties={"maintain.target_mb_per_file": 0.1})
    huge.append(_noise(20_000, 1))
    assert _done(huge.maintain()) == ["compact"]  # a file that is too large is split, though none is saved
    assert huge.files().num_rows > 1
    assert huge.maintain().done == ()
    empty = here.create_table("sales.empty", ORDERS)
    assert (empty.maintain().done, empty.version) == ((), 0)
    off = here.create_table(
        "sales.off", ORDERS, properties={"maintain.rewrite": "false", "maintain.vacuum_older_than": "never"}
    )
    _fill(off, 9)
    assert [step.reason for step in off.maintain().steps if "maintain." in step.reason] == [
        "maintain.rewrite is false",
        "maintain.vacuum_older_than is never",
    ]


def test_without_a_policy_no_version_is_ever_given_up(here: Lake) -> None:
    table = here.create_table("sales.plain", ORDERS, properties={"target_mb_per_file": 0.5, "max_rows_per_file": 8})
    _fill(table, 8, 2)
    contents = {version: rows(table.scan(version=version).to_arrow()) for version in range(1, 9)}
    assert _done(table.maintain()) == ["compact"]
    assert max(table.files().column("row_count").to_pylist()) == 8  # the bound of its writes is that of maintenance too
    assert {version: rows(table.scan(version=version).to_arrow()) for version in contents} == contents
    assert (table.version, len(table.history())) == (9, 9)


def test_bad_policies_are_refused_before_anything_is_done(here: Lake) -> None:
    table = here.create_table("sales.orders", ORDERS)
    _fill(table, 6)
    unchanged = state(here)
    for name, value, message in BAD:
        with pytest.raises(errors.InvalidOptionError, match=message) as caught:
            here.create_table("sales.bad", ORDERS, properties={name: value})
        assert name in str(caught.value)
        with pytest.raises(errors.InvalidOptionError, match=message):
            table.set_properties({name: value})
        with here.context.catalog.write() as writer:  # as an older version may have left it
            writer.set_properties(table.info.table_id, {name: value})
        with pytest.raises(errors.InvalidOptionError, match=message):
            table.maintain()
    table.set_properties({})
    for options in ({"dry_run": 1}, {"engine": "none"}, {"memory_limit": -1}, {"commit": "never"}, {"progress": 3}):
        with pytest.raises(errors.InvalidOptionError):
            table.maintain(**options)
        with pytest.raises(errors.InvalidOptionError):
            here.maintain(**options)
    assert state(here) == unchanged


class Refusing(PyArrowEngine):
    """Cannot rewrite one table."""

    def rewrite_groups(self, groups: Any, spec: Any, *args: Any, **options: Any) -> Any:
        if "/broken-" in spec.location:
            raise errors.StoreError("the disk is full; make room")
        return super().rewrite_groups(groups, spec, *args, **options)


def test_one_table_that_fails_does_not_stop_the_others(here: Lake) -> None:
    for name in ("a.first", "b.broken", "c.last"):
        _fill(here.create_table(name, ORDERS), 6)
    planned = here.maintain(dry_run=True)
    assert [_done(table) for table in planned.tables] == [["compact"]] * 3
    made = here.maintain(engine=Refusing())
    assert [(table.table, _done(table)) for table in made.tables] == [("a.first", ["compact"]), ("c.last", ["compact"])]
    assert not made.ok
    assert list(made.errors) == ["b.broken"]
    assert "b.broken: failed: StoreError: the disk is full" in str(made)
    with pytest.raises(ExceptionGroup, match=r"b\.broken") as caught:
        made.raise_errors()
    assert isinstance(caught.value.exceptions[0], errors.StoreError)
    assert here.table("b.broken").version == 6
    assert here.maintain("a").to_dict() == {
        "tables": [here.table("a.first").maintain().to_dict()],
        "errors": {},
        "dry_run": False,
    }
    made = here.maintain()
    assert made.ok
    assert [_done(table) for table in made.tables] == [[], ["compact"], []]
    made.raise_errors()


def test_many_may_maintain_beside_writers(here: Lake) -> None:
    policy = {"maintain.min_files": 1, "maintain.keep_last": 2, "maintain.vacuum_older_than": "15m"}
    plain = here.create_table("sales.plain", ORDERS, partition_by=["region"], properties=policy)
    clustered = here.create_table("sales.clustered", ORDERS, cluster_by=["id", "amount"], properties=policy)
    for table in (plain, clustered):
        _fill(table, 4)
    failed: list[BaseException] = []

    def work(act: Callable[[], object], times: int) -> threading.Thread:
        def run() -> None:
            try:
                for _ in range(times):
                    act()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    writers = [work(lambda table=table: table.append(orders(4, first=100)), 4) for table in (plain, clustered)]
    others = [work(lambda: here.maintain().raise_errors(), 3) for _ in range(2)]
    for thread in (*writers, *others):
        thread.join()
    assert failed == []
    expected = bag(orders(40)) + bag(pa.concat_tables([orders(4, first=100)] * 4))
    here.maintain().raise_errors()
    for table in (plain, clustered):
        assert bag(table.scan().to_arrow()) == expected
        assert table.health().ok
        assert table.maintain().done == ()
    assert here.check(full=True).ok


def test_who_watches_may_end_the_work(here: Lake) -> None:
    table = here.create_table("sales.orders", ORDERS)
    _fill(table, 6)
    unchanged = state(here)

    def enough(progress: Progress) -> None:
        if progress.done:
            raise InterruptedError(progress.operation)

    for call in (table.compact, table.maintain):
        with pytest.raises(InterruptedError, match="compact"):
            call(progress=enough)
    with pytest.raises(InterruptedError, match="append"):
        table.append(orders(10), progress=enough)
    with pytest.raises(InterruptedError, match="merge"):
        table.merge(orders(10), on="id", progress=enough)
    assert state(here) == unchanged


def test_long_work_tells_how_far_it_is(lake: Lake, place: Any, feed: Any) -> None:
    told: list[Progress] = []
    with connect(
        place.root, catalog=place.catalog, engine=lake.context.default_engine, progress=told.append
    ) as watched:
        table = watched.create_table("sales.orders", ORDERS, partition_by=["region"])

        def last(operation: str) -> str:
            final = told[-1]
            assert final.operation == operation
            assert final.table == "sales.orders"
            assert final.share == 1.0
            told.clear()
            return final.unit

        table.append(feed(orders(40)))
        assert last("append") == "bytes"
        table.merge(feed(orders(60)), on="id")
        assert last("merge") == "files"
        table.delete("id < 5")
        assert last("delete") == "bytes"
        table.update("id < 9", set={"amount": 0.0})
        assert last("update") == "bytes"
        table.compact()
        assert last("compact") == "rows"
        table.optimize(["id"], target_rows_per_file=7)
        assert last("optimize") == "rows"
        table.compact(None, 7)
        watched.check(progress=False)
        assert told == []
        assert watched.check().ok
        assert last("check") == "files"
        table.expire(keep_last=1)
        table.vacuum(0, force=True)
        assert last("vacuum") == "files"
