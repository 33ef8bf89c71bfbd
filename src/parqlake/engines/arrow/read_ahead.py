"""Reading while writing: batches are made in a thread of their own, a few ahead of whoever takes them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from operator import attrgetter
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_nbytes: Callable[[Any], int] = attrgetter("nbytes")


def read_ahead(
    batches: Iterator[_T], *, max_bytes: int, size: Callable[[_T], int] = _nbytes
) -> Generator[_T, None, None]:
    """The same batches in the same order; up to so many bytes of them wait, and one more is under way.

    What goes wrong while a batch is made is raised where it would have come. Whoever stops early closes the generator,
    and so ends the thread. `size` tells the bytes of what is no batch alone.
    """
    ahead = _Ahead(batches, max_bytes, size)
    thread = threading.Thread(target=ahead.fill, name="parqlake-read-ahead", daemon=True)
    thread.start()
    try:
        while (batch := ahead.take()) is not None:
            yield batch
    finally:
        ahead.stop()
        thread.join()


class _Ahead(Generic[_T]):
    """What waits between the two threads."""

    def __init__(self, batches: Iterator[_T], max_bytes: int, size: Callable[[_T], int]) -> None:
        self._batches = batches
        self._max_bytes = max_bytes
        self._size = size
        self._waiting: deque[tuple[_T, int]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._ended = False
        self._stopped = False
        self._error: BaseException | None = None

    def fill(self) -> None:
        """Makes batches until there are no more, or nobody wants them."""
        error: BaseException | None = None
        try:
            for batch in self._batches:
                if not self._put(batch):
                    break
        except BaseException as found:
            error = found
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def take(self) -> _T | None:
        """The next batch; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if self._waiting:
                batch, size = self._waiting.popleft()
                self._bytes -= size
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            return None

    def stop(self) -> None:
        """Says that no more batches are wanted."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()

    def _put(self, batch: _T) -> bool:
        size = self._size(batch)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._bytes < self._max_bytes)
            self._waiting.append((batch, size))
            self._bytes += size
            self._changed.notify_all()
            return not self._stopped
