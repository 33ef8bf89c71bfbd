"""Random deletes, updates and merges do to a table what they do to plain rows, in every version that is kept."""

from __future__ import annotations

import itertools
import math
import tempfile
import warnings
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
from parqlake.core.merging import DuplicateKeysWarning
from parqlake.core.predicates import parse
from parqlake.core.predicates.tree import Predicate
from parqlake.testing.data import data_files
from parqlake.testing.truth import truths

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("region", pa.string()), ("x", pa.float64())])
NAMES = ("m.plain", "m.parted")
LAKES = itertools.count()
Row = tuple[int, str | None, float | None]
WHERES = ["id < 3", "id between 2 and 4", "region = 'eu'", "region is null", "x > 1", "not (region = 'eu')", "isnan(x)"]

names = st.sampled_from(NAMES)
engines = st.sampled_from(["pyarrow", "pyarrow", "duckdb"])
wheres = st.sampled_from([*WHERES, "true", "false"]).map(parse)
rows = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([None, "eu", "us"]), st.sampled_from([None, 0.0, 1.0, 2.5, math.nan])),
    max_size=6,
)
strategies = st.sampled_from(["upsert", "insert", "update", "full_merge", "deduplicate"])
memories = st.sampled_from([None, 100])
columns = st.sampled_from([None, ["x"], ["region"]])


def _table(found: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "region": r, "x": x} for i, r, x in found], SCHEMA)


def _bag(found: list[Row]) -> Counter[Any]:
    return Counter((i, r, "NaN" if x is not None and math.isnan(x) else x) for i, r, x in found)


def _plain(found: pa.Table) -> list[Row]:
    return [(row["id"], row["region"], row["x"]) for row in found.to_pylist()]


def _chosen(where: Predicate, found: list[Row]) -> list[bool]:
    return [truth is True for truth in truths(where, _table(found))]


def deleted(found: list[Row], where: Predicate) -> list[Row]:
    return [row for row, chosen in zip(found, _chosen(where, found), strict=True) if not chosen]


def updated(found: list[Row], where: Predicate) -> list[Row]:
    """What setting x to `coalesce(x, 0) + id` and the region to the other one makes of rows."""
    other = {"eu": "us", "us": None, None: "eu"}
    return [
        (row[0], other[row[1]], (row[2] or 0.0) + row[0]) if chosen else row
        for row, chosen in zip(found, _chosen(where, found), strict=True)
    ]


SET = {"x": "coalesce(x, 0) + id", "region": "case when region = 'eu' then 'us' when region is null then 'eu' end"}


def merged(
    found: list[Row], source: list[Row], strategy: str, where: Predicate, names: list[str] | None
) -> tuple[list[Row], tuple[int, int, int]]:
    """The rows after a merge, and how many were inserted, updated and deleted."""
    taken = {row[0]: row for row in source}
    after: list[Row] = []
    updates = deletes = 0
    for row, chosen in zip(found, _chosen(where, found), strict=True):
        new = taken.get(row[0])
        if not chosen or (new is None and strategy != "full_merge") or (new is not None and strategy == "insert"):
            after.append(row)
        elif new is None:
            deletes += 1
        else:
            updates += 1
            region = new[1] if names is None or "region" in names else row[1]
            x = new[2] if names is None or "x" in names else row[2]
            after.append((row[0], region, x))
    known = {row[0] for row in found}
    inserts = [row for key, row in taken.items() if key not in known and strategy != "update"]
    return after + inserts, (len(inserts), updates, deletes)


class ChangesMachine(RuleBasedStateMachine):
    """Calls on a real lake, and on lists of rows beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._root = f"memory://parqlake-changes-{next(LAKES)}"
        catalog = Path(self._folder.name) / "catalog.sqlite"
        self._lake = parqlake.connect(self._root, catalog=f"sqlite:///{catalog}")
        self._versions: dict[str, list[list[Row]]] = {}

    def teardown(self) -> None:
        self._lake.close()
        self._folder.cleanup()
        filesystem, path = fsspec.core.url_to_fs(self._root)
        filesystem.rm(path, recursive=True)

    def _commit(self, name: str, after: list[Row], changed: object) -> None:
        if changed:
            self._versions[name].append(after)

    @initialize(first=rows, second=rows)
    def create(self, first: list[Row], second: list[Row]) -> None:
        self._lake.create_table("m.plain", SCHEMA)
        self._lake.create_table("m.parted", SCHEMA, partition_by=["region"])
        for name in NAMES:
            table = self._lake.table(name)
            table.append(_table(first), row_group_size=2)
            table.append(_table(second))
            self._versions[name] = [[], first, first + second]

    @rule(name=names, data=rows)
    def append(self, name: str, data: list[Row]) -> None:
        self._lake.table(name).append(_table(data), max_rows_per_file=3)
        self._versions[name].append(self._versions[name][-1] + data)

    @rule(name=names, where=wheres, engine=engines)
    def delete(self, name: str, where: Predicate, engine: str) -> None:
        before = self._versions[name][-1]
        after = deleted(before, where)
        result = self._lake.table(name).delete(where, engine=engine)
        assert result.deleted == len(before) - len(after)
        self._commit(name, after, result.deleted)

    @rule(name=names, where=wheres, engine=engines)
    def update(self, name: str, where: Predicate, engine: str) -> None:
        before = self._versions[name][-1]
        result = self._lake.table(name).update(where, SET, engine=engine)
        assert result.updated == sum(_chosen(where, before))
        self._commit(name, updated(before, where), result.updated)

    @rule(
        name=names,
        data=rows,
        strategy=strategies,
        where=wheres,
        engine=engines,
        memory=memories,
        update_columns=columns,
    )
    def merge(
        self,
        *,
        name: str,
        data: list[Row],
        strategy: str,
        where: Predicate,
        engine: str,
        memory: int | None,
        update_columns: list[str] | None,
    ) -> None:
        after, counts = merged(self._versions[name][-1], data, strategy, where, update_columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateKeysWarning)
            result = self._lake.table(name).merge(
                _table(data),
                on="id",
                strategy=strategy,
                where=where,
                engine=engine,
                memory_limit=memory,
                update_columns=update_columns,
            )
        assert (result.inserted, result.updated, result.deleted) == counts
        assert result.total == len(after)
        self._commit(name, after, any(counts))

    @rule(name=names, data=rows, first=wheres, second=wheres)
    def transaction(self, name: str, data: list[Row], first: Predicate, second: Predicate) -> None:
        after = self._versions[name][-1] + data
        with self._lake.transaction() as tx, warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateKeysWarning)
            inside = tx.table(name)
            inside.append(_table(data))
            assert inside.update(first, SET) == sum(_chosen(first, after))
            after = updated(after, first)
            after, counts = merged(after, data[:2], "full_merge", second, None)
            told = inside.merge(_table(data[:2]), on="id", strategy="full_merge", where=second)
            assert (told.inserted, told.updated, told.deleted, told.total) == (*counts, len(after))
            assert inside.delete(first) == sum(_chosen(first, after))
            after = deleted(after, first)
            assert _bag(_plain(inside.scan().to_arrow())) == _bag(after)
        self._versions[name].append(after)

    @rule(name=names, back=st.integers(0, 5))
    def restore(self, name: str, back: int) -> None:
        version = max(0, len(self._versions[name]) - 1 - back)
        self._lake.table(name).restore(version)
        self._versions[name].append(self._versions[name][version])

    @invariant()
    def every_version_is_as_it_should_be(self) -> None:
        known = set()
        for name, versions in self._versions.items():
            table = self._lake.table(name)
            assert table.version == len(versions) - 1
            for version in {len(versions) - 1, max(0, len(versions) - 3)}:
                assert _bag(_plain(table.scan(version=version).to_arrow())) == _bag(versions[version])
            for entry, now, before in zip(table.history(), reversed(versions), reversed(versions[:-1]), strict=False):
                assert entry.row_count == len(now)
                assert entry.added_rows - entry.removed_rows == len(now) - len(before)
                assert entry.added_rows >= 0 and entry.removed_rows >= 0
            for version in range(1, len(versions)):
                known |= {f"{table.location}/{path}" for path in table.files(version).column("path").to_pylist()}
        if self._versions:
            assert data_files(self._root) == known


ChangesMachine.TestCase.settings = settings(max_examples=10, stateful_step_count=10)


class TestChanges(ChangesMachine.TestCase):  # type: ignore[misc]
    """A few short runs."""


@pytest.mark.slow
class TestChangesAtLength(ChangesMachine.TestCase):  # type: ignore[misc]
    """Many long runs."""

    settings = settings(max_examples=100, stateful_step_count=25)
