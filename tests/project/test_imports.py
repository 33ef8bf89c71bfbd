"""Importing the package is cheap, and the rooms keep their distance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import parqlake

Run = Callable[..., str]
ENGINES = {"pyspark", "duckdb", "polars", "pandas", "datafusion", "daft", "psycopg"}
HEAVY = ENGINES | {"sqlglot", "pyarrow", "numpy", "fsspec"}
MOST_MODULES = 40
FOR_CHANGES = {
    "parqlake.core.clustering",
    "parqlake.core.maintenance",
    "parqlake.core.merging",
    "parqlake.engines.arrow.part_writer",
    "parqlake.engines.duck",
    "parqlake.table.merging",
    "parqlake.table.transaction",
}


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


def test_a_scan_loads_nothing_that_changes_tables(loaded_by: Callable[[str], set[str]], tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        lake.create_table("a.b", pa.table({"id": [1, 2]})).append(pa.table({"id": [1, 2]}))
    read = f"import parqlake\nparqlake.connect({str(tmp_path / 'lake')!r}).table('a.b').scan('id = 2').to_arrow()"
    loaded = loaded_by(read)
    assert "parqlake.table.scan" in loaded
    assert FOR_CHANGES & loaded == set()  # half a second from start to answer is what short jobs notice


def test_imports_keep_to_the_rooms(root: Path, run_python: Run) -> None:
    report = run_python(str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo", cwd=root)
    assert "0 broken" in report
