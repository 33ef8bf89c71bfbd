"""A bounded memory of things that never change: segments, statistics pages, schemas."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any

_ENTRY_BYTES = 200
"""What an entry costs besides its arrays."""


class Cache:
    """Keeps what was used last, up to so many bytes; safe in many threads.

    There is nothing to invalidate: ids of segments and schemas are never given twice. Only committed things may
    be put in, since a rolled back transaction frees its ids again.
    """

    def __init__(self, limit_bytes: int) -> None:
        """A limit of 0 keeps nothing."""
        self._limit = limit_bytes
        self._used = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def limit_bytes(self) -> int:
        """How much it may hold."""
        return self._limit

    @property
    def used_bytes(self) -> int:
        """How much it holds now."""
        return self._used

    def get_many(self, keys: Iterable[Hashable]) -> dict[Hashable, Any]:
        """The values of the keys that are there; None is a value."""
        found = {}
        with self._lock:
            entries = self._entries
            for key in keys:
                entry = entries.get(key)
                if entry is not None:
                    entries.move_to_end(key)
                    found[key] = entry[0]
        return found

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Remembers the value, and forgets the longest unused ones if there is no room."""
        size = size_bytes + _ENTRY_BYTES
        if size > self._limit:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._used -= old[1]
            self._entries[key] = (value, size)
            self._used += size
            while self._used > self._limit:
                _, (_, freed) = self._entries.popitem(last=False)
                self._used -= freed
