"""A stream of rows becomes final files: one after the other, or one for each partition."""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.model import DataFile
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.part_writer import PartWriter, WriteJob
from parqlake.engines.arrow.partition_writer import PartitionedWriter


def write_stream(
    data: pa.RecordBatchReader, spec: WriteSpec, store: Store, *, spill_folder: str | None
) -> list[DataFile]:
    """Writes the rows to final files and describes them; see `PyArrowEngine.write`."""
    from parqlake.engines.arrow.part_writer import WriteJob
    from parqlake.engines.arrow.partition_writer import PartitionedWriter

    files: list[DataFile] = []
    paths: list[str] = []

    def finished(path: str, file: DataFile) -> None:
        paths.append(path)
        files.append(file)

    job = WriteJob(spec, store, NanFinder(spec.schema), finished)
    if spec.partition_by:
        _write_partitioned(data, PartitionedWriter(job, spill_folder=spill_folder))
    else:
        _write_plain(data, job)
    store.sync(paths)
    return files


def _write_plain(data: pa.RecordBatchReader, job: WriteJob) -> None:
    writer = PartWriter(job, "", {})
    buffer = job.buffer()
    try:
        for batch in data:
            buffer.push(batch)
            while buffer.full:
                writer.write(buffer.pop())
        while buffer.rows:
            writer.write(buffer.pop())
        writer.close()
    except BaseException:
        writer.abandon()
        raise


def _write_partitioned(data: pa.RecordBatchReader, writer: PartitionedWriter) -> None:
    try:
        for batch in data:
            writer.push(batch)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
