"""Recovery of a plain directory: what was interrupted is carried out or taken back."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import StoreReadOnlyError
from parqlake.datasets.claims import CLAIMS_FOLDER, LEASE_SECONDS, SKEW_SECONDS, claim_path, read_claim
from parqlake.datasets.journal import WORK_FOLDER, Intent, abort, carry_out, discard, read_journal, work_folder
from parqlake.datasets.place import HIDDEN_FOLDER, Place
from parqlake.datasets.reservations import NAMES_FOLDER, release_dead
from parqlake.storage_options import StorageOptions
from parqlake.stores import FsspecStore


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovery found; each piece of work by its id.

    Attributes:
        rolled_forward: committed, and now in place.
        rolled_back: not committed; what it had staged is gone.
        at_work: owners that are alive; left alone.
    """

    rolled_forward: tuple[str, ...] = ()
    rolled_back: tuple[str, ...] = ()
    at_work: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rolled_forward or self.rolled_back)


def recover(
    path: str | os.PathLike[str],
    filesystem: Any = None,
    storage_options: StorageOptions | Mapping[str, Any] | None = None,
) -> Recovery:
    """Ends what was interrupted in a directory: the old rows or the new rows are there after it, whole.

    Every operation of `parqlake.datasets` that writes does this first; call it before other programs read a directory
    whose writer died. Owners that are alive are left alone. On the same machine a dead process is known at once; that
    of another machine counts as dead when its lease ran out, a minute and a half after its last sign of life.

    Args:
        path: the directory.
        filesystem: an fsspec or PyArrow file system; wins over `storage_options`.
        storage_options: how to reach the store.

    Raises:
        FileNotInStoreError: there is no such directory; it is a `FileNotFoundError`.
        PathIsFileError: the path is a file; it is a `NotADirectoryError`.
    """
    place = Place(path, filesystem, storage_options)
    place.require()
    return recover_place(place)


def recover_place(place: Place) -> Recovery:
    """Like `recover`, for a directory that is open already; one that is missing needs no recovery."""
    store = place.store
    files = [file.path for file in store.list_files(HIDDEN_FOLDER)]
    forward: list[str] = []
    back: list[str] = []
    busy: list[str] = []
    for txn in _pieces_of_work(files):
        if _is_live(store, txn):
            busy.append(txn)
        else:
            (forward if settle(store, txn) else back).append(txn)
    marks = [path for path in files if path.startswith(f"{NAMES_FOLDER}/")]
    release_dead(store, marks, lambda txn: _is_live(store, txn))
    if not busy:
        _tidy(store)
    return Recovery(tuple(forward), tuple(back), tuple(busy))


def recover_before_reading(place: Place) -> Recovery:
    """Like `recover_place`, for a reader, who may have no right to write.

    Raises:
        StoreReadOnlyError: a committed swap is only half in place, and this user cannot finish it.
    """
    try:
        return recover_place(place)
    except StoreReadOnlyError as error:
        store = place.store
        names = [file.path for file in store.list_files(WORK_FOLDER)]
        if not any(isinstance(read_journal(store, txn), Intent) for txn in _pieces_of_work(names)):
            return Recovery()  # what is merely staged, no reader sees
        raise StoreReadOnlyError(
            f'"{place.url}" holds a swap that was interrupted half way, and this user cannot write there; let someone '
            "who can call parqlake.datasets.recover(…), then read again"
        ) from error


def _pieces_of_work(files: Iterable[str]) -> list[str]:
    """The ids of all that files in the hidden folder belong to, the oldest first: an id begins with its time."""
    starts = (f"{WORK_FOLDER}/", f"{CLAIMS_FOLDER}/")
    named = {path[len(start) :].partition("/")[0] for path in files for start in starts if path.startswith(start)}
    return sorted(name for name in named if not name.startswith("."))


def settle(store: FsspecStore, txn: str) -> bool:
    """Ends one swap whose owner is dead; True if it had been committed."""
    intent = abort(store, txn) if any(store.list_files(work_folder(txn))) else None
    done = intent is not None and carry_out(store, intent)
    discard(store, txn)
    return done


def _tidy(store: FsspecStore) -> None:
    """Takes away half-written claims of the dead, and empty folders that a death between two deletes left."""
    torn = [file.path for file in store.list_files(CLAIMS_FOLDER) if "/." in file.path[len(HIDDEN_FOLDER) :]]
    store.delete([path for path in torn if not _may_be_written(path)])
    empty = [folder for folder in store.list_folders(HIDDEN_FOLDER) if not _is_owned(store, folder)]
    store.remove_folders([*empty, HIDDEN_FOLDER])


def _may_be_written(path: str) -> bool:
    """Whether a half-written file is so young that its writer may live; its name ends in an id that holds its time."""
    try:
        born = uuid.UUID(path[-36:])
    except ValueError:
        return False
    return born.version == 7 and time.time() - (born.int >> 80) / 1000 < LEASE_SECONDS + SKEW_SECONDS


def _is_owned(store: FsspecStore, folder: str) -> bool:
    """Whether someone who came only now may be about to write to the folder; the claim is there before it is."""
    name = folder.removeprefix(f"{WORK_FOLDER}/")
    return name != folder and store.exists(claim_path(name.partition("/")[0]))


def _is_live(store: FsspecStore, txn: str) -> bool:
    if not store.exists(claim_path(txn)):
        return False
    claim = read_claim(store, txn)
    return claim is not None and claim.is_alive()
