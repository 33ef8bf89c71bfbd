"""Writing one version: tasks write final files and report them, the driver commits what they reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from parqlake.core import errors
from parqlake.core.errors import TableNotFoundError
from parqlake.core.model import DataFile
from parqlake.core.ports import Store
from parqlake.core.wire import decode
from parqlake.engines.spark.tasks import WriteTask
from parqlake.engines.spark.types import arrow_schema
from parqlake.formats.spark.options import SourceOptions
from parqlake.table import detached
from parqlake.table.detached import DetachedWrite
from parqlake.table.lake import Lake
from parqlake.table.table import Table


@dataclass
class FilesMessage(WriterCommitMessage):
    """What a task reports: its files, or the error that rows gave rise to."""

    files: tuple[str, ...] = ()
    error: str | None = None
    message: str | None = None
    query_id: str | None = None


def table_for(options: SourceOptions, lake: Lake, schema: pa.Schema) -> Table:
    """The table to write to; made if it is not there and the option `create` asks for it."""
    if options.create:
        return lake.create_table(options.table, schema, partition_by=options.partition_by, if_exists="ignore")
    try:
        return lake.table(options.table)
    except TableNotFoundError as error:
        raise TableNotFoundError(f'{error}; .option("create", "true") makes it') from None


def write_rows(task: WriteTask, batches: Iterator[pa.RecordBatch], query_id: str | None = None) -> FilesMessage:
    """Runs in a task: writes its rows."""
    records = [record for batch in task(batches) for record in batch.to_pylist()]
    files = tuple(record["file"] for record in records if record["file"] is not None)
    for record in records:
        if record["error"] is not None:
            return FilesMessage(files, record["error"], record["message"], query_id)
    return FilesMessage(files, query_id=query_id)


def reported(messages: Sequence[WriterCommitMessage | None]) -> list[DataFile]:
    """The files of all tasks that reported."""
    return [decode(text) for message in messages if isinstance(message, FilesMessage) for text in message.files]


def raise_reported(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raises the first error that a task reported."""
    for message in messages:
        if isinstance(message, FilesMessage) and message.error is not None:
            raise getattr(errors, message.error)(message.message)


@dataclass
class BatchWriter(DataSourceArrowWriter):
    """Made by `ParqlakeSource.writer`, sent to the tasks, and run again where the commit is made."""

    options: SourceOptions
    task: WriteTask
    write_: DetachedWrite

    @classmethod
    def begin(cls, options: SourceOptions, schema: StructType, *, overwrite: bool) -> BatchWriter:
        """Checks that the rows fit, and registers the transaction."""
        data_schema = arrow_schema(schema)
        with options.connect() as lake:
            table = table_for(options, lake, data_schema)
            begun = detached.begin(
                lake.context,
                table.info,
                data_schema,
                replace_all=overwrite,
                engine="spark",
                options=options.write,
                message=options.message,
                idempotency_key=options.idempotency_key,
            )
            store: Store = lake.context.store
            return cls(options, WriteTask(begun.spec, store, (), tuple(data_schema.names)), begun)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Runs in a task."""
        return write_rows(self.task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publishes all files as one version."""
        raise_reported(messages)
        with self.options.connect() as lake:
            detached.finish(lake.context, self.write_, reported(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Spark calls this also after a commit that went through and whose answer was lost: the registry knows."""
        with self.options.connect() as lake:
            detached.abandon(lake.context, self.write_, reported(messages))
