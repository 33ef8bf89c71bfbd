"""Fixtures of the whole suite; those that other backends can use too come from `parqlake.testing`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 6 * 1024**3

# These machines are shared and noisy: no test may fail because one example took long.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
settings.register_profile("thorough", settings.get_profile("shared"), max_examples=200)  # of `make test-all`
settings.load_profile("shared")


def pytest_configure(config: pytest.Config) -> None:
    """Puts the files of tests into memory where there is enough: waiting for a disk's fsync was a third of the time.

    Kills and crashes of processes are no different there. `--basetemp` or `TMPDIR` choose another place.
    """
    if hasattr(config, "workerinput") or config.option.basetemp or "TMPDIR" in os.environ or not _MEMORY.is_dir():
        return
    if min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) < _ENOUGH_BYTES:
        return
    for left in _MEMORY.glob("parqlake-tests-*"):  # of a run that was killed
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"parqlake-tests-{os.getpid()}-", dir=_MEMORY)
    config.option.basetemp = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
