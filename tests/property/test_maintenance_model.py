"""Whatever is appended, deleted, rewritten, maintained, expired and vacuumed: every kept version keeps its rows."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import parqlake
from parqlake.table.maintenance_stats import TableMaintenance
from parqlake.testing.data import bag

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("region", pa.string()), ("x", pa.float64())])
NAMES = ("m.plain", "m.parted")
LAKES = itertools.count()

names = st.sampled_from(NAMES)
engines = st.sampled_from(["pyarrow", "pyarrow", "duckdb"])
wheres = st.sampled_from([None, None, "id < 3", "region = 'eu'", "region is null", "x > 1"])
lengths = st.sampled_from([1, 2, 3, 7, 1000])
commits = st.sampled_from(["per_run", "per_group"])
columns = st.sampled_from([["id"], ["x"], ["id", "x"], ["x", "id"]])
rows = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([None, "eu", "us"]), st.sampled_from([None, 0.0, 1.0, 2.5, math.nan])),
    min_size=1,
    max_size=8,
).map(lambda found: pa.Table.from_pylist([{"id": i, "region": r, "x": x} for i, r, x in found], SCHEMA))


class MaintenanceMachine(RuleBasedStateMachine):
    """Calls on a real lake; beside it the rows that each version had when it was made."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._root = f"memory://parqlake-maintenance-{next(LAKES)}"
        catalog = Path(self._folder.name) / "catalog.sqlite"
        self._lake = parqlake.connect(self._root, catalog=f"sqlite:///{catalog}")
        self._versions: dict[str, list[Counter[Any]]] = {}
        self._gone: dict[str, set[int]] = {name: set() for name in NAMES}

    def teardown(self) -> None:
        self._lake.close()
        self._folder.cleanup()
        filesystem, path = fsspec.core.url_to_fs(self._root)
        filesystem.rm(path, recursive=True)

    def _maintained(self, name: str, stats: TableMaintenance) -> None:
        """The rows are those of before, in however many new versions; the files are those that were promised."""
        known = self._versions[name]
        assert (stats.version > len(known)) == (stats.compacted_file_count > 0)
        known += [known[-1]] * (stats.version - len(known))

    @initialize(data=rows)
    def create(self, data: pa.Table) -> None:
        policy = {"maintain.min_files": 2, "maintain.target_rows_per_file": 20}
        self._lake.create_table("m.plain", SCHEMA, cluster_by=["x", "id"], properties=policy)
        self._lake.create_table("m.parted", SCHEMA, partition_by=["region"], properties=policy)
        for name in NAMES:
            self._lake.table(name).append(data)
            self._versions[name] = [bag(data)]

    @rule(name=names, data=rows, length=lengths)
    def append(self, name: str, data: pa.Table, length: int) -> None:
        self._lake.table(name).append(data, max_rows_per_file=length)
        self._versions[name].append(self._versions[name][-1] + bag(data))

    @rule(name=names, key=st.integers(0, 8))
    def delete(self, name: str, key: int) -> None:
        if self._lake.table(name).delete(f"id = {key}").deleted:
            before = self._versions[name][-1]
            self._versions[name].append(Counter({row: count for row, count in before.items() if row[0] != key}))

    @rule(name=names, length=lengths, where=wheres, engine=engines, commit=commits)
    def compact(self, *, name: str, length: int, where: str | None, engine: str, commit: str) -> None:
        table = self._lake.table(name)
        self._maintained(name, table.compact(None, length, where, engine=engine, commit=commit))
        again = table.compact(None, length, where, dry_run=True)
        assert again.planned_groups == []

    @rule(name=names, by=columns, length=lengths, where=wheres, engine=engines, commit=commits)
    def optimize(self, *, name: str, by: list[str], length: int, where: str | None, engine: str, commit: str) -> None:
        table = self._lake.table(name)
        options: dict[str, Any] = {"target_rows_per_file": length, "where": where}
        self._maintained(name, table.optimize(by, engine=engine, commit=commit, **options))
        if where is None:
            assert table.optimize(by, dry_run=True, **options).planned_groups == []

    @rule(name=names, engine=engines, commit=commits)
    def maintain(self, *, name: str, engine: str, commit: str) -> None:
        table, known = self._lake.table(name), self._versions[name]
        promised = [step.name for step in table.maintain(dry_run=True).done]
        made = table.maintain(engine=engine, commit=commit)
        assert [step.name for step in made.done] == promised
        known += [known[-1]] * (made.version - len(known))
        assert table.health().ok
        again = table.maintain()
        assert (again.done, again.version) == ((), made.version)

    @rule(name=names, keep=st.sampled_from([1, 3, 1000]))
    def expire(self, name: str, keep: int) -> None:
        gone = self._lake.table(name).expire(keep_last=keep).versions
        assert all(version <= len(self._versions[name]) - keep for version in gone)
        self._gone[name].update(gone)

    @rule(name=names)
    def vacuum(self, name: str) -> None:
        self._lake.table(name).vacuum(0, force=True)

    @invariant()
    def every_version_keeps_its_rows(self) -> None:
        for name, versions in self._versions.items():
            table = self._lake.table(name)
            assert table.version == len(versions)
            for number, expected in enumerate(versions, start=1):
                if number not in self._gone[name]:
                    assert bag(table.scan(version=number).to_arrow()) == expected
            for where, column, wanted in (("id = 3", 0, 3), ("region = 'eu'", 1, "eu")):
                chosen = Counter({row: count for row, count in versions[-1].items() if row[column] == wanted})
                assert bag(table.scan(where).to_arrow()) == chosen


MaintenanceMachine.TestCase.settings = settings(max_examples=10, stateful_step_count=8)


class TestMaintenance(MaintenanceMachine.TestCase):  # type: ignore[misc]
    """A few short runs."""


@pytest.mark.slow
class TestMaintenanceAtLength(MaintenanceMachine.TestCase):  # type: ignore[misc]
    """Many long runs."""

    settings = settings(max_examples=30, stateful_step_count=15)
