"""Merge brings source and table together by key: every strategy, true counts, and no file touched in vain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from parqlake import Lake, Table, WrittenFile, errors
from parqlake.core.merging import DuplicateKeysWarning
from parqlake.testing.backends import Backend, LakePlace
from parqlake.testing.data import ORDERS, bag, data_files, ids, orders, state
from parqlake.testing.plugin import Feed, Read


@pytest.fixture
def filled(table: Table, feed: Feed) -> Table:
    """Sixty orders in three files, by id."""
    for first in (0, 20, 40):
        table.append(feed(orders(20, first=first)))
    return table


def _raised(count: int, first: int) -> pa.Table:
    """Orders whose amounts nobody else has."""
    data = orders(count, first=first)
    return data.set_column(2, "amount", pa.array([1000.0 + i for i in range(first, first + count)]))


def _with(changed: pa.Table, data: pa.Table) -> pa.Table:
    """The data with rows of the same ids replaced, and new ones added: what an upsert should leave."""
    keep = pc.invert(pc.is_in(data.column("id"), value_set=changed.column("id").combine_chunks()))
    return pa.concat_tables([data.filter(keep), changed])


def _paths(table: Table) -> set[str]:
    return set(table.files().column("path").to_pylist())


def _counts(result: Any) -> tuple[int, int, int, int]:
    return result.inserted, result.updated, result.deleted, result.total


@pytest.mark.engine_work
def test_upsert_updates_matches_and_inserts_the_rest(filled: Table, feed: Feed, read: Read) -> None:
    before = _paths(filled)
    result = filled.merge(feed(_raised(10, 55)), on=["id"], message="daily")
    assert _counts(result) == (5, 5, 0, 65)
    assert (result.version, result.files_removed, result.replayed) == (4, 1, False)
    assert bag(read(filled.scan())) == bag(_with(_raised(10, 55), orders(60)))
    assert len(before & _paths(filled)) == 2
    new = {row["path"]: row for row in filled.files().to_pylist() if row["path"] not in before}
    assert result.files_added == len(new)
    assert result.bytes_rewritten == max(row["size_bytes"] for row in new.values() if row["row_count"] >= 15)
    entry = filled.history()[0]
    assert (entry.operation, entry.added_rows, entry.removed_rows, entry.message) == ("merge", 10, 5, "daily")
    assert bag(read(filled.scan(version=3))) == bag(orders(60))
    assert ids(filled.scan("id >= 58 and amount >= 1060").to_arrow()) == list(range(60, 65))


def test_insert_leaves_what_is_there(filled: Table, feed: Feed, read: Read) -> None:
    before = _paths(filled)
    assert _counts(filled.merge(feed(_raised(10, 55)), on="id", strategy="insert")) == (5, 0, 0, 65)
    assert before < _paths(filled)
    assert bag(read(filled.scan())) == bag(_with(orders(60), _raised(65, 0)))
    nothing = filled.merge(feed(_raised(10, 55)), on="id", strategy="insert")
    assert (_counts(nothing), nothing.version, filled.version) == ((0, 0, 0, 65), 4, 4)


def test_update_inserts_nothing(filled: Table, feed: Feed, read: Read) -> None:
    assert _counts(filled.merge(feed(_raised(10, 55)), on="id", strategy="update")) == (0, 5, 0, 60)
    assert bag(read(filled.scan())) == bag(_with(_raised(5, 55), orders(60)))
    nothing = filled.merge(feed(_raised(3, 500)), on="id", strategy="update")
    assert (_counts(nothing), nothing.version, nothing.transaction_id) == ((0, 0, 0, 60), 4, "")


def test_full_merge_leaves_exactly_the_source(filled: Table, feed: Feed, read: Read) -> None:
    result = filled.merge(feed(_raised(10, 55)), on="id", strategy="full_merge")
    assert (_counts(result), result.files_removed) == ((5, 5, 55, 10), 3)
    assert bag(read(filled.scan())) == bag(_raised(10, 55))
    emptied = filled.merge(feed(orders(0)), on="id", strategy="full_merge")
    assert (_counts(emptied), emptied.files_added) == ((0, 0, 10, 0), 0)
    assert _counts(filled.merge(feed(orders(3)), on="id", strategy="full_merge")) == (3, 0, 0, 3)


def test_of_duplicates_in_the_source_one_row_is_taken(filled: Table, feed: Feed, backend: Backend) -> None:
    double = pa.concat_tables([_raised(2, 0), orders(2, first=0), _raised(1, 90), orders(1, first=90)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DuplicateKeysWarning)
        result = filled.merge(feed(double), on="id", strategy="deduplicate", dedup_order_by="amount")
        assert _counts(result) == (1, 2, 0, 61)
        assert ids(filled.scan("amount >= 1000").to_arrow()) == [0, 1, 90]
    with pytest.warns(DuplicateKeysWarning, match="3 more rows than keys") as caught:
        assert _counts(filled.merge(feed(double), on="id")) == (0, 3, 0, 61)
    assert [str(w.filename) for w in caught if w.category is DuplicateKeysWarning] == [__file__]
    if backend.engine != "spark":  # the rows of a Spark frame have no last one
        assert filled.scan("amount >= 1000").count() == 0


def test_only_the_columns_named_are_updated(filled: Table, feed: Feed) -> None:
    source = _raised(4, 58).set_column(1, "region", pa.array(["moon"] * 4))
    assert _counts(filled.merge(feed(source), on="id", update_columns=["amount"])) == (2, 2, 0, 62)
    rows = filled.scan("id >= 58").to_arrow().sort_by("id").to_pylist()
    assert [row["amount"] for row in rows] == [1058.0, 1059.0, 1060.0, 1061.0]
    assert [row["region"] for row in rows] == [None, "asia", "moon", "moon"]


def test_a_source_that_is_taken_apart_gives_the_same(lake: Lake) -> None:
    """Beyond its memory PyArrow matches part by part; beside rows that the predicate keeps out, too."""
    data = pa.table({"id": range(4000), "k": [f"key {i % 5}" for i in range(4000)], "v": [0] * 4000})
    source = pa.table({"id": range(3000, 5000), "k": ["key 1"] * 2000, "v": [1] * 2000})
    for strategy, deleted in (("upsert", 0), ("full_merge", 1500)):
        found = []
        for limit in ("16KB", "1GB"):
            table = lake.create_table("keys.apart", data)
            table.append(data.slice(0, 3500))
            table.append(data.slice(3500))
            result = table.merge(source, on="id", strategy=strategy, where="id % 2 = 0", memory_limit=limit)
            found.append((_counts(result), bag(table.scan().to_arrow())))
            lake.drop_table("keys.apart")
        assert found[0] == found[1]
        assert found[0][0] == (1000, 500, deleted, 5000 - deleted)


def test_rows_of_a_partitioned_table_move_with_their_values(by_region: Table, feed: Feed, read: Read) -> None:
    by_region.append(feed(orders(40)))
    before = _paths(by_region)
    source = _raised(4, 38).set_column(1, "region", pa.array(["eu", "us", "moon", None]))
    assert _counts(by_region.merge(feed(source), on="id")) == (2, 2, 0, 42)
    assert bag(read(by_region.scan())) == bag(_with(source, orders(40)))
    assert ids(by_region.scan("region = 'moon'").to_arrow()) == [40]
    assert len(before - _paths(by_region)) == 2  # those that held 38 and 39
    for row in by_region.files().to_pylist():
        folder = "region=" + (dict(row["partition"])["region"] or "__HIVE_DEFAULT_PARTITION__")
        assert row["path"].startswith(folder), row
    by_region.delete("region is null")
    again = by_region.merge(feed(source.slice(0, 3)), on=["region", "id"], strategy="full_merge")
    assert (_counts(again), ids(by_region.scan().to_arrow())) == ((0, 3, 29, 3), [38, 39, 40])


def test_keys_of_several_columns(lake: Lake, feed: Feed, read: Read) -> None:
    data = pa.table({"a": ["x", "x", "y"], "b": pa.array([1, 2, 1], pa.int32()), "v": [1, 2, 3]})
    table = lake.create_table("keys.several", data)
    table.append(feed(data))
    source = pa.table({"v": [20, 40], "b": pa.array([2, 2], pa.int32()), "a": ["x", "y"]})
    assert _counts(table.merge(feed(source), on=["a", "b"])) == (1, 1, 0, 4)
    assert bag(read(table.scan())) == bag(
        pa.table({"a": ["x", "x", "y", "y"], "b": pa.array([1, 2, 1, 2], pa.int32()), "v": [1, 20, 3, 40]})
    )


@pytest.mark.engine_work
def test_where_keeps_rows_of_the_table_out(filled: Table, feed: Feed, read: Read) -> None:
    result = filled.merge(feed(_raised(30, 35)), on="id", where="region = 'eu'")
    inside = [i for i in range(35, 60) if i % 4 == 0]
    assert _counts(result) == (5, len(inside), 0, 65)  # no key comes twice
    assert ids(filled.scan("amount >= 1000").to_arrow()) == [*inside, *range(60, 65)]
    before = _paths(filled)
    swept = filled.merge(feed(orders(2, first=36)), on="id", strategy="full_merge", where="id between 30 and 45")
    assert _counts(swept) == (0, 2, 14, 51)
    assert ids(read(filled.scan())) == [*range(30), 36, 37, *range(46, 65)]
    assert len(before & _paths(filled)) >= 2
    everything = filled.merge(feed(orders(0)), on="id", strategy="full_merge", where="id >= 46")
    assert _counts(everything) == (0, 0, 19, 32)


def test_an_empty_side(table: Table, feed: Feed, read: Read) -> None:
    nothing = table.merge(feed(orders(5)), on="id", strategy="update")
    assert (_counts(nothing), nothing.version) == ((0, 0, 0, 0), 0)
    assert _counts(table.merge(feed(orders(5)), on="id")) == (5, 0, 0, 5)
    assert bag(read(table.scan())) == bag(orders(5))
    for strategy in ("upsert", "insert", "update", "deduplicate"):
        result = table.merge(feed(orders(0)), on="id", strategy=strategy)
        assert (_counts(result), result.version) == ((0, 0, 0, 5), 1)


@pytest.mark.engine_work
def test_files_that_statistics_rule_out_are_not_opened(filled: Table, place: LakePlace, feed: Feed) -> None:
    import fsspec

    filesystem, root = fsspec.core.url_to_fs(place.root)
    for row in filled.files().to_pylist():
        if row["added_in_version"] != 2:
            filesystem.pipe_file(f"{root}/{filled.location}/{row['path']}", b"unreadable")
    assert _counts(filled.merge(feed(_raised(3, 25)), on="id")) == (0, 3, 0, 60)
    assert _counts(filled.merge(feed(orders(3, first=100)), on="id", strategy="insert")) == (3, 0, 0, 63)
    if not filled.scan("id = 25").to_arrow().num_rows:
        pytest.fail("row 25 is gone")


def test_far_apart_keys_open_only_their_files(filled: Table, place: LakePlace) -> None:
    import fsspec

    filesystem, root = fsspec.core.url_to_fs(place.root)
    for row in filled.files().to_pylist():
        if row["added_in_version"] == 2:
            filesystem.pipe_file(f"{root}/{filled.location}/{row['path']}", b"unreadable")
    source = pa.concat_tables([_raised(1, 3), _raised(1, 43)])
    assert _counts(filled.merge(source, on="id", engine="pyarrow")) == (0, 2, 0, 60)


def test_wrong_calls_change_nothing(filled: Table, lake: Lake, feed: Feed) -> None:
    source = orders(3)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: filled.merge(feed(source), on="idd"), errors.ColumnNotFoundError, "'idd' not found.*did you mean"),
        (lambda: filled.merge(feed(source.drop(["id"])), on="id"), errors.ColumnNotFoundError, "not found in source"),
        (lambda: filled.merge(feed(source), on=[]), errors.InvalidOptionError, "is empty"),
        (lambda: filled.merge(feed(source), on="id", strategy="replace"), ValueError, "upsert, insert, update"),
        (lambda: filled.merge(feed(source.drop(["day"])), on="id"), errors.SchemaMismatchError, '"day": missing'),
        (
            lambda: filled.merge(feed(source.append_column("x", pa.array([1, 2, 3]))), on="id"),
            errors.SchemaMismatchError,
            '"x": missing in the target',
        ),
        (
            lambda: filled.merge(feed(source.set_column(2, "amount", pa.array(["a", "b", "c"]))), on="id"),
            errors.TypeMismatchError,
            '"amount"',
        ),
        (lambda: filled.merge(feed(source), on="region"), errors.ConstraintError, "'region' of the .* NULL"),
        (lambda: filled.merge(feed(source), on="id", update_columns=["amuont"]), errors.ColumnNotFoundError, "amount"),
        (lambda: filled.merge(feed(source), on="id", where="x = 1"), errors.ColumnNotFoundError, 'no column "x"'),
        (lambda: filled.merge(source, on="id", memory_limit="lots"), errors.InvalidOptionError, "lots"),
        (lambda: filled.merge(source, on="id", compression="zip"), errors.InvalidOptionError, "zip"),
        (lambda: filled.merge(object(), on="id"), errors.UnsupportedInputError, "object"),
    ]
    before = state(lake)
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
    assert state(lake) == before


def test_null_keys_of_the_table_are_refused_wherever_they_are(lake: Lake, feed: Feed) -> None:
    data = pa.table({"id": pa.array([None, 1], pa.int64()), "v": [1, 2]})
    table = lake.create_table("keys.nulls", data)
    table.append(feed(data))
    before = state(lake)
    with pytest.raises(errors.ConstraintError, match="'id' of the target contains 1 NULL"):
        table.merge(feed(pa.table({"id": [500], "v": [3]})), on="id")
    assert state(lake) == before


def test_anything_that_append_takes_is_a_source(filled: Table, lake: Lake, tmp_path: Path) -> None:
    import duckdb
    import pandas as pd
    import polars as pl

    pq.write_table(_raised(3, 58), tmp_path / "changes.parquet")
    other = lake.create_table("sales.changes", ORDERS)
    other.append(_raised(10, 55))
    frame = _raised(3, 58).to_pandas()
    frame["day"] = pd.to_datetime(frame["day"]).dt.date
    relation = duckdb.connect().from_arrow(_raised(3, 58))
    sources = [
        frame,
        pl.DataFrame(_raised(3, 58)),
        pl.DataFrame(_raised(3, 58)).lazy(),
        _raised(3, 58).to_batches(),
        _raised(3, 58).to_reader(),
        (batch for batch in _raised(3, 58).to_batches()),
        relation,
        tmp_path / "changes.parquet",
        other.scan("id >= 58 and id < 61"),
    ]
    for number, source in enumerate(sources):
        result = filled.merge(source, on="id")
        assert _counts(result) == ((1, 2, 0, 61) if number == 0 else (0, 3, 0, 61)), source
    assert bag(filled.scan().to_arrow()) == bag(_with(_raised(3, 58), orders(60)))


def test_a_repeat_with_the_same_key_merges_once(filled: Table, feed: Feed) -> None:
    first = filled.merge(feed(_raised(10, 55)), on="id", idempotency_key="job/1")
    filled.delete("id >= 60")
    again = filled.merge(feed(_raised(10, 55)), on="id", idempotency_key="job/1")
    assert (_counts(again), again.version, again.replayed) == (_counts(first), first.version, True)
    assert filled.scan().count() == 60


def test_a_visitor_sees_new_files_and_nothing_is_left_over(filled: Table, place: LakePlace, feed: Feed) -> None:
    seen: list[WrittenFile] = []
    filled.merge(feed(_raised(10, 55)), on="id", file_visitor=seen.append)
    assert {file.path for file in seen} == _paths(filled) - set(filled.files(version=3).column("path").to_pylist())
    assert sum(file.metadata.num_rows for file in seen) == 25
    known = {path for n in range(1, 5) for path in filled.files(version=n).column("path").to_pylist()}
    assert data_files(place.root) == {f"{filled.location}/{path}" for path in known}


def test_merges_of_a_transaction_see_its_own_rows(lake: Lake, filled: Table, feed: Feed) -> None:
    with lake.transaction() as tx:
        inside = tx.table("sales.orders")
        inside.append(feed(orders(10, first=60)))
        assert inside.merge(feed(_raised(10, 55)), on="id").to_dict() == {
            "inserted": 0,
            "updated": 10,
            "deleted": 0,
            "total": 70,
        }
        assert inside.merge(feed(_raised(2, 69)), on="id", strategy="insert").inserted == 1
        assert inside.delete("id < 50") == 50
        counts = inside.merge(feed(orders(3, first=69)), on="id", strategy="full_merge")
        assert (counts.inserted, counts.updated, counts.deleted, counts.total) == (1, 2, 19, 3)
    assert (filled.version, ids(filled.scan().to_arrow())) == (4, [69, 70, 71])
    assert filled.scan("amount >= 1000").count() == 0


def test_all_types_survive_and_match(lake: Lake, feed: Feed, read: Read, types: Any) -> None:
    for case in types:
        data = case.table()
        table = lake.create_table(f"types.{case.name}", data)
        table.append(feed(data))
        turned = data.set_column(1, case.name, case.array().take(pa.array(range(len(data) - 1, -1, -1))))
        assert _counts(table.merge(feed(turned), on="id")) == (0, len(data), 0, len(data)), case.name
        assert bag(read(table.scan())) == bag(turned), case.name


@pytest.mark.engine_work
def test_files_that_are_older_than_the_schema_take_part(lake: Lake, feed: Feed, read: Read) -> None:
    old = pa.table(
        {
            "id": pa.array(range(10), pa.int32()),
            "part": ["a", "b"] * 5,
            "amount": pa.array(range(10), pa.float32()),
            "day": pa.array(range(10), pa.date32()),
            "flag": ["gone"] * 10,
        }
    )
    table = lake.create_table("sales.evolved", old, partition_by=["part"])
    table.append(feed(old))
    table.rename_column("amount", "price")
    table.widen_column("id", pa.int64())
    table.widen_column("price", pa.float64())
    table.widen_column("day", pa.timestamp("us"))
    table.drop_column("flag")
    table.add_column("flag", pa.string())  # another column, though it has the same name and type
    table.add_column("note", pa.string(), default="old")
    assert table.delete("note = 'old' and id < 2").deleted == 2
    table.restore(8)
    assert table.update("price > 6 and part = 'b'", {"note": "note || '!'"}).updated == 2
    table.restore(8)
    source = pa.table(
        [[4, 20], ["a", "c"], [0.5, 0.5], [-1, 10**15], ["x", "y"], ["new", None]], names=table.schema().names
    )
    source = source.cast(table.schema())
    assert _counts(table.merge(feed(source), on="id")) == (1, 1, 0, 11)
    kept = pa.table([*old.columns[:4], pa.nulls(10, pa.string()), pa.repeat("old", 10)], names=source.column_names)
    assert bag(read(table.scan())) == bag(_with(source, kept.cast(source.schema)))
    assert table.scan("flag is null and day >= '1970-01-02'").count() == 8
    table.add_check("sane", "price < 100")
    with pytest.raises(errors.ConstraintError, match="sane"):
        table.merge(feed(source.set_column(2, "price", pa.array([1.0, 500.0]))), on="id")
    with pytest.raises(errors.ConstraintError, match="sane"):
        table.update("id = 4", {"price": "price * 1000"})
