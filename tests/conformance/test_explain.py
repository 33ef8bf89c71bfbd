"""Explain says what is skipped, by which partition or statistics, what skips nothing and why, and what would help."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import parqlake
from parqlake import Lake, Table

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.int64(),
        "name": pa.string(),
        "x": pa.float64(),
        "tags": pa.list_(pa.string()),
        "deep": pa.struct({"a": pa.int64()}),
        "region": pa.string(),
    }
)
FILES, ROWS = 12, 40


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Files in the order of `id`; every file holds customers, names and numbers from all over."""
    with parqlake.connect(tmp_path_factory.mktemp("explain") / "lake") as lake:
        yield _filled(lake)


def _filled(lake: Lake) -> Table:
    table = lake.create_table("sales.orders", SCHEMA, partition_by=["region"])
    with lake.transaction() as tx:
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            rows = {
                "id": list(ids),
                "customer": [(n * 7919 + number) % 10_000 for n in ids],
                "name": [f"{'abcdefghij'[n % 10]}{n * 31 % 97}" for n in ids],
                "x": [n * 37 % ROWS / ROWS for n in ids],
                "tags": [["t"] for _ in ids],
                "deep": [{"a": n} for n in ids],
                "region": [("eu", "us", None)[number % 3]] * ROWS,
            }
            tx.table("sales.orders").append(pa.table(rows, schema=SCHEMA), row_group_size=ROWS // 2)
    return table


def test_what_was_skipped_and_by_what(filled: Table) -> None:
    found = filled.scan("customer = 5000 and id < 200 and region = 'eu'").explain()
    assert [(item.by, item.text) for item in found.skipped][:2] == [
        ("partition region", "region = 'eu'"),
        ("statistics of id", "id < 200"),
    ]
    assert (found.skipped[0].files, found.skipped[0].row_groups) == (8, 16)
    assert found.skipped[1].files == 2  # of the files of that region, those that begin at 0 and at 120 are left
    assert sum(item.files for item in found.skipped) == found.files_total - found.files_read
    assert sum(item.row_groups for item in found.skipped) == found.row_groups_total - found.row_groups_read
    assert 0 < sum(item.size_bytes for item in found.skipped) <= found.bytes_total
    alone = {item.text: item for item in found.conditions}
    assert (alone["id < 200"].files_kept, alone["id < 200"].files_skipped, alone["id < 200"].by) == (5, 7, "statistics")
    assert (alone["id < 200"].row_groups_kept, alone["id < 200"].row_groups_skipped) == (10, 14)
    assert alone["region = 'eu'"].by == "partition" and alone["region = 'eu'"].bytes_skipped > 0
    assert alone["customer = 5000"].files_kept > 6 and "not clustered by customer" in str(
        alone["customer = 5000"].reason
    )
    shown = str(found)
    assert "by partition region: region = 'eu'" in shown and "by statistics of id: id < 200" in shown
    assert json.loads(json.dumps(found.to_dict()))["skipped"][0]["files"] == 8


REASONS = (
    ("lower(name) = 'a1'", ["inside lower(name)"]),
    ("customer + 1 = 4", ["inside (customer + 1)"]),
    ("id <> 3", ["differs"]),
    ("id = customer", ["two columns"]),
    ("name like '%7'", ["wildcard"]),
    ("name ilike 'a%'", ["case"]),
    ("name not in ('a', 'b')", ["another value"]),
    ("id = 5 or name like '%x'", ["one side of the OR, name like '%x'", "wildcard"]),
    ("customer = 5000 or x > 0.9", ["any side (customer, x)"]),
    ("tags is null", ["no statistics of tags"]),
    ("name like 'a%'", ["12 of 12 files", "not clustered by name"]),
    ("x between 0.5 and 0.52", ["not clustered by x"]),
    ("id >= 0", ["most row groups"]),
    ("id = 5", []),
    ("deep.a = 5", []),
    ("region is null and id in (3, 7)", []),
    ("id = 5 or id = 300", []),
)


def test_why_a_condition_skips_nothing(filled: Table) -> None:
    for where, reasons in REASONS:
        found = filled.scan(where).explain()
        told = " ".join(str(item.reason) for item in found.conditions if item.reason is not None)
        assert all(reason in told for reason in reasons), (where, told)
        assert bool(reasons) == bool(told), (where, told)
        assert not told or "skipped little or nothing" in str(found)


def test_what_would_help_does(filled: Table) -> None:
    where = "customer = 7919 and x >= 0.5 and x < 0.52 and region = 'eu'"
    filled.add_column("later", pa.int64())
    found = filled.scan(where).explain()
    assert found.suggestion is not None and ".optimize([" in found.suggestion
    for name in ("customer", "x"):
        assert f'"{name}"' in found.suggestion
    assert "region" not in found.suggestion
    before = filled.scan("customer < 500").explain()
    assert before.suggestion is not None and '"customer"' in before.suggestion and before.files_read == FILES
    filled.optimize(["customer"], target_rows_per_file=ROWS)
    after = filled.scan("customer < 500").explain()
    assert after.files_read <= 3 and after.suggestion is None
    assert after.conditions[0].files_skipped == after.files_total - after.files_read
    assert (filled.scan().explain().conditions, filled.scan().explain().suggestion) == ((), None)
    assert filled.scan("id = 1", version=0).explain().skipped == ()
    assert filled.scan("later = 1").explain().files_read == 0
