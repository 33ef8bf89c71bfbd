"""Leases: a transaction that is at work says so, and recovery leaves it alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from parqlake.core.errors import ParqlakeError

Beat = Callable[[], object]
_LINGER_SECONDS = 30.0


class LeaseKeeper:
    """Renews all leases of this process on one thread of its own, which ends when there were none for a while.

    A beat that fails is tried again at the next turn: only a lease that nobody could renew for its whole length runs
    out, and then the commit is refused, so that nothing wrong can come of it.
    """

    def __init__(self) -> None:
        """Begins with no lease and no thread."""
        self._changed = threading.Condition()
        self._beats: dict[int, tuple[Beat, float, float]] = {}
        self._next = 0
        self._pid = 0
        self._running = False
        self._wakes_at = 0.0

    def start(self, beat: Beat, *, seconds: float) -> int:
        """Calls `beat` every so many seconds from now on, until `stop` is given the number returned."""
        if self._pid != os.getpid():  # the first use, or a forked child: the parent's thread and leases are not ours
            self.__init__()  # type: ignore[misc]
            self._pid = os.getpid()
        with self._changed:
            self._next += 1
            due = time.monotonic() + seconds
            self._beats[self._next] = (beat, seconds, due)
            if due < self._wakes_at:  # else the thread will be awake in time, and short work need not disturb it
                self._changed.notify()
            if not self._running:  # a thread for each commit would cost more than the commit
                self._running = True
                threading.Thread(target=self._run, name="parqlake-leases", daemon=True).start()
            return self._next

    def stop(self, number: int) -> None:
        """Ends the renewal. A beat that is under way may still end after this returns; it does no harm."""
        with self._changed:
            self._beats.pop(number, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._wakes_at = time.monotonic() + _LINGER_SECONDS
                if not self._changed.wait_for(lambda: bool(self._beats), timeout=_LINGER_SECONDS):
                    self._running = False
                    return
                self._wakes_at = min(due for _, _, due in self._beats.values())
                wait = self._wakes_at - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                now = time.monotonic()
                due = {number: entry for number, entry in self._beats.items() if entry[2] <= now}
                for number, (beat, seconds, _) in due.items():
                    self._beats[number] = (beat, seconds, now + seconds)
            for beat, _, _ in due.values():
                try:
                    beat()
                except ParqlakeError:
                    continue


LEASES = LeaseKeeper()
