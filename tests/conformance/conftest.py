"""Tables that many tests of the conformance suite begin with."""

from __future__ import annotations

import pytest

from parqlake import Lake, Table
from parqlake.testing.data import ORDERS


@pytest.fixture
def table(lake: Lake) -> Table:
    """An empty table of orders."""
    return lake.create_table("sales.orders", ORDERS)


@pytest.fixture
def by_region(lake: Lake) -> Table:
    """An empty table of orders, partitioned by region."""
    return lake.create_table("sales.by_region", ORDERS, partition_by=["region"])
