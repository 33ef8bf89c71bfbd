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

from parqlake.core.errors import CatalogError, DataCorruptionError, ParqlakeError, VersionNotFoundError
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

HAND_OFF = timedelta(hours=24)
"""A plan that was handed to another engine is held so long: nobody says when it is read."""

_Result = TypeVar("_Result")


class Hold:
    """A lease on versions of a table, taken late and renewed by the lease keeper's thread."""

    def __init__(
        self, context: LakeContext, table_id: int, first: int, last: int, *, once: timedelta | None = None
    ) -> None:
        """With `once`, a lease of that length is taken, which nobody renews; else it is renewed until `release`."""
        self._catalog: weakref.ref[Catalog] = weakref.ref(context.catalog)  # a hold keeps no lake from being let go
        self._length = once or context.lease
        self._is_renewed = once is None
        self._about = (table_id, first, last)
        self._lease_id = ""
        self._renew_at = 0.0
        self._lock = threading.Lock()
        self._stop = LEASES.stop  # at hand even when the interpreter ends
        self._number = LEASES.start(self.beat, seconds=REGISTER_AFTER_SECONDS)

    def beat(self) -> None:
        """Takes the lease down, or renews it when that is due."""
        moment, catalog = time.monotonic(), self._catalog()
        if catalog is None:
            self.let_go()
            return
        with self._lock:
            if moment < self._renew_at or self._number < 0:
                return
            self._lease_id = self._lease_id or str(uuid_utils.uuid7())
            lease = ReaderLease(self._lease_id, *self._about, who(), now() + self._length)
            with catalog.write() as writer:
                writer.hold_versions(lease)
            self._renew_at = moment + self._length.total_seconds() / 3
        if not self._is_renewed:
            self.let_go()

    def let_go(self) -> None:
        """Stops renewing; a lease that was taken runs out by itself. Safe wherever objects are collected."""
        self._stop(self._number)

    def release(self) -> None:
        """Stops renewing, and gives a lease that was taken back."""
        self._stop(self._number)
        with self._lock:
            self._number = -1
            taken, self._lease_id = self._lease_id, ""
        catalog = self._catalog()
        if taken and catalog is not None:
            try:
                with catalog.write() as writer:
                    writer.release_versions(taken)
            except ParqlakeError:
                return  # it runs out by itself


class VersionGuard:
    """Sees to it that what a scan plans and reads belongs to versions that are kept, or says that they are not."""

    def __init__(self, context: LakeContext, info: TableInfo, first: int, last: int, *, known: bool) -> None:
        """For versions `first` to `last`; `known` if someone has just looked that they are kept."""
        self._context = context
        self._info = info
        self._first, self._last = first, last
        self._about = (info.table_id, first, last)
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
        hold = Hold(self._context, *self._about)
        return pa.RecordBatchReader.from_batches(batches.schema, _Stream(batches, hold, self))

    def hold_while_alive(self, reader: object) -> None:
        """Holds the versions until the object is let go of that reads them when it likes."""
        self.check()
        if not self._is_nothing:
            hold = Hold(self._context, *self._about)
            weakref.finalize(reader, hold.let_go).atexit = False

    def hand_off(self) -> None:
        """Holds the versions for readers that are out of sight: another engine's, which reads when it likes.

        One lease for a version in half a day, however many plans of it are handed off.
        """
        self.check()
        if self._is_nothing:
            return
        moment = time.monotonic()
        with _hand_offs_lock:
            held = _hand_offs.setdefault(self._context.catalog, {})
            for about in [about for about, until in held.items() if until <= moment]:
                del held[about]
            if self._about not in held:
                held[self._about] = moment + HAND_OFF.total_seconds() / 2
                Hold(self._context, *self._about, once=HAND_OFF)

    def hold_for(self, duration: timedelta) -> None:
        """Takes a lease of this length at once; nobody renews it, and it runs out by itself."""
        self.check()
        if not self._is_nothing:
            lease = ReaderLease(str(uuid_utils.uuid7()), *self._about, who(), now() + duration)
            with self._context.catalog.write() as writer:
                writer.hold_versions(lease)

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


_hand_offs: weakref.WeakKeyDictionary[Catalog, dict[tuple[int, int, int], float]] = weakref.WeakKeyDictionary()
"""What each lake has handed off of late: versions of tables, and until when that need not be taken down again."""
_hand_offs_lock = threading.Lock()
