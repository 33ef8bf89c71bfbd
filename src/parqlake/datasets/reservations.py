"""Reserved names: two writers that number their files never choose the same number."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parqlake.core.errors import FileNotInStoreError
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import HIDDEN_FOLDER
from parqlake.stores import FsspecStore

NAMES_FOLDER = f"{HIDDEN_FOLDER}/names"
_ENDING = ".reserved"


class Reservations:
    """The names that one piece of work has reserved, by files that are created only if none is there."""

    def __init__(self, store: FsspecStore, txn: str) -> None:
        """Begins with none."""
        self._store = store
        self._txn = txn
        self._next: dict[tuple[str, Naming], int] = {}
        self._taken: list[str] = []

    def reserve(self, naming: Naming, folder: str) -> str:
        """The next free name of a numbered kind in the folder, from now on nobody else's.

        Numbers go on after the highest that is there or reserved. A name may be left out, if its writer gave up.
        """
        key = (folder, naming)
        number = self._next[key] if key in self._next else self._first(naming, folder)
        while True:
            path = _joined(folder, naming.numbered(number))
            number += 1
            if not self._store.write_bytes(_reservation(path), self._txn.encode(), exclusive=True):
                continue
            self._taken.append(path)
            if not self._store.exists(path):  # else its writer finished after we looked, and took the mark away
                self._next[key] = number
                return path

    def release(self) -> None:
        """Gives all names back; those that are in use by now are protected by the files themselves."""
        self._store.delete([_reservation(path) for path in self._taken])
        _remove_empty(self._store)
        self._taken.clear()

    def _first(self, naming: Naming, folder: str) -> int:
        start = len(_joined(folder, ""))
        names = [file.path[start:] for file in self._store.list_files(folder)]
        marks = f"{NAMES_FOLDER}/{folder}" if folder else NAMES_FOLDER
        reserved = [file.path[len(marks) + 1 :].removesuffix(_ENDING) for file in self._store.list_files(marks)]
        return naming.next_number([*names, *reserved])


def release_dead(store: FsspecStore, paths: Iterable[str], is_live: Callable[[str], bool]) -> None:
    """Takes away those of the listed reservations whose owners are not at work any more."""
    known: dict[str, bool] = {}
    dead = []
    for path in paths:
        try:
            txn = store.read_bytes(path).decode(errors="replace")
        except FileNotInStoreError:
            continue
        if txn not in known:
            known[txn] = is_live(txn)
        if not known[txn]:
            dead.append(path)
    if dead:
        store.delete(dead)
        _remove_empty(store)


def _remove_empty(store: FsspecStore) -> None:
    store.remove_folders([*store.list_folders(NAMES_FOLDER), NAMES_FOLDER, HIDDEN_FOLDER])


def _reservation(path: str) -> str:
    return f"{NAMES_FOLDER}/{path}{_ENDING}"


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
