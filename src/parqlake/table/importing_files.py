"""Which files an import means: a folder, a glob, a file or a list of these, all below the lake's root."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from parqlake.core.errors import FileNotInStoreError, InvalidOptionError, UnsafePathError
from parqlake.core.model import TableInfo
from parqlake.core.names import MARKER
from parqlake.core.ports import Store, StoredFile
from parqlake.stores.paths import shown_url

_GLOB = re.compile(r"[*?\[]")
_LOGS = {
    "_delta_log": ("Delta", "deltalake.DeltaTable(…).file_uris()"),
    ".hoodie": ("Hudi", "its own reader"),
    "metadata": ("Iceberg", "pyiceberg's table.scan().plan_files()"),
}
"""Folders in which other table formats say which of the files are current."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What an import looks at, and what it leaves alone."""

    files: tuple[StoredFile, ...]
    ignored: tuple[str, ...]
    """Hidden files, `_SUCCESS`, `_metadata` and the like."""
    source: str
    """Where they were looked for, relative to the lake's root; the first place of several."""


def find_files(store: Store, source: Any, tables: Iterable[TableInfo]) -> FoundFiles:
    """The files that the source names, by path; raises if there are none, or if they are not for an import.

    Args:
        store: the lake's.
        source: a folder, a glob, a file, or a list of these.
        tables: all tables of the lake, whose files are their own.
    """
    files: dict[str, StoredFile] = {}
    ignored: set[str] = set()
    sources = []
    for item in _items(source):
        path = below_root(store, item)
        sources.append(path)
        named = _file_at(store, path)
        if named is not None:
            files[named.path] = named
            continue
        folder = _plain_part(path)
        listed = list(store.list_files(folder))
        _check_no_log(listed, folder, item)
        chosen = [file for file in listed if folder == path or _matches(path, file.path)]
        hidden = {file.path for file in chosen if _is_hidden(file.path[len(folder) :])}
        if not chosen:
            raise FileNotInStoreError(
                f'no file is at "{item}", below {store.url}; give a folder, a file or a glob like "landing/*.parquet"'
            )
        ignored |= hidden
        files |= {file.path: file for file in chosen if file.path not in hidden}
    if not files:
        raise FileNotInStoreError(f"{source!r} holds no data file, only hidden ones ({', '.join(sorted(ignored)[:3])})")
    _check_free(files, ignored, tables)
    return FoundFiles(tuple(files[path] for path in sorted(files)), tuple(sorted(ignored - files.keys())), sources[0])


def _items(source: Any) -> Iterator[str]:
    several = source if isinstance(source, Sequence) and not isinstance(source, str | bytes) else [source]
    if not several:
        raise InvalidOptionError("the list of files to import is empty; give a folder, a glob or some files")
    for item in several:
        text = os.fspath(item) if isinstance(item, os.PathLike) else item
        if not isinstance(text, str) or not text.strip():
            raise InvalidOptionError(f"cannot import {item!r}; give a folder, a glob, a file, or a list of these")
        yield text


def below_root(store: Store, text: str, *, must_exist: bool = True) -> str:
    """The path relative to the root, in its one spelling; raises if it lies elsewhere.

    Local paths are meant from the working directory if there is nothing of the name below the root. What need not
    exist is always meant from the root.
    """
    outside = UnsafePathError(
        f'"{shown_url(text)}" does not lie below the lake\'s root, {store.url}, and a lake keeps its files there: move '
        "or copy it below the root and import it there, or make a table and append() the path, which copies the rows"
    )
    root = store.full_path("x")[:-2]
    if "://" in text and not text.startswith("file://"):
        parts, own = urlsplit(text), urlsplit(store.url)
        same = parts.netloc == own.netloc and parts.scheme.rstrip("a") == own.scheme.rstrip("a")
        if not same or store.is_local or not f"{parts.path}/".startswith(f"{own.path.rstrip('/')}/"):
            raise outside
        relative = parts.path[len(own.path.rstrip("/")) :]
    else:
        plain = text.removeprefix("file://")
        relative = plain
        if plain.startswith(("/", "~")) or (must_exist and store.is_local and not _is_there(store, plain)):
            full = os.path.abspath(os.path.expanduser(plain)).replace(os.sep, "/")  # noqa: PTH100, PTH111 (globs)
            if not store.is_local or not f"{full}/".startswith(f"{root}/"):
                raise outside
            relative = full[len(root) :]
    relative = "/".join(part for part in relative.split("/") if part not in ("", "."))
    if not relative:
        raise InvalidOptionError(f'"{shown_url(text)}" is the lake\'s root itself; give a folder below it')
    try:
        store.full_path(_plain_part(relative) or relative)
    except UnsafePathError:
        raise outside from None
    return relative


def _is_there(store: Store, path: str) -> bool:
    """Whether something lies at the path below the root, so that it is not meant from the working directory."""
    try:
        folder = _plain_part(path)
        if not folder:
            return False
        return _file_at(store, folder) is not None or any(True for _ in store.list_files(folder))
    except UnsafePathError:
        return False


def _plain_part(path: str) -> str:
    """The folders before the first part with a wildcard; the whole path if there is none."""
    parts = path.split("/")
    count = next((number for number, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    return "/".join(parts[:count])


def _matches(pattern: str, path: str) -> bool:
    """Whether a path is one that the glob means: `*` stays in its folder, `**` goes down any number."""
    return _fits(pattern.split("/"), path.split("/"))


def _fits(patterns: list[str], parts: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_fits(patterns[1:], parts[start:]) for start in range(len(parts) + 1)) or (
            len(patterns) == 1 and bool(parts)
        )
    if not parts:
        return False
    # What a glob names as a whole may be a folder: all files below it are meant.
    return fnmatch.fnmatchcase(parts[0], patterns[0]) and (len(patterns) == 1 or _fits(patterns[1:], parts[1:]))


def _file_at(store: Store, path: str) -> StoredFile | None:
    try:
        info = store.arrow_filesystem().get_file_info(store.full_path(path))
    except (OSError, UnsafePathError):
        return None
    return StoredFile(path, int(info.size)) if info.is_file else None


def _is_hidden(path: str) -> bool:
    """Whether a part of the path says that it is not for readers: as Hive, Spark and Arrow have it."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/") if part)


def _check_no_log(listed: Iterable[StoredFile], folder: str, item: str) -> None:
    for file in listed:
        parts = file.path[len(folder) :].split("/")[:-1]
        for name, (format_, way) in _LOGS.items():
            if name in parts and (name != "metadata" or file.path.endswith(".metadata.json")):
                raise InvalidOptionError(
                    f'"{shown_url(item)}" is a table of {format_}, whose log ("{file.path}") says which are current; '
                    f"import the list of those instead, for instance from {way}"
                )


def _check_free(files: Iterable[str], ignored: Iterable[str], tables: Iterable[TableInfo]) -> None:
    """Files of a table are deleted with its versions, so that no other table may rely on them."""
    owners = {f"{info.location}/": str(info.name) for info in tables}
    for path in files:
        parts = path.split("/")
        for count in range(1, len(parts)):
            owner = owners.get("/".join(parts[:count]) + "/")
            if owner is not None:
                raise InvalidOptionError(
                    f'"{path}" belongs to the table {owner} of this lake, whose vacuum may delete it; append() the '
                    f'rows to a new table instead: lake.table("…").append(lake.table("{owner}").scan())'
                )
    other = next((path for path in ignored if path.rpartition("/")[2] == MARKER), None)
    if other is not None:
        raise InvalidOptionError(
            f'"{other}" says that another lake is there, whose vacuum may delete its files; connect to it, and '
            "append() its rows instead"
        )
