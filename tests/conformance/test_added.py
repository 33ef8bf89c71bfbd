"""`table.added`: what came between two versions, once, and not what compaction or replacement moved."""

from __future__ import annotations

import pytest

from parqlake import Table, errors
from parqlake.testing.data import ids, orders


@pytest.fixture
def grown(table: Table) -> Table:
    """Three versions of ten rows each."""
    for first in (0, 10, 20):
        table.append(orders(10, first=first))
    return table


def _added(table: Table, *versions: int | str, **options: object) -> list[int]:
    return sorted(ids(table.added(*versions, **options).to_arrow()))  # type: ignore[arg-type]


def test_rows_between_two_versions(grown: Table) -> None:
    assert _added(grown, 0) == list(range(30))
    assert _added(grown, 1) == list(range(10, 30))
    assert _added(grown, 1, 2) == list(range(10, 20))
    assert _added(grown, 3) == []
    assert _added(grown, 2, 1) == []
    grown.tag("seen", 2)
    assert _added(grown, "seen") == list(range(20, 30))


def test_conditions_columns_and_counts(grown: Table) -> None:
    scan = grown.added(1, where="id >= 15 and id < 25", columns=["id"])
    assert scan.schema.names == ["id"]
    assert sorted(ids(scan.to_arrow())) == list(range(15, 25))
    assert scan.count() == 10
    assert len(grown.added(1, where="id >= 25").plan.files) == 1
    assert grown.added(1).count() == 20


def test_what_comes_later_changes_nothing(grown: Table) -> None:
    scan = grown.added(1, 3)
    grown.append(orders(5, first=100))
    assert sorted(ids(scan.to_arrow())) == list(range(10, 30))
    grown.overwrite(orders(1, first=500))
    assert _added(grown, 1, 3) == list(range(10, 30))


def test_replaced_rows_are_an_error_unless_allowed(grown: Table) -> None:
    grown.overwrite(orders(2, first=900))
    with pytest.raises(errors.NotAppendOnlyError, match=r"version 4 of sales\.orders \(overwrite\) removed 30 rows"):
        grown.added(1)
    assert _added(grown, 4) == []
    assert _added(grown, 3, allow_removals=True) == [900, 901]
    grown.append(orders(1, first=1000))
    assert _added(grown, 4) == [1000]


def test_versions_that_are_not_there(grown: Table) -> None:
    with pytest.raises(errors.VersionNotFoundError, match="no version 9"):
        grown.added(9)
    with pytest.raises(errors.VersionNotFoundError, match='no tag "x"'):
        grown.added(0, "x")
