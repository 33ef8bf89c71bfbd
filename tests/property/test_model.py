"""A lake does what a list of versions in memory would do, whatever the order of calls."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import parqlake
from parqlake import Lake
from parqlake.core.predicates import parse
from parqlake.core.predicates.tree import Predicate
from parqlake.testing.data import bag, data_files
from parqlake.testing.strategies import array
from parqlake.testing.truth import selected, truths

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("x", pa.float64())])
EMPTY = SCHEMA.empty_table()
NAMES = ("m.plain", "m.parted")
LAKES = itertools.count()
WHERES = [
    "id < 3",
    "id >= 2 and id <= 4",
    "region = 'eu'",
    "region is null",
    "region in ('eu', 'us') and id != 1",
    "x > 1",
    "x <= 1 or region = 'us'",
    "not (region = 'eu')",
    "isnan(x)",
]

names = st.sampled_from(NAMES)
engines = st.sampled_from(["pyarrow", "pyarrow", "duckdb"])
wheres = st.sampled_from(WHERES).map(parse)
rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from([None, "eu", "us", "a/b", ""]),
        st.sampled_from([None, 0.0, -0.0, 1.0, 2.5, float("nan")]),
    ),
    max_size=6,
).map(
    lambda found: (
        pa.table([array(list(c), f.type) for c, f in zip(zip(*found, strict=True), SCHEMA, strict=True)], SCHEMA)
        if found
        else EMPTY
    )
)
EDITS = st.lists(
    st.tuples(names, st.sampled_from(["append", "overwrite", "replace"]), rows, wheres), min_size=1, max_size=4
)


def replaced(table: pa.Table, where: Predicate, new: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The table after an overwrite, and those of the new rows that may be written."""
    kept = table.filter(pa.array([truth is not True for truth in truths(where, table)], pa.bool_()))
    fitting = selected(where, new)
    return pa.concat_tables([kept, fitting]), fitting


class LakeMachine(RuleBasedStateMachine):
    """Calls on a real lake, and on lists of tables beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._root = f"memory://parqlake-model-{next(LAKES)}"
        self._lake = self._connect()
        self._versions: dict[str, list[pa.Table]] = {}
        self._dropped: set[str] = set()

    def _connect(self) -> Lake:
        return parqlake.connect(self._root, catalog=f"sqlite:///{Path(self._folder.name) / 'catalog.sqlite'}")

    def teardown(self) -> None:
        self._lake.close()
        self._folder.cleanup()
        filesystem, path = fsspec.core.url_to_fs(self._root)
        filesystem.rm(path, recursive=True)

    def _live(self, name: str) -> bool:
        return name not in self._dropped

    @initialize()
    def create(self) -> None:
        self._lake.create_table("m.plain", SCHEMA)
        self._lake.create_table("m.parted", SCHEMA, partition_by=["region"])
        self._versions = {name: [EMPTY] for name in NAMES}

    @rule(name=names, data=rows, engine=engines)
    def append(self, name: str, data: pa.Table, engine: str) -> None:
        if self._live(name):
            self._lake.table(name).append(data, engine=engine, row_group_size=2)
            self._versions[name].append(pa.concat_tables([self._versions[name][-1], data]))

    @rule(name=names, data=rows, engine=engines)
    def overwrite(self, name: str, data: pa.Table, engine: str) -> None:
        if self._live(name):
            result = self._lake.table(name).overwrite(data, engine=engine)
            assert result.removed_rows == self._versions[name][-1].num_rows
            self._versions[name].append(data)

    @rule(name=names, data=rows, where=wheres, engine=engines)
    def replace(self, name: str, data: pa.Table, where: Predicate, engine: str) -> None:
        if self._live(name):
            after, fitting = replaced(self._versions[name][-1], where, data)
            self._lake.table(name).overwrite(fitting, where=where, engine=engine, max_rows_per_file=3)
            self._versions[name].append(after)

    @rule(name=names, back=st.integers(0, 9))
    def restore(self, name: str, back: int) -> None:
        if self._live(name):
            version = max(0, len(self._versions[name]) - 1 - back)
            self._lake.table(name).restore(version)
            self._versions[name].append(self._versions[name][version])

    @rule(edits=EDITS, ends=st.sampled_from(["commit", "commit", "abort"]))
    def transaction(self, edits: list[tuple[str, str, pa.Table, Predicate]], ends: str) -> None:
        after = {name: versions[-1] for name, versions in self._versions.items()}
        touched = set()
        try:
            with self._lake.transaction() as tx:
                for name, what, data, where in edits:
                    if not self._live(name):
                        continue
                    inside = tx.table(name)
                    touched.add(name)
                    if what == "append":
                        inside.append(data)
                        after[name] = pa.concat_tables([after[name], data])
                    elif what == "overwrite":
                        inside.overwrite(data)
                        after[name] = data
                    else:
                        after[name], fitting = replaced(after[name], where, data)
                        inside.overwrite(fitting, where=where)
                    assert bag(inside.scan().to_arrow()) == bag(after[name])
                    assert inside.scan(where).count() == selected(where, after[name]).num_rows
                if ends == "abort":
                    raise InterruptedError
        except InterruptedError:
            return
        for name in touched:
            self._versions[name].append(after[name])
        assert tx.versions == {name: len(self._versions[name]) - 1 for name in touched}

    @rule(name=names)
    def drop_or_undrop(self, name: str) -> None:
        if self._live(name):
            self._lake.drop_table(name)
            self._dropped.add(name)
        else:
            self._lake.undrop_table(name)
            self._dropped.remove(name)

    @rule()
    def reopen(self) -> None:
        self._lake.close()
        self._lake = self._connect()

    @rule(name=names, back=st.integers(0, 9), where=wheres)
    def look(self, name: str, back: int, where: Predicate) -> None:
        if self._live(name):
            version = max(0, len(self._versions[name]) - 1 - back)
            expected = selected(where, self._versions[name][version])
            scan = self._lake.table(name).scan(where, version=version)
            assert bag(scan.to_arrow()) == bag(expected)
            assert scan.count() == expected.num_rows

    @invariant()
    def every_table_is_as_it_should_be(self) -> None:
        assert self._lake.tables() == sorted(name for name in self._versions if self._live(name))
        for name, versions in self._versions.items():
            if self._live(name):
                table = self._lake.table(name)
                assert table.version == len(versions) - 1
                assert bag(table.scan().to_arrow()) == bag(versions[-1])
                assert [entry.row_count for entry in table.history()] == [v.num_rows for v in reversed(versions[1:])]

    @invariant()
    def every_file_belongs_to_a_version(self) -> None:
        if self._dropped or not self._versions:
            return
        known = set()
        for name, versions in self._versions.items():
            table = self._lake.table(name)
            for version in range(1, len(versions)):
                known |= {f"{table.location}/{path}" for path in table.files(version).column("path").to_pylist()}
        assert data_files(self._root) == known


LakeMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=12)


class TestLake(LakeMachine.TestCase):  # type: ignore[misc]
    """A few short runs."""


@pytest.mark.slow
class TestLakeAtLength(LakeMachine.TestCase):  # type: ignore[misc]
    """Many long runs."""

    settings = settings(max_examples=150, stateful_step_count=40)
