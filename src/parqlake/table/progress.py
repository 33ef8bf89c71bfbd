"""Progress: how far a long call has come, told to a callback, or shown as a bar where somebody looks on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import TableInfo
from parqlake.table import progress_bar


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call has come.

    The first one of a stage has `done` 0, the last one of a call that went well has `done` equal to `total`. Where
    there is nothing to do, nothing is told.

    Attributes:
        operation: what is done: `"compact"`, `"vacuum"`, `"merge"` …
        table: the table's name.
        done: how much of it is done.
        total: how much there is to do; None as long as nobody can know.
        unit: what is counted: `"rows"`, `"files"` or `"bytes"`.
        message: more about it, for people.

    Example:
        >>> Progress("compact", "sales.orders", 3, 12, "files").share
        0.25
    """

    operation: str
    table: str
    done: int
    total: int | None
    unit: str
    message: str = ""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None if nobody knows."""
        return None if self.total is None else self.done / self.total if self.total else 1.0


ProgressCallback = Callable[[Progress], None]
ProgressChoice = ProgressCallback | bool | None
"""Who is told: a callback; True for a bar, False for nobody; None for what the lake was opened with."""


class Report:
    """A call under way: counts what is done, and tells. Safe to use from several threads."""

    def __init__(self, tell: ProgressCallback | None, operation: str, table: str) -> None:
        """Nothing is told before there is something to do."""
        self._tell = tell
        self._operation = str(operation)
        self._table = table
        self._lock = threading.RLock()
        self._done = 0
        self._total: int | None = None
        self._unit = "bytes"
        self._message = ""
        self._begun = False

    def __reduce__(self) -> Any:
        """In another process there is nobody to tell."""
        return Report, (None, self._operation, self._table)

    def expect(self, total: int | None, unit: str, message: str = "") -> None:
        """A stage begins, in which there is so much to do."""
        with self._lock:
            self._done, self._total, self._unit, self._message = 0, total, unit, message
            self._said()

    def advance(self, by: int = 1, message: str = "") -> None:
        """So much more is done."""
        with self._lock:
            self._done += by
            if self._total is not None:
                self._done = min(self._done, self._total)
            self._message = message or self._message
            self._said()

    def finish(self) -> None:
        """The call went well; whatever was expected, there is no more to do."""
        with self._lock:
            if self._begun and self._total != self._done:
                self._done = self._total = self._done if self._total is None else self._total
                self._said()

    def _said(self) -> None:
        self._begun = True
        if self._tell is not None:
            self._tell(Progress(self._operation, self._table, self._done, self._total, self._unit, self._message))


class _Silent(Report):
    """Counts nothing and tells nobody."""

    def expect(self, total: int | None, unit: str, message: str = "") -> None:
        """Does nothing."""

    def advance(self, by: int = 1, message: str = "") -> None:
        """Does nothing."""


SILENT: Report = _Silent(None, "", "")
"""Tells nobody."""


def check_progress(choice: Any) -> ProgressChoice:
    """Returns the choice if it makes sense.

    Raises:
        InvalidOptionError: it is neither a callable nor True, False or None.
    """
    if choice is not None and not isinstance(choice, bool) and not callable(choice):
        raise InvalidOptionError(
            f"progress={choice!r} cannot be told anything; give a function that takes a parqlake.Progress, or False"
        )
    return choice  # type: ignore[no-any-return]


@contextmanager
def reporting(
    choice: ProgressChoice, of_lake: ProgressChoice, *, operation: str, table: TableInfo | str
) -> Iterator[Report]:
    """Reports of one call, to whom the call names or else to whom the lake was opened with.

    What a callback raises ends the call, as any other error does: nothing is published.
    """
    chosen = check_progress(of_lake if choice is None else choice)
    name = table if isinstance(table, str) else str(table.name)
    if chosen is False or (not callable(chosen) and not progress_bar.is_wanted(asked=chosen is True)):
        yield SILENT
        return
    if callable(chosen):
        report = Report(chosen, operation, name)
        yield report
        report.finish()
        return
    bar = progress_bar.Bar()
    try:
        report = Report(bar, operation, name)
        yield report
        report.finish()
    finally:
        bar.close()
