"""Spark Connect: a client without a JVM of its own has the same calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parqlake.core.errors import JavaMissingError
from parqlake.spark.session import check_java


@pytest.mark.slow
def test_a_client_writes_and_reads(tmp_path: Path) -> None:
    try:
        check_java()
    except JavaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    command = [sys.executable, str(Path(__file__).with_name("connect_job.py")), str(tmp_path / "lake")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK", "PYSPARK"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line)
    assert found == {
        "client": "pyspark.sql.connect.session",
        "scan": "10",
        "view": "1000",
        "format": str(1000 + 5 - 333 - 2 + 33),
        "rows": str(1000 + 5 - 333 - 2 + 33 + 1000),
    }
