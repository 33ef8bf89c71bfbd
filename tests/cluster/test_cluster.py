"""The cluster itself: two hosts on loopback, and nothing left behind however it ends."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from cluster_support import running

from parqlake.testing.spark_cluster import SparkCluster, loopback_addresses, start_cluster

pytestmark = pytest.mark.slow


def test_it_listens_on_loopback_only_and_has_an_executor_on_each_worker(cluster: SparkCluster, tmp_path: Path) -> None:
    with running(cluster, "append_program.py", tmp_path / "lake") as program:
        executors = cluster.wait_for_executors(2)
        assert sorted(executor.host for executor in executors) == loopback_addresses(2)
        ours = {*cluster.pids(), program.process.pid, program.jvm().pid}
        listening = [c for c in psutil.net_connections("tcp") if c.status == "LISTEN" and c.pid in ours]
        assert {c.laddr.ip.removeprefix("::ffff:").split(".")[0] for c in listening} == {"127"}
        assert {executor.pid for executor in executors} <= {c.pid for c in listening}
        program.end()


def test_nothing_is_left_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), start_cluster(workers=1) as cluster:
        pids, folder = cluster.pids(), cluster._folder
        assert len(pids) == 2
        assert [worker["state"] for worker in cluster.status()["workers"]] == ["ALIVE"]
        raise ZeroDivisionError
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not folder.exists()
