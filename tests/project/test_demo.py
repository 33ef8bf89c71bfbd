"""The demo keeps its word, and touches nothing that is not its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def test_the_demo_runs_and_every_promise_holds(root: Path, tmp_path: Path, run_python: Callable[..., str]) -> None:
    old = tmp_path / "lake/old.parquet"
    old.parent.mkdir()
    old.write_bytes(b"of an earlier run")
    (tmp_path / "lake/.parqlake-demo").touch()
    report = run_python(str(root / "examples/demo.py"), "--folder", "lake", "--rows", "20000", cwd=tmp_path)
    assert "14 of 14 promises held" in report
    assert "\x1b" not in report
    assert (tmp_path / "lake/catalog.sqlite").is_file()
    assert not old.exists()


def test_the_demo_replaces_no_other_folder(root: Path, tmp_path: Path) -> None:
    precious = tmp_path / "lake/precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    command = [sys.executable, str(root / "examples/demo.py"), "--folder", "lake"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is no demo lake" in done.stderr
    assert precious.read_text() == "mine"
