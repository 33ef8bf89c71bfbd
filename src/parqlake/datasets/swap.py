"""Swaps: files of a plain directory are added and replaced all together, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import uuid_utils

from parqlake.core.errors import (
    ConcurrentRemoveError,
    ConflictError,
    InvalidOptionError,
    StoreError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from parqlake.core.maintenance.collect import is_data_path
from parqlake.core.ports import StoredFile
from parqlake.datasets.claims import LEASE_SECONDS, Lease
from parqlake.datasets.journal import (
    WORK_FOLDER,
    Addition,
    Intent,
    abort,
    carry_out,
    commit,
    discard,
    journal_path,
    read_journal,
    work_folder,
)
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import Place
from parqlake.datasets.recovery import recover_place, settle
from parqlake.datasets.reservations import Reservations
from parqlake.stores.paths import safe_folder, safe_path

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Staged:
    """Where to write a file before it gets its name.

    Attributes:
        path: relative to the directory.
        full_path: inside the file system.
        full_url: as DuckDB or Spark would open it.
        final: the name it will get, relative to the directory.
    """

    path: str
    full_path: str
    full_url: str
    final: str


class Swap:
    """Replaces files of a directory by new ones, or adds some, all or nothing even if the process dies.

    Entering recovers what others left, and, unless it is a blind append, keeps other maintainers out. List the files to
    replace, by `files`, after entering. Leaving without `commit` takes everything back.

    What a plain directory cannot promise: a reader in the middle of the commit may see new files beside old ones.

    Example:
        with Swap(place) as swap:
            old = swap.files()
            staged = swap.stage_new(Naming())
            ...  # write a Parquet file to staged.full_path
            swap.commit(remove=old)
    """

    def __init__(self, place: Place, *, append: bool = False, lease_seconds: float = LEASE_SECONDS) -> None:
        """Prepares a swap; nothing is touched before it is entered.

        Args:
            place: the directory; created on entering if it is not there.
            append: only adds files, and so needs no lease: many may append at the same time, also beside a maintainer.
            lease_seconds: how long after its last sign of life the owner counts as dead elsewhere.
        """
        self._place = place
        self._store = place.store
        self._append = append
        self._txn = uuid_utils.uuid7().hex
        self._lease = Lease(self._store, self._txn, maintains=not append, seconds=lease_seconds)
        self._reservations = Reservations(self._store, self._txn)
        self._staged: dict[str, str] = {}
        self._finals: set[str] = set()
        self._free: set[str] = set()
        self._deciding = False
        self._settled = False
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        self._made = self._missing_folders()
        try:
            self._place.create()
            self._lease.acquire()
        except BaseException:
            self._unmake()
            raise
        try:
            recover_place(self._place)
            self._store.make_folders([work_folder(self._txn)])
        except BaseException:
            self._take_back()
            self._unmake()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._settled:
            self._take_back()
            if error is not None:
                self._unmake()

    @property
    def txn(self) -> str:
        """The id of this piece of work."""
        return self._txn

    @property
    def folder(self) -> str:
        """The folder to stage files in, relative to the directory; for engines that choose names of their own."""
        return work_folder(self._txn)

    def files(self) -> list[StoredFile]:
        """The files of the directory as they are between two commits: of an append of many files, all or none.

        Waits for appends that are being put in place just now; `ConflictError` if that takes longer than a minute.
        """
        before = self._place.files()
        give_up = time.monotonic() + _PATIENCE_SECONDS
        while True:
            # An append that both listings saw in part lies between them too, and then so does its journal.
            pending = self._pending()
            after = self._place.files()
            if not pending and before == after:
                return after
            if time.monotonic() > give_up:
                raise ConflictError(f'"{self._place.url}" never came to rest; run this again when fewer others write')
            if pending:
                time.sleep(0.02)
                recover_place(self._place)
            before = after

    def _pending(self) -> bool:
        own = journal_path(self._txn)
        return any(file.path.endswith("/journal") and file.path != own for file in self._store.list_files(WORK_FOLDER))

    def stage(self, final: str) -> Staged:
        """Where to write the file that will be called `final`, relative to the directory.

        Raises:
            UnsafePathError: the name leads out of the directory.
            InvalidOptionError: no reader would find a file of that name, or it was staged before.
        """
        final = self._checked(final)
        path = f"{self.folder}/{len(self._staged):06d}.staged"
        self._staged[path] = final
        return Staged(path, self._store.full_path(path), self._store.full_url(path), final)

    def stage_new(self, naming: Naming, folder: str = "") -> Staged:
        """Like `stage`, under a new name in the folder that no other file has or gets."""
        return self.stage(self._new_name(naming, folder))

    def adopt_new(self, path: str, naming: Naming, folder: str = "") -> None:
        """Like `adopt`, under a new name in the folder; nothing is done for a file that `stage` gave its place."""
        if path not in self._staged:
            self.adopt(path, self._new_name(naming, folder))

    def _new_name(self, naming: Naming, folder: str) -> str:
        folder = safe_folder(folder)
        if not naming.is_unique:
            return self._reservations.reserve(naming, folder)
        name = naming.fresh()
        final = f"{folder}/{name}" if folder else name
        self._free.add(final)
        return final

    def adopt(self, path: str, final: str) -> None:
        """Takes a file that was written to `folder` under a name of the engine's own; it will be called `final`.

        Its name must not end in `.parquet`, else readers that look into hidden folders find it too early.
        """
        path = safe_path(path)
        taken = path in self._staged or path == journal_path(self._txn)
        if not path.startswith(f"{self.folder}/") or path.endswith(".parquet") or taken:
            raise InvalidOptionError(f'cannot adopt "{path}"; write it once below "{self.folder}", not as .parquet')
        self._staged[path] = self._checked(final)

    def commit(self, remove: Iterable[StoredFile] = ()) -> None:
        """Gives the staged files their names and removes the old ones; all of it, whatever happens, or nothing.

        Args:
            remove: the files to replace, as `files` gave them. One whose name is also staged is replaced.

        Raises:
            ConcurrentRemoveError: one of them is gone or has another size; a `ConflictError`, nothing was changed.
            ConflictError: a staged name was taken by someone else meanwhile; nothing was changed.
            TransactionExpiredError: others had to take this swap for dead, and took it back.
            UnknownOutcomeError: the store failed at the commit or after it; `recover` finds out and finishes.
        """
        removed = tuple(remove)
        if removed and self._append:
            raise InvalidOptionError("an append removes nothing; make the swap without append=True")
        if self._settled:
            raise InvalidOptionError("this swap has ended; make a new one")
        self._check_lease()
        intent = self._intent(removed)
        if not intent.add and not intent.remove:
            return
        self._store.sync([entry.staged for entry in intent.add])
        self._check_lease()
        if len(intent.add) == 1 and not intent.remove and self._store.is_local:
            self._commit_one(intent.add[0])  # a single rename needs no journal
            return
        self._decide(intent)
        self._finish(intent)

    def _checked(self, final: str) -> str:
        final = safe_path(final)
        if not is_data_path(final):
            raise InvalidOptionError(
                f'no reader would find a file called "{final}"; let it end in .parquet and not begin with . or _'
            )
        if final in self._finals:
            raise InvalidOptionError(f'"{final}" was staged before; give each file a name of its own')
        self._finals.add(final)
        return final

    def _intent(self, removed: tuple[StoredFile, ...]) -> Intent:
        sizes = {file.path: file.size_bytes for file in self._store.list_files(self.folder)}
        missing = [final for path, final in self._staged.items() if path not in sizes]
        if missing:
            raise StoreError(f'nothing was written for "{missing[0]}"; write every staged file before the commit')
        gone = {file.path for file in removed}
        add = tuple(Addition(path, final, sizes[path], final in gone) for path, final in self._staged.items())
        self._check_still_there(removed)
        for entry in add:
            if not entry.replaces and entry.final not in self._free and self._store.exists(entry.final):
                raise ConflictError(f'"{entry.final}" was written by someone else meanwhile; run this again')
        replaced = {entry.final for entry in add if entry.replaces}
        return Intent(self._txn, add, tuple(file for file in removed if file.path not in replaced))

    def _check_still_there(self, removed: tuple[StoredFile, ...]) -> None:
        if not removed:
            return
        there = {file.path: file.size_bytes for file in self._place.files()}
        for file in removed:
            if there.get(file.path) != file.size_bytes:
                what = "was replaced" if file.path in there else "is gone"
                raise ConcurrentRemoveError(
                    f'"{file.path}", which this operation has read and would replace, {what}; run it again'
                )

    def _commit_one(self, entry: Addition) -> None:
        """Commits a single new file on a local disk: its rename is the commit point."""
        try:
            self._name(entry)
        except OSError as error:
            self._name_again(entry, error)
        self._leave()

    def _name(self, entry: Addition) -> None:
        if not self._store.move(entry.staged, entry.final, replace=entry.replaces):
            raise ConflictError(f'"{entry.final}" was written by someone else meanwhile; run this again')
        self._store.sync_names([entry.final])

    def _name_again(self, entry: Addition, error: OSError) -> None:
        """After a failure: the name may have been given, and only what follows failed."""
        try:
            if self._store.exists(entry.staged):
                self._name(entry)
            elif self._store.exists(entry.final):
                self._store.sync_names([entry.final])
            else:
                raise self._expired() from error
        except OSError as again:
            if self._certainly_unnamed(entry):
                raise error from None
            raise self._unknown("the store failed while the file got its name") from again

    def _certainly_unnamed(self, entry: Addition) -> bool:
        try:
            return self._store.exists(entry.staged) and (entry.replaces or not self._store.exists(entry.final))
        except OSError:
            return False

    def _decide(self, intent: Intent) -> None:
        """Writes the journal; if the store fails over it, finds out whether it was written."""
        self._deciding = True
        try:
            # A client that repeats a request whose answer was lost is told that the journal is there: its own.
            decided = commit(self._store, intent) or isinstance(read_journal(self._store, self._txn), Intent)
        except Exception as error:
            try:
                decided = abort(self._store, self._txn) is not None
            except Exception:
                self._give_up()
                raise self._unknown("the store failed during the commit") from error
            if not decided:
                raise
        if not decided:
            raise self._expired()

    def _finish(self, intent: Intent) -> None:
        try:
            try:
                done = self._carry_out(intent)
            except Exception:  # it is committed: what failed once may work now, and doing it again changes nothing
                done = self._carry_out(intent)
        except Exception as error:
            self._give_up()
            raise self._unknown("it is committed, but the store failed before all was in place") from error
        except BaseException:
            self._give_up()
            raise
        if not done:
            raise self._expired()
        self._leave()

    def _carry_out(self, intent: Intent) -> bool:
        done = carry_out(self._store, intent)
        self._store.delete([journal_path(self._txn)])
        self._store.sync_names([journal_path(self._txn)])
        return done

    def _leave(self) -> None:
        """Takes the traces of a swap away that is done or was never committed; what resists is left to recovery."""
        self._settled = True
        self._lease.end()
        with suppress(Exception):
            self._reservations.release()
            discard(self._store, self._txn)

    def _take_back(self) -> None:
        """Ends a swap that was not committed, or that was interrupted in the very moment of it."""
        if not self._deciding:
            self._leave()
            return
        self._give_up()
        with suppress(Exception):
            settle(self._store, self._txn)
            self._reservations.release()

    def _missing_folders(self) -> list[Path]:
        """The folders that entering makes, the innermost first; none where folders are only parts of names."""
        if not self._store.is_local:
            return []
        root = Path(self._store.root)
        return [folder for folder in (root, *root.parents) if not folder.exists()]

    def _unmake(self) -> None:
        """Takes away the folders that this swap made, if they are empty: a call that failed leaves nothing."""
        with suppress(OSError):
            for folder in self._made:
                folder.rmdir()

    def _give_up(self) -> None:
        """Leaves everything as it is to recovery."""
        self._settled = True
        self._lease.end()

    def _check_lease(self) -> None:
        if not self._lease.is_held():
            raise self._expired()

    def _expired(self) -> TransactionExpiredError:
        return TransactionExpiredError(
            f'this operation on "{self._place.url}" gave no sign of life for so long that another took it back; '
            "nothing was changed, run it again"
        )

    def _unknown(self, what: str) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f'"{self._place.url}": {what}. The next write, or parqlake.datasets.recover(…), ends it: all of it or '
            "nothing will be there. Look before you repeat an append"
        )
