"""What the tests of the explorer share: a lake with a history, a hostile one, clients, and a browser if there is."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

import parqlake
from parqlake.ui import app

sys.path.insert(0, str(Path(__file__).parent))
from ui_lake import fill, fill_hostile

HOST = "http://127.0.0.1:8765"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parqlake.Lake]:
    """A lake with a history, that no test changes."""
    with parqlake.connect(tmp_path_factory.mktemp("ui") / "lake") as lake:
        fill(lake)
        yield lake


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parqlake.Lake]:
    """A lake whose every name and value tries to break out of the page."""
    with parqlake.connect(tmp_path_factory.mktemp("ui") / "lake") as lake:
        fill_hostile(lake)
        yield lake


@pytest.fixture(scope="session")
def client(shown: parqlake.Lake) -> TestClient:
    """Asks the explorer of the lake with a history."""
    return TestClient(app(shown), base_url=HOST)


@pytest.fixture(scope="session")
def bad_client(hostile: parqlake.Lake) -> TestClient:
    """Asks the explorer of the hostile lake."""
    return TestClient(app(hostile), base_url=HOST)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; see scripts/chromium.sh."""
    names = (os.environ.get("PARQLAKE_CHROMIUM", ""), *CHROMIUMS)
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        message = "no Chromium is installed; scripts/chromium.sh installs one where it can"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[[Any], str]]:
    """Serves applications on free ports, and gives their addresses."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(application: Any) -> str:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(application, port=port, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        until = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.02)
        return f"http://127.0.0.1:{port}"

    yield serve
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
