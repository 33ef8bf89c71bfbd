"""Cover: which segments a table has, and between which keys their pages lie, kept in memory.

With it, choosing the segments of a predicate asks the database nothing. A cover that was read when the table stood at
version n serves every version up to n: its segments hold all files of those versions, whatever came later. Only a
merge of small segments takes some of them out of the database; whoever then misses one reads the cover again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from parqlake.catalogs.dialect import Row, Session
from parqlake.catalogs.tables import STATISTIC
from parqlake.core.pages import KeyRange

_SEGMENTS = (
    "SELECT h.head, s.segment_id, s.added FROM table_head h LEFT JOIN segment s ON s.table_id = h.table_id"
    " WHERE h.table_id = ? ORDER BY s.segment_id"
)
_BOUNDS = STATISTIC.select(
    "WHERE table_id = ? AND segment_id = ANY_OF(?) AND column_id = ?", "segment_id", "min_key", "max_key"
)
_BYTES_EACH = 120

Bounds = dict[int, tuple[bytes, bytes]]
"""Least and greatest key of a column by segment; a segment that is missing is unknown."""


@dataclass(frozen=True, slots=True)
class Cover:
    """The segments of a table as they were at one version, and the bounds of the columns asked for so far."""

    until: int
    """The newest version that it serves."""
    added: dict[int, int]
    """By segment id, in order: the first version that any of its files belongs to."""
    bounds: dict[int, Bounds] = field(default_factory=dict)
    """By column id."""

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return _BYTES_EACH * (len(self.added) + sum(len(known) for known in self.bounds.values()))

    def chosen(self, version: int, ranges: Sequence[KeyRange]) -> list[int]:
        """Segments that may hold row groups of the version inside all ranges."""
        ids: Iterable[int] = (i for i, added in self.added.items() if added <= version)
        for range_ in ranges:
            known, low, high = self.bounds[range_.column_id], range_.low_bytes, range_.high_bytes
            ids = [i for i in ids if (ends := known.get(i)) is None or (ends[0] <= high and ends[1] >= low)]
        return list(ids)


def read_cover(session: Session, table_id: int) -> Cover:
    """The segments as they are now; no bounds yet."""
    rows: list[Row] = session.rows(_SEGMENTS, (table_id,))
    until = rows[0][0] if rows else 0
    return Cover(until, {segment_id: added for _, segment_id, added in rows if segment_id is not None})


def with_bounds(session: Session, table_id: int, cover: Cover, columns: Iterable[int], before: Cover | None) -> Cover:
    """The cover with the bounds of these columns; those that an older cover knows are not read again."""
    bounds = dict(cover.bounds)
    for column_id in set(columns) - set(bounds):
        known = before.bounds.get(column_id, {}) if before else {}
        found = {i: known[i] for i in cover.added if i in known}
        missing = [i for i in cover.added if i not in found]
        if missing:
            rows = session.rows(_BOUNDS, (table_id, session.ids(missing), column_id))
            found.update((segment_id, (low, high)) for segment_id, low, high in rows)
        bounds[column_id] = found
    return replace(cover, bounds=bounds)
