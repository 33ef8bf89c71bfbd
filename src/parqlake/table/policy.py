"""The maintenance policy of a table: what `Table.maintain` keeps in order, and how, by the table's properties.

| property | meaning | without it |
| --- | --- | --- |
| `maintain.target_mb_per_file` | about how large files shall be, in MiB | `target_mb_per_file` of the table, or 128 |
| `maintain.target_rows_per_file` | the most rows that a file may have | `max_rows_per_file` of the table, or no bound |
| `maintain.min_files` | so many files have to be saved, or to be new, for files to be rewritten | 4 |
| `maintain.rewrite` | `false`: files are never rewritten | `true` |
| `maintain.expire_older_than` | versions that were replaced so long ago are given up | no version is |
| `maintain.keep_last` | so many of the newest versions stay | no version is given up |
| `maintain.vacuum_older_than` | files of no use are deleted after so long; `never`: they are not | `7d` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.core.maintenance import DEFAULT_TARGET_MB, OVERSIZE_FACTOR, Targets, make_targets
from parqlake.core.model import TableInfo
from parqlake.core.retention import SHORTEST_AGE, parse_age

PREFIX = "maintain."
DEFAULT_MIN_FILES = 4
DEFAULT_VACUUM_AGE = "7d"
NEVER = "never"
_SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the properties of a table say about its maintenance.

    Attributes:
        target_mb_per_file: about how large files shall be.
        target_rows_per_file: the most rows that a file may have; None is no bound.
        min_files: so many files have to be saved, or to be new, for files to be rewritten.
        rewrite: whether files are rewritten at all.
        expire_older_than: when versions are given up, by age; None if age is no reason.
        keep_last: how many of the newest versions stay, whatever their age; None if nothing is said.
        vacuum_older_than: when files of no use are deleted; None: never.
    """

    target_mb_per_file: float = DEFAULT_TARGET_MB
    target_rows_per_file: int | None = None
    min_files: int = DEFAULT_MIN_FILES
    rewrite: bool = True
    expire_older_than: str | None = None
    keep_last: int | None = None
    vacuum_older_than: str | None = DEFAULT_VACUUM_AGE

    @property
    def targets(self) -> Targets:
        """What files shall be like, as the planner takes it."""
        return make_targets(self.target_mb_per_file, self.target_rows_per_file, oversize_factor=OVERSIZE_FACTOR)

    @property
    def target_bytes(self) -> int:
        """About how many bytes a file shall have."""
        return self.targets.size_bytes or 1

    @property
    def expires(self) -> bool:
        """Whether versions are given up."""
        return self.expire_older_than is not None or self.keep_last is not None

    @property
    def vacuum_age(self) -> timedelta | None:
        """After how long files of no use are deleted; None: never."""
        return None if self.vacuum_older_than is None else parse_age(self.vacuum_older_than)


def policy_of(info: TableInfo) -> Policy:
    """The policy of a table, from its properties.

    Raises:
        InvalidOptionError: a property that makes no sense.
    """
    return read_policy(info.properties)


def check_policy(properties: Mapping[str, str]) -> None:
    """Raises `InvalidOptionError` for a property of maintenance that is unknown or makes no sense."""
    if any(name.startswith(PREFIX) for name in properties):
        read_policy(properties)


def read_policy(properties: Mapping[str, str]) -> Policy:
    """Reads a policy; properties of other kinds are nobody's business here, but for the defaults of writes.

    Example:
        >>> read_policy({"maintain.keep_last": "10", "maintain.vacuum_older_than": "never"}).vacuum_age is None
        True
    """
    for name in properties:
        if name.startswith(PREFIX) and name not in _READERS:
            hint = suggestion(name, _READERS)
            raise InvalidOptionError(f'no property "{name}";{hint} properties of maintenance: {", ".join(_READERS)}')
    values: dict[str, object] = {}
    for of_writes, field in (
        ("target_mb_per_file", "target_mb_per_file"),
        ("max_rows_per_file", "target_rows_per_file"),
    ):
        if of_writes in properties:
            values[field] = _READERS[PREFIX + field](of_writes, properties[of_writes])
    for name, read in _READERS.items():
        if name in properties:
            values[name.removeprefix(PREFIX)] = read(name, properties[name])
    return Policy(**values)  # type: ignore[arg-type]


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not 0 < number < float("inf"):
        raise InvalidOptionError(f"{name}={text!r} must be a number > 0")
    return number


def _whole(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidOptionError(f"{name}={text!r} must be a whole number >= 1")
    return number


def _switch(name: str, text: str) -> bool:
    found = _SWITCHES.get(text.strip().lower())
    if found is None:
        raise InvalidOptionError(f"{name}={text!r} must be true or false")
    return found


def _age(name: str, text: str) -> str:
    parse_age(text, name)
    return text


def _vacuum_age(name: str, text: str) -> str | None:
    if text.strip().lower() == NEVER:
        return None
    if parse_age(text, name) < SHORTEST_AGE:
        minutes = SHORTEST_AGE.total_seconds() / 60
        raise InvalidOptionError(
            f"{name}={text!r} is less than {minutes:g} minutes, in which readers that just began are not known yet; "
            f'give a longer one, or "{NEVER}"'
        )
    return text


_READERS: dict[str, Callable[[str, str], object]] = {
    f"{PREFIX}target_mb_per_file": _number,
    f"{PREFIX}target_rows_per_file": _whole,
    f"{PREFIX}min_files": _whole,
    f"{PREFIX}rewrite": _switch,
    f"{PREFIX}expire_older_than": _age,
    f"{PREFIX}keep_last": _whole,
    f"{PREFIX}vacuum_older_than": _vacuum_age,
}
