"""Taking stored segments apart: to restore files, and to merge small segments before there are too many.

A thousand commits of one file leave a thousand segments of one row group, and planning pays for each. So the commit
that finds too many packs them into one, under a new id. Readers see either the old ones or the new one, by the
isolation of the database; what they have cached of the old ones stays true.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from parqlake.catalogs.dialect import Session
from parqlake.catalogs.segments import (
    Piece,
    decode_segment,
    group_pieces,
    pack_segment,
    stored_piece,
)
from parqlake.catalogs.storing import SMALL_SEGMENT, count_small, store_segments
from parqlake.catalogs.tables import SEGMENT, STATISTIC
from parqlake.core.model import Segment
from parqlake.core.pages import Page, unpack

_DRAW_SEGMENT = "UPDATE table_head SET next_segment = next_segment + 1 WHERE table_id = ? RETURNING next_segment"
_SET_SMALL_COUNT = "UPDATE table_head SET small_segments = ? WHERE table_id = ?"
_SMALL = SEGMENT.select("WHERE table_id = ? AND row_groups < ? ORDER BY segment_id", "segment_id", "added")
_CONTENTS = SEGMENT.select("WHERE table_id = ? AND segment_id = ANY_OF(?)", "segment_id", "contents")
_PAGES = STATISTIC.select("WHERE table_id = ? AND segment_id = ANY_OF(?)", "segment_id", "column_id", "data", "nulls")
_MOVE_FILES = "UPDATE file SET segment_id = ? WHERE table_id = ? AND file_id = ANY_OF(?)"
_DROP_PAGES = "DELETE FROM statistic WHERE table_id = ? AND segment_id = ANY_OF(?)"
_DROP_SEGMENTS = "DELETE FROM segment WHERE table_id = ? AND segment_id = ANY_OF(?)"


def load_pieces(session: Session, table_id: int, files: Mapping[int, Mapping[int, int]]) -> list[Piece]:
    """Takes files out of their segments: segment id to file id to the id that the file gets."""
    stored = _load(session, table_id, list(files))
    return [stored_piece(*stored[segment_id], new_ids) for segment_id, new_ids in files.items()]


def merge_small_segments(session: Session, table_id: int) -> None:
    """Packs all small segments of the table into few."""
    small = session.rows(_SMALL, (table_id, SMALL_SEGMENT))
    stored = _load(session, table_id, [segment_id for segment_id, _ in small])
    waiting = iter(small)
    left_small = 0
    for group in group_pieces([stored_piece(*stored[segment_id]) for segment_id, _ in small]):
        sources = list(itertools.islice(waiting, len(group)))
        merged = pack_segment(group)
        drawn = session.row(_DRAW_SEGMENT, (table_id,))
        assert drawn is not None
        segment_id = drawn[0] - 1
        store_segments(session, table_id, [merged], first_segment=segment_id, added=min(added for _, added in sources))
        session.change(_MOVE_FILES, (segment_id, table_id, session.ids(merged.file_ids)))
        left_small += count_small([merged])
    session.change(_SET_SMALL_COUNT, (left_small, table_id))
    old = (table_id, session.ids(list(stored)))
    session.change(_DROP_PAGES, old)
    session.change(_DROP_SEGMENTS, old)


def _load(session: Session, table_id: int, segment_ids: Sequence[int]) -> dict[int, tuple[Segment, dict[int, Page]]]:
    """The segments with all their pages."""
    where = (table_id, session.ids(segment_ids))
    stored: dict[int, tuple[Segment, dict[int, Page]]] = {}
    for segment_id, contents in session.rows(_CONTENTS, where):
        stored[segment_id] = (decode_segment(segment_id, contents), {})
    for segment_id, column_id, data, nulls in session.rows(_PAGES, where):
        stored[segment_id][1][column_id] = unpack(data, nulls)
    return stored
