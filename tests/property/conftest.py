"""A lake that many examples share; each makes a table of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import parqlake
from parqlake import Lake


@pytest.fixture(scope="session")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake in memory: nothing has to be forced to disk for a thousand small tables."""
    catalog = tmp_path_factory.mktemp("property") / "catalog.sqlite"
    with parqlake.connect("memory://parqlake-property", catalog=f"sqlite:///{catalog}") as lake:
        yield lake
