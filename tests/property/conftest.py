"""A lake that many examples share; each makes a table of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import parqlake
from parqlake import Lake


@pytest.fixture(scope="session")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake in memory: nothing has to be forced to disk for a thousand small tables."""
    catalog = tmp_path_factory.mktemp("property") / "catalog.sqlite"
    with parqlake.connect("memory://parqlake-property", catalog=f"sqlite:///{catalog}") as lake:
        yield lake
