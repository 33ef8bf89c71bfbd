"""What all pages share: the lake, what they may do, and what is remembered between requests."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.model import Head, Snapshot, TableInfo
from parqlake.core.names import parse_table_name
from parqlake.core.ports import CatalogReader
from parqlake.table.lake import Lake
from parqlake.table.lake_reading import found
from parqlake.table.table import Table
from parqlake.table.versions import live_head, resolve
from parqlake.ui.footprint import Footprint
from parqlake.ui.health_desk import HealthDesk

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for: the table of the path, and the query's values, all of it text."""

    table: str = ""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The value of that name, without blanks around it; empty if there is none."""
        return self.values.get(name, [""])[-1].strip()

    def many(self, name: str) -> list[str]:
        """All values of that name, each once."""
        return list(dict.fromkeys(value for value in self.values.get(name, []) if value))

    def integer(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number; `InvalidOptionError` if it is none."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 15 or int(text) < least:
            raise InvalidOptionError(f"{name}={text!r} must be a whole number >= {least}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Subject:
    """A table at one version, all of it from one moment."""

    table: Table
    info: TableInfo
    head: Head
    version: int
    snapshot: Snapshot | None
    """None for a table that holds nothing yet."""
    schema: pa.Schema
    """With field ids."""

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self.info.name)


class Memory:
    """The few things that were made last; safe to use from many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What is kept for the key, or else what `make` gives, which is kept then."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                kept: _T = self._kept[key]
                return kept
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made


class Explorer:
    """One lake as the pages see it."""

    def __init__(self, lake: Lake, *, allow_writes: bool = False) -> None:
        self.lake = lake
        self.allow_writes = allow_writes
        self.csrf = secrets.token_urlsafe(32)
        """Stands in every form that writes; nobody can read it from another origin."""
        self._footprints = Memory(4)
        self.health = HealthDesk(lake.context)

    def read(self) -> Any:
        """A consistent view of the catalog."""
        return self.lake.context.catalog.read()

    def subject(self, reader: CatalogReader, ask: Ask) -> Subject:
        """The table of the request at the version that it names, or the newest.

        Raises:
            NotFoundError: there is no such table, version or tag.
        """
        info = found(reader, parse_table_name(ask.table))
        text = ask.text("version")
        wanted: int | str | None = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text or None
        version, schema_id = resolve(reader, info, version=wanted, as_of=None)
        return Subject(
            table=Table(self.lake.context, info.table_id),
            info=info,
            head=live_head(reader, info),
            version=version,
            snapshot=reader.snapshot(info.table_id, version) if version else None,
            schema=reader.schema(info.table_id, schema_id),
        )

    def footprint(self, reader: CatalogReader, snapshot: Snapshot) -> Footprint:
        """The row groups of a version; made once, since a version never changes."""
        return self._footprints.get((snapshot.table_id, snapshot.version), lambda: Footprint(reader, snapshot))

    def counts(self, subject: Subject) -> dict[str, Any]:
        """What stands in the head of every page of a table."""
        snapshot = subject.snapshot
        return {
            "name": subject.name,
            "version": subject.version,
            "newest": subject.head.version,
            "row_count": snapshot.row_count if snapshot else 0,
            "file_count": snapshot.file_count if snapshot else 0,
            "row_group_count": snapshot.row_group_count if snapshot else 0,
            "size_bytes": snapshot.size_bytes if snapshot else 0,
            "committed_at": snapshot.committed_at if snapshot else None,
            "operation": str(snapshot.operation) if snapshot else None,
            "partition_by": list(subject.info.partition_by),
            "sort_by": list(subject.info.sort_by),
        }
