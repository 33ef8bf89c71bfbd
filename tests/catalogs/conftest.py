"""Catalogs on SQLite, DuckDB and PostgreSQL: one server for the session, one file or schema for each test."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from catalog_support import Lab

from parqlake.catalogs.catalog import SqlCatalog
from parqlake.catalogs.open import open_catalog
from parqlake.testing.postgres import PostgresServer, PostgresUnavailableError, start_postgres

KINDS = ("sqlite", "duckdb", "postgres")
Open = Callable[..., SqlCatalog]


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with ExitStack() as stack:
        try:
            started = stack.enter_context(start_postgres(fsync=False))
        except PostgresUnavailableError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(str(error))
        yield started


@pytest.fixture
def postgres_url(server: PostgresServer) -> str:
    return server.dsn(f"t_{uuid.uuid4().hex}")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"{kind}:///{tmp_path / f'catalog.{kind}'}"


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens catalogs and closes them after the test."""
    with ExitStack() as stack:

        def open_one(url: str, **options: Any) -> SqlCatalog:
            catalog = open_catalog(url, **options)
            stack.callback(catalog.close)
            return catalog

        yield open_one


@pytest.fixture
def catalog(url: str, opened: Open) -> SqlCatalog:
    return opened(url)


@pytest.fixture
def lab(catalog: SqlCatalog) -> Lab:
    return Lab(catalog)
