"""Storing segments and schemas: what a commit and a merge of segments have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parqlake.catalogs.dialect import Row, Session
from parqlake.catalogs.segments import PackedSegment, Piece, group_pieces, pack_segment
from parqlake.catalogs.tables import SEGMENT, STATISTIC
from parqlake.core.pages import ROW_GROUPS_PER_PAGE

SMALL_SEGMENT = ROW_GROUPS_PER_PAGE // 2
"""A segment below this many row groups is merged with others when there are too many of its kind."""


def pack_segments(pieces: Sequence[Piece]) -> list[PackedSegment]:
    """Packs the pieces, in order, into as many segments as needed."""
    return [pack_segment(group) for group in group_pieces(pieces)]


def count_small(packed: Sequence[PackedSegment]) -> int:
    """How many of the segments ought to be merged some day."""
    return sum(segment.row_groups < SMALL_SEGMENT for segment in packed)


def store_segments(
    session: Session,
    table_id: int,
    packed: Sequence[PackedSegment],
    *,
    first_segment: int,
    added: int,
) -> dict[int, int]:
    """Inserts the segments with their statistics; returns the segment of each file.

    Args:
        session: in a write transaction that holds the table's head.
        table_id: the table.
        packed: the segments, in order.
        first_segment: the first of the ids that were drawn for them.
        added: the first version that has to look at the segments.
    """
    segment_of: dict[int, int] = {}
    segments: list[Row] = []
    statistics: list[Row] = []
    for segment_id, segment in enumerate(packed, first_segment):
        segment_of.update(dict.fromkeys(segment.file_ids, segment_id))
        segments.append((table_id, segment_id, added, segment.row_groups, segment.contents))
        statistics += [
            (table_id, segment_id, page.column_id, page.min_key, page.max_key, page.data, page.nulls)
            for page in segment.pages
        ]
    session.insert(SEGMENT, segments)
    session.insert(STATISTIC, statistics)
    return segment_of


def schema_row(table_id: int, schema_id: int, created_at: int, schema: pa.Schema) -> Row:
    """All columns of `schema_version`."""
    return (table_id, schema_id, created_at, schema.serialize().to_pybytes())
