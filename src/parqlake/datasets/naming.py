"""Names for the files of a dataset: unique by themselves, or numbered in order."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import uuid_utils

from parqlake.core.errors import InvalidOptionError, suggestion

DEFAULT_TEMPLATE = "part-{}.parquet"
_DIGITS = 3
_LONGEST = 200
"""Bytes of a template; the longest file name of the usual file systems is 255, and the identifier needs room."""

_clock = threading.Lock()
_last_nanoseconds = 0


class FilenameStrategy(StrEnum):
    """What takes the place of `{}` in a template."""

    UUID = "uuid"
    TIMESTAMP = "timestamp"
    SEQUENTIAL = "sequential"


@dataclass(frozen=True, slots=True)
class Naming:
    """How new files are called.

    Attributes:
        template: a file name with `{}` where the identifier goes.
        strategy: which identifiers. None: UUIDs for the default template, numbers for any other.

    Example:
        >>> Naming("data_{}.parquet").numbered(7)
        'data_007.parquet'
    """

    template: str = DEFAULT_TEMPLATE
    strategy: FilenameStrategy | str | None = None

    def __post_init__(self) -> None:
        """Raises `InvalidOptionError`, a `ValueError`, for a template or strategy that cannot be used."""
        _check_template(self.template)
        chosen = self.strategy
        if chosen is None:
            chosen = FilenameStrategy.UUID if self.template == DEFAULT_TEMPLATE else FilenameStrategy.SEQUENTIAL
        object.__setattr__(self, "strategy", _strategy(chosen))

    @property
    def is_unique(self) -> bool:
        """Whether two names never meet, whoever makes them; numbers have to be reserved."""
        return self.strategy is not FilenameStrategy.SEQUENTIAL

    def fresh(self) -> str:
        """A name that nobody else has; not for numbers."""
        if self.strategy is FilenameStrategy.UUID:
            return self._named(uuid_utils.uuid7().hex)
        if self.strategy is FilenameStrategy.TIMESTAMP:
            return self._named(_timestamp())
        raise InvalidOptionError("a sequential name needs a number; reserve one with Swap.stage_new")

    def numbered(self, number: int) -> str:
        """The name with a number, of three digits at least."""
        return self._named(f"{number:0{_DIGITS}d}")

    def number_of(self, name: str) -> int | None:
        """The number that a name of this template bears, or None."""
        before, _, after = self.template.partition("{}")
        found = re.fullmatch(re.escape(before) + "([0-9]+)" + re.escape(after), name)
        return int(found[1]) if found else None

    def next_number(self, names: Iterable[str]) -> int:
        """The number after the highest among the names; 0 if there is none."""
        numbers = [number for name in names if (number := self.number_of(name)) is not None]
        return max(numbers, default=-1) + 1

    def _named(self, identifier: str) -> str:
        return self.template.replace("{}", identifier)


def _timestamp() -> str:
    """Now, to the nanosecond and always later than the last; a few random digits tell processes apart."""
    global _last_nanoseconds  # noqa: PLW0603  one clock for the process
    with _clock:
        _last_nanoseconds = max(time.time_ns(), _last_nanoseconds + 1)
        now = _last_nanoseconds
    seconds, fraction = divmod(now, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{moment}{fraction:09d}Z-{secrets.token_hex(4)}"


def _strategy(value: object) -> FilenameStrategy:
    known = [choice.value for choice in FilenameStrategy]
    if isinstance(value, str) and value in known:
        return FilenameStrategy(value)
    hint = suggestion(value, known) if isinstance(value, str) else ""
    raise InvalidOptionError(f"Invalid filename_strategy {value!r};{hint} choose one of: {', '.join(known)}")


def _check_template(template: object) -> None:
    if not isinstance(template, str):
        raise _bad_template(template, f"is a {type(template).__name__}, not a string")
    if template.count("{}") != 1 or len(re.findall(r"[{}]", template)) != 2:
        raise _bad_template(template, "must hold {} exactly once, and no other braces")
    if "/" in template or "\\" in template:
        raise _bad_template(template, "holds a path separator; it names files, not folders")
    if not template.endswith(".parquet"):
        raise _bad_template(template, "does not end in .parquet, and so no reader would find the files")
    if template.startswith((".", "_")):
        raise _bad_template(template, "begins like a hidden file, which readers skip")
    if not template.isprintable() or ":" in template or len(template.encode()) > _LONGEST:
        raise _bad_template(template, f"must be printable, without ':' and of at most {_LONGEST} bytes")


def _bad_template(template: object, reason: str) -> InvalidOptionError:
    return InvalidOptionError(f"basename_template {template!r} {reason}; give one such as {DEFAULT_TEMPLATE!r}")
