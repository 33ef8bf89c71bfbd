"""The pytest plugin: options, and the fixtures `backend`, `place`, `lake`, `feed`, `read`, `postgres` and `spark`.

Spark takes part in tests that are marked `engine_work`: those in which an engine writes what the test looks at. With
`--engines spark` it takes part in all. What is beside the first engine, catalog and store takes turns, a test each: one
other engine if the test is marked `engine_work`, else one other catalog or store or engine; tests that are marked
`catalog_work` run on all. `--matrix star` runs every test on all of them, `--matrix full` on every mix.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parqlake.core.errors import JavaMissingError, MissingExtraError
from parqlake.spark import session
from parqlake.table.lake import Lake
from parqlake.table.scan import Scan
from parqlake.testing.backends import CATALOGS, ENGINES, STORES, Backend, LakePlace, cells, new_place
from parqlake.testing.frames import check_frame, to_frame
from parqlake.testing.postgres import PostgresServer, PostgresUnavailableError, start_postgres

_OPTIONS = (("engines", ENGINES), ("catalogs", CATALOGS), ("stores", STORES))
_MARKERS = (
    "catalog_work: what the catalog does is looked at; every catalog and store takes part",
    "engine_work: what an engine writes is looked at; Spark takes part without being asked for",
    "xdist_group(name): tests of one group run on one worker of pytest-xdist",
)
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Small jobs are over before Java's second compiler has paid for itself: tests take less than half the time."""
_PANDAS_WARNING = "PySpark does not yet fully support pandas"

Feed = Callable[[Any], Any]
Read = Callable[[Scan], pa.Table]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that widen or narrow the matrix."""
    group = parser.getgroup("parqlake")
    for name, known in _OPTIONS:
        group.addoption(f"--{name}", help=f"comma-separated, of: {', '.join(known)}")
    group.addoption(
        "--matrix",
        choices=("turns", "star", "full"),
        default="turns",
        help="a star around the first of each, in which catalogs and stores take turns; the whole star; or all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the markers known."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test that needs a backend once for each cell."""
    if "backend" not in metafunc.fixturenames:
        return
    chosen = {name: _chosen(metafunc.config, name, known) for name, known in _OPTIONS}
    unasked = metafunc.config.getoption("--engines") is None
    if unasked and metafunc.definition.get_closest_marker("engine_work") is None:
        chosen["engines"].remove("spark")
    matrix = metafunc.config.getoption("--matrix")
    found = cells(
        engines=chosen["engines"], catalogs=chosen["catalogs"], stores=chosen["stores"], full=matrix == "full"
    )
    if matrix == "turns" and metafunc.definition.get_closest_marker("catalog_work") is None:
        engines_too = metafunc.definition.get_closest_marker("engine_work") is not None
        found = _in_turn(found, metafunc.definition.nodeid, engines_too=engines_too)
    metafunc.parametrize(
        "backend", [pytest.param(cell, id=str(cell), marks=_marks(cell)) for cell in found], indirect=True
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server on loopback, started once, stopped at the end."""
    try:
        manager = start_postgres(fsync=False)  # tests end processes, never the machine
        server = manager.__enter__()
    except PostgresUnavailableError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no PostgreSQL server can be started: {error}")
    try:
        yield server
    finally:
        manager.__exit__(None, None, None)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark session, started once, stopped at the end."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_PANDAS_WARNING)
        try:
            started = session(master="local[2]", memory="1g")
        except (JavaMissingError, MissingExtraError) as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"no Spark session can be started: {error}")
    yield started
    started.stop()


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

    if backend.engine == "spark":
        if backend.store == "memory":
            pytest.skip("what is in memory:// is seen by one process, and Spark's workers are others")
        request.getfixturevalue("spark")
    return new_place(backend, tmp_path, dsn)


@pytest.fixture
def lake(place: LakePlace) -> Iterator[Lake]:
    """A new lake on the backend."""
    with place.connect() as opened:
        yield opened


@pytest.fixture
def feed(backend: Backend, request: pytest.FixtureRequest) -> Feed:
    """Puts rows where the engine works: `table.append(feed(rows))` has Spark's executors write them.

    Other engines get the rows as they are.
    """
    if backend.engine != "spark":
        return lambda rows: rows
    session_of_test = request.getfixturevalue("spark")
    return lambda rows: to_frame(session_of_test, rows)


@pytest.fixture
def read(backend: Backend, request: pytest.FixtureRequest) -> Read:
    """Reads a scan as an Arrow table; in Spark cells, Spark must read the same rows."""
    if backend.engine != "spark":
        return lambda scan: scan.to_arrow()
    session_of_test = request.getfixturevalue("spark")

    def both(scan: Scan) -> pa.Table:
        found = scan.to_arrow()
        check_frame(session_of_test, scan, found)
        return found

    return both


def _chosen(config: pytest.Config, name: str, known: tuple[str, ...]) -> list[str]:
    given = config.getoption(f"--{name}")
    if given is None:
        return list(known)
    parts = [part.strip() for part in str(given).split(",") if part.strip()]
    unknown = set(parts) - set(known)
    if unknown:
        raise pytest.UsageError(f"--{name}: unknown {sorted(unknown)}; known: {', '.join(known)}")
    return parts


def _in_turn(found: list[Backend], test: str, *, engines_too: bool) -> list[Backend]:
    """The first cell and one other, always the same for a test; with `engines_too`, one of another engine."""
    middle, *others = found
    engines = [cell for cell in others if (cell.catalog, cell.store) == (middle.catalog, middle.store)]
    # Spark takes every third turn only: it is by far the slowest, and has tests of its own.
    turns = [cell for cell in engines for _ in range(1 if cell.engine == "spark" else 2)]
    group = turns if engines_too and turns else others
    return [middle, *(group[zlib.crc32(test.encode()) // 7 % len(group)] for _ in group[:1])]


def _marks(cell: Backend) -> list[pytest.MarkDecorator]:
    """Spark cells stay on one worker, because a session takes long to start and much memory."""
    if cell.engine != "spark":
        return []
    return [pytest.mark.xdist_group("spark"), pytest.mark.filterwarnings(f"ignore:{_PANDAS_WARNING}")]
