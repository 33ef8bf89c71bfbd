"""What every use case needs at hand: the lake's catalog, store, engines, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from parqlake.core.errors import InvalidOptionError
from parqlake.core.ports import Catalog, Engine, Reader, Store

EngineChoice = str | Engine | None
"""`"pyarrow"`, `"duckdb"`, an engine object, or None for the lake's own."""


@dataclass(frozen=True, slots=True)
class LakeContext:
    """The adapters of one lake, chosen by `wiring`."""

    catalog: Catalog
    store: Store
    reader: Reader
    default_engine: Engine
    make_engine: Callable[[str], Engine]
    lease: timedelta = timedelta(minutes=15)
    retry_for: timedelta = timedelta(seconds=60)
    """How long a commit goes on trying while the catalog is busy."""

    def engine(self, choice: EngineChoice) -> Engine:
        """The engine that a call chose, or the lake's own."""
        if choice is None:
            return self.default_engine
        if isinstance(choice, str):
            return self.default_engine if choice == self.default_engine.name else self.make_engine(choice)
        if not hasattr(choice, "write") or not hasattr(choice, "rewrite"):
            raise InvalidOptionError(f'engine={choice!r} is no engine; use "pyarrow", "duckdb" or an engine object')
        return choice


def now() -> datetime:
    """The present, aware and in UTC."""
    return datetime.now(UTC)
