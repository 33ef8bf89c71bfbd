"""What runs on executors: plain callables that Spark sends to its Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from parqlake.core.errors import (
    DataCorruptionError,
    InputError,
    ParqlakeError,
    StoreReadOnlyError,
    UnsupportedTypeError,
)
from parqlake.core.fitting import fit
from parqlake.core.model import DataFile
from parqlake.core.ports import BatchCheck, ReadPlan, Store, WriteSpec
from parqlake.core.wire import encode
from parqlake.engines.arrow import PyArrowEngine

RECORD_SCHEMA = "file string, error string, message string"
"""One record for each file, or one for the error of this library that ended the task."""

FINAL = (InputError, UnsupportedTypeError, DataCorruptionError, StoreReadOnlyError)
"""Errors that another attempt would meet again."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes the rows of one Spark partition to final files."""

    spec: WriteSpec
    store: Store
    checks: tuple[BatchCheck, ...]
    names: tuple[str, ...]
    """What the columns are called that arrive, in their order."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gives one record for each file."""
        reader = pa.RecordBatchReader.from_batches(self.spec.schema, self._fitted(batches))
        yield from _reported(self.spec, self.store, lambda spec: PyArrowEngine().write(reader, spec, self.store))

    def _fitted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                fitted = fit(batch.rename_columns(self.names), self.spec.schema)
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
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = replace(self.plan, files=tuple(self.plan.files[index] for index in self.groups[number]))
                yield from _reported(self.spec, self.store, partial(self._rewritten, part))

    def _rewritten(self, part: ReadPlan, spec: WriteSpec) -> list[DataFile]:
        return PyArrowEngine(streams=1).rewrite(part, spec, self.store)


def take_away(store: Store, paths: Sequence[str]) -> None:
    """Deletes files of a write that failed; the error that is under way matters more than one met here."""
    with suppress(ParqlakeError, OSError):
        store.delete(paths)


def _reported(spec: WriteSpec, store: Store, work: Callable[[WriteSpec], list[DataFile]]) -> Iterator[pa.RecordBatch]:
    """One record for each file that the work makes, or one for the error that ended it.

    An error that another attempt would meet again comes back as a record, so that the task is not tried again. An
    attempt that fails takes its finished files away, as nobody else knows of them.
    """
    finished: list[str] = []
    tracked = replace(spec, file_visitor=lambda file: finished.append(f"{spec.location}/{file.path}"))
    try:
        files = work(tracked)
    except FINAL as error:
        take_away(store, finished)
        yield _record(None, type(error).__name__, str(error))
        return
    except BaseException:
        take_away(store, finished)
        raise
    for file in files:
        yield _record(encode(file), None, None)


def _record(file: str | None, error: str | None, message: str | None) -> pa.RecordBatch:
    columns = [pa.array([value], pa.string()) for value in (file, error, message)]
    return pa.RecordBatch.from_arrays(columns, names=["file", "error", "message"])
