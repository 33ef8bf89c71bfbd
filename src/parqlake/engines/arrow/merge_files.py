"""The target's files as a merge reads them: footers first, then keys alone, then whole rows of those that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parqlake.core.errors import DataCorruptionError, ParqlakeError
from parqlake.core.evolution.projection import Projection
from parqlake.core.merging.conforming import conform, partition_constants
from parqlake.core.merging.model import MergeRule, MergeTarget, TargetFile
from parqlake.core.merging.validation import check_not_null
from parqlake.core.os_errors import store_error
from parqlake.core.predicates.evaluate import is_true
from parqlake.core.predicates.tree import columns_of
from parqlake.core.schema import without_ids
from parqlake.engines.arrow.merge_source import Bounds, bounded

BATCH_ROWS = 65_536
_WHOLE_ROWS = 8_192
"""Rows of a batch of all columns: several such are held while rows are replaced, by each thread."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold a matching key."""

    file: TargetFile
    columns: frozenset[str]
    """Columns that the file itself has."""


class TargetReader:
    """Reads the files of one target, in the working schema."""

    def __init__(
        self,
        target: MergeTarget,
        rule: MergeRule,
        schema: pa.Schema,
        *,
        memory_bytes: int,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        """Opens nothing yet; batches have at most `batch_rows` rows, fewer if they would not fit."""
        self._target = target
        self._rule = rule
        self._schema = schema
        self._key_schema = pa.schema([schema.field(name).with_nullable(True) for name in rule.keys])
        self._memory_bytes = memory_bytes
        self._batch_rows = batch_rows
        self._filesystem = target.store.arrow_filesystem()

    def candidates(self, bounds: Bounds) -> list[Candidate]:
        """The files that may hold a key within the bounds of the source; checks all files for NULL keys.

        Footers tell both for most files; where they do not, the key columns are read. If rows are deleted by a
        predicate, every file may hold some.
        """
        every = self._rule.strategy.deletes and self._rule.where is not None
        wanted = None if every else bounds
        return [found for file in self._target.files if (found := self._candidate(file, wanted)) is not None]

    def keys(self, candidate: Candidate) -> pa.Table:
        """The key columns of a file."""
        return pa.Table.from_batches(list(self._batches(candidate, self._key_schema)), schema=self._key_schema)

    def key_batches(self, candidate: Candidate) -> Iterator[pa.RecordBatch]:
        """The key columns of a file, batch by batch."""
        return self._batches(candidate, self._key_schema)

    def rows(self, candidate: Candidate) -> Iterator[pa.RecordBatch]:
        """All columns of a file, batch by batch."""
        return self._batches(candidate, self._schema, most=_WHOLE_ROWS)

    def some_columns(self, candidate: Candidate, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a file, batch by batch; its keys if none are named, so that rows can be counted."""
        schema = pa.schema([self._schema.field(name).with_nullable(True) for name in names or self._rule.keys])
        return self._batches(candidate, schema)

    def takes_part(self, candidate: Candidate) -> npt.NDArray[np.bool_]:
        """For each row of a file whether the rule's predicate lets it be changed."""
        where = self._rule.where
        if where is None:
            return np.ones(candidate.file.row_count, dtype=np.bool_)
        names = list(dict.fromkeys(column.path[0] for column in columns_of(where)))
        masks = [is_true(batch, where) for batch in self.some_columns(candidate, names)]
        return np.concatenate([np.empty(0, dtype=np.bool_), *masks])

    def _candidate(self, file: TargetFile, bounds: Bounds | None) -> Candidate | None:
        if file.stored_schema is not None:
            return self._evolved(file, bounds)
        constants = partition_constants(file.partition, self._schema)
        if file.keys_not_null and file.key_bounds is not None and not self._overlaps(file.key_bounds, bounds):
            return None
        with reading(file), self._open(file) as parquet:
            footer = parquet.metadata
            columns = frozenset(parquet.schema_arrow.names)
        found = Candidate(file, columns)
        if not file.keys_not_null:
            self._check_keys(found, footer, constants)
        known = file.key_bounds if file.key_bounds is not None else self._footer_bounds(footer)
        known = {**{name: (value, value) for name, value in constants.items() if name not in columns}, **known}
        return found if self._overlaps(known, bounds) else None

    def _evolved(self, file: TargetFile, bounds: Bounds | None) -> Candidate | None:
        """A file whose columns may have other names and types: its own footer is not asked."""
        if file.key_bounds is not None and not self._overlaps(file.key_bounds, bounds):
            if file.keys_not_null:
                return None
            found = None
        else:
            found = Candidate(file, frozenset(self._schema.names))
        if not file.keys_not_null:
            for batch in self._batches(Candidate(file, frozenset(self._schema.names)), self._key_schema):
                for name in self._rule.keys:
                    check_not_null("target", name, batch.column(name).null_count)
        return found

    def _check_keys(self, candidate: Candidate, footer: Any, constants: dict[str, pa.Scalar]) -> None:
        unsure = []
        for name in self._rule.keys:
            if name not in candidate.columns and name in constants:
                check_not_null("target", name, 0 if constants[name].is_valid else footer.num_rows)
                continue
            nulls = _footer_nulls(footer, name)
            if nulls is None:
                unsure.append(name)
            else:
                check_not_null("target", name, nulls)
        if unsure:
            for batch in self._batches(candidate, self._key_schema):
                for name in unsure:
                    check_not_null("target", name, batch.column(name).null_count)

    def _footer_bounds(self, footer: Any) -> dict[str, tuple[Any, Any]]:
        found = {}
        for name in self._rule.keys:
            if bounded(self._schema.field(name).type):
                limits = _footer_limits(footer, name, self._schema.field(name).type)
                if limits is not None:
                    found[name] = limits
        return found

    def _overlaps(self, known: Any, bounds: Bounds | None) -> bool:
        """Whether the file's ranges and the source's meet in every key column; without source rows they never do.

        Bounds of None overlap all.
        """
        if bounds is None:
            return True
        if not bounds and all(bounded(self._schema.field(name).type) for name in self._rule.keys):
            return False
        for name, (low, high) in bounds.items():
            if name not in known:
                continue
            first, last = (_scalar(value, low.type) for value in known[name])
            if first is None or last is None:
                continue
            if pc.less(high, first).as_py() or pc.greater(low, last).as_py():
                return False
        return True

    @contextmanager
    def _open(self, file: TargetFile) -> Iterator[Any]:
        path = self._target.store.full_path(file.path)
        with pq.ParquetFile(path, filesystem=self._filesystem, page_checksum_verification=True) as parquet:
            yield parquet

    def _batches(self, candidate: Candidate, schema: pa.Schema, *, most: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        constants = partition_constants(candidate.file.partition, self._schema)
        names = [name for name in schema.names if name in candidate.columns]
        with reading(candidate.file), self._open(candidate.file) as parquet:
            rows = min(self._batch_rows, most, _rows_that_fit(parquet.metadata, self._memory_bytes))
            if candidate.file.stored_schema is not None:
                projection = Projection(candidate.file.stored_schema, self._target.spec.schema)
                stored = list(dict.fromkeys(projection.stored_columns(schema.names)))
                plain = without_ids(projection.stored)
                held = pa.schema([plain.field(name).with_nullable(True) for name in stored])
                for batch in parquet.iter_batches(batch_size=rows, columns=stored, use_threads=False):
                    found = conform(batch, held, partition_constants(candidate.file.partition, held))
                    yield conform(projection.apply(found, schema.names), schema)
                return
            if not names:
                yield from _constant_batches(parquet.metadata.num_rows, rows, schema, constants)
                return
            for batch in parquet.iter_batches(batch_size=rows, columns=names, use_threads=False):
                yield conform(batch, schema, constants)


@contextmanager
def reading(file: TargetFile) -> Iterator[None]:
    """Turns what goes wrong while a file is read into errors that name it."""
    try:
        yield
    except ParqlakeError:
        raise
    except pa.ArrowException as error:
        raise DataCorruptionError(f'"{file.path}" is damaged ({error}); restore it from a copy') from error
    except OSError as error:
        if type(error) is OSError and error.errno is None:  # how PyArrow reports a bad checksum or a broken page
            raise DataCorruptionError(f'"{file.path}" is damaged ({error}); restore it from a copy') from error
        raise store_error(error, "read", file.path, writing=False) from error


def _constant_batches(
    count: int, rows: int, schema: pa.Schema, constants: dict[str, pa.Scalar]
) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, rows):
        size = min(rows, count - start)
        columns = [
            pa.repeat(constants[field.name], size) if field.name in constants else pa.nulls(size, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows_that_fit(footer: Any, memory_bytes: int) -> int:
    """Rows of a batch: fewer if rows are wide, so that a few batches fit in memory."""
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    width = max(1, size // max(1, footer.num_rows))
    return int(max(1024, min(BATCH_ROWS, memory_bytes // 16 // width)))


def _footer_columns(footer: Any, name: str) -> Iterator[Any]:
    """The chunks of a plain column, one for each row group; none if there is no such column."""
    index = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == name), None)
    if index is not None:
        for number in range(footer.num_row_groups):
            yield footer.row_group(number).column(index)


def _footer_nulls(footer: Any, name: str) -> int | None:
    total, seen = 0, 0
    for chunk in _footer_columns(footer, name):
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        total += statistics.null_count
        seen += 1
    return total if seen == footer.num_row_groups else None


def _footer_limits(footer: Any, name: str, type_: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    lows, highs = [], []
    for chunk in _footer_columns(footer, name):
        if not chunk.num_values:
            continue
        statistics = chunk.statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            low, high = _scalar(statistics.min, type_), _scalar(statistics.max, type_)
        except (ValueError, pa.ArrowException):  # a string cut in the middle of a character, for instance
            return None
        if low is None or high is None:
            return None
        lows.append(low)
        highs.append(high)
    if not lows:
        return None
    return _extreme(lows, "min"), _extreme(highs, "max")


def _extreme(scalars: Sequence[pa.Scalar], which: str) -> pa.Scalar:
    return pc.min_max(pa.array([scalar.as_py() for scalar in scalars], scalars[0].type))[which]


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar | None:
    """The value as a scalar of the type; None if it cannot be one, which means that it says nothing."""
    try:
        return value.cast(type_) if isinstance(value, pa.Scalar) else pa.scalar(value, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
