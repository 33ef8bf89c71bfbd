"""SQLite catalogs in places where nothing can be written, and in those of other users."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from catalog_support import Lab, id_file

from parqlake.catalogs.open import open_catalog

READ_ONLY = """
import os, sys
import parqlake.catalogs.sqlite
from parqlake.catalogs.open import open_catalog
from parqlake.core.errors import ParqlakeError
os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[2]))
try:
    catalog = open_catalog(sys.argv[1])
    with catalog.read() as reader:
        print([head.version for head in reader.heads().values()])
    with catalog.read() as reader:
        print(len(reader.tables()))
    with catalog.write() as writer:
        writer.drop_table(1, None)
except ParqlakeError as error:
    print(type(error).__name__, error)
"""


def as_nobody(path: Path) -> list[str]:
    nobody = pwd.getpwnam("nobody")
    command = [sys.executable, "-c", READ_ONLY, str(path), str(nobody.pw_uid), str(nobody.pw_gid)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into but not write to."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_read_only_catalog_can_be_read_and_says_that_it_cannot_be_written(open_folder: Path) -> None:
    path = open_folder / "catalog.sqlite"
    lab = Lab(open_catalog(path))
    lab.change([id_file()])
    lab.catalog.close()
    path.chmod(0o644)
    versions, tables, refusal = as_nobody(path)
    assert (versions, tables) == ("[1]", "1")
    assert refusal.startswith("CatalogError")
    assert "is read-only" in refusal


def test_a_read_only_catalog_with_an_unread_log_is_refused(open_folder: Path) -> None:
    path = open_folder / "catalog.sqlite"
    lab = Lab(open_catalog(path))
    lab.change([id_file()])
    for file in open_folder.iterdir():
        (open_folder / f"copy-{file.name}").write_bytes(file.read_bytes())
        (open_folder / f"copy-{file.name}").chmod(0o644)
    (open_folder / "copy-catalog.sqlite-shm").unlink()
    (answer,) = as_nobody(open_folder / "copy-catalog.sqlite")
    assert re.match(r"CatalogUnavailableError .*copy-catalog.sqlite-wal", answer)
    lab.catalog.close()


def test_a_catalog_that_may_not_be_read_or_created(open_folder: Path) -> None:
    path = open_folder / "catalog.sqlite"
    open_catalog(path).close()
    (answer,) = as_nobody(path)
    assert answer.startswith("CatalogUnavailableError")
    (answer,) = as_nobody(open_folder / "new.sqlite")
    assert re.match(r"CatalogError .*cannot be created", answer)


def test_a_folder_that_may_not_be_looked_into_gives_one_clear_error(open_folder: Path) -> None:
    path = open_folder / "hidden" / "catalog.sqlite"
    path.parent.mkdir()
    open_catalog(path).close()
    path.parent.chmod(0o700)
    assert as_nobody(path)[0].startswith("CatalogError")
