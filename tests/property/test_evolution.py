"""Whatever happens to a schema, every version reads as a model says that knows columns by identity, not by name."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

import parqlake
from parqlake import Lake, Table
from parqlake.catalogs.open import open_catalog

KEYS = itertools.count()
TABLES = itertools.count()
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "moment": pa.timestamp("us"),
    "text": pa.string(),
}
WIDER = {"int32": "int64", "float32": "float64", "date": "moment"}
DAYS = [date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 31)]
VALUES: dict[str, list[Any]] = {
    "int32": [-1, 0, 7],
    "int64": [-1, 0, 2**40],
    "float32": [-0.5, 0.0, 7.0],
    "float64": [-0.5, 0.1, 7.0],
    "date": DAYS,
    "moment": [datetime(day.year, day.month, day.day, hour) for day in DAYS for hour in (0, 12)],  # noqa: DTZ001
    "text": ["", "a", "ä"],
}
NAMES = ["a", "b", "c", "d"]
CHANGES = [
    "append",
    "append",
    "merge",
    "add",
    "add",
    "drop",
    "rename",
    "widen",
    "reorder",
    "default",
    "replace",
    "restore",
]


@dataclass
class Node:
    """A column or a field of a struct: what it is called changes, what it is does not."""

    name: str
    kind: str
    initial: Any = None
    default: Any = None
    inner: list[Node] = field(default_factory=list)
    key: int = field(default_factory=lambda: next(KEYS))

    def type(self) -> pa.DataType:
        """The type in a table."""
        return pa.struct([(node.name, node.type()) for node in self.inner]) if self.inner else TYPES[self.kind]

    def shown(self, row: dict[int, Any]) -> Any:
        """What a reader sees of a row that holds values by key."""
        value = row.get(self.key, self.initial)
        if value is None:
            return None
        if self.inner:
            return {node.name: node.shown(value) for node in self.inner}
        if self.kind == "moment" and not isinstance(value, datetime):
            return datetime(value.year, value.month, value.day)  # noqa: DTZ001
        return value


@dataclass
class Version:
    """One state of the table."""

    columns: list[Node]
    rows: list[dict[int, Any]]

    def shown(self) -> list[dict[str, Any]]:
        """The rows as a scan returns them, by id."""
        found = [{node.name: node.shown(row) for node in self.columns} for row in self.rows]
        return sorted(found, key=lambda row: row["id"])


class Model:
    """A table and what it ought to be."""

    def __init__(self, table: Table, columns: list[Node], chance: Random) -> None:
        self.table = table
        self.now = Version(columns, [])
        self.versions = [copy.deepcopy(self.now)]
        self.chance = chance
        self.ids = itertools.count()

    def level(self) -> list[Node]:
        """The columns, or the fields of the struct."""
        structs = [node for node in self.now.columns if node.inner]
        return self.chance.choice([self.now.columns, *(node.inner for node in structs)])

    def path(self, node: Node) -> str:
        above = next((column for column in self.now.columns if any(node is inner for inner in column.inner)), None)
        return node.name if above is None else f"{above.name}.{node.name}"

    def value(self, node: Node) -> Any:
        if node.inner:
            return self.chance.choice([None, {inner.key: self.value(inner) for inner in node.inner}])
        return self.chance.choice([None, *VALUES[node.kind]])

    def row(self, columns: list[Node]) -> dict[int, Any]:
        return {node.key: next(self.ids) if node.name == "id" else self.value(node) for node in columns}

    def data(self, columns: list[Node], rows: list[dict[int, Any]]) -> pa.Table:
        schema = pa.schema([(node.name, node.type()) for node in columns])
        return pa.Table.from_pylist([{node.name: node.shown(row) for node in columns} for row in rows], schema)

    def step(self, change: str) -> None:
        if getattr(self, f"do_{change}")():
            self.versions.append(copy.deepcopy(self.now))

    def do_append(self) -> bool:
        rows = [self.row(self.now.columns) for _ in range(self.chance.randint(1, 3))]
        self.table.append(self.data(self.now.columns, rows))
        self.now.rows = [*self.now.rows, *rows]
        return True

    def do_merge(self) -> bool:
        """Data that lacks a column and brings another."""
        optional = [node for node in self.now.columns if node.name != "id"]
        left_out = self.chance.choice(optional) if optional else None
        columns = [node for node in self.now.columns if node is not left_out]
        free = [name for name in NAMES if name not in {node.name for node in self.now.columns}]
        if free:
            columns.append(Node(free[0], self.chance.choice(list(TYPES))))
        row = self.row(columns)
        self.table.append(self.data(columns, [row]), schema_mode="merge")
        if left_out is not None:
            row[left_out.key] = left_out.default
        if free:
            self.now.columns.append(columns[-1])
        self.now.rows = [*self.now.rows, row]
        return True

    def do_add(self) -> bool:
        level = self.level()
        free = [name for name in NAMES if name not in {node.name for node in level}]
        if not free:
            return False
        kind = self.chance.choice(list(TYPES))
        default = self.chance.choice([None, *VALUES[kind]])
        node = Node(self.chance.choice(free), kind, default, default)
        after = self.chance.choice([None, *level])
        level.insert(len(level) if after is None else level.index(after) + 1, node)
        self.table.add_column(
            self.path(node), TYPES[kind], default=default, after=None if after is None else after.name
        )
        return True

    def do_drop(self) -> bool:
        level = self.level()
        nodes = [node for node in level if node.name != "id"]
        if len(level) < 2 or not nodes:
            return False
        node = self.chance.choice(nodes)
        self.table.drop_column(self.path(node))
        level.remove(node)
        return True

    def do_rename(self) -> bool:
        level = self.level()
        nodes = [node for node in level if node.name != "id"]
        free = [name for name in NAMES if name not in {node.name for node in level}]
        if not nodes or not free:
            return False
        node, name = self.chance.choice(nodes), self.chance.choice(free)
        self.table.rename_column(self.path(node), name)
        node.name = name
        return True

    def do_widen(self) -> bool:
        nodes = [node for node in self.level() if node.kind in WIDER]
        if not nodes:
            return False
        node = self.chance.choice(nodes)
        node.kind = WIDER[node.kind]
        if node.kind == "moment" and isinstance(node.default, date) and not isinstance(node.default, datetime):
            node.default = datetime(node.default.year, node.default.month, node.default.day)  # noqa: DTZ001
        self.table.widen_column(self.path(node), TYPES[node.kind])
        return True

    def do_reorder(self) -> bool:
        level = self.level()
        first = self.chance.choice(level)
        above = next((column.name for column in self.now.columns if column.inner is level), None)
        self.table.reorder_columns([first.name], inside=above)
        level.remove(first)
        level.insert(0, first)
        return True

    def do_default(self) -> bool:
        nodes = [node for node in self.now.columns if node.name != "id" and not node.inner]
        if not nodes:
            return False
        node = self.chance.choice(nodes)
        node.default = self.chance.choice([None, *VALUES[node.kind]])
        self.table.set_default(self.path(node), node.default)
        return True

    def do_replace(self) -> bool:
        """Copies the rows that stay into new files."""
        last = next(self.ids)
        key = next(node.key for node in self.now.columns if node.name == "id")
        row = self.row(self.now.columns)
        self.table.overwrite(self.data(self.now.columns, [row]), where=f"id >= {last - 2}")
        self.now.rows = [*(old for old in self.now.rows if old[key] < last - 2), row]
        return True

    def do_restore(self) -> bool:
        number = self.chance.randrange(len(self.versions))
        self.table.restore(number)
        self.now = copy.deepcopy(self.versions[number])
        return True

    def check(self) -> None:
        for number, version in enumerate(self.versions):
            found = self.table.scan(version=number).to_arrow()
            assert [(f.name, f.type) for f in found.schema] == [(node.name, node.type()) for node in version.columns]
            assert sorted(found.to_pylist(), key=lambda row: row["id"]) == version.shown(), f"version {number}"
            path, values = self.chance.choice(list(_leaves(version)))
            wanted = self.chance.choice([*values, None])
            where: Any = f"{path} IS NULL" if wanted is None else [(path, ">=", wanted)]
            ids = [
                row["id"]
                for row, value in zip(version.shown(), values, strict=True)
                if (value is None if wanted is None else value is not None and value >= wanted)
            ]
            scan = self.table.scan(where, version=number)
            assert (number, path, sorted(scan.to_arrow()["id"].to_pylist())) == (number, path, ids)
            assert scan.count() == len(ids)


def _leaves(version: Version) -> Iterator[tuple[str, list[Any]]]:
    rows = version.shown()
    for node in version.columns:
        if not node.inner:
            yield node.name, [row[node.name] for row in rows]
        for inner in node.inner:
            yield f"{node.name}.{inner.name}", [(row[node.name] or {}).get(inner.name) for row in rows]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake whose catalog merges small segments at once, so that statistics of all schemas meet in one page."""
    url = f"sqlite:///{tmp_path_factory.mktemp('evolution') / 'catalog.sqlite'}"
    with parqlake.connect("memory://parqlake-evolution", catalog=url) as first:
        yield Lake(replace(first.context, catalog=open_catalog(url, merge_segments_at=2)))


@settings(max_examples=15, phases=[Phase.reuse, Phase.generate])
@given(chance=st.randoms(use_true_random=True))
def test_every_version_is_as_the_model_says(lake: Lake, chance: Random) -> None:
    inner = [Node("a", "int32"), Node("b", "date")]
    columns = [Node("id", "int64"), Node("a", "int32"), Node("b", "date"), Node("s", "struct", inner=inner)]
    schema = pa.schema([(node.name, node.type()) for node in columns])
    model = Model(lake.create_table(f"evolved.t{next(TABLES)}", schema), columns, chance)
    model.step("append")
    for change in chance.choices(CHANGES, k=14):
        model.step(change)
        note(f"{len(model.versions) - 1}: {change}")
    model.check()
