"""What runs on executors: plain callables that Spark sends to its Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from parqlake.core.errors import InputError
from parqlake.core.fitting import fit
from parqlake.core.model import DataFile
from parqlake.core.ports import BatchCheck, ReadPlan, Store, WriteSpec
from parqlake.core.wire import encode
from parqlake.engines.arrow import PyArrowEngine

RECORD_SCHEMA = "file string, error string, message string"
"""One record for each file, or one for the error of this library that ended the task."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes the rows of one Spark partition to final files."""

    spec: WriteSpec
    store: Store
    checks: tuple[BatchCheck, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file.

        Rows that must not be written are no reason to try the task again: such an error comes back as a record.
        """
        reader = pa.RecordBatchReader.from_batches(self.spec.schema, self._fitted(batches))
        try:
            files = PyArrowEngine().write(reader, self.spec, self.store)
        except InputError as error:
            yield _record(None, type(error).__name__, str(error))
            return
        yield from _records(files)

    def _fitted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                fitted = fit(batch, self.spec.schema)
                for check in self.checks:
                    check(fitted)
                yield fitted


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Rewrites the groups of files whose numbers one Spark partition holds."""

    plan: ReadPlan
    groups: tuple[tuple[int, ...], ...]
    spec: WriteSpec
    store: Store

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file."""
        engine = PyArrowEngine()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = tuple(self.plan.files[index] for index in self.groups[number])
                yield from _records(engine.rewrite(replace(self.plan, files=files), self.spec, self.store))


def _records(files: list[DataFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield _record(encode(file), None, None)


def _record(file: str | None, error: str | None, message: str | None) -> pa.RecordBatch:
    columns = [pa.array([value], pa.string()) for value in (file, error, message)]
    return pa.RecordBatch.from_arrays(columns, names=["file", "error", "message"])
