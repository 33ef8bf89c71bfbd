"""Tables and columns that a transaction makes: there with its commit, and never without."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake import Lake, errors

pytestmark = pytest.mark.catalog_work

NARROW = pa.table({"id": [1, 2]})
WIDE = pa.table({"id": [2, 3], "word": ["two", "three"]})


def rows(lake: Lake, name: str) -> list[dict[str, object]]:
    return sorted(lake.table(name).scan().to_arrow().to_pylist(), key=repr)


def test_a_table_is_there_with_the_commit_and_never_without(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        made = tx.create_table("shop.orders", NARROW)
        made.append(NARROW)
        assert made.scan().count() == tx.table("shop.orders").scan().count() == 2
        assert lake.tables() == []
        _ = 1 / 0
    assert lake.tables() == []
    with pytest.raises(errors.TableNotFoundError):
        lake.undrop_table("shop.orders")
    with lake.transaction(idempotency_key="made") as tx:
        tx.create_table("shop.orders", NARROW, properties={"compression": "snappy"}).append(NARROW)
        tx.create_table("shop.empty", NARROW)
        with pytest.raises(errors.TableExistsError):
            tx.create_table("shop.orders", NARROW)
    assert (tx.versions, lake.tables()) == ({"shop.orders": 1}, ["shop.empty", "shop.orders"])
    assert (lake.table("shop.orders").version, lake.table("shop.empty").version) == (1, 0)
    assert lake.table("shop.orders").properties == {"compression": "snappy"}
    with lake.transaction(idempotency_key="made") as again:
        again.create_table("shop.orders", NARROW).append(NARROW)
    assert again.replayed
    assert lake.table("shop.orders").scan().count() == 2
    with pytest.raises(errors.TableExistsError), lake.transaction() as tx:
        tx.create_table("shop.orders", NARROW)
    assert lake.check().findings == ()


def test_of_two_that_make_a_table_one_commits(lake: Lake) -> None:
    with pytest.raises(errors.ConflictError, match="was created by another commit"), lake.transaction() as slow:
        slow.create_table("shop.orders", NARROW).append(NARROW)
        with lake.transaction(idempotency_key="twin") as quick:
            quick.create_table("shop.orders", WIDE).append(WIDE)
    assert rows(lake, "shop.orders") == WIDE.to_pylist()
    with lake.transaction(idempotency_key="key") as first:
        first.create_table("shop.lines", NARROW).append(NARROW)
        with lake.transaction(idempotency_key="key") as second:
            second.create_table("shop.lines", NARROW).append(NARROW)
    assert (first.replayed, second.replayed) == (True, False)
    assert lake.table("shop.lines").scan().count() == 2


def test_columns_come_with_the_rows_that_need_them(lake: Lake) -> None:
    orders = lake.create_table("shop.orders", NARROW)
    orders.append(NARROW)
    with pytest.raises(ZeroDivisionError), lake.transaction() as tx:
        assert tx.table("shop.orders").adopt_columns(WIDE).names == ["id", "word"]
        tx.table("shop.orders").merge(WIDE, on=["id"])
        _ = 1 / 0
    assert orders.schema().names == ["id"]
    with lake.transaction() as tx:
        changed = tx.table("shop.orders")
        changed.adopt_columns(WIDE.schema)
        counts = changed.merge(WIDE, on=["id"])
        assert (counts.inserted, counts.updated) == (1, 1)
        assert changed.scan("word = 'three'").count() == 1
        assert orders.schema().names == ["id"]
    expected = [{"id": 1, "word": None}, {"id": 2, "word": "two"}, {"id": 3, "word": "three"}]
    assert rows(lake, "shop.orders") == expected
    assert orders.scan("word is null").count() == 1
    assert orders.scan(version=1).to_arrow().schema.names == ["id"]
    with lake.transaction() as tx:  # nothing is written, so nothing changes
        tx.table("shop.orders").adopt_columns(pa.schema([("id", pa.int64()), ("more", pa.string())]))
    assert orders.version == 2
    with pytest.raises(errors.InvalidOptionError, match="after rows were written"), lake.transaction() as tx:
        tx.table("shop.orders").append(WIDE)
        tx.table("shop.orders").adopt_columns(pa.table({"id": [1], "word": ["x"], "more": [1]}))
    with pytest.raises(errors.SchemaMismatchError), lake.transaction() as tx:
        tx.table("shop.orders").adopt_columns(pa.table({"id": ["x"]}))
    with pytest.raises(errors.ConcurrentSchemaChangeError), lake.transaction() as tx:
        tx.table("shop.orders").adopt_columns(pa.table({"id": [1], "more": [1]}))
        tx.table("shop.orders").append(pa.table({"id": [1], "word": ["x"], "more": [1]}))
        orders.add_column("other", "string")
    assert orders.schema().names == ["id", "word", "other"]
    assert lake.check().findings == ()
