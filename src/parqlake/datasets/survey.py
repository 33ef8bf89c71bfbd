"""A survey: which files a dataset holds just now, with their footers; taken once, and looked at by all who plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from parqlake.core.errors import FileNotInStoreError
from parqlake.core.maintenance import FileInfo, has_codec, matches_partition, read_footers
from parqlake.core.ports import StoredFile
from parqlake.datasets.options import DEFAULT_CODEC, checked_codec
from parqlake.datasets.place import HIDDEN_FOLDER, Place
from parqlake.datasets.recovery import recover_before_reading
from parqlake.datasets.schemas import common_schema, comparable, dataset_schema

PartitionFilter = str | Sequence[str] | None
T = TypeVar("T")
_TRIES = 8


@dataclass(frozen=True, slots=True)
class SurveyedFile:
    """One file: `path` is relative to the dataset, that of `info` is the one on the file system."""

    path: str
    info: FileInfo
    footer: Any
    schema: pa.Schema
    """The file's own."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The files of a dataset, or of some of its partitions, by path."""

    files: tuple[SurveyedFile, ...]
    partition_filter: PartitionFilter
    folders: dict[str, list[SurveyedFile]] = field(init=False)
    """The files by the folders that the planner knows."""
    _by_info: dict[str, SurveyedFile] = field(init=False)

    def __post_init__(self) -> None:
        folders: dict[str, list[SurveyedFile]] = {}
        for file in self.files:
            folders.setdefault(file.info.folder, []).append(file)
        object.__setattr__(self, "folders", folders)
        object.__setattr__(self, "_by_info", {file.info.path: file for file in self.files})

    @property
    def infos(self) -> list[FileInfo]:
        """What the planner wants to know."""
        return [file.info for file in self.files]

    def still_holds(self, stored: Iterable[StoredFile]) -> bool:
        """Whether a listing shows the same files, of the same sizes."""
        now = {file.path: file.size_bytes for file in stored if matches_partition(file.path, self.partition_filter)}
        return now == {file.path: file.info.size_bytes for file in self.files}

    def chosen(self, infos: Iterable[FileInfo]) -> list[SurveyedFile]:
        """The files that the planner chose."""
        return [self._by_info[info.path] for info in infos]

    def schema(self, types: Mapping[str, pa.DataType] | None = None) -> tuple[pa.Schema, tuple[str, ...]]:
        """The schema of the dataset with its partition columns, and their names."""
        return dataset_schema({file.path: file.schema for file in self.files}, types)

    def schema_of(self, infos: Iterable[FileInfo]) -> pa.Schema:
        """The schema that some of the files have in common, without columns that only folders name."""
        return common_schema({file.path: file.schema for file in self.chosen(infos)})

    def by_columns(self) -> list[list[FileInfo]]:
        """The files whose columns and types are the same together: only such files can be put into one."""
        found: dict[tuple[tuple[str, str], ...], list[FileInfo]] = {}
        for file in self.files:
            found.setdefault(comparable(file.schema), []).append(file.info)
        return list(found.values())

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


def recover_if_needed(place: Place) -> None:
    """Ends what was interrupted, before files are looked at; touches nothing where nothing was.

    Readers come often: they must not tidy up under the hands of someone who only begins to write.
    """
    left = (file.path.removeprefix(f"{HIDDEN_FOLDER}/") for file in place.store.list_files(HIDDEN_FOLDER))
    if any("/." not in path for path in left):
        recover_before_reading(place)


def take_survey(place: Place, partition_filter: PartitionFilter = None) -> Survey:
    """Lists the files and reads their footers.

    Raises:
        FileNotInStoreError: there is no such directory, or no file in it that the filter takes.
        PathIsFileError: the path is a file.
    """
    place.require()
    root = place.store.root
    found = _settled(lambda: read_footers(root or "/", place.filesystem, partition_filter))
    start = len(root) + 1
    files = [SurveyedFile(info.path[start:], info, footer, footer.schema.to_arrow_schema()) for info, footer in found]
    return Survey(tuple(files), partition_filter)


def _settled(read: Callable[[], T]) -> T:
    """Reads again if a file that was listed was gone when it was opened: someone is just replacing files."""
    for attempt in range(_TRIES):
        try:
            return read()
        except FileNotInStoreError:  # nothing is there at all
            raise
        except FileNotFoundError:
            time.sleep(0.02 * (attempt + 1))
    return read()
