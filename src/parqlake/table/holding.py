"""Holding versions: a reader at work is heard of before vacuum may take its files.

A version is known to be kept when a scan is made, and asked for again if that is more than a minute ago. From then on
files of the version stay for `retention.SHORTEST_AGE` at least, even if it expires in the same instant. A read that is
over by then costs the catalog nothing. One that still goes on after a minute takes a lease, renewed until it ends.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
import uuid_utils

from parqlake.core.errors import CatalogError, DataCorruptionError, VersionNotFoundError
from parqlake.core.model import TableInfo
from parqlake.core.ports import Catalog, CatalogReader
from parqlake.core.retention import ReaderLease
from parqlake.table.context import LakeContext, now
from parqlake.table.lease import LEASES
from parqlake.table.unit import who
from parqlake.table.versions import live_head

REGISTER_AFTER_SECONDS = 60.0
"""A read that is over by then is not taken down in the catalog."""

FRESH_SECONDS = 60.0
"""So long it need not be asked again whether a version is kept."""

LONGEST_HAND_OFF = timedelta(hours=24)
"""A plan that was handed to another engine is held so long, by the process that made it: nobody says when it ends."""

_Result = TypeVar("_Result")


class Hold:
    """A lease on versions of a table, taken late and renewed by the lease keeper's thread."""

    def __init__(
        self, context: LakeContext, table_id: int, first: int, last: int, *, ends: float | None = None
    ) -> None:
        """`ends` is on the monotonic clock; None: when `release` is called."""
        self._catalog: weakref.ref[Catalog] = weakref.ref(context.catalog)  # a hold keeps no lake from being let go
        self._lease = context.lease
        self._about = (table_id, first, last)
        self._lease_id = ""
        self._renew_at = 0.0
        self._ends = ends
        self._lock = threading.Lock()
        self._number = LEASES.start(self.beat, seconds=REGISTER_AFTER_SECONDS)

    def beat(self) -> None:
        """Takes the lease down, or renews it when that is due."""
        moment, catalog = time.monotonic(), self._catalog()
        if catalog is None or (self._ends is not None and moment > self._ends):
            self.release()
            return
        with self._lock:
            if moment < self._renew_at or self._number < 0:
                return
            self._lease_id = self._lease_id or str(uuid_utils.uuid7())
            lease = ReaderLease(self._lease_id, *self._about, who(), now() + self._lease)
            with catalog.write() as writer:
                writer.hold_versions(lease)
            self._renew_at = moment + self._lease.total_seconds() / 3

    @property
    def is_held(self) -> bool:
        """Whether it is still renewed."""
        return self._number >= 0

    def extend(self, ends: float) -> None:
        """Moves the end on."""
        self._ends = ends

    def let_go(self) -> None:
        """Stops renewing; a lease that was taken runs out by itself. Safe wherever objects are collected."""
        LEASES.stop(self._number)

    def release(self) -> None:
        """Stops renewing, and gives a lease that was taken back."""
        LEASES.stop(self._number)
        with self._lock:
            self._number = -1
            taken, self._lease_id = self._lease_id, ""
        catalog = self._catalog()
        if taken and catalog is not None:
            try:
                with catalog.write() as writer:
                    writer.release_versions(taken)
            except CatalogError:
                return  # it runs out by itself


class VersionGuard:
    """Sees to it that what a scan plans and reads belongs to versions that are kept, or says that they are not."""

    def __init__(self, context: LakeContext, info: TableInfo, first: int, last: int, *, known: bool) -> None:
        """For versions `first` to `last`; `known` if someone has just looked that they are kept."""
        self._context = context
        self._info = info
        self._first, self._last = first, last
        self._checked_at = time.time() if known else float("-inf")

    def check(self) -> None:
        """Raises `VersionNotFoundError` if a version is not kept any more; asks nobody if that is known.

        A table that was dropped is refused too: its files stay for a while, but nobody holds them.
        """
        if self._is_nothing or self._is_fresh():
            return
        asked_at = time.time()
        with self._context.catalog.read() as reader:
            live_head(reader, self._info)
            check_kept(reader, self._info, self._first, self._last)
        self._checked_at = asked_at

    def planned(self, make: Callable[[], _Result]) -> _Result:
        """What `make` finds in the catalog, if the versions were kept all the while."""
        self.check()
        made = make()
        self.check()
        return made

    def stream(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The same stream, with a hold on the versions until it ends or is dropped."""
        if self._is_nothing:
            return batches
        hold = Hold(self._context, self._info.table_id, self._first, self._last)
        return pa.RecordBatchReader.from_batches(batches.schema, _Stream(batches, hold, self))

    def hand_off(self) -> None:
        """Holds the versions for readers that are out of sight: another engine's, which reads when it likes."""
        self.check()
        if self._is_nothing:
            return
        ends = time.monotonic() + LONGEST_HAND_OFF.total_seconds()
        with _hand_offs_lock:
            held = _hand_offs.setdefault(self._context.catalog, {})
            about = (self._info.table_id, self._first, self._last)
            if about in held and held[about].is_held:
                held[about].extend(ends)
            else:
                held[about] = Hold(self._context, *about, ends=ends)

    def explained(self, error: DataCorruptionError) -> Exception:
        """The reason for a missing file, if it is that the version expired meanwhile."""
        try:
            with self._context.catalog.read() as reader:
                check_kept(reader, self._info, self._first, self._last)
        except VersionNotFoundError as expired:
            return expired
        except CatalogError:
            return error
        return error

    @property
    def _is_nothing(self) -> bool:
        return self._last == 0 or self._first > self._last

    def _is_fresh(self) -> bool:
        return 0 <= time.time() - self._checked_at < FRESH_SECONDS


class _Stream:
    """Batches of a reader, and the hold that ends with them."""

    def __init__(self, batches: pa.RecordBatchReader, hold: Hold, guard: VersionGuard) -> None:
        self._batches = batches
        self._hold = hold
        self._guard = guard

    def __iter__(self) -> _Stream:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return self._batches.read_next_batch()
        except DataCorruptionError as error:
            self._hold.release()
            explained = self._guard.explained(error)
            if explained is error:
                raise
            raise explained from error
        except BaseException:  # the end, too
            self._hold.release()
            raise

    def __del__(self) -> None:
        self._hold.let_go()


def check_kept(reader: CatalogReader, info: TableInfo, first: int, last: int) -> None:
    """Raises `VersionNotFoundError` unless all versions from `first` to `last` are kept."""
    kept = set(reader.kept_versions(info.table_id, first=first, last=last))
    gone = next((version for version in range(last, first - 1, -1) if version not in kept), None)
    if gone is not None:
        raise VersionNotFoundError(
            f"version {gone} of {info.name} was expired and cannot be read any more; history() shows what is kept,"
            " and a tag keeps a version for as long as it is needed"
        )


_hand_offs: weakref.WeakKeyDictionary[Catalog, dict[tuple[int, int, int], Hold]] = weakref.WeakKeyDictionary()
_hand_offs_lock = threading.Lock()
