"""What health and maintenance ask of a catalog; part of the ports `CatalogReader` and `CatalogWriter`.

All of it is about the newest version, and is answered by sums in the database: a table of 100,000 good files costs as
little as one of ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class FileTotals:
    """What the live files of one partition and one schema come to."""

    partition: str
    """A key of the partition, to compare with others."""
    values: Mapping[str, Any]
    """The partition's values, as `FileEntry.partition` has them."""
    schema_id: int
    files: int
    size_bytes: int
    row_count: int


@dataclass(frozen=True, slots=True)
class BriefFile:
    """The least that a plan has to know of a live file."""

    file_id: int
    size_bytes: int
    row_count: int
    partition: str
    added: int


@dataclass(frozen=True, slots=True)
class SegmentCounts:
    """How many segments of statistics a table has, and how many of them could be put together."""

    all: int
    small: int


class HealthReader(Protocol):
    """What a table is like, in sums."""

    def file_totals(self, table_id: int) -> list[FileTotals]:
        """The live files, by partition and schema."""

    def brief_files(self, table_id: int, *, below_bytes: int, above_bytes: int, above_rows: int) -> list[BriefFile]:
        """Live files that are smaller or larger than that, or longer, oldest first."""

    def file_ids(self, table_id: int, version: int) -> list[int]:
        """The ids of the files of a version, in no order; of many files far cheaper than their entries."""

    def added_totals(self, table_id: int) -> list[tuple[int, int, int]]:
        """The live files, by the version that added them: that, how many there are, and their bytes."""

    def removed_totals(self, table_id: int) -> tuple[int, int]:
        """Files that the newest version does not hold and that are not forgotten yet: how many, and their bytes."""

    def segment_counts(self, table_id: int) -> SegmentCounts:
        """Segments of statistics."""

    def versions_made_by(self, table_id: int, operation: str) -> dict[int, Mapping[str, Any]]:
        """Versions that an operation made, expired ones too, and their summaries."""


class HealthWriter(HealthReader, Protocol):
    """What maintenance does to the catalog itself."""

    def merge_segments(self, table_id: int) -> None:
        """Packs small segments of statistics together; lock the table's head first."""
