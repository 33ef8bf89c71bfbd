"""One Spark session for all tests of this folder."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parqlake.core.errors import JavaMissingError
from parqlake.spark import session

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps these tests on one worker: a session takes long to start and much memory."""
    for item in items:
        if "spark" in item.nodeid.split("::")[0].split("/"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session, stopped at the end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        try:
            made = session(master="local[2]", memory="1g")
        except JavaMissingError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))
    yield made
    made.stop()
