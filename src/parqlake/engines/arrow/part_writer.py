"""The files of one partition, or of an unpartitioned table: row groups in, finished files out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.part_file import PartFile
from parqlake.engines.arrow.row_buffer import RowBuffer

Finished = Callable[[str, DataFile], None]
"""Takes the path in the store, and the description, of each finished file."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What all files of one call to `write` have in common."""

    spec: WriteSpec
    store: Store
    finder: NanFinder
    finished: Finished

    def buffer(self) -> RowBuffer:
        """An empty buffer for the row groups of this job."""
        rows = min(self.spec.row_group_rows, self.spec.max_rows_per_file or self.spec.row_group_rows)
        return RowBuffer(max_rows=rows, max_bytes=self.spec.row_group_bytes)


class PartWriter:
    """Writes row groups to a file and rolls to the next when it is large enough.

    No file ever has more than `max_rows_per_file` rows. A file ends with the row group that takes it to
    `target_file_bytes`.
    """

    def __init__(self, job: WriteJob, folder: str, partition: Mapping[str, str | None]) -> None:
        """Opens nothing yet: without rows there is no file."""
        self._job = job
        self._folder = folder
        self._partition = partition
        self._file: PartFile | None = None

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._file is not None

    def write(self, table: pa.Table) -> None:
        """Writes at most one row group's worth of rows; splits it only where a file must end."""
        limit = self._job.spec.max_rows_per_file
        while table.num_rows:
            if self._file is None:
                self._file = PartFile(
                    self._folder,
                    self._job.spec,
                    self._job.store,
                    partition=self._partition,
                    finder=self._job.finder,
                )
            rows = table.num_rows if limit is None else min(table.num_rows, limit - self._file.rows)
            self._file.write_row_group(table.slice(0, rows))
            table = table.slice(rows)
            full = limit is not None and self._file.rows >= limit
            if full or self._file.size_bytes >= self._job.spec.target_file_bytes:
                self.close()

    def close(self) -> None:
        """Finishes the open file, if any; later rows begin a new one."""
        if self._file is not None:
            stored_path = self._file.stored_path
            written, data_file = self._file.close()
            self._file = None
            self._job.finished(stored_path, data_file)
            if self._job.spec.file_visitor is not None:
                self._job.spec.file_visitor(written)

    def abandon(self) -> None:
        """Deletes the unfinished file, if any; never raises."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
