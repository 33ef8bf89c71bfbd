"""Importing the package is cheap, and the rooms keep their distance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]
ENGINES = {"pyspark", "duckdb", "polars", "pandas", "datafusion", "daft", "psycopg"}
HEAVY = ENGINES | {"sqlglot", "pyarrow", "numpy", "fsspec"}
MOST_MODULES = 40


@pytest.fixture(scope="module")
def loaded_by(run_python: Run) -> Callable[[str], set[str]]:
    """Tells which modules a statement loads in a fresh interpreter, beyond those of the interpreter itself."""

    def loaded(statement: str) -> set[str]:
        code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*sorted(set(sys.modules) - before))"
        return set(run_python("-I", "-W", "error", "-c", code).split())

    return loaded


def test_import_loads_no_engine_and_little_else(loaded_by: Callable[[str], set[str]]) -> None:
    loaded = loaded_by("import parqlake")
    assert "parqlake" in loaded
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()
    assert len(loaded) < MOST_MODULES, sorted(loaded)


def test_the_measure_sees_what_is_loaded(loaded_by: Callable[[str], set[str]]) -> None:
    assert "pyarrow" in loaded_by("import pyarrow")


def test_public_names_are_there_and_load_no_engine(loaded_by: Callable[[str], set[str]]) -> None:
    loaded = loaded_by("import parqlake\nfor name in parqlake.__all__:\n    getattr(parqlake, name)")
    by_pyarrow = {"pandas"}  # pyarrow.dataset loads it, where it is installed
    assert (ENGINES - by_pyarrow) & {name.partition(".")[0] for name in loaded} == set()


def test_imports_keep_to_the_rooms(root: Path, run_python: Run) -> None:
    report = run_python(str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo", cwd=root)
    assert "0 broken" in report
