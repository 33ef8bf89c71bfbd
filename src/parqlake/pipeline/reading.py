"""What a source gives to a run, and what it may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from parqlake.core.runs import RunInput
from parqlake.table.lake import Lake


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source may ask of the run that takes its rows."""

    spark: Any
    lake: Lake
    scope: str
    """Where the step's records are."""
    scan: Callable[[str], tuple[Any, int]]
    """A scan of a table as the run sees it, with its own changes, and the version below."""
    known_version: Callable[[str], int]
    """Up to which version the step has taken changes of a table."""
    made: frozenset[str] = frozenset()
    """The tables that steps of the pipeline write: they may not be there yet."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that were taken, and what has to be remembered once they are committed."""

    frame: Any
    """None if there is nothing new."""
    inputs: tuple[RunInput, ...]
    files: Mapping[str, Any] = field(default_factory=dict)
    """For the ledger: what was taken, by key."""
    versions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How far the changes of a table were taken, and of which table of that name."""
    empty: Callable[[], Any] | None = None
    """Where there is nothing new: a frame of the same columns without rows, if they are known."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read as this run leaves them, so that steps which write them come first."""

    @property
    def remembers(self) -> bool:
        """Whether it gives only what is new, and remembers by itself what that was."""

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:
        """What a run would take now, in words, without Spark."""

    def take(self, reading: Reading) -> Taken:
        """The rows."""


def load_frame(spark: Any, format: str, path: Any, options: Mapping[str, Any], schema: str | None) -> Any:
    """A frame of Spark's reader; `path` is a list of addresses, or None where options say it all."""
    reader = spark.read.format(format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load() if path is None else reader.load(list(path))
