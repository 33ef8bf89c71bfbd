"""Lakes that several processes share, and the processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from durability_support import Start

from parqlake.testing.backends import Backend, LakePlace, new_place
from parqlake.testing.postgres import PostgresServer

WRITER = Path(__file__).with_name("writer.py")


@pytest.fixture(params=["sqlite", "postgres"])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> LakePlace:
    """A lake that several processes can write to."""

    def dsn(schema: str) -> str:
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.dsn(schema)

    return new_place(Backend(catalog=request.param), tmp_path, dsn)


@pytest.fixture
def start_writer() -> Iterator[Start]:
    """Starts writer processes that wait for a line on their standard input; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(place: LakePlace, *, writer: int, count: int, engine: str = "pyarrow") -> subprocess.Popen[str]:
        command = [sys.executable, str(WRITER), place.root, place.catalog]
        command += ["--writer", str(writer), "--count", str(count), "--engine", engine]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
