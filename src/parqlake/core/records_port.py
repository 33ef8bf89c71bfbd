"""Records: small facts that pipelines keep in the catalog, committed with the versions that they are about.

A record is a JSON value under a scope and a key. What a commit expects of a record is checked inside the commit, so
that of two who rely on the same state only one goes ahead. Part of the ports `CatalogReader` and `CatalogWriter`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol

from parqlake.core.errors import InputError, InvalidOptionError, RecordConflictError

LONGEST_SCOPE_BYTES = 500
LONGEST_KEY_BYTES = 1_500
"""Both stand in one index, and every database has to hold them there."""


class Expect(Enum):
    """What a transaction may expect of a record, beside a revision."""

    ANY = "any"
    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ANY: Final = Expect.ANY
"""The record may be there or not."""
ABSENT: Final = Expect.ABSENT
"""The record must not be there yet."""

Expectation = Expect | int
"""`ANY`, `ABSENT`, or the revision that the record must have."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the catalog holds it.

    Attributes:
        scope: what kind of record it is, for instance `watermarks/orders`.
        key: its name within the scope.
        value: what was recorded, as JSON gives it back: tuples are lists, keys of mappings are strings.
        revision: rises with every record that is written in the scope, and so tells of any change.
        recorded_at: the moment of its commit.
        transaction: the id of the transaction that wrote it.
    """

    scope: str
    key: str
    value: Any
    revision: int
    recorded_at: datetime
    transaction: str


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written, and what is expected of the one that is there."""

    scope: str
    key: str
    text: str
    """The value as JSON."""
    expect: Expectation = ANY


class RecordReader(Protocol):
    """What is on record."""

    def record(self, scope: str, key: str) -> Record | None:
        """One record."""

    def records(
        self, scope: str, *, after: str | None = None, limit: int | None = None, newest_first: bool = False
    ) -> list[Record]:
        """The records of a scope, by key, or newest first; `after` is the key of the last one that is known."""

    def recorded(self, scope: str, keys: Sequence[str]) -> set[str]:
        """Those of the keys that are on record."""

    def record_scopes(self, prefix: str = "") -> list[str]:
        """The scopes that begin with the prefix and hold records, sorted."""


class RecordWriter(RecordReader, Protocol):
    """What is put on record, and taken off it."""

    def put_records(self, records: Sequence[NewRecord], *, txn_id: str, at: datetime) -> None:
        """Writes the records; each scope is locked until the end. `RecordConflictError` if one is not as expected."""

    def forget_records(self, scope: str, keys: Sequence[str]) -> int:
        """Takes records away, and returns how many there were."""


def checked_scope(scope: object) -> str:
    """The scope, if every catalog can hold it."""
    return _checked(scope, "scope", LONGEST_SCOPE_BYTES)


def checked_record_key(key: object) -> str:
    """The key of a record, if every catalog can hold it."""
    return _checked(key, "key", LONGEST_KEY_BYTES)


def checked_keys(keys: Iterable[str]) -> list[str]:
    """The keys without repetitions; one string is no list of keys."""
    if isinstance(keys, str):
        raise InvalidOptionError(f"keys={keys!r} is one string; give a list of keys, for instance [{keys!r}]")
    return list(dict.fromkeys(checked_record_key(key) for key in keys))


def checked_expectation(expect: object) -> Expectation:
    """`ANY`, `ABSENT` or a revision."""
    if isinstance(expect, Expect) or (isinstance(expect, int) and not isinstance(expect, bool) and expect > 0):
        return expect
    raise InvalidOptionError(
        f"expect={expect!r} is unknown; use ANY, ABSENT, or the revision of the record that was read"
    )


def record_text(value: object, where: str) -> str:
    """The value as JSON in plain ASCII, which every database holds unchanged."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"the value of record {where} cannot be kept as JSON ({error}); use strings, numbers, booleans, None, "
            "lists and mappings of them, and for instance isoformat() for a time"
        ) from error


def expected(new: NewRecord, there: int | None) -> bool:
    """Whether the record that is there (its revision, or None) is what the new one expects."""
    match new.expect:
        case Expect.ANY:
            return True
        case Expect.ABSENT:
            return there is None
        case revision:
            return there == revision


def record_conflict(new: NewRecord, there: Record | None, others: int) -> RecordConflictError:
    """The error for a record that is not as expected; `others` more are not, either."""
    wanted = "to be absent" if new.expect is ABSENT else f"to have revision {new.expect}"
    found = "it is not there"
    if there is not None:
        shown = record_text(there.value, new.key)
        shown = shown if len(shown) <= 200 else shown[:200] + "…"
        found = f"it has revision {there.revision}, of {there.recorded_at.isoformat()}, and holds {shown}"
    more = f", and so with {others} more" if others else ""
    return RecordConflictError(
        f'record "{new.key}" of scope "{new.scope}" was expected {wanted}, but {found}{more}; nothing was committed: '
        "read it again and decide what is left to do",
        scope=new.scope,
        key=new.key,
        found=there,
    )


def checked_values(scope: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Keys and values as they are stored."""
    if not isinstance(values, Mapping):
        raise InputError(f"records are given as a mapping of keys to values, not as a {type(values).__name__}")
    texts = {}
    for key, value in values.items():
        texts[checked_record_key(key)] = record_text(value, f'"{key}" of scope "{scope}"')
    return texts


def _checked(text: object, what: str, longest: int) -> str:
    if not isinstance(text, str) or not text:
        raise InvalidOptionError(f"the {what} of a record is a text that is not empty, not {text!r}")
    if "\0" in text:
        raise InvalidOptionError(f"the {what} {text[:60]!r} of a record holds a NUL character; leave it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidOptionError(f"the {what} {text[:60]!r} of a record is not valid Unicode text") from error
    if size > longest:
        raise InvalidOptionError(f"the {what} {text[:60]!r}… of a record has {size} bytes; at most {longest} are held")
    return text
