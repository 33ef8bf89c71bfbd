"""How much memory an operation may hold, as people say it."""

from __future__ import annotations

import re
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.merging.model import DEFAULT_MEMORY_BYTES

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


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
