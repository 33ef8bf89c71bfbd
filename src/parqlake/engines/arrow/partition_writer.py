"""A partitioned write with bounded memory and few files, in whatever order the rows come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from parqlake.core.names import partition_segment
from parqlake.engines.arrow.grouping import Group, PartitionKey, group_rows
from parqlake.engines.arrow.part_writer import PartWriter, WriteJob
from parqlake.engines.arrow.row_buffer import RowBuffer
from parqlake.engines.arrow.spill import Piece, SpillFile

MAX_OPEN_FILES = 64
_CHUNK_BYTES = 32 * 1024 * 1024
_CHUNK_ROWS = 2**31 - 1
_CHUNKS_IN_MEMORY = 8
_MANY_RETURNS = 0.1
"""Share of visits that come back to a partition above which the input counts as not clustered."""


@dataclass(slots=True)
class _Partition:
    key: PartitionKey
    writer: PartWriter
    buffer: RowBuffer
    spilled: list[Piece] = field(default_factory=list)
    last_chunk: int = 0


class _Chunk:
    """Input rows that were grouped together; their memory is held until the last slice is written."""

    def __init__(self, size_bytes: int, freed: Callable[[int], None]) -> None:
        self.size_bytes = size_bytes
        self.slices = 0
        self._freed = freed

    def release(self) -> None:
        self.slices -= 1
        if not self.slices:
            self._freed(self.size_bytes)


class PartitionedWriter:
    """Writes each row below the folder of its partition.

    A partition whose rows fill a row group is written at once. When all waiting rows together exceed
    `spec.memory_bytes`, input that comes clustered by partition has the finished partitions written and
    closed; other input has its waiting rows spilled to local disk, and each partition is written in one go
    at the end. So a thousand partitions in random order make a thousand files and not a thousand per batch.
    """

    def __init__(self, job: WriteJob, *, spill_folder: str | None = None, max_open_files: int = MAX_OPEN_FILES) -> None:
        """Opens nothing yet."""
        self._job = job
        self._max_open = max_open_files
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._open: OrderedDict[PartitionKey, _Partition] = OrderedDict()
        self._spill = SpillFile(job.spec.schema, spill_folder)
        chunk_bytes = max(1, min(_CHUNK_BYTES, job.spec.memory_bytes // _CHUNKS_IN_MEMORY))
        self._incoming = RowBuffer(max_rows=_CHUNK_ROWS, max_bytes=chunk_bytes)
        self._held_bytes = 0
        self._chunks = 0
        self._visits = 0
        self._returns = 0
        self._last: PartitionKey = ()

    @property
    def spilled_bytes(self) -> int:
        """How much was put aside on disk."""
        return self._spill.size_bytes

    def push(self, batch: pa.RecordBatch) -> None:
        """Takes rows; whole chunks are grouped at a time, which costs less than batch by batch."""
        self._incoming.push(batch)
        while self._incoming.full:
            self._group(self._incoming.pop())

    def finish(self) -> None:
        """Writes whatever waits, in memory and on disk, and closes all files."""
        while self._incoming.rows:
            self._group(self._incoming.pop())
        for key, partition in list(self._partitions.items()):
            self._complete(partition)
            del self._partitions[key]
        self._spill.close()

    def abandon(self) -> None:
        """Deletes unfinished files and the spill; never raises."""
        for partition in self._partitions.values():
            partition.writer.abandon()
        self._spill.close()

    def _group(self, table: pa.Table) -> None:
        self._chunks += 1
        size = table.nbytes
        chunk = _Chunk(size, self._free)
        self._held_bytes += size
        chunk.slices += 1  # ours, so that it is not freed while its groups are still being pushed
        for group in group_rows(table, self._job.spec.partition_by):
            self._take(group, chunk, size / table.num_rows)
        chunk.release()
        if self._held_bytes > self._job.spec.memory_bytes:
            self._relieve()

    def _take(self, group: Group, chunk: _Chunk, row_bytes: float) -> None:
        partition = self._visit(group.key)
        for batch in group.batches:
            chunk.slices += 1
            size = max(1, int(row_bytes * batch.num_rows))
            partition.buffer.push(batch, size_bytes=size, release=chunk.release)
        while partition.buffer.full and self._admit(partition):
            partition.writer.write(partition.buffer.pop())
        self._note_open(partition)

    def _visit(self, key: PartitionKey) -> _Partition:
        partition = self._partitions.get(key)
        self._visits += 1
        if partition is None:
            names = self._job.spec.partition_by
            folder = "/".join(partition_segment(name, text) for name, text in zip(names, key, strict=True))
            values = dict(zip(names, key, strict=True))
            partition = _Partition(key, PartWriter(self._job, folder, values), self._job.buffer())
            self._partitions[key] = partition
        elif key != self._last:
            self._returns += 1
        self._last = key
        partition.last_chunk = self._chunks
        return partition

    @property
    def _clustered(self) -> bool:
        return self._returns <= self._visits * _MANY_RETURNS

    def _admit(self, partition: _Partition) -> bool:
        """Whether the partition may have a file open; clustered input closes one whose rows seem to have ended."""
        if partition.writer.is_open or len(self._open) < self._max_open:
            return True
        oldest = next(iter(self._open.values()))
        if not self._clustered or oldest.last_chunk >= self._chunks - 1:
            return False
        oldest.writer.close()
        self._note_open(oldest)
        return True

    def _note_open(self, partition: _Partition) -> None:
        self._open.pop(partition.key, None)
        if partition.writer.is_open:
            self._open[partition.key] = partition

    def _relieve(self) -> None:
        """Gets waiting rows out of memory."""
        waiting = [partition for partition in self._partitions.values() if partition.buffer.rows]
        if self._clustered:
            for partition in waiting:
                if partition.key != self._last:
                    self._complete(partition)
            if self._held_bytes > self._job.spec.memory_bytes:
                self._write_all(self._partitions[self._last])
            return
        for partition in waiting:
            if partition.buffer.size_bytes * 2 >= self._job.spec.row_group_bytes and self._admit(partition):
                self._write_all(partition)
            while partition.buffer.rows:
                partition.spilled += self._spill.write(partition.buffer.pop())

    def _write_all(self, partition: _Partition) -> None:
        while partition.buffer.rows:
            partition.writer.write(partition.buffer.pop())
        self._note_open(partition)

    def _complete(self, partition: _Partition) -> None:
        """Writes all that a partition has, spilled rows first, and closes its file."""
        if partition.spilled:
            rest, partition.buffer = partition.buffer, self._job.buffer()
            for piece in partition.spilled:
                partition.buffer.push(self._spill.read(piece))
                while partition.buffer.full:
                    partition.writer.write(partition.buffer.pop())
            partition.spilled = []
            while rest.rows:
                for batch in rest.pop().to_batches():
                    partition.buffer.push(batch)
        self._write_all(partition)
        partition.writer.close()
        self._note_open(partition)

    def _free(self, size_bytes: int) -> None:
        self._held_bytes -= size_bytes
