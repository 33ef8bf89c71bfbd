"""These tests share the session of the plugin, on one worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps these tests on one worker: a session takes long to start and much memory."""
    for item in items:
        if "spark" in item.nodeid.split("::")[0].split("/"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
