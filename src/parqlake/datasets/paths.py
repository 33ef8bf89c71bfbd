"""Paths as users give them: a dataset's folder, or one file in a folder."""

from __future__ import annotations

import os
from typing import Any

from parqlake.core.errors import FileNotInStoreError, InvalidOptionError, PathIsFileError
from parqlake.datasets.place import Place

AnyPath = str | os.PathLike[str]


def split_path(path: AnyPath) -> tuple[str, str]:
    """The folder and the name of a file's path, as they can be given on.

    Example:
        >>> split_path("s3://bucket/a/b.parquet"), split_path("memory://b.parquet"), split_path("b.parquet")
        (('s3://bucket/a', 'b.parquet'), ('memory://', 'b.parquet'), ('.', 'b.parquet'))
    """
    text = os.fspath(path)
    protocol, separator, rest = text.partition("://")
    start = f"{protocol}{separator}" if separator else ""
    folder, slash, name = (rest if separator else text).rpartition("/")
    if not name or name in (".", ".."):
        raise InvalidOptionError(f'"{text}" names no file; end the path with a file name')
    return (start + (folder or (slash if not start else "")) or ".", name)


def place_of(path: AnyPath, filesystem: Any = None) -> Place:
    """The folder at the path; one that is nobody's path is an error that says so."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidOptionError(f"path is {path!r}, a {type(path).__name__}; give a string or a pathlib.Path")
    return Place(path, filesystem)


def place_of_file(path: AnyPath, filesystem: Any = None) -> tuple[Place, str]:
    """The folder that a file lies in, or will, and the file's name."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidOptionError(f"path is {path!r}, a {type(path).__name__}; give a string or a pathlib.Path")
    folder, name = split_path(path)
    if filesystem is not None and folder == ".":  # a bare name on a file system of the user's own is at its root
        folder = filesystem.root_marker or "/" if not _is_local(filesystem) else folder
    return Place(folder, filesystem), name


def found_at(path: AnyPath, filesystem: Any = None) -> tuple[Place, str | None]:
    """What lies at a path: a folder, or a folder and the name of a file in it.

    Raises:
        FileNotInStoreError: neither; it is a `FileNotFoundError`.
    """
    place = place_of(path, filesystem)
    try:
        if place.exists():
            return place, None
    except PathIsFileError:
        return place_of_file(path, filesystem)
    raise FileNotInStoreError(f'there is nothing at "{place.url}"; check the path, or write to it first')


def _is_local(filesystem: Any) -> bool:
    protocol = filesystem.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)
