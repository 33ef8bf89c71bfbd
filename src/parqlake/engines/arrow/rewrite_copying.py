"""Which row groups a rewrite copies as they are: those that it would make again just so.

Decoding and encoding take nearly all the time of a rewrite. A row group that is as long as a new one would be, of the
same columns and codec, and made by the same writer, is worth neither. What must be known of its rows is looked at: the
checksums of all pages, and where floats are, whether there is a NaN among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from parqlake.core.ports import Store
from parqlake.engines.arrow.assembled_parquet import encoded_file, footer_of
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.raw_groups import TAIL_BYTES, RawFooter, RawGroup, footer_bytes

_LEAST_SHARE = 4
"""A row group is long enough if it is a quarter of a new one: to copy it costs a twentieth of making it anew."""
_GROUPS_IN_MEMORY = 6
"""One is read, one waits, one is written, beside rows of others."""


@dataclass(frozen=True, slots=True)
class CopiedGroup:
    """A row group that need not be decoded, as it stands between reader and writer."""

    group: RawGroup
    data: Any
    """Its bytes."""
    nans: tuple[int, ...]
    """The leaves that hold a NaN."""
    decoded: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False)
    """Gives its rows after all, where they have to be cut."""

    @property
    def num_rows(self) -> int:
        """Its rows."""
        return self.group.rows

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return len(self.data)


@dataclass(frozen=True)
class CopyRule:
    """What new files are to be like."""

    store: Store
    schema: pa.Schema
    codec: str
    group_rows: int
    """Most rows of a row group."""
    group_bytes: int
    """About how large a row group is, as Arrow holds it."""
    memory_bytes: int
    """For rows; a row group that takes a large share of it as bytes is not copied."""
    looks_for_nans: bool = True

    @cached_property
    def stored_schema(self) -> Any:
        """The columns as new files spell them."""
        return footer_of(encoded_file(self.store, "", self.schema, self.codec)).schema

    @cached_property
    def floats(self) -> list[str]:
        """The columns with a float somewhere inside."""
        return self._finder.columns if self.looks_for_nans else []

    @cached_property
    def _finder(self) -> NanFinder:
        return NanFinder(self.schema)

    def footer(self, source: Any) -> RawFooter | None:
        """The footer of an open file whose row groups may be copied; None if they may not."""
        size = source.size()
        length = footer_bytes(bytes(source.read_at(TAIL_BYTES, max(size - TAIL_BYTES, 0))))
        footer = RawFooter.parse(source.read_at(length, max(size - TAIL_BYTES - length, 0)))
        return footer if footer.can_be_copied(self.stored_schema, self.codec) else None

    def is_worth_it(self, group: RawGroup, row_bytes: int) -> bool:
        """Whether the row group is as a new one would be."""
        if any("." in name for name in self.floats):  # PyArrow would read another column
            return False
        fits = group.rows <= self.group_rows and group.stop - group.start <= self.memory_bytes // _GROUPS_IN_MEMORY
        return fits and group.is_dense and self.is_long(group.rows, row_bytes)

    def is_long(self, rows: int, row_bytes: int) -> bool:
        """Whether so many rows make a row group that is long enough."""
        return rows >= self.group_rows // _LEAST_SHARE or rows * row_bytes >= self.group_bytes // _LEAST_SHARE

    def nans(self, rows: pa.Table) -> tuple[int, ...]:
        """The leaves that hold a NaN, by the rows of the float columns."""
        return tuple(self._finder.find(rows))
