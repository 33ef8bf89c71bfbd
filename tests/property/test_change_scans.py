"""Changes between any two versions are what a plain model says, whatever was done to the table in between."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from parqlake import Lake
from parqlake.testing.data import bag

NUMBERS = itertools.count()
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64())])
Row = tuple[int | None, float | None]
ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, float("nan"), 0.0, 1.0])), min_size=1, max_size=5
)
KEY = st.sampled_from([1, 2, 3])
STEPS = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("delete"), KEY),
    st.tuples(st.just("update"), KEY),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("restore"), st.integers(1, 5)),
)


@settings(max_examples=20)
@given(first=ROWS, steps=st.lists(STEPS, min_size=1, max_size=5), ends=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_changes_are_those_of_the_model(
    shared_lake: Lake, first: list[Row], steps: list[tuple[str, object]], ends: tuple[int, int]
) -> None:
    table = shared_lake.create_table(f"changes.t{next(NUMBERS)}", SCHEMA)
    table.append(_table(first))
    for name, argument in steps:
        match name:
            case "append" | "overwrite":
                getattr(table, name)(_table(argument), max_rows_per_file=2)
            case "delete":
                table.delete(f"id = {argument}")
            case "update":
                table.update(f"id = {argument}", set={"x": "coalesce(x, 0.0) + 1"})
            case "compact":
                table.compact()
            case "restore":
                table.restore(min(int(str(argument)), table.version))
    start, end = sorted(min(number, table.version) for number in ends)
    states = [bag(table.scan(version=version).to_arrow()) for version in range(table.version + 1)]
    gone, come = states[start] - states[end], states[end] - states[start]
    told = _told(table.changes(start, end).to_arrow())
    assert (told.get("delete", Counter()), told.get("insert", Counter())) == (gone, come)
    told = _told(table.changes(start, end, keys=["id"], before=True).to_arrow())
    assert _joined(told, "delete", "update_before") == gone
    assert _joined(told, "insert", "update") == come
    pairs = Counter(key for key, _ in gone.elements()) & Counter(key for key, _ in come.elements())
    assert told.get("update", Counter()).total() == pairs.total()
    by_version = table.changes(start, end, per_version=True).to_arrow()
    for version in range(start + 1, end + 1):
        rows = by_version.filter(pc.equal(by_version["_version"], version))
        told = _told(rows)
        assert told.get("delete", Counter()) == states[version - 1] - states[version]
        assert told.get("insert", Counter()) == states[version] - states[version - 1]


def _table(rows: object) -> pa.Table:
    assert isinstance(rows, list)
    return pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA)


def _told(changes: pa.Table) -> dict[str, Counter[tuple[object, ...]]]:
    found: dict[str, Counter[tuple[object, ...]]] = {}
    for (key, x, word), count in bag(changes.select(["id", "x", "_change"])).items():
        found.setdefault(str(word), Counter())[key, x] += count
    return found


def _joined(told: dict[str, Counter[tuple[object, ...]]], *words: str) -> Counter[tuple[object, ...]]:
    return sum((told.get(word, Counter()) for word in words), Counter())
