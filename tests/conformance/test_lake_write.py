"""`lake.write`: a table by its name, made if it is not there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parqlake import Lake, errors
from parqlake.testing.data import ORDERS, bag, ids, orders, state


def test_the_first_write_makes_the_table(lake: Lake) -> None:
    made = lake.write(orders(10), "sales.new", partition_by=["region"], sort_by=["id"], properties={"owner": "me"})
    table = lake.table("sales.new")
    assert made is not None
    assert (made.version, made.row_count) == (1, 10)
    assert (table.partition_by, table.sort_by, table.properties) == (("region",), ("id",), {"owner": "me"})
    assert bag(table.scan().to_arrow()) == bag(orders(10))


def test_a_stream_of_batches_is_opened_once(lake: Lake) -> None:
    lake.write((batch for batch in orders(50).to_batches(max_chunksize=7)), "sales.new")
    assert sorted(ids(lake.table("sales.new").scan().to_arrow())) == list(range(50))


def test_append_and_overwrite_serve_tables_that_are_there(lake: Lake) -> None:
    lake.create_table("sales.orders", ORDERS)
    lake.write(orders(5), "sales.orders")
    lake.write(orders(5, first=5), "sales.orders", mode="append", partition_by=[])
    table = lake.table("sales.orders")
    assert sorted(ids(table.scan().to_arrow())) == list(range(10))
    lake.write(orders(2, first=70), "sales.orders", mode="overwrite", message="anew")
    assert sorted(ids(table.scan().to_arrow())) == [70, 71]
    assert table.history()[0].message == "anew"


def test_error_and_ignore_touch_nothing_that_is_there(lake: Lake) -> None:
    lake.write(orders(5), "sales.orders", mode="error")
    before = state(lake)
    with pytest.raises(errors.TableExistsError, match='mode="append"'):
        lake.write(orders(5), "sales.orders", mode="error")
    assert lake.write(orders(5), "sales.orders", mode="ignore") is None
    assert state(lake) == before
    assert lake.write(orders(5), "sales.other", mode="ignore") is not None


def test_a_repeat_with_the_same_key_is_the_first_result(lake: Lake) -> None:
    first = lake.write(orders(5), "sales.orders", mode="error", idempotency_key="k")
    again = lake.write(orders(5), "sales.orders", mode="error", idempotency_key="k")
    assert first is not None
    assert again is not None
    assert (again.version, again.replayed) == (first.version, True)
    assert lake.table("sales.orders").version == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "upsert"}, "mode='upsert' is unknown; use one of append, overwrite, error, ignore"),
        ({"partition_by": ["region"]}, "is there already, partition_by nothing"),
        ({"sort_by": ["amount"]}, "is there already, sort_by nothing"),
        ({"compression": "zip"}, "compression='zip' is unknown"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_written(
    lake: Lake, options: dict[str, object], words: str
) -> None:
    lake.write(orders(5), "sales.orders")
    before = state(lake)
    with pytest.raises(errors.InvalidOptionError, match=words):
        lake.write(orders(5), "sales.orders", **options)  # type: ignore[arg-type]
    assert state(lake) == before


def test_a_first_write_that_fails_leaves_no_table(lake: Lake) -> None:
    with pytest.raises(errors.InvalidOptionError):
        lake.write(orders(5), "sales.new", row_group_size=0)

    def broken() -> object:
        yield from orders(5).to_batches()
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        lake.write(broken(), "sales.new")
    assert lake.tables() == []
    with pytest.raises(errors.UnsupportedInputError):
        lake.write(7, "sales.new")
    assert lake.write(pa.table({"id": [1]}), "sales.new") is not None
