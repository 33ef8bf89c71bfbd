"""Two changes at once: one is made between the work and the commit of the other, and the result is a serial one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.table import rerunning
from parqlake.table.unit import Unit
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ids
from parqlake.testing.plugin import Feed

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.string()), ("v", pa.int64())])
WIDE = pa.schema([*SCHEMA, pa.field("w", pa.int32()), pa.field("n", pa.int32()), pa.field("u", pa.string())])
Row = dict[str, Any]
Visitor = Callable[[WrittenFile], None]


def _data(rows: list[tuple[int, str, int]]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "part": p, "v": v} for i, p, v in rows], SCHEMA)


def _rows(*given: tuple[int, str, int]) -> list[Row]:
    return [{"id": i, "part": p, "v": v, "w": i % 3, "n": i, "u": f"u{v}"} for i, p, v in given]


@dataclass(frozen=True)
class State:
    """Columns by what they were first called, with name and type; and rows by the same."""

    columns: dict[str, tuple[str, pa.DataType]]
    rows: list[Row]

    def shown(self) -> tuple[dict[str, pa.DataType], Counter[Any]]:
        """What a reader sees; a column that came later holds its default."""
        rows = Counter(tuple(row.get(key, "none") for key in self.columns) for row in self.rows)
        return dict(self.columns.values()), rows

    def having(self, rows: list[Row]) -> State:
        return replace(self, rows=rows)


def _seen(table: Table) -> tuple[dict[str, pa.DataType], Counter[Any]]:
    found = table.scan().to_arrow()
    rows = Counter(tuple(row.values()) for row in found.to_pylist())
    return {field.name: field.type for field in found.schema}, rows


class Impossible(Exception):  # noqa: N818  (an outcome, not a failure)
    """The call makes no sense on that state, and is refused."""


@dataclass(frozen=True)
class Change:
    """A call, and what it means for plain rows and columns."""

    run: Callable[[Table], Any]
    model: Callable[[State], State]


def _merged(state: State, source: list[Row], *, updates: bool = True) -> State:
    new = {row["id"]: row for row in source}
    known = {row["id"] for row in state.rows}
    rows = [{**row, **new.get(row["id"], {})} if updates else row for row in state.rows]
    return state.having(rows + [row for row in source if row["id"] not in known])


def _synced(state: State) -> State:
    keys = {row["id"] for row in SYNCED}
    return _merged(state.having([r for r in state.rows if not 4 <= r["id"] <= 7 or r["id"] in keys]), SYNCED)


def _by_clauses(state: State) -> State:
    """Deletes 3, sets what 5 and 50 have too, inserts 70 by the names that columns have now."""
    names = {name: key for key, (name, _) in state.columns.items()}
    given = {names[name]: -7 for name in ("v", "w") if name in names}
    rows = [{**row, **given} if row["id"] in (5, 50) else row for row in state.rows if row["id"] != 3]
    known = {row["id"] for row in state.rows}
    empty: Row = {"part": None, "v": None, "w": None, "n": None, "u": None}
    return state.having(rows + [{**empty, "id": key, **given} for key in (5, 50, 70) if key not in known])


def _having(key: str, name: str, type_: pa.DataType) -> Callable[[State], State]:
    """A column that is there, or is called so already, cannot become so."""

    def change(state: State) -> State:
        if state.columns.get(key) == (name, type_):
            raise Impossible
        return replace(state, columns={**state.columns, key: (name, type_)})

    return change


def _dropped(state: State) -> State:
    if "u" not in state.columns:
        raise Impossible
    return replace(state, columns={key: value for key, value in state.columns.items() if key != "u"})


FIRST = _rows(*((i, "a", i * 7 % 10) for i in range(3)))
START = FIRST + _rows(*((i, "a" if i < 6 else "b", i * 7 % 10) for i in range(3, 10)))
APPENDED = _rows((5, "a", -1), (50, "c", -1))
MERGED = _rows((5, "a", 1000), (7, "a", 1000), (50, "c", 1000))
REPLACED = _rows((6, "b", 600), (60, "b", 600))
SYNCED = _rows((5, "a", 77), (6, "b", 77))
STREAM = pa.table(
    {"key": [3, 5, 50, 70], "op": ["D", "U", "U", "U"], "v": pa.array([-7] * 4), "w": pa.array([-7] * 4, pa.int32())}
)
BEGUN = State({field.name: (field.name, field.type) for field in WIDE}, START)


def _wide(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, WIDE)


def _run_clauses(table: Table) -> Any:
    begun = table.merge(STREAM, on="t.id = s.key").when_matched("s.op = 'D'").delete().when_matched().update()
    return begun.when_not_matched("s.op = 'U'").insert().run()


CHANGES: dict[str, Change] = {
    "append": Change(lambda t: t.append(_wide(APPENDED)), lambda state: state.having(state.rows + APPENDED)),
    "upsert": Change(lambda t: t.merge(_wide(MERGED), on="id"), lambda state: _merged(state, MERGED)),
    "insert": Change(
        lambda t: t.merge(_wide(MERGED), on="id", strategy="insert"),
        lambda state: _merged(state, MERGED, updates=False),
    ),
    "sync": Change(
        lambda t: t.merge(_wide(SYNCED), on="id", strategy="full_merge", where="id between 4 and 7"), _synced
    ),
    "clauses": Change(_run_clauses, _by_clauses),
    "delete": Change(
        lambda t: t.delete("v in (4, 5, -1)"),
        lambda state: state.having([row for row in state.rows if row["v"] not in (4, 5, -1)]),
    ),
    "update": Change(
        lambda t: t.update("id between 5 and 7 or id = 50", {"v": "v * 2", "part": "'b'"}),
        lambda state: state.having(
            [
                {**row, "v": row["v"] * 2, "part": "b"} if 5 <= row["id"] <= 7 or row["id"] == 50 else row
                for row in state.rows
            ]
        ),
    ),
    "overwrite": Change(
        lambda t: t.overwrite(_wide(REPLACED), where="id >= 6 and part = 'b'"),
        lambda state: state.having([r for r in state.rows if not (r["id"] >= 6 and r["part"] == "b")] + REPLACED),
    ),
    "replace": Change(lambda t: t.overwrite(_wide(REPLACED)), lambda state: state.having(REPLACED)),
    "restore": Change(lambda t: t.restore(1), lambda _: State(BEGUN.columns, FIRST)),
    "compact": Change(lambda t: t.compact(), lambda state: state),
    "optimize": Change(lambda t: t.optimize(["v"], target_rows_per_file=3), lambda state: state),
    "add_column": Change(
        lambda t: t.add_column("note", pa.string(), default="none"), _having("note", "note", pa.string())
    ),
    "drop_column": Change(lambda t: t.drop_column("u"), _dropped),
    "rename_column": Change(lambda t: t.rename_column("w", "width"), _having("w", "width", pa.int32())),
    "widen_column": Change(
        lambda t: t.widen_column("n", pa.int64()),
        lambda state: replace(state, columns={**state.columns, "n": ("n", pa.int64())}),
    ),
}


@pytest.fixture
def other(place: LakePlace, lake: Lake) -> Iterator[Lake]:
    """A second connection to the same lake."""
    with place.connect() as opened:
        yield opened


def _once(action: Callable[[], Any]) -> tuple[Visitor, list[str]]:
    """A visitor that acts when the first file was written; and what it saw."""
    seen: list[str] = []

    def visit(file: WrittenFile) -> None:
        seen.append(file.path)
        if len(seen) == 1:
            action()

    return visit, seen


def _with_another(
    monkeypatch: pytest.MonkeyPatch, table: Table, change: Change, beside: Table, another: Change
) -> errors.ParqlakeError | None:
    """Runs a change, and another one when its work is done and its commit about to begin; returns its error."""
    commit = Unit.commit
    others = [another]

    def second(unit: Unit, changes: Any) -> Any:
        while others:
            others.pop().run(beside)
        return commit(unit, changes)

    with monkeypatch.context() as patch:
        patch.setattr(Unit, "commit", second)
        try:
            change.run(table)
        except errors.ParqlakeError as error:
            return error
        finally:
            assert not others
    return None


@pytest.fixture
def seconds(first: str, backend: Backend, pytestconfig: pytest.Config) -> dict[str, Change]:
    """What a change meets: all changes; on other engines and catalogs than the first, in turn, each eighth."""
    if backend == Backend() or pytestconfig.getoption("--matrix") != "turns":
        return CHANGES
    turn = list(CHANGES).index(first)
    return {name: change for number, (name, change) in enumerate(CHANGES.items()) if (number + turn) % 8 == 0}


@pytest.mark.parametrize("first", CHANGES)
def test_the_result_is_that_of_one_after_the_other(
    first: str, place: LakePlace, other: Lake, seconds: dict[str, Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.backend.store == "memory":
        pytest.skip("who is in whose way is for the catalog to say: one store stands for all")
    change = CHANGES[first]
    with place.connect() as lake:
        table = lake.create_table("sales.pairs", WIDE, partition_by=["part"])
        table.append(_wide(FIRST))
        table.append(_wide(START[3:]))
        beside = other.table("sales.pairs")
        for second, another in seconds.items():
            begun = table.restore(2).version
            refused = _with_another(monkeypatch, table, change, beside, another)
            possible = []
            for order in ((change, another), (another, change)):
                with suppress(Impossible):
                    possible.append(order[1].model(order[0].model(BEGUN)).shown())
            assert (refused is None) == bool(possible), (first, second, refused)
            assert _seen(table) in (possible or [another.model(BEGUN).shown()]), (first, second)
            assert sum(table.files().column("row_count").to_pylist()) == table.history(1)[0].row_count
            assert begun < table.version <= begun + 2


@pytest.mark.slow
@pytest.mark.engine_work
@pytest.mark.parametrize("strategy", ["upsert", "insert"])
def test_rows_that_only_the_engine_sees_meet_others(
    strategy: str, lake: Lake, place: LakePlace, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of a Spark frame are known when the merge is done, and not before."""
    table = lake.create_table("sales.pairs", WIDE, partition_by=["part"])
    table.append(_wide(FIRST))
    table.append(_wide(START[3:]))
    frame = feed(_wide(MERGED))
    change = Change(lambda t: t.merge(frame, on="id", strategy=strategy), CHANGES[strategy].model)
    with place.connect(engine="pyarrow") as other:
        for second in ("append", "insert", "update", "overwrite", "compact"):
            table.restore(2)
            beside, another = other.table("sales.pairs"), CHANGES[second]
            assert _with_another(monkeypatch, table, change, beside, another) is None
            orders = ((change, another), (another, change))
            assert _seen(table) in [last.model(first.model(BEGUN)).shown() for first, last in orders], second
        table.restore(2)
        new = Change(lambda t: t.append(frame), lambda state: state.having(state.rows + MERGED))
        renamed = CHANGES["rename_column"]
        assert _with_another(monkeypatch, table, new, other.table("sales.pairs"), renamed) is None
        assert _seen(table) == renamed.model(new.model(BEGUN)).shown()


def test_rows_that_cannot_be_had_under_the_new_schema_are_refused(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended = _wide([{**APPENDED[0], "w": None}])
    both = pa.concat_tables([appended], promote_options="none").append_column("y", pa.array([1], pa.int64()))
    cases: dict[str, tuple[Callable[[Table], Any], Callable[[Table], Any], type[Exception]]] = {
        "null": (lambda t: t.append(appended), lambda t: t.set_nullable("w", False), errors.ConstraintError),
        "check": (lambda t: t.append(appended), lambda t: t.add_check("c", "v >= 0"), errors.ConstraintError),
        "twice": (
            lambda t: t.append(both.rename_columns([*WIDE.names, "z"]), schema_mode="merge"),
            lambda t: t.add_column("y", pa.int64()),
            errors.ConcurrentSchemaChangeError,
        ),
        "where": (
            lambda t: t.overwrite(_wide(REPLACED), where="w >= 0"),
            lambda t: (t.drop_column("w"), t.add_column("w", pa.int32())),
            errors.InputError,
        ),
        "restored": (lambda t: t.append(both), lambda t: t.restore(1), errors.ConcurrentSchemaChangeError),
        "merged": (lambda t: t.merge(both, on="id"), lambda t: t.restore(1), errors.ConcurrentSchemaChangeError),
    }
    for name, (run, another, error) in cases.items():
        table = lake.create_table(f"pairs.{name}", WIDE)
        table.append(_wide(START))
        if name in ("restored", "merged"):
            table.add_column("y", pa.int64())
        found = _with_another(
            monkeypatch, table, Change(run, dict), other.table(f"pairs.{name}"), Change(another, dict)
        )
        assert isinstance(found, error), (name, found)
        assert ids(table.scan().to_arrow()) == list(range(10)), name


@pytest.fixture
def ranges(lake: Lake) -> Table:
    """Ids 0 to 9 and 100 to 109, in a file each."""
    table = lake.create_table("sales.ranges", SCHEMA, partition_by=["part"])
    table.append(_data([(i, "a", i) for i in range(10)]))
    table.append(_data([(i, "b", i) for i in range(100, 110)]))
    return table


def test_merges_of_other_keys_and_partitions_both_commit_at_once(ranges: Table, other: Lake) -> None:
    beside = other.table("sales.ranges")
    visit, seen = _once(lambda: beside.merge(_data([(105, "b", -1), (120, "b", -1)]), on="id"))
    ranges.merge(_data([(5, "a", -2), (11, "a", -2)]), on="id", file_visitor=visit)
    assert len(seen) == 2  # one file rewritten, one inserted, nothing done twice
    visit, seen = _once(lambda: beside.delete("part = 'b' and id < 103"))
    ranges.update("part = 'a' and id < 3", {"v": "0"}, file_visitor=visit)
    assert len(seen) == 1
    assert ids(ranges.scan("v < 0").to_arrow()) == [5, 11, 105, 120]
    assert ranges.version == 6


def test_a_new_key_that_two_merges_insert_is_there_once(ranges: Table, other: Lake) -> None:
    beside = other.table("sales.ranges")
    visit, seen = _once(lambda: beside.merge(_data([(55, "c", 1)]), on="id"))
    result = ranges.merge(_data([(55, "c", 2)]), on="id", file_visitor=visit)
    assert (result.inserted, result.updated, len(seen)) == (0, 1, 2)
    visit, seen = _once(lambda: beside.merge(_data([(56, "c", 1)]), on="id", strategy="insert"))
    result = ranges.merge(_data([(56, "c", 2)]), on="id", strategy="insert", file_visitor=visit)
    assert (result.inserted, result.updated, len(seen)) == (0, 0, 1)
    assert ranges.scan("id in (55, 56)").to_arrow().sort_by("id").column("v").to_pylist() == [2, 1]


def test_what_was_looked_for_and_not_found_is_part_of_what_was_read(lake: Lake, ranges: Table, other: Lake) -> None:
    with pytest.raises(errors.ConcurrentAppendError), lake.transaction() as tx:
        inside = tx.table("sales.ranges")
        assert inside.delete("id = 77") == 0
        inside.append(_data([(77, "c", 1)]))
        other.table("sales.ranges").append(_data([(77, "c", 2)]))
    assert ranges.scan("id = 77").to_arrow().column("v").to_pylist() == [2]
    with pytest.raises(errors.ConflictError), lake.transaction() as tx:
        assert tx.table("sales.ranges").merge(_data([(78, "c", 1)]), on="id").inserted == 1
        other.table("sales.ranges").merge(_data([(78, "c", 2)]), on="id")
    assert ranges.scan("id = 78").to_arrow().column("v").to_pylist() == [2]


def test_a_stream_that_can_be_read_once_serves_every_run(ranges: Table, other: Lake) -> None:
    beside = other.table("sales.ranges")
    wide = _data([(i, "c", i) for i in range(1000, 9000)])
    stream = pa.RecordBatchReader.from_batches(SCHEMA, iter(wide.to_batches(max_chunksize=500)))
    visit, seen = _once(lambda: beside.append(_data([(1500, "c", -1), (5, "a", -1)])))
    result = ranges.merge(stream, on="id", memory_limit="64KB", file_visitor=visit)
    assert (result.inserted, result.updated, len(seen) > 1) == (7999, 1, True)
    assert ranges.scan("id >= 1000").count() == 8000
    assert ids(ranges.scan("id = 5").to_arrow()) == [5, 5]


def test_a_change_that_always_meets_another_gives_up_in_the_end(
    ranges: Table, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerunning, "MAX_RERUNS", 4)
    beside = other.table("sales.ranges")
    calls = 0

    def always(_: WrittenFile) -> None:
        nonlocal calls
        calls += 1
        beside.append(_data([(5, "a", calls)]))

    with pytest.raises(errors.ConcurrentAppendError, match="repeat the operation"):
        ranges.update("id = 5 and v > 0", {"v": "-1"}, file_visitor=always)
    assert calls == 4
    assert ranges.scan("v = -1").count() == 0
    assert ids(ranges.scan("id = 5").to_arrow()) == [5] * 5
