"""Tests that use Spark share the session of the plugin, on one worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import parqlake

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps those that need a session on the worker that has one."""
    for item in items:
        if "pipeline" in item.nodeid.split("::")[0].split("/") and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[parqlake.Lake]:
    """A lake in a folder."""
    with parqlake.connect(tmp_path / "warehouse", progress=False) as lake:
        yield lake
