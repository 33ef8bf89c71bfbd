"""Whoever writes rows commits the same statistics for them, so that a plan never depends on the writer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parqlake import Lake, Table
from parqlake.testing.backends import Backend
from parqlake.testing.data import GROUP, TypeCase, orders
from parqlake.testing.plugin import Feed

pytestmark = pytest.mark.engine_work

SHOWN = ("row_group", "column", "row_count", "null_count", "lower_bound", "upper_bound")
WITH_NAN = ("float32", "float64", "struct.x", "map.value")
"""Columns that hold a NaN: DuckDB gives no lower bound there, the others do."""


def _statistics(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.row_groups().select(SHOWN).to_pylist()
    return found


def _other(backend: Backend) -> str:
    return "duckdb" if backend.engine == "pyarrow" else "pyarrow"


def test_every_type_has_the_same_statistics(
    lake: Lake, backend: Backend, types: tuple[TypeCase, ...], feed: Feed
) -> None:
    data = pa.table({case.name: pa.concat_arrays([case.array()] * 8)[:24] for case in types})
    mine, theirs = lake.create_table("a.mine", data), lake.create_table("a.theirs", data)
    mine.append(feed(data))
    theirs.append(data, engine=_other(backend))
    found, expected = _statistics(mine), _statistics(theirs)
    if "duckdb" in (backend.engine, _other(backend)):
        for entry in (*found, *expected):
            if entry["column"] in WITH_NAN:
                del entry["lower_bound"]
    assert found == expected
    assert len(found) > len(types)


def test_every_row_group_has_the_same_statistics(lake: Lake, backend: Backend, feed: Feed) -> None:
    data = orders(3 * GROUP + 100)
    mine, theirs = lake.create_table("a.mine", data), lake.create_table("a.theirs", data)
    mine.append(feed(data), row_group_size=GROUP)
    theirs.append(data, row_group_size=GROUP, engine=_other(backend))
    assert _statistics(mine) == _statistics(theirs)
    assert len(_statistics(mine)) == 4 * 4
    for where in ("id < 5", f"id >= {3 * GROUP}", "region = 'mars'", f"amount > {GROUP} and day < '2026-04-01'"):
        plans = [table.scan(where).explain() for table in (mine, theirs)]
        assert len({(plan.files_read, plan.row_groups_read, plan.rows_read) for plan in plans}) == 1, where


def test_every_partition_has_the_same_statistics(lake: Lake, backend: Backend, feed: Feed) -> None:
    data = orders(40)
    mine, theirs = (lake.create_table(f"a.{name}", data, partition_by=["region", "day"]) for name in ("mine", "theirs"))
    mine.append(feed(data))
    theirs.append(data, engine=_other(backend))

    def by_partition(table: Table) -> dict[str, list[dict[str, Any]]]:
        groups = table.row_groups()
        return {
            path.rpartition("/")[0]: groups.filter(pc.field("path") == path).select(SHOWN).to_pylist()
            for path in table.files().column("path").to_pylist()
        }

    assert by_partition(mine) == by_partition(theirs)
    assert len(by_partition(mine)) == mine.files().num_rows == 16
    partitions = [sorted(map(repr, table.files().column("partition").to_pylist())) for table in (mine, theirs)]
    assert partitions[0] == partitions[1]
