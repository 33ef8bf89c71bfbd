"""Vacuum beside writers, readers and other vacuums, and cut off at every step: nothing that is needed is ever lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uuid_utils
from durability_support import Start, begin, whole_batches
from vacuum_support import Knife, Model
from writer import SCHEMA

import parqlake
from parqlake import Lake, errors
from parqlake.core import retention
from parqlake.table import vacuuming
from parqlake.testing.backends import LakePlace
from parqlake.testing.data import data_files

# ------------------------------------------------------------------------------------------------ processes


def test_vacuums_beside_writers_that_are_killed(shared_place: LakePlace, start_writer: Start) -> None:
    """Two vacuums take all they may, all the time, while one writer appends and others die."""
    if "postgresql" in shared_place.catalog:
        pytest.skip("SQLite covers it; what PostgreSQL does differently is in the conformance suite")
    with shared_place.connect() as lake:
        table = lake.create_table("torn.rows", SCHEMA, partition_by=["part"])
        stop = threading.Event()
        failures: list[BaseException] = []

        def sweep(opened: Lake) -> None:
            try:
                while not stop.is_set():
                    opened.table("torn.rows").expire(keep_last=2)
                    opened.vacuum(0, force=True)
            except BaseException as error:
                failures.append(error)

        with shared_place.connect() as second:
            sweepers = [threading.Thread(target=sweep, args=(opened,)) for opened in (lake, second)]
            victims = [start_writer(shared_place, writer=number, count=10_000) for number in (1, 2)]
            steady = start_writer(shared_place, writer=0, count=25)
            for thread in sweepers:
                thread.start()
            try:
                begin(steady)
                for victim in victims:
                    begin(victim)
                    assert victim.stdout is not None
                    victim.stdout.readline()
                    victim.kill()
                output, trouble = steady.communicate(timeout=200)
            finally:
                stop.set()
                for thread in sweepers:
                    thread.join()
        assert failures == []
        assert steady.returncode == 0, trouble
        assert len(output.splitlines()) >= 25
        seen = whole_batches(table)
        assert {(0, number) for number in range(25)} <= seen
        assert len(table.history()) <= 2 or table.expire(keep_last=2).kept == 2
        for entry in table.history():
            whole_batches(table, entry.version)
        with lake.context.catalog.read() as reader:
            left_open = [record.txn_id for record in reader.transactions(status="open")]
        for txn_id in left_open:  # as if the killed writers' leases had run out
            lake.context.catalog.renew_lease(txn_id, timedelta(hours=-1))
        lake.recover()
        lake.vacuum(0, force=True)
        needed = {path for entry in table.history() for path in table.files(entry.version).column("path").to_pylist()}
        assert data_files(shared_place.root) == {f"{table.location}/{path}" for path in needed}
        assert whole_batches(table) == seen


# ------------------------------------------------------------------------------------------------ cut off at each step


class Cut(Exception):  # noqa: N818 (not an error: a crash)
    """The process ends here."""


def backdate(lake: Lake) -> None:
    with lake.context.catalog.write() as writer:
        for info in writer.tables_on_record():
            paths = [tombstone.path for tombstone in writer.tombstones(info.table_id)]
            at = datetime.now(UTC) - timedelta(days=30)
            writer.add_tombstones(info.table_id, paths, txn_id="", reason="expired", at=at)


def test_cut_off_at_every_step_it_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuuming, "_BATCH", 2)
    steps = 0
    done = False
    while not done:
        steps += 1
        with parqlake.connect(tmp_path / f"lake{steps}") as lake:
            model = Model(lake, random.Random(steps))
            for _ in range(2):
                model.append()
                model.overwrite()
            model.leave_behind()
            model.tag()
            model.expire()
            backdate(lake)
            other = Model(lake, random.Random(steps), name="b.other")
            other.append()
            lake.drop_table("b.other")
            calls = iter(range(1, 10_000))

            def act(_where: str, calls: Iterator[int] = calls, last: int = steps) -> None:
                if next(calls) == last:
                    raise Cut

            context = Knife(act).context(lake.context)
            try:
                vacuuming.vacuum_lake(context, timedelta(0), dry_run=False)
                done = True
            except Cut:
                model.check()
                try:  # it is brought back whole, or not at all
                    lake.undrop_table("b.other")
                    other.check()
                    lake.drop_table("b.other")
                except errors.TableNotFoundError:
                    pass
            lake.vacuum(0, force=True)
            model.check()
            assert model.stored() == model.needed()
            assert lake.vacuum(0, force=True) == vacuuming.VacuumResult()
            with lake.context.catalog.read() as reader:
                assert reader.tombstones(model.table.info.table_id) == []
    assert steps > 20


# ------------------------------------------------------------------------------------------------ interleavings


OTHERS = ("append", "overwrite", "remove", "restore", "start", "start", "finish", "leave_behind", "tag", "hold")
OTHERS += ("release", "expire", "expire", "recover", "vacuum")
LATE = ("hold_late",) * 4
VACUUMS = 12


@pytest.mark.parametrize(
    ("first", "lives"), [(0, 40), pytest.param(1_000, 400, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_whatever_others_do_between_its_steps_nothing_needed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, lives: int
) -> None:
    """Thousands of interleavings: at each step of a vacuum others may commit, expire, read, die, and vacuum."""
    # No slack: whoever is protected is so by the rules alone. Two milliseconds, since names only count whole ones.
    monkeypatch.setattr(retention, "CLOCK_SLACK", timedelta(milliseconds=2))
    monkeypatch.setattr(vacuuming, "_BATCH", 2)
    met = 0
    for seed in range(first, first + lives):
        monkeypatch.setattr(
            retention, "SHORTEST_AGE", timedelta(minutes=seed % 2)
        )  # files are forgotten late, or at once
        root = f"memory://vacuum-{uuid_utils.uuid7()}"
        with parqlake.connect(root, catalog=f"sqlite:///{tmp_path}/{seed}.sqlite") as lake:
            model = Model(lake, random.Random(seed))
            model.append()
            inside = False

            def act(_where: str, model: Model = model) -> None:
                nonlocal inside, met
                if inside or model.random.random() < 0.6:
                    return
                inside = True  # others are not watched in their turn
                try:
                    getattr(model, model.random.choice(OTHERS))()
                finally:
                    inside = False
                met += 1

            context = Knife(act).context(lake.context)
            for _ in range(VACUUMS):
                getattr(model, model.random.choice((*OTHERS, *LATE)))()
                vacuuming.vacuum_table(context, model.table.info, timedelta(0), dry_run=False)
                model.check()
            while model.pending:
                model.finish()
            while model.leases:
                model.release()
            model.table.expire(keep_last=1, keep_tags=False)
            lake.vacuum(0, force=True)
            model.check()
            assert model.stored() == model.needed(), "something is left that nobody needs"
    assert met > 20 * lives
