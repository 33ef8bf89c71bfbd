"""Directories to swap files in, and stores that fail at a chosen call."""

from __future__ import annotations

import io
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from parqlake.datasets.claims import CLAIMS_FOLDER
from parqlake.datasets.naming import Naming
from parqlake.datasets.place import HIDDEN_FOLDER, Place
from parqlake.datasets.recovery import recover_place
from parqlake.datasets.swap import Swap

OLD = {"data_000.parquet": b"old 1", "p=1/data_000.parquet": b"old 22", "p=2/q=1/data_000.parquet": b"old 333"}


class Fault:
    """Fails the n-th call, or that and all later ones; before the call has its effect, or after it."""

    def __init__(self, at: int, *, after: bool = False, lasting: bool = False, act: Callable[[], None] | None = None):
        self.at, self.after, self.lasting = at, after, lasting
        self.calls = 0
        self.armed = False
        self.names: list[str] = []
        self._act = act or self._fail
        self._guard = threading.Lock()
        self._inside = threading.local()

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        if not self.armed or getattr(self._inside, "yes", False):  # one call of ours may be several of the file system
            return call()
        with self._guard:
            self.calls += 1
            self.names.append(name)
            due = self.calls == self.at or (self.lasting and self.calls > self.at)
        self._inside.yes = True
        try:
            if due and not self.after:
                self._act()
            result = call()
        finally:
            self._inside.yes = False
        if due and self.after:
            if name in ("open", "io.open", "scandir"):  # the caller never gets the handle, and so cannot close it
                os.close(result) if isinstance(result, int) else result.close()
            self._act()
        return result

    @contextmanager
    def on(self) -> Iterator[None]:
        self.armed = True
        try:
            yield
        finally:
            self.armed = False

    def _fail(self) -> None:
        raise OSError(5, f"injected at call {self.at}")


def _failing(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.fault.run(name, lambda: getattr(super(type(self), self), name)(*args, **kwargs))

    return method


FAILING = ("pipe_file", "cp_file", "rm_file", "makedirs", "rmdir", "find", "ls", "cat_file", "isfile", "exists")


def faulty_memory(fault: Fault, *, folders: bool) -> MemoryFileSystem:
    """A file system in memory of its own that fails as told; without folders it is treated as an object store."""

    class Faulty(MemoryFileSystem):
        protocol = "memory" if folders else "s3"
        cachable = False
        store: dict[str, Any] = {}  # noqa: RUF012
        pseudo_dirs = [""]  # noqa: RUF012

    for name in FAILING:
        setattr(Faulty, name, _failing(name))
    made = Faulty(skip_instance_cache=True)
    made.fault = fault
    return made


@contextmanager
def faulty_disk(fault: Fault, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While it lasts, the system calls below the root fail as told."""

    def inside(subject: Any) -> bool:
        if isinstance(subject, int):
            subject = Path(f"/proc/self/fd/{subject}").readlink()
        return isinstance(subject, str | os.PathLike) and os.fspath(subject).startswith(str(root))

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not fault.armed or not inside(args[0]):
                return real(*args, **kwargs)
            return fault.run(name, lambda: real(*args, **kwargs))

        return call

    with monkeypatch.context() as patch:
        for name in ("link", "unlink", "replace", "rename", "fsync", "mkdir", "rmdir", "scandir", "open"):
            patch.setattr(os, name, wrapped(name, getattr(os, name)))
        patch.setattr(io, "open", wrapped("io.open", io.open))
        yield


def fill(place: Place, files: dict[str, bytes]) -> None:
    place.create()
    for path, data in files.items():
        place.store.write_bytes(path, data)


def write(place: Place, full_path: str, data: bytes) -> None:
    """Writes as an engine would, who knows nothing of the store."""
    if place.is_local:
        Path(full_path).write_bytes(data)
    else:
        place.filesystem.pipe_file(full_path, data)


def rows(place: Place) -> list[bytes]:
    """What a reader finds, whatever the files are called."""
    return sorted(place.store.read_bytes(file.path) for file in place.files())


def left_behind(place: Place) -> list[str]:
    """What is in the hidden folder, the folder itself included."""
    found = [file.path for file in place.store.list_files("") if file.path.startswith(HIDDEN_FOLDER)]
    return found + [folder for folder in place.store.list_folders("") if folder.startswith(HIDDEN_FOLDER)]


def recover_later(place: Place) -> None:
    """Recovers as if some minutes had passed: a claim half written only now might be that of a living writer."""
    for file in [file.path for file in place.store.list_files(CLAIMS_FOLDER) if "/.parqlake-tmp-" in file.path]:
        born = uuid.UUID(file[-36:])
        earlier = file.replace(str(born), str(uuid.UUID(int=born.int - (600_000 << 80))))
        Path(place.full_path(file)).rename(place.full_path(earlier))
    recover_place(place)


def overwrite(place: Place) -> list[bytes]:
    """Replaces all by two files, one of them in a new folder."""
    with Swap(place) as swap:
        old = swap.files()
        for folder, data in (("", b"new 1"), ("p=9", b"new 22")):
            write(place, swap.stage_new(Naming(), folder).full_path, data)
        swap.commit(remove=old)
    return [b"new 1", b"new 22"]


def rewrite_in_place(place: Place) -> list[bytes]:
    """Replaces one file under its own name, another by a new one; the third stays."""
    with Swap(place) as swap:
        old = swap.files()
        write(place, swap.stage("data_000.parquet").full_path, b"new in place")
        write(place, swap.stage("p=1/other.parquet").full_path, b"new other")
        swap.commit(remove=old[:2])
    return sorted([b"new in place", b"new other", b"old 333"])


def empty_it(place: Place) -> list[bytes]:
    with Swap(place) as swap:
        swap.commit(remove=swap.files())
    return []


def append_many(place: Place) -> list[bytes]:
    with Swap(place, append=True) as swap:
        for data in (b"add 1", b"add 22"):
            write(place, swap.stage_new(Naming("data_{}.parquet"), "p=1").full_path, data)
        swap.commit()
    return sorted([*OLD.values(), b"add 1", b"add 22"])


def append_one(place: Place) -> list[bytes]:
    with Swap(place, append=True) as swap:
        write(place, swap.stage_new(Naming(strategy="timestamp")).full_path, b"add 1")
        swap.commit()
    return sorted([*OLD.values(), b"add 1"])


def replace_one(place: Place) -> list[bytes]:
    with Swap(place) as swap:
        write(place, swap.stage("data_000.parquet").full_path, b"new in place")
        swap.commit(remove=swap.files()[:1])
    return sorted([b"new in place", b"old 22", b"old 333"])


OPERATIONS = [overwrite, rewrite_in_place, empty_it, append_many, append_one, replace_one]
