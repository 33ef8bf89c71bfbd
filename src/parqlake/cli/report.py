"""What a command has to say, as plain values: records and listings. How it looks is decided elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a value means, which decides how it is shown to people."""

    TEXT = "text"
    COUNT = "count"
    """A number of things: 1,234,567."""
    NUMBER = "number"
    """A number as it is: 1234567."""
    BYTES = "bytes"
    """12.1 MiB."""
    SHARE = "share"
    """From 0 to 1: 12 %."""
    TIME = "time"
    FLAG = "flag"
    NAMES = "names"
    """Several texts."""

    @property
    def is_number(self) -> bool:
        """Whether it stands to the right, and is never cut."""
        return self in (Kind.COUNT, Kind.NUMBER, Kind.BYTES, Kind.SHARE)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a listing, or a field of a record.

    Attributes:
        name: what machines call it; part of the stable shape.
        kind: what its values mean.
        rank: where a terminal is too narrow, columns of higher ranks are left out first.
        is_data: True for a column of somebody's table, whose name is shown as it is.
    """

    name: str
    kind: Kind = Kind.TEXT
    rank: int = 0
    is_data: bool = False

    @property
    def title(self) -> str:
        """What people see.

        Example:
            >>> Column("row_count").title, Column("size_bytes").title
            ('rows', 'size')
        """
        if self.is_data:
            return self.name
        name = f"{self.name.removesuffix('_count')}s" if self.name.endswith("_count") else self.name
        for ending in ("_at", "_share"):
            name = name.removesuffix(ending)
        return name.replace("size_bytes", "size").replace("_bytes", " size").replace("_", " ")

    @property
    def wraps(self) -> bool:
        """Whether a long text goes on in the next line, instead of being cut."""
        return not self.is_data and self.kind in (Kind.TEXT, Kind.NAMES)


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of the same kind.

    Attributes:
        name: the key of the list in JSON, and the heading where there are several parts.
        columns: what each row holds.
        rows: the values, in the order of the columns.
        empty: what to say to people if there are none.
    """

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    empty: str = "none"


@dataclass(frozen=True, slots=True)
class Record:
    """Named values; without a name of its own its fields stand at the top in JSON."""

    fields: tuple[tuple[Column, Any], ...]
    name: str | None = None


Part = Record | Listing
Report = Sequence[Part]


def record(kinds: Mapping[str, Kind] | None = None, /, *, name: str | None = None, **values: Any) -> Record:
    """A record of these values; what kind each is follows from its name and type, unless it is said.

    Example:
        >>> record(table="sales.orders", row_count=3).fields[1][0].kind
        <Kind.COUNT: 'count'>
    """
    given = kinds or {}
    return Record(
        tuple((Column(key, given.get(key) or kind_of(key, value)), value) for key, value in values.items()), name
    )


def columns(*names: str, rank: Mapping[str, int] | None = None, **kinds: Kind) -> tuple[Column, ...]:
    """Columns of a listing, of the kinds that their names tell or that are given."""
    ranks = rank or {}
    return tuple(Column(name, kinds.get(name) or kind_of(name, None), ranks.get(name, 0)) for name in names)


def kind_of(name: str, value: Any) -> Kind:
    """What a value means, by its type and its name."""
    if isinstance(value, bool):
        return Kind.FLAG
    if isinstance(value, list | tuple):
        return Kind.NAMES
    if name.endswith("_bytes"):
        return Kind.BYTES
    if name.endswith("_at"):
        return Kind.TIME
    if name.endswith("_share"):
        return Kind.SHARE
    if name == "version" or name.endswith("_version"):
        return Kind.NUMBER
    if isinstance(value, int) or name.endswith(("_count", "_rows", "_files", "_groups")) or name in ("rows", "files"):
        return Kind.COUNT
    return Kind.TEXT
