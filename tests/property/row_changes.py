"""Changes of rows, drawn at random, made to a table and to the model beside it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from rows_model import (
    Clause,
    Node,
    Refused,
    Row,
    Shown,
    Version,
    above,
    merged,
    merged_by_clauses,
    plus,
    schema_of,
    show,
    updated,
)

from parqlake import errors
from parqlake.core.merging import DuplicateKeysWarning
from parqlake.core.predicates import parse
from parqlake.testing.truth import truths

WHERES = ["id < 3", "id between 2 and 4", "region = 'eu'", "region is null", "x > 1", "not (region = 'eu')", "isnan(x)"]
WHERES += ["n = 1", "n is null or id = 4", "true", "false"]
Draw = Callable[[st.SearchStrategy[Any]], Any]
Counts = tuple[int, int, int]
"""Rows inserted, updated and deleted."""
engines = st.sampled_from(["pyarrow", "pyarrow", "duckdb"])


@dataclass(frozen=True)
class Edit:
    """A call on a table, or on one inside a transaction, and what it means for the model."""

    call: Callable[[Any], Any]
    model: Callable[[Version], tuple[Version, Counts | None]]
    """Raises `Refused` where no table can take it. The counts are those that the call has to tell; None for none."""

    def run(self, table: Any, now: Version) -> tuple[Version, bool]:
        """Makes the change; returns the model afterwards, and whether there has to be a new version."""
        try:
            after, counts = self.model(now)
        except Refused:
            with pytest.raises(errors.ConstraintError):
                self.call(table)
            return now, False
        told = self.call(table)
        if counts is None:
            return after, True
        if isinstance(told, int):  # delete and update inside a transaction
            assert told == sum(counts)
        else:
            assert tuple(getattr(told, name, 0) for name in ("inserted", "updated", "deleted")) == counts
            assert getattr(told, "total", len(after.rows)) == len(after.rows)
        return after, any(counts)


@dataclass(frozen=True)
class Where:
    """A condition as a call takes it, and the rows of a version that it selects."""

    asked: Any
    chosen: Callable[[Version], list[bool]]


def draw_where(draw: Draw, now: Version) -> Where:
    """A condition on columns that there are."""
    if draw(st.booleans()):
        parsed = parse(draw(st.sampled_from(WHERES)))
        return Where(parsed, lambda version: [truth is True for truth in truths(parsed, version.table())])
    path, node, value = draw(st.sampled_from([leaf for leaf in now.leaves() if leaf[0] != "x"]))
    wanted = draw(st.sampled_from([None, *(v for v in node.values if v is not None)]))
    if wanted is None:
        return Where(f"{path} is null", lambda version: [value(row) is None for row in version.shown()])
    return Where(
        [(path, ">=", wanted)],
        lambda version: [value(row) is not None and value(row) >= wanted for row in version.shown()],
    )


def draw_rows(draw: Draw, columns: Sequence[Node], *, most: int = 6) -> list[Row]:
    """Rows of these columns."""
    strategy = st.fixed_dictionaries({node.key: _values_of(node) for node in columns})
    return draw(st.lists(strategy, max_size=most))  # type: ignore[no-any-return]


def _values_of(node: Node) -> st.SearchStrategy[Any]:
    if node.inner:
        return st.none() | st.fixed_dictionaries({inner.key: _values_of(inner) for inner in node.inner})
    return st.sampled_from(node.values)


def data_of(columns: Sequence[Node], rows: Sequence[Row]) -> pa.Table:
    """Rows as a call takes them."""
    return pa.Table.from_pylist([show(row, columns) for row in rows], schema_of(columns))


def append(now: Version, draw: Draw) -> Edit:
    """Adds rows, in several files and row groups."""
    rows, engine = draw_rows(draw, now.columns), draw(engines)
    data = data_of(now.columns, rows)
    return Edit(
        lambda table: table.append(data, max_rows_per_file=3, row_group_size=2, engine=engine),
        lambda version: (version.with_rows(version.rows + rows), None),
    )


def overwrite(now: Version, draw: Draw) -> Edit:
    """Replaces what a condition selects."""
    where, engine = draw_where(draw, now), draw(engines)
    drawn = draw_rows(draw, now.columns, most=4)
    rows = [row for row, fits in zip(drawn, where.chosen(now.with_rows(drawn)), strict=True) if fits]
    data = data_of(now.columns, rows)
    return Edit(
        lambda table: table.overwrite(data, where=where.asked, engine=engine),
        lambda version: (version.with_rows(_others(version, where) + rows), None),
    )


def delete(now: Version, draw: Draw) -> Edit:
    """Deletes what a condition selects."""
    where, engine = draw_where(draw, now), draw(engines)

    def model(version: Version) -> tuple[Version, Counts]:
        kept = _others(version, where)
        return version.with_rows(kept), (0, 0, len(version.rows) - len(kept))

    return Edit(lambda table: table.delete(where.asked, engine=engine), model)


def _others(version: Version, where: Where) -> list[Row]:
    return [row for row, chosen in zip(version.rows, where.chosen(version), strict=True) if not chosen]


def update(now: Version, draw: Draw) -> Edit:
    """Sets columns: computed, to a value, or to another column."""
    where, engine = draw_where(draw, now), draw(engines)
    other = {"eu": "us", "us": None}
    setting: dict[str, Any] = {
        "x": "coalesce(x, 0) + id",
        "region": "case when region = 'eu' then 'us' when region is null then 'eu' end",
    }
    values: dict[str, Callable[[Shown], Any]] = {
        "x": lambda row: (row["x"] or 0.0) + row["id"],
        "region": lambda row: "eu" if row["region"] is None else other.get(row["region"]),
    }
    if draw(st.booleans()):
        plain = [node for node in now.columns if not node.inner and node.name not in setting]
        column = draw(st.sampled_from(plain))
        same = [node.name for node in plain if node.kind == column.kind and column.nullable]
        name, value = draw(st.sampled_from([*((None, v) for v in column.values), *((name, None) for name in same)]))
        literal = f"'{value}'" if isinstance(value, str) else value
        setting = {column.name: literal if name is None else name}
        values = {column.name: lambda row: value if name is None else row[name]}

    def model(version: Version) -> tuple[Version, Counts]:
        chosen = where.chosen(version)
        after = updated(version, chosen, {version.node(name).key: value for name, value in values.items()})
        return after, (0, sum(chosen), 0)

    return Edit(lambda table: table.update(where.asked, setting, engine=engine), model)


def merge(now: Version, draw: Draw) -> Edit:
    """Merges by some strategy, with whatever options."""
    where = draw_where(draw, now) if draw(st.booleans()) else None
    rows = draw_rows(draw, now.columns)
    strategy = draw(st.sampled_from(["upsert", "insert", "update", "full_merge", "deduplicate"]))
    others = [node.name for node in now.columns if node.name != "id"]
    columns = draw(st.none() | st.lists(st.sampled_from(others), min_size=1, max_size=2, unique=True))
    by_x = draw(st.booleans())
    data = data_of(draw(st.permutations(now.columns)), rows)
    options: dict[str, Any] = {
        "where": None if where is None else where.asked,
        "update_columns": columns,
        "dedup_order_by": "x" if by_x else None,
        "memory_limit": draw(st.sampled_from([None, 100])),
        "engine": draw(engines),
    }

    def call(table: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DuplicateKeysWarning)
            return table.merge(data, ["id"], strategy, **options)

    def model(version: Version) -> tuple[Version, Counts]:
        chosen = [True] * len(version.rows) if where is None else where.chosen(version)
        return merged(version, rows, strategy, chosen, columns=columns, by_x=by_x)

    return Edit(call, model)


ALWAYS: Callable[[Shown], bool] = lambda _: True  # noqa: E731
MATCHED = [
    Clause("s.op = 'D'", lambda r: r["s.op"] == "D", "delete"),
    Clause("s.x > t.x", lambda r: above(r["s.x"], r["t.x"]), "update"),
    Clause("t.region = 'eu' and s.op is null", lambda r: r["t.region"] == "eu" and r["s.op"] is None, "nothing"),
    Clause(
        "t.id > 2",
        lambda r: r["t.id"] > 2,
        "update",
        {"x": "coalesce(t.x, 0) + s.x", "region": "s.op", "n": "t.n"},
        lambda r: {"x": plus(0.0 if r["t.x"] is None else r["t.x"], r["s.x"]), "region": r["s.op"], "n": r["t.n"]},
    ),
    Clause(None, ALWAYS, "update"),
    Clause(None, ALWAYS, "delete"),
]
NOT_MATCHED = [
    Clause("op = 'I'", lambda r: r["s.op"] == "I", "insert"),
    Clause("s.x is null", lambda r: r["s.x"] is None, "nothing"),
    Clause(
        "s.op is not null",
        lambda r: r["s.op"] is not None,
        "insert",
        {"id": "s.key", "region": "s.op"},
        lambda r: {"id": r["s.key"], "region": r["s.op"]},
    ),
    Clause(None, ALWAYS, "insert"),
]
BY_SOURCE = [
    Clause(
        "t.region is null",
        lambda r: r["t.region"] is None,
        "update",
        {"region": "'eu'"},
        lambda _: {"region": "eu"},
    ),
    Clause("t.n = 1", lambda r: r["t.n"] == 1, "nothing"),
    Clause("id > 5", lambda r: r["t.id"] > 5, "delete"),
    Clause(None, ALWAYS, "update", {"x": "t.x + 1"}, lambda r: {"x": plus(r["t.x"], 1)}),
    Clause(None, ALWAYS, "delete"),
]
ONS: list[tuple[str, Callable[[Shown], bool | None]]] = [
    ("t.id = s.key", ALWAYS),
    ("s.key = t.id and s.op <> 'U'", lambda r: r["s.op"] not in ("U", None)),
    ("t.id = s.key and s.x > t.x", lambda r: above(r["s.x"], r["t.x"])),
]


def _some(draw: Draw, known: list[Clause]) -> list[Clause]:
    found: list[Clause] = draw(st.lists(st.sampled_from(known), max_size=3, unique_by=id))
    last = [clause for clause in found if clause.text is None]
    return [clause for clause in found if clause.text is not None] + last[:1]


def clauses(now: Version, draw: Draw) -> Edit:
    """Merges by some clauses."""
    chosen = {"matched": _some(draw, MATCHED), "not_matched": _some(draw, NOT_MATCHED)}
    chosen["by_source"] = _some(draw, BY_SOURCE)
    if not any(chosen.values()):
        chosen["matched"] = MATCHED[-1:]
    named = [node for node in now.columns if not node.is_fixed and not node.inner]
    also = draw(st.none() | st.sampled_from(named)) if named else None
    text, on = draw(st.sampled_from(ONS))
    keys = st.lists(st.sampled_from([None, *range(9)]), max_size=6, unique=draw(st.sampled_from([True, True, False])))
    fields = [("key", now.node("id").type), ("op", pa.string()), ("x", pa.float64())]
    values: dict[str, Any] = {"op": st.sampled_from([None, *"DIU"]), "x": st.sampled_from([None, 0.0, 1.0, math.nan])}
    if also is not None:
        fields.append((also.name, also.type))
        values[also.name] = st.sampled_from(also.values)
    source = [{"key": key, **draw(st.fixed_dictionaries(values))} for key in draw(keys)]
    data = pa.Table.from_pylist(source, pa.schema(fields))
    options = {"engine": draw(engines), "memory_limit": draw(st.sampled_from([None, 100]))}

    def call(table: Any) -> Any:
        begun = table.merge(data, on=text, **options)
        for when, ones in chosen.items():
            for clause in ones:
                name = "when_not_matched_by_source" if when == "by_source" else f"when_{when}"
                waiting = getattr(begun, name)(clause.text)
                do = getattr(waiting, "do_nothing" if clause.action == "nothing" else clause.action)
                begun = do(clause.values) if clause.action in ("update", "insert") else do()
        return begun.run()

    return Edit(call, lambda version: merged_by_clauses(version, source, on, chosen))


EDITS: list[Callable[[Version, Draw], Edit]] = [append, overwrite, delete, update, merge, clauses]
