"""The intent journal of one swap: the commit point, and how to carry the swap out from any state it was left in.

A swap has a folder of its own in the hidden one: its staged files and, once it is committed, its journal.
The journal is created if and only if none is there. Who gives a dead swap up creates one too, which says "aborted"; so
a swap is either committed or aborted, even if its owner was only slow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum

from parqlake.core.errors import CatalogVersionError, FileNotInStoreError
from parqlake.core.ports import StoredFile
from parqlake.datasets.claims import CLAIMS_FOLDER, claim_path
from parqlake.datasets.place import HIDDEN_FOLDER
from parqlake.stores import FsspecStore

WORK_FOLDER = f"{HIDDEN_FOLDER}/work"
_FORMAT = 1


class Verdict(Enum):
    """What a journal says."""

    NONE = "none"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Addition:
    """One new file: where it was staged, what it is to be called, and whether it replaces the file of that name."""

    staged: str
    final: str
    size_bytes: int
    replaces: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What a committed swap does. All paths are relative to the directory.

    Attributes:
        txn: the swap.
        add: the new files.
        remove: the old ones, without those that a new one of the same name replaces.
    """

    txn: str
    add: tuple[Addition, ...]
    remove: tuple[StoredFile, ...]

    def encode(self) -> bytes:
        """The journal's bytes."""
        return json.dumps({"format": _FORMAT, **asdict(self)}).encode()


def work_folder(txn: str) -> str:
    """The folder of one swap: what it staged, and its journal."""
    return f"{WORK_FOLDER}/{txn}"


def journal_path(txn: str) -> str:
    """Where the journal of a swap lies."""
    return f"{work_folder(txn)}/journal"


def read_journal(store: FsspecStore, txn: str) -> Intent | Verdict:
    """What was decided about a swap; a torn journal, left by a death while writing, decides nothing."""
    try:
        content = json.loads(store.read_bytes(journal_path(txn)))
        if content["format"] > _FORMAT:
            raise CatalogVersionError(
                f'"{store.url}/{journal_path(txn)}" was written by a newer parqlake; use that one to recover'
            )
        if content.get("aborted"):
            return Verdict.ABORTED
        return Intent(
            txn=txn,
            add=tuple(Addition(**entry) for entry in content["add"]),
            remove=tuple(StoredFile(**entry) for entry in content["remove"]),
        )
    except FileNotInStoreError:
        return Verdict.NONE
    except (ValueError, KeyError, TypeError):
        return Verdict.NONE


def commit(store: FsspecStore, intent: Intent) -> bool:
    """Decides that the swap happens, durably; False if it was aborted before."""
    return store.write_bytes(journal_path(intent.txn), intent.encode(), exclusive=True)


def abort(store: FsspecStore, txn: str) -> Intent | None:
    """Decides that the swap does not happen; returns what it does if that was decided before."""
    data = json.dumps({"format": _FORMAT, "aborted": True}).encode()
    if store.write_bytes(journal_path(txn), data, exclusive=True):
        return None
    found = read_journal(store, txn)
    if isinstance(found, Intent):
        return found
    if found is Verdict.NONE:  # torn: its writer is dead, and it was never whole
        store.write_bytes(journal_path(txn), data)
    return None


def carry_out(store: FsspecStore, intent: Intent) -> bool:
    """Does what a committed swap says, from wherever it was left; doing it again changes nothing.

    First the new files get their names, then the old ones go: a reader in the middle may see rows twice, but misses
    none, unless it asks for several files that are replaced under their own names.

    Returns:
        False if the swap is void: none of its files is there any more, neither staged nor in place, and all that it
        would remove is. That is what a swap looks like that was given up before its owner came round to commit it.
    """
    there = {file.path: file.size_bytes for file in store.list_files(work_folder(intent.txn))}
    if intent.add and not any(entry.staged in there for entry in intent.add) and _is_void(store, intent):
        return False
    for entry in sorted(intent.add, key=lambda entry: entry.replaces):  # what replaces rows comes after what adds some
        if entry.staged in there:
            _promote(store, entry, intent.txn)
    store.sync_names([entry.final for entry in intent.add])
    removed = [file.path for file in _unchanged(store, intent.remove)]
    store.delete(removed)
    store.sync_names([file.path for file in intent.remove])
    store.remove_folders(_folders_above(file.path for file in intent.remove))
    return True


def discard(store: FsspecStore, txn: str) -> None:
    """Takes away everything that a finished or aborted swap left, the journal and then the claim last."""
    folder, journal = work_folder(txn), journal_path(txn)
    left = [file.path for file in store.list_files(folder)]
    store.delete([path for path in left if path != journal])
    if journal in left:
        store.delete([journal])
        store.sync_names([journal])
    store.remove_folders([*store.list_folders(folder), folder, WORK_FOLDER])
    store.delete([claim_path(txn)])
    store.remove_folders([CLAIMS_FOLDER, HIDDEN_FOLDER])


def _promote(store: FsspecStore, entry: Addition, txn: str) -> None:
    # Elsewhere than on a local disk a target that is there is our own copy of an interrupted move: the name was free
    # when the swap was committed. A local link leaves no such doubt, and so a stranger's file is never replaced.
    replace = entry.replaces or not store.is_local
    try:
        if not store.move(entry.staged, entry.final, replace=replace):
            stem = entry.final.removesuffix(".parquet")
            store.move(entry.staged, f"{stem}-{txn}.parquet", replace=True)
    except FileNotInStoreError:
        return  # someone else carries the same swap out, and was faster


def _is_void(store: FsspecStore, intent: Intent) -> bool:
    if any(entry.replaces or store.exists(entry.final) for entry in intent.add):
        return False  # of a replaced file nothing tells which it is; and nothing is left to be done about it
    return len(_unchanged(store, intent.remove)) == len(intent.remove)


def _unchanged(store: FsspecStore, files: Sequence[StoredFile]) -> list[StoredFile]:
    """Those of the files that are there with the same size; a file that someone wrote anew is not ours to delete."""
    if not files:
        return []
    there = {file.path: file.size_bytes for file in store.list_files("")}
    return [file for file in files if there.get(file.path) == file.size_bytes]


def _folders_above(paths: Iterable[str]) -> list[str]:
    """The folders of files below the directory itself, the deepest first."""
    folders = set()
    for path in paths:
        parts = path.split("/")[:-1]
        folders |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return sorted(folders, key=lambda folder: (-folder.count("/"), folder))
