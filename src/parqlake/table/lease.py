"""Leases: a transaction that is at work says so, and recovery leaves it alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from parqlake.core.errors import ParqlakeError

Beat = Callable[[], object]
_LINGER_SECONDS = 30.0


@dataclass(slots=True)
class _Entry:
    beat: Beat
    seconds: float
    due: float


class LeaseKeeper:
    """Renews all leases of this process on one thread of its own, which ends when there were none for a while.

    A beat that fails is tried again at the next turn: only a lease that nobody could renew for its whole length runs
    out, and then the commit is refused, so that nothing wrong can come of it.
    """

    def __init__(self) -> None:
        """Begins with no lease and no thread."""
        self._changed = threading.Condition()
        self._beats: dict[int, _Entry] = {}
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
            self._beats[self._next] = _Entry(beat, seconds, due)
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
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Sleeps until a beat is due, or runs those that are; False when there were none for a while.

        One call for each turn, so that a thread that sleeps holds on to nothing of those that it has served.
        """
        with self._changed:
            self._wakes_at = time.monotonic() + _LINGER_SECONDS
            if not self._changed.wait_for(lambda: bool(self._beats), timeout=_LINGER_SECONDS):
                self._running = False
                return False
            now = time.monotonic()
            self._wakes_at = self._next_due(now)
            if self._wakes_at > now:
                self._changed.wait(self._wakes_at - now)
                return True
            due = [entry for entry in list(self._beats.values()) if entry.due <= now]
            for entry in due:
                entry.due = now + entry.seconds
        for entry in due:
            try:
                entry.beat()
            except ParqlakeError:
                continue
        return True

    def _next_due(self, now: float) -> float:
        # Copies, here and above, because `stop` may come from a finaliser on this very thread, in the middle of a loop.
        return min((entry.due for entry in list(self._beats.values())), default=now)


LEASES = LeaseKeeper()
