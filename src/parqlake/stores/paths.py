"""Paths below a root: one spelling for each, and no way out. URLs without their secrets."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from parqlake.core.errors import UnsafePathError

_DRIVE = re.compile(r"[A-Za-z]:")


def safe_path(path: str) -> str:
    """Returns the path in its one spelling, `a/b/c`, or raises `UnsafePathError` if it could leave the root.

    Example:
        >>> safe_path("sales//orders/./part.parquet")
        'sales/orders/part.parquet'
    """
    if not isinstance(path, str):
        raise UnsafePathError(f"path {path!r} is a {type(path).__name__}; give a string relative to the root")
    reason = _unsafe(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if reason is None and ".." in parts:
        reason = 'holds ".."'
    if reason is None and not parts:
        reason = "is empty"
    if reason is not None:
        shown = repr(path if len(path) <= 200 else path[:197] + "...")
        raise UnsafePathError(f"path {shown} {reason}; give a path relative to the root, with / between folders")
    return "/".join(parts)


def safe_folder(path: str) -> str:
    """Like `safe_path`, but the root itself may be named, by the empty string."""
    return "" if path in ("", ".") else safe_path(path)


def shown_url(url: str) -> str:
    """The URL for people, logs and errors: without user, password, query or fragment."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    hidden = "***@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{hidden}{host}{parts.path}"


def _unsafe(path: str) -> str | None:
    if "\0" in path:
        return "holds a NUL character"
    if "\\" in path:
        return "holds a backslash"
    if "://" in path:
        return "holds a protocol"
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    return None
