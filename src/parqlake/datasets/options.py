"""Options of the operations, checked before anything is read."""

from __future__ import annotations

import re
from typing import Any

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.merging.model import DEFAULT_MEMORY_BYTES

CODECS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")
MODES = ("append", "overwrite")
DEFAULT_CODEC = "snappy"

_OTHER_NAMES = {"uncompressed": "none", "lz4_raw": "lz4", "gz": "gzip", "zst": "zstd"}
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


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


def memory_bytes(memory_limit: Any) -> int:
    """The bytes that an operation may hold in memory: a number of them, or a text such as "512MB".

    Example:
        >>> memory_bytes("64MiB"), memory_bytes(1000)
        (67108864, 1000)
    """
    if memory_limit is None:
        return DEFAULT_MEMORY_BYTES
    amount = 0.0
    if isinstance(memory_limit, int) and not isinstance(memory_limit, bool):
        amount = memory_limit
    elif isinstance(memory_limit, str) and (found := _AMOUNT.fullmatch(memory_limit)):
        amount = float(found[1]) * _UNITS.get(found[2].upper(), 0)
    if amount < 1:
        raise InvalidOptionError(
            f'memory_limit is {memory_limit!r}; give bytes that are > 0, or a text such as "512MB"'
        )
    return int(amount)
