"""What a table is like, in sums: the health side of the reader and the writer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from parqlake.catalogs.dialect import Session
from parqlake.catalogs.merging import merge_small_segments
from parqlake.catalogs.storing import SMALL_SEGMENT
from parqlake.catalogs.tables import FILE, PAST_SNAPSHOT, SEGMENT, SNAPSHOT
from parqlake.core.health_port import BriefFile, FileTotals, SegmentCounts
from parqlake.core.model import LIVE

_TOTALS = FILE.select(
    "WHERE table_id = ? AND removed = ? GROUP BY partition_values, schema_id",
    "partition_values",
    "schema_id",
    "COUNT(*)",
    "SUM(size_bytes)",
    "SUM(row_count)",
)
_BRIEF = FILE.select(
    "WHERE table_id = ? AND removed = ? AND (size_bytes < ? OR size_bytes > ? OR row_count > ?)",
    "file_id",
    "size_bytes",
    "row_count",
    "partition_values",
    "added",
)
_ADDED = FILE.select("WHERE table_id = ? AND removed = ? GROUP BY added", "added", "COUNT(*)", "SUM(size_bytes)")
_IDS = FILE.select("WHERE table_id = ? AND removed > ? AND added <= ?", "file_id")
_REMOVED = FILE.select("WHERE table_id = ? AND removed < ?", "COUNT(*)", "SUM(size_bytes)")
_SEGMENTS = SEGMENT.select("WHERE table_id = ? AND row_groups >= ?", "COUNT(*)")
_MADE_BY = tuple(
    table.select("WHERE table_id = ? AND operation = ?", "version", "summary") for table in (SNAPSHOT, PAST_SNAPSHOT)
)


class HealthReads:
    """The port `HealthReader` over a session."""

    _session: Session

    def file_totals(self, table_id: int) -> list[FileTotals]:
        """The live files, by partition and schema."""
        rows = self._session.rows(_TOTALS, (table_id, LIVE))
        return [
            FileTotals(text, json.loads(text), schema_id, int(files), int(size), int(count))
            for text, schema_id, files, size, count in rows
        ]

    def brief_files(self, table_id: int, *, below_bytes: int, above_bytes: int, above_rows: int) -> list[BriefFile]:
        """Live files that are smaller or larger than that, or longer, oldest first."""
        rows = self._session.rows(_BRIEF, (table_id, LIVE, below_bytes, above_bytes, above_rows))
        return [BriefFile(*row) for row in sorted(rows)]

    def file_ids(self, table_id: int, version: int) -> list[int]:
        """The ids of the files of a version, in no order; of many files far cheaper than their entries."""
        return [row[0] for row in self._session.rows(_IDS, (table_id, version, version))]

    def added_totals(self, table_id: int) -> list[tuple[int, int, int]]:
        """The live files, by the version that added them: that, how many there are, and their bytes."""
        rows = self._session.rows(_ADDED, (table_id, LIVE))
        return [(int(version), int(files), int(size)) for version, files, size in rows]

    def removed_totals(self, table_id: int) -> tuple[int, int]:
        """Files that the newest version does not hold and that are not forgotten yet: how many, and their bytes."""
        row = self._session.row(_REMOVED, (table_id, LIVE))
        return (0, 0) if row is None else (int(row[0]), int(row[1] or 0))

    def segment_counts(self, table_id: int) -> SegmentCounts:
        """Segments of statistics."""
        found = [self._session.row(_SEGMENTS, (table_id, least)) for least in (0, SMALL_SEGMENT)]
        every, large = (0 if row is None else int(row[0]) for row in found)
        return SegmentCounts(every, every - large)

    def versions_made_by(self, table_id: int, operation: str) -> dict[int, Mapping[str, Any]]:
        """Versions that an operation made, expired ones too, and their summaries."""
        rows = [row for sql in _MADE_BY for row in self._session.rows(sql, (table_id, str(operation)))]
        return {version: json.loads(summary) for version, summary in rows}


class HealthWrites(HealthReads):
    """The port `HealthWriter` over a session in a write transaction."""

    def merge_segments(self, table_id: int) -> None:
        """Packs small segments of statistics together; lock the table's head first."""
        merge_small_segments(self._session, table_id)
