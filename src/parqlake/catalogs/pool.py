"""Connections that are kept for the next transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable

from parqlake.catalogs.dialect import Session
from parqlake.core.errors import CatalogError

_MOST_IDLE = 8


class Pool:
    """Hands out connections, each to one user at a time, and keeps a few of those that come back.

    Belongs to the process that made it: a forked child makes its own and never touches the parent's connections,
    not even to close them, since that would end the parent's conversation with the server.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        """`connect` makes a new connection."""
        self._connect = connect
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> tuple[Session, bool]:
        """A connection, and whether it was used before, so that it may have been cut while it lay idle."""
        with self._lock:
            if self._closed:
                raise CatalogError("the catalog is closed; connect to the lake again")
            if self._idle:
                return self._idle.pop(), True
        return self._connect(), False

    def give_back(self, session: Session) -> None:
        """Keeps the connection for the next user, or closes it."""
        if session.reusable:
            with self._lock:
                if not self._closed and len(self._idle) < _MOST_IDLE:
                    self._idle.append(session)
                    return
        session.close()

    def close(self) -> None:
        """Closes all idle connections; those in use are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()
