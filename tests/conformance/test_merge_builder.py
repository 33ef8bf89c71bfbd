"""What SQL's MERGE says with clauses: the first clause that is TRUE takes the row, the same way on every engine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ORDERS, bag, ids, orders, rows, state
from parqlake.testing.plugin import Feed, Read

Row = dict[str, Any]
STOCK = pa.schema(
    [("id", pa.int64()), pa.field("part", pa.string()), pa.field("amount", pa.int64()), pa.field("note", pa.string())]
)
CHANGES = pa.schema([("key", pa.int64()), ("op", pa.string()), ("part", pa.string()), ("amount", pa.int64())])


def _stock(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(STOCK.names, row, strict=True)) for row in given], schema=STOCK)


def _changes(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in given], schema=CHANGES)


def _counts(result: Any) -> tuple[int, int, int, int]:
    return result.inserted, result.updated, result.deleted, result.total


def _bag(found: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in STOCK.names) for row in found)


def _replayed(stock: list[Row], changes: list[Row]) -> tuple[list[Row], tuple[int, int, int]]:
    """What `_stream` should leave, row by row, and how many rows it inserts, updates and deletes."""
    by_key = {row["key"]: row for row in changes if row["key"] is not None}
    left: list[Row] = []
    updated = deleted = 0
    for old in stock:
        row = old
        change = by_key.get(row["id"]) if row["id"] is not None else None
        if change is None:
            if (row["amount"] or 0) > 90:
                updated += 1
                row = {**old, "note": "old"}
        elif change["op"] == "D":
            deleted += 1
            continue
        elif change["op"] == "U":
            updated += 1
            total = None if row["amount"] is None or change["amount"] is None else row["amount"] + change["amount"]
            row = {**old, "amount": total, "part": change["part"]}
        left.append(row)
    known = {row["id"] for row in stock}
    new = [c for c in changes if (c["key"] is None or c["key"] not in known) and c["op"] in ("I", "U")]
    left += [{"id": c["key"], "part": c["part"], "amount": c["amount"], "note": None} for c in new]
    return left, (len(new), updated, deleted)


def _stream(table: Table, changes: Any, **options: Any) -> Any:
    return (
        table.merge(changes, on="t.id = s.key", **options)
        .when_matched("s.op = 'D'")
        .delete()
        .when_matched("s.op = 'U'")
        .update(set={"amount": "t.amount + s.amount", "part": "s.part"})
        .when_not_matched("op in ('I', 'U')")
        .insert()
        .when_not_matched_by_source("amount > 90")
        .update(set={"note": "'old'"})
        .run()
    )


@pytest.mark.engine_work
def test_a_stream_of_changes_leaves_what_it_says(lake: Lake, backend: Backend, feed: Feed, read: Read) -> None:
    chance = random.Random(20261116)
    some = lambda values: chance.choice([*values, None])  # noqa: E731
    stock = [
        {"id": some([i]) if i % 9 == 0 else i, "part": some("ab"), "amount": some(range(100)), "note": f"n{i}"}
        for i in range(300)
    ]
    keys = chance.sample(range(200, 400), 120)
    changes = [
        {"key": key, "op": some("IUD"), "part": some("abc"), "amount": some(range(9))} for key in (*keys, None, None)
    ]
    source = pa.Table.from_pylist(changes, schema=CHANGES)
    table = lake.create_table("sales.stock", STOCK, partition_by=["part"])
    for start in (0, 100, 200):
        table.append(feed(pa.Table.from_pylist(stock[start : start + 100], schema=STOCK)))
    wanted, counts = _replayed(stock, changes)
    assert all(counts)
    result = _stream(table, feed(source), message="stream")
    assert _counts(result) == (*counts, len(wanted))
    assert _bag(read(table.scan()).to_pylist()) == _bag(wanted)
    assert _bag(table.scan(version=3).to_arrow().to_pylist()) == _bag(stock)
    entry = table.history()[0]
    assert (entry.operation, entry.message, entry.row_count) == ("merge", "stream", len(wanted))
    for part in ("a", "b", "c"):  # rows are where their values say, and statistics find them
        assert table.scan(f"part = '{part}'").count() == sum(row["part"] == part for row in wanted)
    if backend.engine == "spark":  # where memory decides on the number of tasks
        return
    # Through local disk, part by part, from a stream that can be read once.
    table.restore(version=3)
    once = pa.RecordBatchReader.from_batches(CHANGES, iter(source.to_batches(max_chunksize=50)))
    assert _counts(_stream(table, once, memory_limit=4096)) == (*counts, len(wanted))
    assert _bag(read(table.scan()).to_pylist()) == _bag(wanted)


@pytest.fixture
def stock(lake: Lake) -> Table:
    """Two files: ids 1 to 3, and 11 to 13."""
    table = lake.create_table("sales.stock", STOCK)
    table.append(_stock((1, "a", 10, "x"), (2, "a", 20, "y"), (3, "b", 30, None)))
    table.append(_stock((11, "a", 110, "x"), (12, "a", 120, "y"), (13, "b", None, None)))
    return table


def _sorted(table: Table) -> list[tuple[Any, ...]]:
    return rows(table.scan().to_arrow().sort_by("id"))


def test_the_first_clause_that_is_true_takes_the_row(stock: Table) -> None:
    changes = _changes((1, "D", "a", 1), (2, "D", None, 2), (3, None, "c", 3), (4, "x", "n", 4), (5, "y", "n", 5))
    before = set(stock.files().column("path").to_pylist())
    result = (
        stock.merge(changes, on="s.key = t.id")
        .when_matched("s.part is null")
        .do_nothing()
        .when_matched("s.op = 'D'")
        .delete()
        .when_matched("s.op <> 'D'")  # unknown for NULL
        .delete()
        .when_matched()
        .update()
        .when_not_matched("op = 'x'")
        .insert(values={"id": "key * 10", "note": "'from ' || op", "amount": None})
        .run()
    )
    assert _counts(result) == (1, 1, 1, 6)
    assert _sorted(stock)[:3] == [(2, "a", 20, "y"), (3, "c", 3, None), (11, "a", 110, "x")]
    assert _sorted(stock)[-1] == (40, None, None, "from x")
    assert len(before & set(stock.files().column("path").to_pylist())) == 1
    # A builder is a value: what is made of it leaves it as it was, and without rows to change there is no version.
    begun = stock.merge(_changes((99, "D", "a", 1)), on="t.id = s.key").when_matched().delete()
    nothing = begun.run()
    assert (_counts(nothing), nothing.version, stock.version) == ((0, 0, 0, 6), 3, 3)
    assert _counts(begun.when_not_matched().insert().run()) == (1, 0, 0, 7)
    assert _counts(begun.run()) == (0, 0, 1, 6)


def test_several_source_rows_for_one_row_are_an_error_where_it_would_change(stock: Table, lake: Lake) -> None:
    twice = _changes(*((key, op, "a", 1) for key in (1, 2, 3, 11, 12, 13, 77) for op in "UD"))
    before = state(lake)
    with pytest.raises(errors.ConstraintError, match="several rows of the source match the same row") as caught:
        stock.merge(twice, on="t.id = s.key").when_matched("s.op = 'D'").delete().run()
    shown = str(caught.value).splitlines()[1:]
    assert 0 < len(shown) <= 6
    assert "id=1" in shown[0]
    assert state(lake) == before
    # Where no clause changes it, or the condition leaves one of them, it is none; each row that matches nothing counts.
    builder = stock.merge(twice, on="t.id = s.key").when_matched("t.amount = 20").do_nothing()
    assert _counts(builder.when_not_matched().insert(values={"id": "key", "part": "op"}).run()) == (2, 0, 0, 8)
    narrow = stock.merge(twice, on="t.id = s.key and s.op = 'U' and t.amount < 25").when_matched().delete()
    assert _counts(narrow.run()) == (0, 0, 2, 6)
    assert ids(stock.scan("id < 50").to_arrow()) == [3, 11, 12, 13]


def test_what_else_on_says_decides_who_matches(stock: Table) -> None:
    changes = _changes((1, "U", "a", 5), (2, "U", "b", 5), (3, "U", "b", 50), (13, "U", "b", 1))
    result = (
        stock.merge(changes, on="t.id = s.key and t.part = s.part and s.amount < t.amount")
        .when_matched("t.amount - s.amount > 4")
        .update(set={"amount": "case when t.note = 'x' then t.amount - s.amount else 0 end", "note": "s.op || t.part"})
        .when_not_matched()
        .insert()
        .when_not_matched_by_source("t.id > 12")
        .delete()
        .run()
    )
    assert _counts(result) == (3, 1, 1, 8)
    wanted = [(1, "a", 5, "Ua"), (2, "a", 20, "y"), (2, "b", 5, None), (3, "b", 30, None), (3, "b", 50, None)]
    wanted += [(11, "a", 110, "x"), (12, "a", 120, "y"), (13, "b", 1, None)]
    assert Counter(_sorted(stock)) == Counter(wanted)


def test_nulls_match_nothing_on_either_side(lake: Lake) -> None:
    table = lake.create_table("sales.stock", STOCK)
    table.append(_stock((None, "a", 1, "x"), (1, "a", 2, "x"), (1, None, 3, "x")))
    changes = _changes((None, "U", "a", 5), (1, "U", None, 6), (1, "U", "a", 7))
    begun = (
        table.merge(changes, on="t.id = s.key and t.part = s.part").when_matched().update(set={"amount": "s.amount"})
    )
    result = begun.when_not_matched().insert().when_not_matched_by_source().delete().run()
    assert _counts(result) == (2, 1, 2, 3)
    assert bag(table.scan().to_arrow()) == bag(_stock((None, "a", 5, None), (1, None, 6, None), (1, "a", 7, "x")))


def test_files_that_hold_no_key_of_the_source_go_unread(stock: Table, place: LakePlace, backend: Backend) -> None:
    begun = stock.merge(_changes((1, "U", "a", 0)), on="t.id = s.key").when_matched().update(set={"amount": 0})
    if backend.store == "local":
        last = stock.files().to_pylist()[-1]["path"]
        (path,) = Path(place.root).rglob(Path(last).name)
        path.write_bytes(b"damaged")
    assert _counts(begun.when_not_matched_by_source().delete().run()) == (0, 1, 5, 1)
    assert _sorted(stock) == [(1, "a", 0, "x")]


def test_rows_without_a_match_in_the_source_are_updated_or_deleted(stock: Table) -> None:
    result = (
        stock.merge(_changes((1, "U", "a", 1)), on="t.id = s.key")
        .when_not_matched_by_source("t.part = 'b' and amount is null")
        .do_nothing()
        .when_not_matched_by_source("t.part = 'b'")
        .update(set={"id": "id + 100", "note": "coalesce(note, 'none')"})
        .when_not_matched_by_source()
        .delete()
        .run()
    )
    assert _counts(result) == (0, 1, 3, 3)
    assert _sorted(stock) == [(1, "a", 10, "x"), (13, "b", None, None), (103, "b", 30, "none")]


def test_evolved_tables_take_defaults_and_new_names(lake: Lake) -> None:
    table = lake.create_table("sales.orders", ORDERS)
    table.append(orders(20))
    table.rename_column("amount", "t")
    table.add_column("s", pa.string(), default="new")
    source = pa.table({"id": [3, 50], "t": [1.5, 2.5], "region": ["x", "y"]})
    result = table.merge(source, on="t.id = s.id").when_matched().update().when_not_matched().insert().run()
    assert _counts(result) == (1, 1, 0, 21)
    found = {row["id"]: row for row in table.scan("id in (3, 4, 50)").to_arrow().to_pylist()}
    assert {row["s"] for row in found.values()} == {"new"}
    assert (found[3]["t"], found[3]["day"], found[4]["t"]) == (1.5, orders(20)["day"][3].as_py(), 2.0)
    assert (found[50]["t"], found[50]["region"], found[50]["day"]) == (2.5, "y", None)
    changed = table.merge(source, on="t.id = s.id").when_matched("t.t > s.t - 1 and t.s = 'new'")
    assert _counts(changed.update(set={"t": "t.t + s.t", "s": "s.region || t.s"}).run()) == (0, 2, 0, 21)
    assert table.scan("id = 3", columns=["t", "s"]).to_arrow().to_pylist() == [{"t": 3.0, "s": "xnew"}]


def _update(on: str = "t.id = s.key", **values: Any) -> Callable[[Table], Any]:
    return lambda table: table.merge(_changes((1, "U", "a", 5)), on=on).when_matched().update(set=values).run()


MISTAKES: list[tuple[Callable[[Table], Any], type[Exception], str]] = [
    (lambda t: t.merge(_changes(), on="t.id = s.key").run(), errors.InvalidOptionError, "no clause"),
    (_update("t.id = 5", note="s.op"), errors.InvalidOptionError, r'equality.*"t\.id = s\.id"'),
    (_update("t.id = s.id", note="s.op"), errors.ColumnNotFoundError, r'no column "s\.id"; columns: s\.key'),
    (_update("t.id = s.op", note="s.op"), errors.TypeMismatchError, r"t\.id is int64 and s\.op is string"),
    (_update(note="part"), errors.InvalidPredicateError, r'"part" is ambiguous.*t\.part or s\.part'),
    (_update(nte="op"), errors.ColumnNotFoundError, 'no column "nte"; did you mean "note"'),
    (_update(amount="s.op"), errors.TypeMismatchError, 'column "amount" is int64.*which is string'),
    (_update(amount="'five'"), errors.InvalidPredicateError, "five"),
    (_update(), errors.InvalidOptionError, "names no column"),
    (_update(amount="s.amount + 9223372036854775807"), errors.InvalidPredicateError, "overflow"),
    (
        lambda t: t.merge(_changes(), on="t.id = s.key").when_not_matched("t.id > 1").insert().run(),
        errors.InvalidPredicateError,
        r'"t\.id": where nothing matched there is no row of the table',
    ),
    (
        lambda t: t.merge(_changes(), on="t.id = s.key").when_not_matched_by_source("s.op = 'D'").delete().run(),
        errors.InvalidPredicateError,
        r'"s\.op": where nothing matched there is no row of the source',
    ),
    (
        lambda t: t.merge(_changes(), on="t.id = s.key").when_matched().delete().when_matched("true").delete().run(),
        errors.InvalidOptionError,
        "never reached",
    ),
    (
        lambda t: t.merge(_changes(), on="t.id = s.key").when_not_matched_by_source().update(set="all"),
        errors.InvalidOptionError,
        "no source to take values from",
    ),
    (
        lambda t: t.merge(_changes(), on="t.id = s.key", strategy="insert"),
        errors.InvalidOptionError,
        "strategy='insert'",
    ),
    (lambda t: t.merge(_changes(), on="t.id = s.key", where="id > 1"), errors.InvalidOptionError, "where='id > 1'"),
]


def test_mistakes_are_named_before_anything_changes(stock: Table, lake: Lake) -> None:
    before = state(lake)
    for call, error, message in MISTAKES:
        with pytest.raises(error, match=message):
            call(stock)
        assert state(lake) == before, message


def test_constraints_hold_for_rows_that_clauses_make(lake: Lake) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("amount", pa.int64())])
    table = lake.create_table("sales.checked", schema, checks={"positive": "amount >= 0"})
    table.append(pa.table({"id": [1, 2], "amount": [10, 20]}, schema=schema))
    source = pa.table({"key": [1, 2, 3, None], "amount": [5, 50, -1, 1]})
    before = state(lake)
    begun = table.merge(source, on="t.id = s.key")
    with pytest.raises(errors.ConstraintError, match=r'check "positive"[^$]*amount=-30'):
        begun.when_matched().update(set={"amount": "t.amount - s.amount"}).run()
    with pytest.raises(errors.ConstraintError, match='check "positive"'):
        begun.when_not_matched("key is not null").insert().run()
    with pytest.raises(errors.ConstraintError, match='"id" is NOT NULL'):
        begun.when_not_matched("amount > 0").insert().run()
    with pytest.raises(errors.ConstraintError, match=r'"id" is NOT NULL and has no default.*insert\(values'):
        begun.when_not_matched().insert(values={"amount": "1"}).run()
    assert state(lake) == before


def test_a_merge_that_met_another_is_worked_out_again(stock: Table, place: LakePlace) -> None:
    seen: list[Any] = []
    with place.connect() as other:
        beside = other.table("sales.stock")

        def visit(file: Any) -> None:
            seen.append(file)
            if len(seen) == 1:
                beside.append(_stock((7, "a", 70, "theirs")))

        once = pa.RecordBatchReader.from_batches(
            CHANGES, iter(_changes((1, "U", "a", 1), (7, "U", "a", 7)).to_batches())
        )
        begun = stock.merge(once, on="t.id = s.key", file_visitor=visit, idempotency_key="job-1")
        begun = begun.when_matched().update(set={"amount": "t.amount + s.amount"}).when_not_matched().insert()
        result = begun.run()
    assert (_counts(result), len(seen) > 2) == ((0, 2, 0, 7), True)
    assert [row[2] for row in _sorted(stock)][:4] == [11, 20, 30, 77]
    again = stock.merge(_changes((1, "U", "a", 1)), on="t.id = s.key", idempotency_key="job-1").when_matched().delete()
    replayed = again.run()
    assert (replayed.replayed, _counts(replayed), stock.version) == (True, (0, 2, 0, 7), 4)


def test_clauses_in_a_transaction_see_what_it_did_before(stock: Table, lake: Lake) -> None:
    with lake.transaction(idempotency_key="night-1") as tx:
        inside = tx.table("sales.stock")
        inside.append(_stock((21, "a", 200, "mine")))
        assert inside.delete("id = 2") == 1
        changes = _changes((1, "D", "a", 1), (2, "U", "a", 5), (21, "U", "b", 1), (30, "I", "c", 3))
        counts = _stream(inside, changes)
        assert _counts(counts) == (2, 3, 1, 7)
        later = inside.merge(changes, on="t.id = s.key").when_matched().delete()
        wanted = [(2, "a", 5, None), (3, "b", 30, None), (11, "a", 110, "old"), (12, "a", 120, "old")]
        wanted += [(13, "b", None, None), (21, "b", 201, "mine"), (30, "c", 3, None)]
        assert rows(inside.scan().to_arrow().sort_by("id")) == wanted
        with pytest.raises(errors.InvalidOptionError, match="strategy='insert'"):
            inside.merge(changes, on="t.id = s.key", strategy="insert")
    assert (_sorted(stock), stock.version, stock.history()[0].operation) == (wanted, 3, "merge")
    with pytest.raises(errors.InputError, match="has ended"):
        later.run()
    with lake.transaction(idempotency_key="night-1") as tx:
        assert _counts(_stream(tx.table("sales.stock"), changes)) == (0, 0, 0, 0)
    assert tx.replayed
    # What it looked for and did not find is part of what it read.
    with pytest.raises(errors.ConcurrentAppendError), lake.transaction() as tx:
        begun = tx.table("sales.stock").merge(_changes((77, "I", "a", 1)), on="t.id = s.key")
        assert begun.when_not_matched().insert().run().inserted == 1
        stock.append(_stock((77, "a", 7, "theirs")))
    assert rows(stock.scan("id = 77").to_arrow()) == [(77, "a", 7, "theirs")]
