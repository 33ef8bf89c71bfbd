"""The pytest plugin: options, and the fixtures `backend`, `place`, `lake` and `postgres`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parqlake.table.lake import Lake
from parqlake.testing.backends import CATALOGS, ENGINES, STORES, Backend, LakePlace, cells, new_place
from parqlake.testing.postgres import PostgresServer, PostgresUnavailableError, start_postgres

_OPTIONS = (("engines", ENGINES), ("catalogs", CATALOGS), ("stores", STORES))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that widen or narrow the matrix."""
    group = parser.getgroup("parqlake")
    for name, known in _OPTIONS:
        group.addoption(f"--{name}", default=",".join(known), help=f"comma-separated, of: {', '.join(known)}")
    group.addoption(
        "--matrix", choices=("star", "full"), default="star", help="a star around the first of each, or all"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test that needs a backend once for each cell."""
    if "backend" not in metafunc.fixturenames:
        return
    chosen: dict[str, list[str]] = {}
    for name, known in _OPTIONS:
        chosen[name] = [part.strip() for part in str(metafunc.config.getoption(f"--{name}")).split(",") if part.strip()]
        unknown = set(chosen[name]) - set(known)
        if unknown:
            raise pytest.UsageError(f"--{name}: unknown {sorted(unknown)}; known: {', '.join(known)}")
    full = metafunc.config.getoption("--matrix") == "full"
    found = cells(engines=chosen["engines"], catalogs=chosen["catalogs"], stores=chosen["stores"], full=full)
    metafunc.parametrize("backend", found, indirect=True, ids=str)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server on loopback, started once, stopped at the end."""
    try:
        manager = start_postgres()
        server = manager.__enter__()
    except PostgresUnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no PostgreSQL server can be started: {error}")
    try:
        yield server
    finally:
        manager.__exit__(None, None, None)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    """The cell of the matrix that the test runs on."""
    cell: Backend = request.param
    return cell


@pytest.fixture
def place(backend: Backend, tmp_path: Path, request: pytest.FixtureRequest) -> LakePlace:
    """A place for one lake, still empty."""

    def dsn(schema: str) -> str:
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.dsn(schema)

    return new_place(backend, tmp_path, dsn)


@pytest.fixture
def lake(place: LakePlace) -> Iterator[Lake]:
    """A new lake on the backend."""
    with place.connect() as opened:
        yield opened
