"""Durable files on this machine: content, then name, then every folder on the way from the root."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import uuid_utils

from parqlake.core.os_errors import store_error

_THREADS = 16
_TEMPORARY = ".parqlake-tmp-"
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def sync_files(files: Sequence[tuple[str, str]], root: str) -> None:
    """Forces files to disk, then the folders that lead to them, deepest first, the root last.

    Many files are forced at the same time: the disk then writes them together.

    Args:
        files: pairs of the absolute path and the path to show in an error.
        root: the folder above which nothing is forced.
    """
    if not files:
        return
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        list(pool.map(_sync_file, *zip(*files, strict=True)))
        _sync_folders([Path(full) for full, _ in files], Path(root), pool)


def sync_names(files: Sequence[str], root: str) -> None:
    """Forces the folders that lead to files, which may be gone, to disk: names that came and went stay so."""
    if not files:
        return
    with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
        _sync_folders([Path(full) for full in files], Path(root), pool)


def rename(source: str, target: str, *, replace: bool) -> bool:
    """Gives a file another name in one step; False if the name is taken and not to be replaced.

    After a crash both names may lead to the same file; renaming again takes the old one away.
    """
    if replace:
        os.replace(source, target)  # noqa: PTH105
        return True
    try:
        os.link(source, target)  # a link never replaces anything, a rename does
    except FileExistsError:
        if not Path(source).samefile(target):
            return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            return False
        os.rename(source, target)  # noqa: PTH104
        return True
    os.unlink(source)  # noqa: PTH108
    return True


def write_atomic(path: Path, data: bytes, root: Path, *, exclusive: bool) -> bool:
    """Writes a file that others see whole or not at all; durable on return.

    Returns:
        False if `exclusive` and a file was already there; it is left as it was.
    """
    temporary = path.with_name(f"{_TEMPORARY}{uuid_utils.uuid7()}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not exclusive:
            temporary.replace(path)
        elif not _link(temporary, path, data):
            return False
    finally:
        temporary.unlink(missing_ok=True)
    for folder in _folders(path, root):
        fsync_folder(folder)
    return True


def fsync_folder(folder: Path) -> None:
    """Makes the folder's entries durable, where the system can."""
    if os.name == "nt":
        return  # Windows has no handle for it; NTFS journals names itself
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(temporary: Path, path: Path, data: bytes) -> bool:
    """Gives the finished file its name unless the name is taken: a link never replaces anything."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create(path, data)
    return True


def _create(path: Path, data: bytes) -> bool:
    """For file systems without links: exclusive, but a crash may leave the file short."""
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def _sync_folders(files: Sequence[Path], root: Path, pool: ThreadPoolExecutor) -> None:
    folders = {folder for file in files for folder in _folders(file, root)}
    for depth in sorted({len(folder.parts) for folder in folders}, reverse=True):
        list(pool.map(_fsync_if_there, [folder for folder in folders if len(folder.parts) == depth]))


def _fsync_if_there(folder: Path) -> None:
    with suppress(FileNotFoundError):  # a folder that is gone: the one above it is forced too
        fsync_folder(folder)


def _folders(path: Path, root: Path) -> list[Path]:
    """The folders from the file's own up to the root."""
    found = []
    for folder in path.parents:
        found.append(folder)
        if folder == root:
            break
    return found


def _sync_file(full: str, path: str) -> None:
    try:
        # Windows forces only what is open for writing; elsewhere reading is enough and asks for no more rights.
        descriptor = os.open(full, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            with suppress(OSError):
                os.close(descriptor)
    except OSError as error:
        raise store_error(error, "make durable", path, writing=True) from error
