"""Health of tables, asked for beside the pages: what takes long is not waited for, and is there for the next look."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from parqlake.core.model import TableInfo
from parqlake.table.context import LakeContext
from parqlake.table.health import Health, health

_KEPT_SECONDS = 20.0
"""What is known is asked for again after so long: tombstones and leases change without a version."""
_KEPT_TIMES = 60.0
"""What took long is kept for so many times as long."""
_MOST = 1_000
_Key = tuple[int, int]
_Found = tuple[Health, float]


class HealthDesk:
    """Remembers the health of tables for a while; safe to use from many threads."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="parqlake-health")
        self._asked: dict[_Key, Future[_Found]] = {}
        self._lock = threading.Lock()

    def of(self, info: TableInfo, version: int) -> Health:
        """How the table is; waits for it."""
        return self._ask(info, version).result()[0]

    def within(self, info: TableInfo, version: int, seconds: float) -> Health | None:
        """How the table is, if that is known in time; else it goes on being found out."""
        try:
            return self._ask(info, version).result(max(0.0, seconds))[0]
        except TimeoutError:
            return None

    def _ask(self, info: TableInfo, version: int) -> Future[_Found]:
        key = (info.table_id, version)
        with self._lock:
            asked = self._asked.get(key)
            if asked is None or _is_stale(asked):
                if len(self._asked) >= _MOST:
                    self._asked.clear()
                asked = self._asked[key] = self._workers.submit(self._look, info)
            return asked

    def _look(self, info: TableInfo) -> _Found:
        began = time.monotonic()
        found = health(self._context, info)
        now = time.monotonic()
        return found, now + max(_KEPT_SECONDS, _KEPT_TIMES * (now - began))


def _is_stale(asked: Future[_Found]) -> bool:
    if not asked.done():
        return False
    return asked.exception() is not None or asked.result()[1] < time.monotonic()
