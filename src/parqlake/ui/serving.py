"""`serve`: the explorer on a port of this machine."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import threading
import time
import webbrowser
from urllib.parse import urlencode

import uvicorn

from parqlake.core.errors import InvalidOptionError
from parqlake.table.lake import Lake
from parqlake.ui.application import app
from parqlake.ui.guard import is_loopback

PORT = 8765
_TRIES = 50
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 (asked for, and then with a token)


def serve(
    lake: Lake,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_writes: bool = False,
    token: str | None = None,
    open_browser: bool = False,
) -> None:
    """Shows the lake in the browser until it is interrupted; the address is printed to stderr.

    On the loopback interface, which is the default, others cannot reach it. On any other one a token is needed, which
    is made if none is given and is part of the address that is printed; the connection is not encrypted.

    Args:
        lake: as `parqlake.connect` gives it.
        host: the interface to listen on.
        port: where to listen; 8765 or the next free one if left out, any free one if 0.
        allow_writes: offers to compact, cluster, vacuum, restore and tag; otherwise nothing can be changed.
        token: what the address has to hold.
        open_browser: opens the page in the default browser.

    Raises:
        InvalidOptionError: the port is taken or the host is none of this machine.

    Example:
        >>> serve(parqlake.connect("warehouse"), open_browser=True)   # doctest: +SKIP
    """
    if token is not None and not token:
        raise InvalidOptionError("token='' is empty; leave it out, or give one that cannot be guessed")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    with _listening(host, port) as listener:
        name = socket.gethostname() if host in _EVERYWHERE else host
        address = _address(name, listener.getsockname()[1], token)
        application = app(lake, allow_writes=allow_writes, token=token, hosts=(host, name))
        mode = "changes are allowed" if allow_writes else "read-only"
        print(f"parqlake explorer ({mode}): {address}  (stop it with Ctrl-C)", file=sys.stderr)  # noqa: T201
        config = uvicorn.Config(application, log_level="warning", access_log=False, server_header=False)
        server = uvicorn.Server(config)
        if open_browser:
            threading.Thread(target=_open_when_up, args=(server, address), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):  # that is how one stops it
            server.run(sockets=[listener])


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens; if no port is asked for, the usual one or one of those that follow it."""
    wanted = range(PORT, PORT + _TRIES) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    failed: OSError | None = None
    for number in wanted:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
        except (OSError, OverflowError) as error:
            listener.close()
            failed = error if isinstance(error, OSError) else OSError(str(error))
        else:
            return listener
    raise InvalidOptionError(f"cannot listen on {host}, port {port or PORT}: {failed}; give another port") from failed


def _address(host: str, port: int, token: str | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?{urlencode({'token': token})}" if token else "")


def _open_when_up(server: uvicorn.Server, address: str) -> None:
    while not server.started and not server.should_exit:
        time.sleep(0.05)
    if server.started:
        webbrowser.open(address)
