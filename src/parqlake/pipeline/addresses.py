"""Addresses without secrets: what the catalog remembers of a source is for all who read the catalog."""

from __future__ import annotations

import re

from parqlake.core.errors import InvalidOptionError

_KEYS = r"(?:access|account|api|private|secret|shared)[_.-]?key"
_WORDS = rf"passw|passphrase|pwd|secret|token(?!i)|credential|signature|{_KEYS}"
_USER = re.compile(r"://[^/@\[]*(?<!:):(?!:|@|\d*(?:[/,;]|$))")
"""A colon before the first slash that no port follows: `user:password@`."""
_OPTION = re.compile(rf"(?:^|[?&;:])(?:[^=&;?/]*(?:{_WORDS})[^=&;?/]*|sig|pass|key)\s*=", re.IGNORECASE)
_JDBC_USER = re.compile(r"[^:/]@")
"""Oracle's drivers want an `@`; nothing may stand before it."""
_NAME = re.compile(rf"(?:{_WORDS}|^pass$)(?!.*(?:file|path|provider|type)$)", re.IGNORECASE)
_DEFINED = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def checked_address(address: str, call: str, way_out: str) -> str:
    """The address of files, if it holds no secret.

    Raises:
        InvalidOptionError: it does; the message says where else it goes, and does not repeat it.

    Example:
        >>> checked_address("s3a://bucket/orders", "files", "…")
        's3a://bucket/orders'
    """
    if holds_secret(address):
        raise InvalidOptionError(
            f"the address in {call}(…) holds a password, key or token, which the catalog would keep; {way_out}"
        )
    return address


def holds_secret(address: str) -> bool:
    """Whether an address holds a password or a signature.

    Example:
        >>> [holds_secret(a) for a in ("hdfs://node:8020/a", "s3a://KEY:SECRET@bucket/a", "https://h/a?sig=x")]
        [False, True, True]
    """
    return bool(_USER.search(address) or _OPTION.search(address))


def jdbc_holds_secret(url: str) -> bool:
    """Whether the address of a database holds a user or password, in any of the ways that drivers know.

    Example:
        >>> jdbc_holds_secret("jdbc:oracle:thin:scott/tiger@db:1521"), jdbc_holds_secret("jdbc:postgresql://db/shop")
        (True, False)
    """
    return bool(_JDBC_USER.search(url) or _OPTION.search(url))


def is_secret(name: str) -> bool:
    """Whether an option of that name holds a secret.

    Example:
        >>> [is_secret(name) for name in ("password", "fs.s3a.secret.key", "sslkeyfile", "header")]
        [True, True, False, False]
    """
    return _NAME.search(name) is not None


def is_written_out(text: str) -> bool:
    """Whether something is left of a text besides what it takes from the environment as `${NAME}`."""
    return bool(_DEFINED.sub("", text).strip())
