"""Whatever is written, changed, evolved, restored, laid out anew and expired: every kept version is as a model says."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
import row_changes
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from row_changes import EDITS, Draw, Edit, data_of, draw_rows, draw_where, engines
from rows_model import TYPES, VALUES, WIDER, Node, Refused, Version, first_columns, schema_of

import parqlake
from parqlake import Lake, errors
from parqlake.catalogs.open import open_catalog
from parqlake.table.maintenance_stats import TableMaintenance
from parqlake.table.unit import Unit
from parqlake.testing.data import bag, data_files

LAKES = itertools.count()
NAMES = ["a", "b", "c", "d"]
MakeEdit = Callable[[Version, Draw], Edit]
lengths = st.sampled_from([1, 2, 3, 7, 1000])
commits = st.sampled_from(["per_run", "per_group"])


def _modelled(version: Version, *edits: Edit) -> Version:
    """The version after these changes; one that has to be refused changes nothing."""
    for edit in edits:
        with suppress(Refused):
            version, _ = edit.model(version)
    return version


class ChangesMachine(RuleBasedStateMachine):
    """Calls on a table of a real lake, and on the model beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._root = f"memory://parqlake-changes-{next(LAKES)}"
        self._url = f"sqlite:///{Path(self._folder.name) / 'catalog.sqlite'}"
        self._lake = parqlake.connect(self._root, catalog=self._url)
        self._kept: dict[int, Version] = {}
        self._parts: tuple[str, ...] = ()
        self._unused = False
        """Whether files may lie about that no kept version holds."""

    @property
    def _now(self) -> Version:
        return self._kept[max(self._kept)]

    def _commit(self, after: Version, times: int = 1) -> None:
        for _ in range(times):
            self._kept[max(self._kept) + 1] = after

    def teardown(self) -> None:
        try:
            if self._kept:
                for number in self._kept:
                    self._check(number)
                assert [str(finding) for finding in self._lake.check(full=True).findings] == []
        finally:
            self._lake.close()
            self._folder.cleanup()
            filesystem, path = fsspec.core.url_to_fs(self._root)
            filesystem.rm(path, recursive=True)

    @initialize(parts=st.sampled_from([(), ("region",), ("n",)]), small_segments=st.booleans(), data=st.data())
    def create(self, parts: tuple[str, ...], small_segments: bool, data: st.DataObject) -> None:
        if small_segments:  # merged at once, so that statistics of all schemas meet in one page
            context = self._lake.context
            self._lake = Lake(replace(context, catalog=open_catalog(self._url, merge_segments_at=2)))
        columns = first_columns()
        self._table = self._lake.create_table("m.t", schema_of(columns), partition_by=list(parts))
        self._parts = parts
        self._kept = {0: Version(columns)}
        for _ in range(2):
            self._edit(row_changes.append, data)

    def _edit(self, make: MakeEdit, data: st.DataObject) -> None:
        after, changed = make(self._now, data.draw).run(self._table, self._now)
        self._commit(after, 1 if changed else 0)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self._edit(row_changes.append, data)

    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        self._edit(row_changes.overwrite, data)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self._edit(row_changes.delete, data)

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        self._edit(row_changes.update, data)

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        self._edit(row_changes.merge, data)

    @rule(data=st.data())
    def merge_by_clauses(self, data: st.DataObject) -> None:
        self._edit(row_changes.clauses, data)

    @rule(data=st.data(), edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=4), ends=st.booleans())
    def transaction(self, data: st.DataObject, edits: list[MakeEdit], ends: bool) -> None:
        after, any_change = self._now, False
        try:
            with self._lake.transaction() as tx:
                inside = tx.table("m.t")
                for make in edits:
                    after, changed = make(after, data.draw).run(inside, after)
                    any_change = any_change or changed
                    assert bag(inside.scan().to_arrow()) == bag(after.table())
                if not ends:
                    raise InterruptedError
        except InterruptedError:
            return
        self._commit(after, 1 if any_change else 0)

    @rule(data=st.data(), first=st.sampled_from(EDITS), second=st.sampled_from([*EDITS, None]))
    def two_at_once(self, data: st.DataObject, first: MakeEdit, second: MakeEdit | None) -> None:
        """Another change, or a compaction, comes between the work and the commit of one: they are in some order."""
        before, newest = self._now, max(self._kept)
        edit = first(before, data.draw)
        compaction = Edit(lambda table: table.compact(), lambda version: (version, None))
        other = compaction if second is None else second(before, data.draw)
        others, commit = [other], Unit.commit

        def later(unit: Unit, changes: Any) -> Any:
            while others:
                with suppress(errors.ConstraintError):
                    others.pop().call(self._table)
            return commit(unit, changes)

        with pytest.MonkeyPatch.context() as patch, suppress(errors.ConstraintError):
            patch.setattr(Unit, "commit", later)
            edit.call(self._table)
        if others:  # it was refused before there was anything to commit
            assert _modelled(before, edit) is before
            return
        found = bag(self._table.scan().to_arrow())
        possible = [_modelled(before, edit, other), _modelled(before, other, edit)]
        assert found in [bag(version.table()) for version in possible]
        assert newest <= self._table.version <= newest + 2
        if self._table.version == newest + 2:
            self._commit(_modelled(before, other))
        if self._table.version > newest:
            self._commit(next(version for version in possible if bag(version.table()) == found))

    # -------------------------------------------------------------------------------------------- columns

    def _level(self, draw: Draw, now: Version) -> tuple[list[Node], str]:
        """The columns, or the fields of the struct, and what stands before their names."""
        structs = [node for node in now.columns if node.inner]
        chosen = draw(st.sampled_from([None, None, *structs]))
        return (now.columns, "") if chosen is None else (chosen.inner, f"{chosen.name}.")

    @rule(data=st.data(), mode=st.sampled_from(["merge", "promote"]))
    def append_of_other_columns(self, data: st.DataObject, mode: str) -> None:
        """Data that lacks a column and brings another, or one of a wider type."""
        after = self._now.copy()
        optional = [node for node in after.columns if not node.is_fixed]
        left_out = data.draw(st.none() | st.sampled_from(optional)) if optional else None
        columns = [node for node in after.columns if node is not left_out]
        wider = [node for node in columns if node.kind in WIDER and node.name not in self._parts]
        if mode == "promote" and wider:
            data.draw(st.sampled_from(wider)).widen()
        free = [name for name in NAMES if name not in {node.name for node in after.columns}]
        if free and data.draw(st.booleans()):
            columns.append(Node(free[0], data.draw(st.sampled_from(sorted(TYPES)))))
            after.columns.append(columns[-1])
        rows = draw_rows(data.draw, columns, most=2)
        self._table.append(data_of(columns, rows), schema_mode=mode)
        if left_out is not None:
            rows = [{**row, left_out.key: left_out.default} for row in rows]
        self._commit(after.with_rows(after.rows + rows))

    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        after = self._now.copy()
        level, prefix = self._level(data.draw, after)
        free = [name for name in NAMES if name not in {node.name for node in level}]
        if free:
            kind = data.draw(st.sampled_from(sorted(TYPES)))
            default = data.draw(st.sampled_from([None, *VALUES[kind]]))
            node = Node(data.draw(st.sampled_from(free)), kind, default, default)
            place = data.draw(st.integers(0, len(level)))
            behind = level[place - 1].name if place else None
            level.insert(place if place else len(level), node)
            self._table.add_column(f"{prefix}{node.name}", TYPES[kind], default=default, after=behind)
            self._commit(after)

    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        after = self._now.copy()
        level, prefix = self._level(data.draw, after)
        nodes = [node for node in level if prefix or not node.is_fixed]
        if nodes and len(level) > 1:
            node = data.draw(st.sampled_from(nodes))
            self._table.drop_column(f"{prefix}{node.name}")
            level.remove(node)
            self._commit(after)

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        after = self._now.copy()
        level, prefix = self._level(data.draw, after)
        nodes = [node for node in level if prefix or not node.is_fixed]
        free = [name for name in NAMES if name not in {node.name for node in level}]
        if nodes and free:
            node, name = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(free))
            self._table.rename_column(f"{prefix}{node.name}", name)
            node.name = name
            self._commit(after)

    @rule(data=st.data())
    def widen_column(self, data: st.DataObject) -> None:
        after = self._now.copy()
        level, prefix = self._level(data.draw, after)
        nodes = [node for node in level if node.kind in WIDER]
        if nodes:
            node = data.draw(st.sampled_from(nodes))
            node.widen()
            self._table.widen_column(f"{prefix}{node.name}", node.type)
            self._commit(after)

    @rule(data=st.data())
    def reorder_columns(self, data: st.DataObject) -> None:
        after = self._now.copy()
        level, prefix = self._level(data.draw, after)
        node = data.draw(st.sampled_from(level))
        self._table.reorder_columns([node.name], inside=prefix.rstrip(".") or None)
        level.remove(node)
        level.insert(0, node)
        self._commit(after)

    @rule(data=st.data())
    def set_default(self, data: st.DataObject) -> None:
        after = self._now.copy()
        nodes = [node for node in after.columns if not node.is_fixed and not node.inner]
        if nodes:
            node = data.draw(st.sampled_from(nodes))
            node.default = data.draw(st.sampled_from(node.values))
            self._table.set_default(node.name, node.default)
            self._commit(after)

    @rule(data=st.data())
    def forbid_and_allow_nulls(self, data: st.DataObject) -> None:
        after = self._now.copy()
        path, node, value = data.draw(st.sampled_from([leaf for leaf in after.leaves() if leaf[0] != "id"]))
        top = path.partition(".")[0]
        if any(value(row) is None for row in after.shown() if top == path or row[top] is not None):
            with pytest.raises(errors.ConstraintError, match="holds NULL"):
                self._table.set_nullable(path, False)
        else:
            self._table.set_nullable(path, False)
            node.nullable = False
            self._commit(after)
            self._allow_nulls()

    def _allow_nulls(self) -> None:
        """Takes NOT NULL away again, so that any row can be written."""
        after = self._now.copy()
        for path, node, _ in after.leaves():
            if not node.nullable and path != "id":
                self._table.set_nullable(path, True)
                node.nullable = True
                self._commit(after)

    # ------------------------------------------------------------------------------- versions and files

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self._kept)))
        self._table.restore(number)
        self._commit(self._kept[number])
        self._allow_nulls()

    def _maintained(self, stats: TableMaintenance) -> None:
        """The rows are those of before, in however many new versions; the files are those that were promised."""
        newest = max(self._kept)
        assert (stats.version > newest) == (stats.compacted_file_count > 0)
        self._commit(self._now, times=stats.version - newest)

    @rule(data=st.data(), length=lengths, engine=engines, commit=commits)
    def compact(self, data: st.DataObject, length: int, engine: str, commit: str) -> None:
        where = draw_where(data.draw, self._now).asked if data.draw(st.booleans()) else None
        self._maintained(self._table.compact(None, length, where, engine=engine, commit=commit))
        assert self._table.compact(None, length, where, dry_run=True).planned_groups == []

    @rule(data=st.data(), length=lengths, engine=engines, commit=commits)
    def optimize(self, data: st.DataObject, length: int, engine: str, commit: str) -> None:
        plain = [node.name for node in self._now.columns if not node.inner and node.name not in self._parts]
        by = data.draw(st.lists(st.sampled_from(plain), min_size=1, max_size=2, unique=True))
        where = draw_where(data.draw, self._now).asked if data.draw(st.booleans()) else None
        stats = self._table.optimize(by, target_rows_per_file=length, where=where, engine=engine, commit=commit)
        self._maintained(stats)

    @rule(keep=st.integers(1, 4), vacuum=st.booleans())
    def expire(self, keep: int, vacuum: bool) -> None:
        numbers = sorted(number for number in self._kept if number)
        gone = numbers[:-keep]
        assert self._table.expire(keep_last=keep).versions == tuple(gone)
        self._kept = {number: version for number, version in self._kept.items() if number not in gone}
        self._unused = self._unused or bool(gone)
        if vacuum:
            self._table.vacuum(0, force=True)
            self._unused = False

    # --------------------------------------------------------------------------------------------- reading

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self._kept)))
        version = self._kept[number]
        where = draw_where(data.draw, version)
        wanted = [row for row, chosen in zip(version.rows, where.chosen(version), strict=True) if chosen]
        scan = self._table.scan(where.asked, version=number)
        assert bag(scan.to_arrow()) == bag(version.with_rows(wanted).table())
        assert scan.count() == len(wanted)

    def _check(self, number: int) -> None:
        version = self._kept[number]
        found = self._table.scan(version=number).to_arrow()
        assert found.schema.equals(version.schema()), number
        assert self._table.schema(number).equals(version.schema()), number
        assert bag(found) == bag(version.table()), number

    @invariant()
    def versions_are_as_they_should_be(self) -> None:
        if not self._kept:
            return
        newest = max(self._kept)
        assert self._table.version == newest
        self._check(newest)
        entries = self._table.history()
        assert [entry.version for entry in entries] == sorted((n for n in self._kept if n), reverse=True)
        for entry in entries:
            assert entry.row_count == len(self._kept[entry.version].rows)
            assert entry.added_rows >= 0 and entry.removed_rows >= 0
            if entry.version - 1 in self._kept:
                before = self._kept[entry.version - 1]
                assert entry.added_rows - entry.removed_rows == entry.row_count - len(before.rows)
        files = {path for entry in entries for path in self._table.files(entry.version).column("path").to_pylist()}
        known = {f"{self._table.location}/{path}" for path in files}
        found = data_files(self._root)
        assert known <= found if self._unused else known == found


ChangesMachine.TestCase.settings = settings(max_examples=10, stateful_step_count=14)


class TestChanges(ChangesMachine.TestCase):  # type: ignore[misc]
    """A few short runs."""


@pytest.mark.slow
class TestChangesAtLength(ChangesMachine.TestCase):  # type: ignore[misc]
    """Many long runs."""

    settings = settings(max_examples=100, stateful_step_count=30)
