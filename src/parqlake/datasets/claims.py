"""Claims: whoever is at work on a directory says so, and says for how long; the dead are told from the living.

Everyone writes the own claim before looking for those of others. So of two maintainers at least the later one sees the
other, whatever the store; no lock file has to be taken over from a dead owner, which no object store does safely.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from parqlake.core.errors import ConflictError, FileNotInStoreError, PathIsFileError, StoreError
from parqlake.core.os_errors import store_error
from parqlake.datasets.place import HIDDEN_FOLDER
from parqlake.stores import FsspecStore
from parqlake.table.lease import LEASES
from parqlake.table.unit import who

LEASE_SECONDS = 60.0
SKEW_SECONDS = 30.0
"""How far the clocks of two machines may be apart before a living owner is taken for dead."""

CLAIMS_FOLDER = f"{HIDDEN_FOLDER}/claims"
_TRIES = 8
_SYSTEM: str = sys.platform
_UNKNOWN = "unknown"
_ours: set[str] = set()


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is at work, since when, and until when at least.

    Attributes:
        txn: the piece of work; its folder bears the name.
        owner: user, machine and process, for people.
        machine: where `pid` means the same process as here, or "" if that cannot be told.
        process: when the process began, so that a number that is used again is not taken for the same.
        maintains: whether the work replaces files, so that only one may do it at a time.
        holds: a maintainer that has seen no other; until then it only asks.
        expires: seconds since 1970 on the owner's clock.
    """

    txn: str
    owner: str
    machine: str
    pid: int
    process: str
    maintains: bool
    holds: bool
    since: str
    expires: float

    def is_alive(self) -> bool:
        """Whether the owner may still be at work.

        On the same machine the process itself is the answer. Elsewhere only the lease is: it is renewed while the
        owner lives, and runs out when it does not.
        """
        if self.machine and self.machine == _machine():
            if self.pid == os.getpid():
                return self.txn in _ours
            process = _process_of(self.pid)
            if process != _UNKNOWN:
                return process == self.process
        return time.time() <= self.expires + SKEW_SECONDS


def claim_path(txn: str) -> str:
    """Where the claim of one piece of work lies: not with its other files, so that none of them is ever without it."""
    return f"{CLAIMS_FOLDER}/{txn}"


def read_claim(store: FsspecStore, txn: str) -> Claim | None:
    """The claim, or None if there is none, or only a torn one of an owner that died while writing it."""
    for attempt in range(3):
        try:
            content = json.loads(store.read_bytes(claim_path(txn)))
            return Claim(**{option.name: content[option.name] for option in fields(Claim)})
        except FileNotInStoreError:
            return None
        except (ValueError, TypeError, KeyError):  # not whole yet, on a store where others can see that
            time.sleep(0.05 * attempt)
    return None


class Lease:
    """A claim of this process, kept alive by renewing it until it is released."""

    def __init__(self, store: FsspecStore, txn: str, *, maintains: bool, seconds: float = LEASE_SECONDS) -> None:
        """Prepares the claim; `acquire` writes it."""
        self._store = store
        self._seconds = seconds
        self._guard = threading.Lock()
        self._beat: int | None = None
        self._lost = False
        self._claim = Claim(
            txn=txn,
            owner=who(),
            machine=_machine(),
            pid=os.getpid(),
            process=_process_of(os.getpid()),
            maintains=maintains,
            holds=False,
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            expires=0.0,
        )

    def acquire(self) -> None:
        """Writes the claim and keeps it alive; `ConflictError` if another maintainer holds the directory."""
        _ours.add(self._claim.txn)
        try:
            for attempt in range(_TRIES):
                self._write()
                others = list(self._rivals()) if self._claim.maintains else []
                if not others:
                    break
                self._delete()
                if any(other.holds for other in others) or attempt == _TRIES - 1:
                    raise _held(self._store.url, next((other for other in others if other.holds), others[0]))
                time.sleep(random.uniform(0.01, 0.1) * (attempt + 1))  # noqa: S311  both step back; who is first now?
            if self._claim.maintains:
                self._claim = replace(self._claim, holds=True)
                self._write()
        except BaseException:
            _ours.discard(self._claim.txn)
            with suppress(Exception):
                self._delete()
            raise
        self._beat = LEASES.start(self._renew, seconds=self._seconds / 4)

    def is_held(self) -> bool:
        """Whether the claim is still there; others take it away if they have to believe that its owner is dead."""
        with self._guard:
            if not self._lost:
                self._lost = not self._store.exists(claim_path(self._claim.txn))
            return not self._lost

    def end(self) -> None:
        """Stops renewing, and counts as dead from now on: what is left in the folder, recovery may take."""
        if self._beat is not None:
            LEASES.stop(self._beat)
        with self._guard:  # a renewal that is under way ends first, else it would bring the claim back
            self._lost = True
            _ours.discard(self._claim.txn)

    def _renew(self) -> None:
        with self._guard:
            if self._lost:
                return
            try:
                if self._store.exists(claim_path(self._claim.txn)):
                    self._write()
                else:
                    self._lost = True
            except Exception as error:  # the next turn tries again; the lease is longer than several turns
                raise StoreError(f'cannot renew the lease in "{self._store.url}"') from error

    def _write(self) -> None:
        claim = replace(self._claim, expires=time.time() + self._seconds)
        try:
            self._store.write_bytes(claim_path(claim.txn), json.dumps(asdict(claim)).encode())
        except PathIsFileError:
            raise
        except StoreError as error:  # people know the directory, not the claims in it
            if isinstance(error.__cause__, OSError):
                raise store_error(error.__cause__, "write to", self._store.url, writing=True) from error
            raise

    def _delete(self) -> None:
        self._store.delete([claim_path(self._claim.txn)])
        self._store.remove_folders([CLAIMS_FOLDER, HIDDEN_FOLDER])

    def _rivals(self) -> Iterator[Claim]:
        for file in self._store.list_files(CLAIMS_FOLDER):
            txn = file.path.rpartition("/")[2]
            claim = read_claim(self._store, txn) if txn != self._claim.txn else None
            if claim is not None and claim.maintains and claim.is_alive():
                yield claim


def _held(url: str, claim: Claim) -> ConflictError:
    until = datetime.fromtimestamp(claim.expires, UTC).isoformat(timespec="seconds")
    return ConflictError(
        f'"{url}" is being rewritten by {claim.owner} since {claim.since} (lease until {until}, renewed while it '
        "works); wait until it is done, then run this again"
    )


def _machine() -> str:
    """What tells whether a process number means the same process here; "" where it cannot be told."""
    if _SYSTEM == "linux":
        try:  # containers share the kernel's boot, but not the numbers of processes
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{platform.node()}/{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
        except OSError:
            return ""
    return platform.node()


def _process_of(pid: int) -> str:
    """When the process began, "" if there is none, or that it cannot be told."""
    if _SYSTEM == "linux":
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        status = text.rpartition(")")[2].split()
        return "" if status[0] in "ZX" else status[19]  # a zombie does no work any more
    if _SYSTEM == "darwin":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except OSError:
            return "alive"
        return "alive"
    return _UNKNOWN
