"""What every use case needs at hand: the lake's catalog, store, engines, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from parqlake.core.errors import InvalidOptionError
from parqlake.core.ports import Catalog, Engine, FrameEngine, Reader, Store
from parqlake.table.progress import ProgressChoice

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
    frame_engine: Callable[[Any], FrameEngine | None]
    """The engine that a data frame brings along, if it does: a Spark frame its session."""
    connect_to: Callable[[str], Callable[..., Any]]
    """How a plan is handed to another reader, by its name: `connect_to("spark")(plan, store, session)`."""
    lease: timedelta = timedelta(minutes=15)
    retry_for: timedelta = timedelta(seconds=60)
    """How long a commit goes on trying while the catalog is busy."""
    progress: ProgressChoice = None
    """Who is told of long work, unless a call says otherwise."""

    def engine(self, choice: EngineChoice, data: Any = None) -> Engine:
        """The engine that a call chose, or that its data brings along, or the lake's own."""
        own = None if data is None else self.frame_engine(data)
        if own is not None and choice in (None, own.name):
            return own
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
