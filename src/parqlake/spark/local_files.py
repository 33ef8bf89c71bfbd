"""A Spark frame of exactly these local files, made as quickly as Spark can.

Spark asks the file system about each path that it is given, which for thousands of files takes longer than to list the
folder that they lie in. So a folder that holds these files and no other is given instead of them, and afterwards it is
checked that Spark saw the same: someone may have written there in between.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote

_FEWEST = 16
"""Of fewer files in a folder, the paths themselves are given."""
_SEPARATOR = "\n"


def parquet_frame(reader: Any, paths: list[str], spark: Any) -> Any:
    """The frame of these files, and of no others, whatever else lies in their folders."""
    java = getattr(reader, "_jreader", None)
    if java is None or any(_SEPARATOR in path or ", " in path for path in paths):
        # A client of Spark Connect, which sends the list in one message, or names that cannot be sent as one text.
        return reader.parquet(*(_url(path) for path in paths))
    shorter = with_whole_folders(paths)
    if len(shorter) < len(paths):
        frame = _read(reader, shorter, spark)
        if _files_of(frame, spark) == set(paths):
            return frame
    return _read(reader, paths, spark)


def with_whole_folders(paths: list[str]) -> list[str]:
    """The same files in fewer paths: each folder that holds nothing but files of the list stands for them."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, []).append(name)
    found: list[str] = []
    for folder, names in folders.items():
        if len(names) >= _FEWEST and set(names_in(folder)) == set(names):
            found.append(folder)
        else:
            found += [f"{folder}/{name}" for name in names]
    return found


def names_in(folder: str) -> list[str]:
    """The names of all that lies in the folder."""
    return os.listdir(folder)  # noqa: PTH208


def _url(path: str) -> str:
    return f"file://{path}"


def _read(reader: Any, paths: list[str], spark: Any) -> Any:
    """The frame; the list goes to the JVM as one text, since Spark would send it path by path."""
    text = _SEPARATOR.join(map(_url, paths))
    return reader._df(reader._jreader.parquet(spark._jvm.java.util.regex.Pattern.compile(_SEPARATOR).split(text)))


def _files_of(frame: Any, spark: Any) -> set[str]:
    """Which files the frame will read; the list comes from the JVM as one text, `Array(one, other)`."""
    text = str(spark._jvm.scala.runtime.ScalaRunTime.stringOf(frame._jdf.inputFiles()))
    urls = text.removeprefix("Array(").removesuffix(")").split(", ")
    return {"/" + unquote(url).removeprefix("file:").lstrip("/") for url in urls}
