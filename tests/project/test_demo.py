"""The examples keep their word, and touch nothing that is not their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from parqlake.core.errors import JavaMissingError
from parqlake.spark.session import check_java
from parqlake.testing.plugin import QUICK_JAVA


def test_the_demo_runs_on_spark_and_every_promise_holds(root: Path, tmp_path: Path) -> None:
    try:
        check_java()
    except JavaMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    command = [sys.executable, str(root / "examples/demo.py"), "--folder", "lake", "--rows", "2000"]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=600
    )
    assert "13 of 13 promises held" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert (tmp_path / "lake/catalog.sqlite").is_file()
    drawn = ElementTree.parse(tmp_path / "lake/clustering.svg").getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) > 30


@pytest.mark.slow
def test_the_tour_runs_and_every_promise_holds(root: Path, tmp_path: Path, run_python: Callable[..., str]) -> None:
    old = tmp_path / "lake/old.parquet"
    old.parent.mkdir()
    old.write_bytes(b"of an earlier run")
    (tmp_path / "lake/.parqlake-demo").touch()
    report = run_python(str(root / "examples/tour.py"), "--folder", "lake", "--rows", "20000", cwd=tmp_path)
    assert "14 of 14 promises held" in report
    assert "\x1b" not in report
    assert (tmp_path / "lake/catalog.sqlite").is_file()
    assert not old.exists()


@pytest.mark.parametrize("example", ["demo", "tour"])
def test_an_example_replaces_no_other_folder(root: Path, tmp_path: Path, example: str) -> None:
    precious = tmp_path / "lake/precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    command = [sys.executable, str(root / f"examples/{example}.py"), "--folder", "lake"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is no demo lake" in done.stderr
    assert precious.read_text() == "mine"
