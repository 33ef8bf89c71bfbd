"""A Spark cluster on loopback for all tests of this folder, and the programs that run on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from parqlake.core.errors import JavaMissingError
from parqlake.testing.spark_cluster import SparkCluster, start_cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps these tests on one worker, so that there is one cluster."""
    for item in items:
        if "cluster" in item.nodeid.split("::")[0].split("/"):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the cluster's logs with each failure."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster is not None:
        report.sections.append(("Spark cluster", cluster.log_tail()))
    return report


@pytest.fixture(scope="session")
def cluster() -> Iterator[SparkCluster]:
    """A master and two workers, started once, stopped at the end."""
    try:
        manager = start_cluster(workers=2)
        started = manager.__enter__()
    except JavaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    try:
        yield started
    finally:
        manager.__exit__(None, None, None)
