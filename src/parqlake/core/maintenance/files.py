"""The values of maintenance: a file, a group of files to rewrite together, and the statistics of a run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One Parquet file as planning sees it.

    Example:
        >>> FileInfo("sales/part-0.parquet", 1024, 100).num_rows
        100
    """

    path: str
    size_bytes: int
    num_rows: int

    def __post_init__(self) -> None:
        for name in ("size_bytes", "num_rows"):
            _not_negative(name, getattr(self, name))

    @property
    def folder(self) -> str:
        """The path of the folder that the file lies in: its Hive partition; empty for a bare name."""
        return self.path.rpartition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """The file as `collect_dataset_stats` gives it."""
        return {"path": self.path, "size_bytes": self.size_bytes, "num_rows": self.num_rows}


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Files that are rewritten together; never empty.

    Example:
        >>> group = CompactionGroup([FileInfo("a.parquet", 512, 50), FileInfo("b.parquet", 256, 25)])
        >>> group.total_size_bytes, group.total_rows, group.file_paths()
        (768, 75, ['a.parquet', 'b.parquet'])
    """

    files: Sequence[FileInfo]
    output_rows: Sequence[int] = ()
    """Rows of each output file, in order, as planned; empty if nobody planned it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(self.files))
        object.__setattr__(self, "output_rows", tuple(self.output_rows))
        if not self.files:
            raise InvalidOptionError("CompactionGroup must contain at least one file; leave the group out instead")

    @property
    def total_size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def total_rows(self) -> int:
        """Rows of all files."""
        return sum(file.num_rows for file in self.files)

    @property
    def file_count(self) -> int:
        """How many files are rewritten."""
        return len(self.files)

    def file_paths(self) -> list[str]:
        """The files' paths, in order."""
        return [file.path for file in self.files]


@dataclass(frozen=True, slots=True)
class MaintenanceStats:
    """What a compaction or optimization did, or would do: the same object from every engine.

    Example:
        >>> MaintenanceStats(3, 1, 300, 280, 3, 280, compression_codec="zstd").to_dict()["after_file_count"]
        1
    """

    before_file_count: int
    after_file_count: int
    before_total_bytes: int
    after_total_bytes: int
    compacted_file_count: int
    """Files that were rewritten, that is read and replaced."""
    rewritten_bytes: int
    """Bytes of the files that were rewritten."""
    compression_codec: str | None = None
    dry_run: bool = False
    zorder_columns: list[str] | None = None
    planned_groups: list[list[str]] | None = None

    def __post_init__(self) -> None:
        for name in (
            "before_file_count",
            "after_file_count",
            "before_total_bytes",
            "after_total_bytes",
            "compacted_file_count",
            "rewritten_bytes",
        ):
            _not_negative(name, getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """The canonical dict; `zorder_columns` and `planned_groups` only where they apply."""
        result: dict[str, Any] = {
            "before_file_count": self.before_file_count,
            "after_file_count": self.after_file_count,
            "before_total_bytes": self.before_total_bytes,
            "after_total_bytes": self.after_total_bytes,
            "compacted_file_count": self.compacted_file_count,
            "rewritten_bytes": self.rewritten_bytes,
            "compression_codec": self.compression_codec,
            "dry_run": self.dry_run,
        }
        if self.zorder_columns is not None:
            result["zorder_columns"] = list(self.zorder_columns)
        if self.planned_groups is not None:
            result["planned_groups"] = [list(group) for group in self.planned_groups]
        return result


def as_file_infos(files: Sequence[FileInfo | Mapping[str, Any]]) -> list[FileInfo]:
    """The files as `FileInfo`s ordered by path, whether given so or as dicts; a path may occur once."""
    infos = [
        file if isinstance(file, FileInfo) else FileInfo(file["path"], file["size_bytes"], file["num_rows"])
        for file in files
    ]
    infos.sort(key=lambda file: (file.folder, file.path))
    for one, other in itertools.pairwise(infos):
        if one.path == other.path:
            raise InvalidOptionError(f"file {one.path!r} is given twice, its rows would be doubled; give it once")
    return infos


def _not_negative(name: str, value: int) -> None:
    if value < 0:
        raise InvalidOptionError(f"{name} must be >= 0, not {value!r}; read it from the file's own metadata")
