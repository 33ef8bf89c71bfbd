"""Tables that many tests of the conformance suite begin with, and types that an engine may not hold."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from parqlake import Lake, Table, errors
from parqlake.testing.backends import Backend
from parqlake.testing.data import ORDERS, TYPES, TypeCase, state
from parqlake.testing.frames import spark_holds


@pytest.fixture
def table(lake: Lake) -> Table:
    """An empty table of orders."""
    return lake.create_table("sales.orders", ORDERS)


@pytest.fixture
def by_region(lake: Lake) -> Table:
    """An empty table of orders, partitioned by region."""
    return lake.create_table("sales.by_region", ORDERS, partition_by=["region"])


@pytest.fixture
def types(backend: Backend) -> tuple[TypeCase, ...]:
    """The cases of all types that the engine holds."""
    return tuple(case for case in TYPES if backend.engine != "spark" or spark_holds(case.type))


@pytest.fixture
def must_hold(backend: Backend, lake: Lake) -> Callable[[pa.DataType], None]:
    """Skips the test for a type that the engine cannot hold, once it has refused it by name."""

    def check(type_: pa.DataType) -> None:
        if backend.engine != "spark" or spark_holds(type_):
            return
        before = state(lake)
        with pytest.raises(errors.UnsupportedTypeError, match=r'column "odd.*": Spark cannot hold') as caught:
            lake.create_table("types.odd", pa.schema([("fine", pa.int64()), ("odd", type_)]))
        assert str(type_) in str(caught.value)
        assert state(lake) == before
        pytest.skip(f"Spark has no type for {type_}, and says so")

    return check
