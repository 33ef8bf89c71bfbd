"""A stream into a table: one version for each batch, exactly once.

The query's id and the batch's number are the idempotency key of the commit. A batch that Spark runs again, after a
failure or a restart from the checkpoint, finds its key used and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from parqlake.core.errors import ConcurrentSchemaChangeError, InvalidOptionError
from parqlake.core.ports import Store
from parqlake.engines.spark.tasks import WriteTask
from parqlake.engines.spark.types import arrow_schema
from parqlake.formats.spark.batch_write import FilesMessage, raise_reported, reported, table_for, write_rows
from parqlake.formats.spark.options import SourceOptions
from parqlake.table import detached
from parqlake.table.detached import DetachedWrite

_QUERY_ID = "sql.streaming.queryId"


@dataclass
class StreamWriter(DataSourceStreamArrowWriter):
    """Made when the query starts; serves all of its batches."""

    options: SourceOptions
    data_schema: pa.Schema
    task: WriteTask
    complete: bool
    """Whether each batch holds the whole result and replaces the one before (output mode `complete`)."""

    @classmethod
    def begin(cls, options: SourceOptions, schema: StructType, *, complete: bool) -> StreamWriter:
        """Checks that the rows fit."""
        if options.idempotency_key is not None:
            raise InvalidOptionError("idempotency_key is made of the query and the batch in a stream; leave it out")
        data_schema = arrow_schema(schema)
        with options.connect() as lake:
            table = table_for(options, lake, data_schema)
            spec = detached.check(lake.context, table.info, data_schema, options.write)
            store: Store = lake.context.store
            return cls(options, data_schema, WriteTask(spec, store, (), tuple(data_schema.names)), complete)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Runs in a task."""
        context = TaskContext.get()
        return write_rows(self.task, iterator, None if context is None else context.getLocalProperty(_QUERY_ID))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Publishes the batch, unless that was done before."""
        raise_reported(messages)
        files = reported(messages)
        if not files and not self.complete:
            return  # a batch without rows, which Spark runs to move its watermark on, changes nothing
        key = f"stream:{_query_id(messages)}:{batchId}"
        with self.options.connect() as lake:
            table = lake.table(self.options.table)
            begun = detached.begin(
                lake.context,
                table.info,
                self.data_schema,
                replace_all=self.complete,
                engine="spark",
                options=self.options.write,
                message=self.options.message or f"stream batch {batchId}",
                idempotency_key=f"{key}:{table.info.uuid}",
            )
            try:
                self._check_schema(begun)
                detached.finish(lake.context, begun, files)
            except BaseException:
                # The batch will be run again and write its files anew; these go unless the commit went through.
                detached.abandon(lake.context, begun, files)
                raise

    def _check_schema(self, begun: DetachedWrite) -> None:
        """The tasks wrote by the schema that the batch began with; it must still be the one to be committed."""
        if not begun.spec.schema.equals(self.task.spec.schema, check_metadata=True):
            raise ConcurrentSchemaChangeError(
                f"the schema of {begun.info.name} changed since this batch began; start the query again, from its "
                "checkpoint: the batch will be written by the schema as it is then"
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: the files of a failed batch are tombstones, and whether it failed is not known here."""


def _query_id(messages: Sequence[WriterCommitMessage | None]) -> str:
    found = {message.query_id for message in messages if isinstance(message, FilesMessage)} - {None}
    if len(found) != 1:
        raise InvalidOptionError(
            f"the tasks of a batch name {len(found)} streaming queries, not one; exactly-once needs Spark to tell them "
            "the id of theirs"
        )
    return str(found.pop())
