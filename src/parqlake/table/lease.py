"""Leases: a transaction that is at work says so, and recovery leaves it alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from parqlake.core.errors import ParqlakeError


class Heartbeat:
    """Calls `beat` every `seconds` on a thread of its own, from `start` until `stop`.

    A beat that fails is tried again at the next turn: only a lease that nobody could renew for its whole length runs
    out, and then the commit is refused, so that nothing wrong can come of it.
    """

    def __init__(self, beat: Callable[[], object], *, seconds: float) -> None:
        """Prepares the heartbeat; nothing runs yet."""
        self._beat = beat
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="parqlake-lease", daemon=True)
        self.last_error: ParqlakeError | None = None

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the thread; a beat that is under way is waited for."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._beat()
                self.last_error = None
            except ParqlakeError as error:
                self.last_error = error
