"""Records: what a lake remembers for pipelines, and how a transaction puts it down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from parqlake.core.errors import InputError, InvalidOptionError
from parqlake.core.model import Snapshot
from parqlake.core.records_port import (
    ANY,
    Expectation,
    NewRecord,
    Record,
    checked_expectation,
    checked_keys,
    checked_record_key,
    checked_scope,
    checked_values,
    record_text,
)
from parqlake.table.context import LakeContext

MadeValue = Callable[[Mapping[int, Snapshot]], Any]
"""Gives the value of a record once the versions of its transaction are known, by table id; pure and quick."""


@dataclass(frozen=True, slots=True)
class _Late:
    """A record whose value depends on the versions that the commit makes."""

    new: NewRecord
    make: MadeValue


class StagedRecords:
    """The records of one transaction, until its commit writes them."""

    def __init__(self) -> None:
        """None yet."""
        self._staged: dict[tuple[str, str], NewRecord | _Late] = {}

    def __len__(self) -> int:
        return len(self._staged)

    def put(self, scope: str, values: Mapping[str, Any], expect: object) -> None:
        """Stages records; a second value for a key replaces the first one, and what that expected stays."""
        checked, wanted = checked_scope(scope), checked_expectation(expect)
        texts = checked_values(checked, values)
        news = [self._joined(NewRecord(checked, key, text, wanted)) for key, text in texts.items()]
        self._staged.update({(new.scope, new.key): new for new in news})

    def put_late(self, scope: str, key: str, make: MadeValue, expect: Expectation) -> None:
        """Stages a record whose value is made in the commit."""
        new = self._joined(NewRecord(checked_scope(scope), checked_record_key(key), "null", expect))
        self._staged[new.scope, new.key] = _Late(new, make)

    def settled(self, made: Mapping[int, Snapshot]) -> list[NewRecord]:
        """The records as they are to be written beside these versions."""
        return [
            replace(staged.new, text=record_text(staged.make(made), f'"{staged.new.key}"'))
            if isinstance(staged, _Late)
            else staged
            for staged in self._staged.values()
        ]

    def _joined(self, new: NewRecord) -> NewRecord:
        before = self._staged.get((new.scope, new.key))
        if before is None:
            return new
        first = before.new if isinstance(before, _Late) else before
        if new.expect not in (ANY, first.expect):
            raise InputError(
                f'record "{new.key}" of scope "{new.scope}" was put into this transaction before, expecting '
                f"{first.expect!r}; it cannot expect {new.expect!r} as well"
            )
        return replace(new, expect=first.expect)


class LakeRecords:
    """What `Lake` offers to look at records, and to forget them. They are written by `Transaction.record`."""

    _context: LakeContext

    def record(self, scope: str, key: str) -> Record | None:
        """The record of that scope and key, or None.

        Example:
            >>> lake.record("watermarks/orders", "updated_at").value   # doctest: +SKIP
            '2026-11-15T00:00:00+00:00'
        """
        with self._context.catalog.read() as reader:
            return reader.record(checked_scope(scope), checked_record_key(key))

    def records(
        self, scope: str, *, after: str | None = None, limit: int | None = None, newest_first: bool = False
    ) -> list[Record]:
        """The records of a scope, sorted by key, or those that were written last first.

        Args:
            scope: as it was recorded.
            after: the key of the last record of the page before; the answer goes on behind it.
            limit: at most so many.
            newest_first: by the time of writing, latest first, instead of by key.

        Raises:
            NotFoundError: the record `after` is not there any more, and `newest_first` was asked for.

        Example:
            >>> [record.key for record in lake.records("files/orders", limit=2)]   # doctest: +SKIP
            ['landing/2026-11-14.json', 'landing/2026-11-15.json']
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidOptionError(f"limit={limit!r} must be a number of records, or None")
        last = None if after is None else checked_record_key(after)
        with self._context.catalog.read() as reader:
            return reader.records(checked_scope(scope), after=last, limit=limit, newest_first=newest_first)

    def recorded(self, scope: str, keys: Iterable[str]) -> set[str]:
        """Those of the keys that are on record; one query, however many there are.

        Example:
            >>> new = set(found) - lake.recorded("files/orders", found)   # doctest: +SKIP
        """
        checked, asked = checked_scope(scope), checked_keys(keys)
        with self._context.catalog.read() as reader:
            return reader.recorded(checked, asked)

    def record_scopes(self, prefix: str = "") -> list[str]:
        """The scopes that begin with the prefix and hold records, sorted.

        Example:
            >>> lake.record_scopes("runs/")   # doctest: +SKIP
            ['runs/orders']
        """
        with self._context.catalog.read() as reader:
            return reader.record_scopes(prefix)

    def forget(self, scope: str, keys: Iterable[str]) -> int:
        """Takes records away, and returns how many there were.

        Example:
            >>> lake.forget("files/orders", ["landing/2026-11-15.json"])   # doctest: +SKIP
            1
        """
        checked, asked = checked_scope(scope), checked_keys(keys)
        with self._context.catalog.write() as writer:
            return writer.forget_records(checked, asked)
