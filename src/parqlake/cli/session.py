"""What every command works with: the lake that was meant, and where to say things."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from parqlake.cli.exits import UsageError
from parqlake.cli.finding import LakeAddress, find_lake, here
from parqlake.cli.output import Output
from parqlake.cli.report import Report
from parqlake.core.errors import LakeNotFoundError

if TYPE_CHECKING:
    from parqlake.table.lake import Lake
    from parqlake.table.table import Table


@dataclass(frozen=True, slots=True)
class Shared:
    """The options that every command takes, before its name and after it."""

    lake: str | None = None
    catalog: str | None = None
    json: bool = False
    debug: bool = False

    def over(self, other: Shared) -> Shared:
        """These, and what only the other has."""
        return Shared(
            self.lake or other.lake, self.catalog or other.catalog, self.json or other.json, self.debug or other.debug
        )


class Session:
    """One run of one command; closes the lake when it ends."""

    def __init__(self, shared: Shared) -> None:
        """Opens nothing yet."""
        self.shared = shared
        self.out = Output(as_json=shared.json)
        self._open = ExitStack()

    @cached_property
    def address(self) -> LakeAddress:
        """Where the lake is; see `find_lake`."""
        return find_lake(self.shared.lake, self.shared.catalog, environ=os.environ, folder=here())

    @cached_property
    def lake(self) -> Lake:
        """The lake, which must be there."""
        return self.connect(create=False)

    def connect(self, address: LakeAddress | None = None, *, create: bool, **options: Any) -> Lake:
        """Opens a lake, to be closed with the session."""
        from parqlake.wiring import connect

        at = address or self.address
        given = dict(at.storage_options) or None
        try:
            lake = connect(at.root, catalog=at.catalog, storage_options=given, create=create, **options)
        except LakeNotFoundError as error:
            place = str(error).partition(";")[0]  # what follows tells callers of `connect` what to do
            raise LakeNotFoundError(f"{place}, which is named by {at.source}") from error
        return self._open.enter_context(lake)

    def table(self, name: str) -> Table:
        """The table of that name."""
        return self.lake.table(name)

    def confirm(self, plan: Report, question: str, *, yes: bool) -> None:
        """Shows what is about to happen, and goes on only if somebody says so.

        Raises:
            UsageError: nobody is there to be asked, and `--yes` was not given; or the answer was no.
        """
        self.out.plan(plan)
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"{question} Nobody can be asked here, so nothing was done; --yes does it")
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was done")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()


def names(text: Sequence[str] | None) -> list[str] | None:
    """Names that were given one by one or with commas between them; None if none was.

    Example:
        >>> names(["a,b", "c"])
        ['a', 'b', 'c']
    """
    found = [name.strip() for item in text or () for name in item.split(",") if name.strip()]
    return found or None
