"""What a table ought to be: columns by identity, rows as plain dicts, and the calls that change them, row by row."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa

KEYS = itertools.count()
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
FIXED: dict[str, list[Any]] = {
    "id": list(range(9)),
    "region": [None, "eu", "us"],
    "n": [None, 0, 1],
    "x": [None, 0.0, 1.0, 2.5, math.nan],
}
"""Columns that are always there, and their values; `id` and `n` may become wider."""
Row = dict[int, Any]
Shown = dict[str, Any]


class Refused(Exception):  # noqa: N818  (an outcome, not a failure)
    """The call has to be refused, with a `ConstraintError`."""


@dataclass
class Node:
    """A column or a field of a struct: what it is called changes, what it is does not."""

    name: str
    kind: str
    initial: Any = None
    default: Any = None
    inner: list[Node] = field(default_factory=list)
    nullable: bool = True
    key: int = field(default_factory=lambda: next(KEYS))

    @property
    def type(self) -> pa.DataType:
        """The type in a table."""
        return pa.struct(list(schema_of(self.inner))) if self.inner else TYPES[self.kind]

    @property
    def is_fixed(self) -> bool:
        """Whether its name stays."""
        return self.name in FIXED

    @property
    def values(self) -> list[Any]:
        """What a row may hold here; of plain columns only."""
        return FIXED[self.name] if self.is_fixed else [None, *VALUES[self.kind]]

    def shown(self, row: Row) -> Any:
        """What a reader sees of a row that holds values by key."""
        value = row.get(self.key, self.initial)
        if value is None:
            return None
        if self.inner:
            return {node.name: node.shown(value) for node in self.inner}
        return at_midnight(value) if self.kind == "moment" else value

    def widen(self) -> None:
        """Takes the wider type."""
        self.kind = WIDER[self.kind]
        if self.kind == "moment":
            self.default = at_midnight(self.default)


def at_midnight(value: Any) -> Any:
    """A date as a timestamp; anything else as it is."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001
    return value


def first_columns() -> list[Node]:
    """The columns that a table begins with."""
    inner = [Node("a", "int32"), Node("b", "date")]
    fixed = [Node("id", "int32", nullable=False), Node("region", "text"), Node("n", "int32"), Node("x", "float64")]
    return [*fixed, Node("a", "int32"), Node("b", "date"), Node("s", "struct", inner=inner)]


@dataclass
class Version:
    """One state of the table."""

    columns: list[Node]
    rows: list[Row] = field(default_factory=list)

    def copy(self) -> Version:
        """The same, to be changed; rows are never changed in place."""
        return Version(copy.deepcopy(self.columns), list(self.rows))

    def with_rows(self, rows: Sequence[Row]) -> Version:
        """The same columns with other rows."""
        return Version(self.columns, list(rows))

    def node(self, name: str) -> Node:
        """The column of that name."""
        return next(node for node in self.columns if node.name == name)

    def schema(self) -> pa.Schema:
        """The columns."""
        return schema_of(self.columns)

    def shown(self) -> list[Shown]:
        """The rows as a reader sees them."""
        return [show(row, self.columns) for row in self.rows]

    def table(self) -> pa.Table:
        """The rows as a scan returns them, in some order."""
        return pa.Table.from_pylist(self.shown(), self.schema())

    def leaves(self) -> Iterator[tuple[str, Node, Callable[[Shown], Any]]]:
        """Plain columns and fields: the path, what it is, and how to take it out of a shown row."""
        for node in self.columns:
            if not node.inner:
                yield node.name, node, lambda row, name=node.name: row[name]  # type: ignore[misc]
            for item in node.inner:
                path = (node.name, item.name)
                yield ".".join(path), item, lambda row, path=path: (row[path[0]] or {}).get(path[1])  # type: ignore[misc]


def schema_of(columns: Sequence[Node]) -> pa.Schema:
    """Columns as Arrow has them."""
    return pa.schema([pa.field(node.name, node.type, nullable=node.nullable) for node in columns])


def show(row: Row, columns: Sequence[Node]) -> Shown:
    """A row by the names of columns."""
    return {node.name: node.shown(row) for node in columns}


def above(left: Any, right: Any) -> bool | None:
    """Whether a number is greater, as SQL sees it: NULL is unknown, NaN the greatest."""
    if left is None or right is None:
        return None
    return not math.isnan(right) and (math.isnan(left) or left > right)


def plus(left: Any, right: Any) -> Any:
    """A sum; unknown if either is."""
    return None if left is None or right is None else left + right


def updated(now: Version, chosen: Sequence[bool], setting: dict[int, Callable[[Shown], Any]]) -> Version:
    """What setting columns of the chosen rows makes of them; all values are those of the row as it was."""
    rows = []
    for row, old, wanted in zip(now.rows, now.shown(), chosen, strict=True):
        rows.append({**row, **{key: value(old) for key, value in setting.items()}} if wanted else row)
    return now.with_rows(rows)


def merged(
    now: Version,
    source: Sequence[Row],
    strategy: str,
    chosen: Sequence[bool],
    *,
    columns: Sequence[str] | None,
    by_x: bool,
) -> tuple[Version, tuple[int, int, int]]:
    """The rows after a merge, and how many were inserted, updated and deleted."""
    key, x = now.node("id").key, now.node("x").key

    def order(row: Row) -> tuple[Any, ...]:
        value = row[x]
        if not by_x or value is None:
            return (False,)
        return (True, True) if math.isnan(value) else (True, False, value)

    taken = {row[key]: row for row in sorted(source, key=order)}
    changing = [node.key for node in now.columns if columns is None or node.name in columns]
    rows: list[Row] = []
    updates = deletes = 0
    for row, wanted in zip(now.rows, chosen, strict=True):
        new = taken.get(row[key])
        if not wanted or (new is None and strategy != "full_merge") or (new is not None and strategy == "insert"):
            rows.append(row)
        elif new is None:
            deletes += 1
        else:
            updates += 1
            rows.append({**row, **{node: new[node] for node in changing}})
    known = {row[key] for row in now.rows}
    inserts = [row for row in taken.values() if row[key] not in known and strategy != "update"]
    return now.with_rows(rows + inserts), (len(inserts), updates, deletes)


@dataclass(frozen=True)
class Clause:
    """One WHEN … THEN, as SQL has it and as Python has it."""

    text: str | None
    """None for all rows."""
    holds: Callable[[Shown], bool | None]
    """On a row of the table and one of the source, by `t.x` and `s.x`."""
    action: str
    values: dict[str, str] | None = None
    """As they are written; None for all."""
    computed: Callable[[Shown], Shown] = dict
    """The columns that the values set."""


def merged_by_clauses(
    now: Version,
    source: Sequence[Shown],
    on: Callable[[Shown], bool | None],
    clauses: dict[str, list[Clause]],
) -> tuple[Version, tuple[int, int, int]]:
    """The rows after a merge by clauses, and the counts; raises `Refused` where no table can take it."""
    rows: list[Row] = []
    met: set[int] = set()
    counts = {"insert": 0, "update": 0, "delete": 0}
    for row, old in zip(now.rows, now.shown(), strict=True):
        found = [n for n, new in enumerate(source) if new["key"] == old["id"] and on(_both(old, new)) is True]
        met.update(found)
        taken = [(_first(clauses["matched"], old, source[n]), source[n]) for n in found]
        if not found:
            taken = [(_first(clauses["by_source"], old, {}), {})]
        changes = [(clause, new) for clause, new in taken if clause is not None and clause.action != "nothing"]
        if changes and len(found) > 1:
            raise Refused
        if not changes:
            rows.append(row)
            continue
        clause, new = changes[0]
        counts[clause.action] += 1
        if clause.action == "update":
            rows.append({**row, **_stored(_values(clause, now, old, new), now)})
    for number, new in enumerate(source):
        insert = None if number in met else _first(clauses["not_matched"], {}, new)
        if insert is None or insert.action == "nothing":
            continue
        values = _values(insert, now, {}, new)
        if insert.values is None:
            values["id"] = new["key"]
        if values["id"] is None:
            raise Refused
        counts["insert"] += 1
        rows.append({**{node.key: node.default for node in now.columns}, **_stored(values, now)})
    return now.with_rows(rows), (counts["insert"], counts["update"], counts["delete"])


def _both(old: Shown, new: Shown) -> Shown:
    return {f"t.{name}": value for name, value in old.items()} | {f"s.{name}": value for name, value in new.items()}


def _first(clauses: Sequence[Clause], old: Shown, new: Shown) -> Clause | None:
    both = _both(old, new)
    return next((clause for clause in clauses if clause.holds(both) is True), None)


def _values(clause: Clause, now: Version, old: Shown, new: Shown) -> Shown:
    if clause.values is not None:
        return clause.computed(_both(old, new))
    return {node.name: new[node.name] for node in now.columns if node.name in new}


def _stored(values: Shown, now: Version) -> Row:
    return {now.node(name).key: value for name, value in values.items()}
