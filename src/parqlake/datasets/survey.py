"""A survey: which files a dataset holds just now, with their footers; taken once, and looked at by all who plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parqlake.core.maintenance import FileInfo, has_codec, matches_partition, read_footers
from parqlake.core.ports import StoredFile
from parqlake.datasets.options import DEFAULT_CODEC, checked_codec
from parqlake.datasets.place import Place
from parqlake.datasets.schemas import common_schema, dataset_schema

PartitionFilter = str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class SurveyedFile:
    """One file: `path` is relative to the dataset, that of `info` is the one on the file system."""

    path: str
    info: FileInfo
    footer: Any

    @property
    def schema(self) -> pa.Schema:
        """The file's own Arrow schema."""
        return self.footer.schema.to_arrow_schema()


@dataclass(frozen=True, slots=True)
class Survey:
    """The files of a dataset, or of some of its partitions, by path."""

    files: tuple[SurveyedFile, ...]
    partition_filter: PartitionFilter

    @property
    def infos(self) -> list[FileInfo]:
        """What the planner wants to know."""
        return [file.info for file in self.files]

    def still_holds(self, stored: Iterable[StoredFile]) -> bool:
        """Whether a listing shows the same files, of the same sizes."""
        now = {file.path: file.size_bytes for file in stored if matches_partition(file.path, self.partition_filter)}
        return now == {file.path: file.info.size_bytes for file in self.files}

    def relative(self, infos: Iterable[FileInfo]) -> list[str]:
        """The paths in the dataset of files that the planner chose."""
        paths = {file.info.path: file.path for file in self.files}
        return [paths[info.path] for info in infos]

    def folders(self) -> dict[str, list[SurveyedFile]]:
        """The files by the folders that the planner knows."""
        found: dict[str, list[SurveyedFile]] = {}
        for file in self.files:
            found.setdefault(file.info.folder, []).append(file)
        return found

    def schema(self, types: Mapping[str, pa.DataType] | None = None) -> tuple[pa.Schema, tuple[str, ...]]:
        """The schema of the dataset with its partition columns, and their names."""
        return dataset_schema({file.path: file.schema for file in self.files}, types)

    def schema_of(self, infos: Collection[FileInfo]) -> pa.Schema:
        """The schema that some of the files have in common, without columns that only folders name."""
        chosen = {info.path for info in infos}
        return common_schema({file.path: file.schema for file in self.files if file.info.path in chosen})

    def with_other_codec(self, codec: str | None) -> list[str]:
        """The planner's paths of files that are not compressed so; none if any codec is right."""
        if codec is None:
            return []
        return [file.info.path for file in self.files if not has_codec(file.footer, codec)]

    def usual_codec(self) -> str:
        """The codec of the most bytes: what new files get if nobody says otherwise."""
        found: Counter[str] = Counter()
        for file in self.files:
            if file.footer.num_row_groups and file.footer.num_columns:
                found[file.footer.row_group(0).column(0).compression] += file.info.size_bytes
        return checked_codec(found.most_common(1)[0][0]) if found else DEFAULT_CODEC


def take_survey(place: Place, partition_filter: PartitionFilter = None) -> Survey:
    """Lists the files and reads their footers.

    Raises:
        FileNotInStoreError: there is no such directory, or no file in it that the filter takes.
        PathIsFileError: the path is a file.
    """
    place.require()
    root = place.store.root
    found = read_footers(root or "/", place.filesystem, partition_filter)
    start = len(root) + 1
    return Survey(tuple(SurveyedFile(info.path[start:], info, footer) for info, footer in found), partition_filter)
