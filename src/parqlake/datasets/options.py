"""Options of the operations, checked before anything is read."""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.merging.memory import memory_bytes

__all__ = [
    "CODECS",
    "DEFAULT_CODEC",
    "MODES",
    "checked_codec",
    "checked_mode",
    "checked_rows",
    "memory_bytes",
    "rewrite_bytes",
]

CODECS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")
MODES = ("append", "overwrite")
DEFAULT_CODEC = "snappy"
LEAST_REWRITE_BYTES = 64 * 10**6
"""Pages, dictionaries and allocators take some 30 MB beside the rows: a smaller limit could not be kept to."""

_OTHER_NAMES = {"uncompressed": "none", "lz4_raw": "lz4", "gz": "gzip", "zst": "zstd"}


def checked_codec(compression: Any) -> str:
    """The codec in its one spelling, or `InvalidOptionError`.

    Example:
        >>> checked_codec("ZSTD"), checked_codec("uncompressed")
        ('zstd', 'none')
    """
    name = compression.lower() if isinstance(compression, str) else ""
    name = _OTHER_NAMES.get(name, name)
    if name not in CODECS:
        hint = suggestion(name, CODECS)
        raise InvalidOptionError(f"compression {compression!r} is not known;{hint} use one of: {', '.join(CODECS)}")
    return name


def checked_mode(mode: Any) -> str:
    """The mode of a write, or `InvalidOptionError`."""
    if mode not in MODES:
        raise InvalidOptionError(f"Invalid mode {mode!r}; use one of: {', '.join(MODES)}")
    return str(mode)


def checked_rows(max_rows_per_file: Any) -> int | None:
    """The bound on rows of a file, None for none, or `InvalidOptionError`."""
    if max_rows_per_file is None:
        return None
    whole = isinstance(max_rows_per_file, int) and not isinstance(max_rows_per_file, bool)
    if not whole or max_rows_per_file <= 0:
        raise InvalidOptionError(
            f"max_rows_per_file is {max_rows_per_file!r}; it must be > 0 and whole, or left out for no bound"
        )
    return int(max_rows_per_file)


def rewrite_bytes(memory_limit: Any) -> int:
    """Like `memory_bytes`, for compaction and optimization; `InvalidOptionError` for less than they can keep to."""
    found = memory_bytes(memory_limit)
    if found < LEAST_REWRITE_BYTES:
        raise InvalidOptionError(
            f'memory_limit is {memory_limit!r}, which cannot be kept to; give at least "64MB", or leave it out'
        )
    return found
