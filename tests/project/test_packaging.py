"""What ships and how it is built: the wheel, the make targets, CI, the hooks."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

TARGETS = ("setup", "demo", "test", "test-all", "lint", "types", "docs", "bench", "clean", "help")


@pytest.fixture(scope="module")
def wheel(root: Path, run_python: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run_python("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=root)
    (found,) = folder.glob("*.whl")
    return found


def test_wheel_is_typed_and_holds_every_module(wheel: Path, root: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "parqlake/py.typed" in names
    sources = {path.relative_to(root / "src").as_posix() for path in (root / "src").rglob("*.py")}
    assert sources - names == set()
    pages = [path for folder in ("templates", "static") for path in (root / "src/parqlake/ui" / folder).iterdir()]
    assert {path.relative_to(root / "src").as_posix() for path in pages} - names == set()
    assert len(pages) > 20


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"parqlake", "pyspark_parqlake"}


def test_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(path).decode())
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"duckdb", "postgres", "polars", "pandas", "all"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["Requires-Python"] == ">=3.11"


def test_make_has_the_targets(root: Path) -> None:
    text = (root / "Makefile").read_text(encoding="utf-8")
    documented = set(re.findall(r"^([a-z-]+):.*## ", text, flags=re.MULTILINE))
    assert set(TARGETS) - documented == set()


def test_ci_runs_make_test(root: Path) -> None:
    script = root / ".ci/run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^exec make test\b", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


@pytest.mark.parametrize("name", ["setup.sh", "constraints.sh", "chromium.sh"])
def test_scripts_are_valid_sh(root: Path, name: str) -> None:
    assert subprocess.run(["sh", "-n", str(root / "scripts" / name)], check=False).returncode == 0


def test_hooks_are_local(root: Path) -> None:
    text = (root / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (\S+)", text)) == {"local"}
    assert re.findall(r"id: (\S+)", text) == ["ruff-check", "ruff-format", "mypy", "import-linter"]
    assert set(re.findall(r"entry: (\S+?)/", text)) == {".venv"}
