"""What the tests of the project itself share: where it is, and which files belong to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {
    ".git",
    ".venv",
    ".cache",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
    "__pycache__",
    "build",
    "dist",
    "site",
    "results",
    "warehouse",
    "demo-lake",
}


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def project_files(root: Path) -> list[Path]:
    """Every file that belongs to the project, without what tools and tests leave behind."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in NOT_OURS)
        found += [Path(folder, name) for name in sorted(files)]
    return found


@pytest.fixture(scope="session")
def run_python(root: Path) -> Run:
    """Runs the interpreter with the arguments given, and returns what it printed; fails if it does."""

    def run(*arguments: str, cwd: Path = root, timeout: int = 120) -> str:
        command = [sys.executable, *arguments]
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            command, cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=timeout
        )
        if done.returncode:
            pytest.fail(f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout

    return run
