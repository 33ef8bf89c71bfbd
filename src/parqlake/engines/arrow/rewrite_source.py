"""The files that a rewrite reads: footers first, to refuse what does not fit, then rows, batch by batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.errors import DataCorruptionError, InvalidOptionError, ParqlakeError
from parqlake.core.os_errors import store_error
from parqlake.core.ports import Store
from parqlake.engines.arrow.raw_groups import RawGroup
from parqlake.engines.arrow.rewrite_copying import CopiedGroup, CopyRule
from parqlake.engines.arrow.rewrite_schema import check_fits, to_working, working_schema

BATCH_ROWS = 65_536
_BATCHES_IN_MEMORY = 16
_SPANS_IN_MEMORY = 8
_FOOTERS_IN_MEMORY = 16
_PROBE_ROWS = 512
_SHORT_ROWS = 16 * 1024
_SMALL_IN_MEMORY = 64
_FOOTER_THREADS = 8
_LEAST_BUFFER, _MOST_BUFFER = 4096, 1024 * 1024
_BYTES_PER_FOOTER_BYTE = 4
"""A footer takes more in memory than in the file."""
_LEAST_FOR_THREADS = 192 * 1024 * 1024
"""Each thread has a heap of its own that keeps what it once had; with less memory than this they take too much."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file, seen through its footer."""

    path: str
    rows: int
    footer_bytes: int
    footer: Any
    """The footer itself, or None where all together would take too much memory."""
    size_bytes: int = 0
    """Of the file; 0 if nobody looked."""


class SourceFiles:
    """The rows of several files, in order, in the working schema; memory is bounded by batches.

    Page checksums are verified: a rewrite must not make damaged rows look sound.
    """

    _counted_by = "its footer"

    def __init__(self, store: Store, paths: Sequence[str], schema: pa.Schema, *, memory_bytes: int) -> None:
        """Reads all footers; raises if a file does not fit the schema, is damaged, or is given twice."""
        if len(set(paths)) != len(paths):
            twice = next(path for path in paths if list(paths).count(path) > 1)
            raise InvalidOptionError(f'source "{twice}" is given twice, its rows would be doubled; give it once')
        self._store = store
        self._filesystem = store.arrow_filesystem()
        self._memory_bytes = memory_bytes
        self._threads = memory_bytes >= _LEAST_FOR_THREADS
        self.schema = schema
        self.working = working_schema(schema)
        self.files = self._read_footers(paths)
        self.rows = sum(file.rows for file in self.files)
        self._width: int | None = None
        self._probed: Any = None

    @property
    def is_local(self) -> bool:
        """Whether reading waits for no network."""
        return self._store.is_local

    @property
    def can_read_ahead(self) -> bool:
        """Whether there is memory for a thread that reads while another writes."""
        return self._threads

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes in memory, as the longest files' first rows show; at least 1."""
        if self._width is None:
            width = _fixed_width(self.working)
            for file in sorted(self.files, key=lambda file: -file.rows)[:3]:
                with self._reading(file), self._open(file, span_bytes=0) as parquet:
                    width = max(width, self._probe(file, parquet, self.working))
                    self._probed = self._probed or parquet.metadata
            self._width = width
        return self._width

    @property
    def footer(self) -> Any:
        """The footer of the longest file; None without files."""
        return self._probed if self.row_bytes else None

    def is_small(self, file: SourceFile) -> bool:
        """Whether a file is worth no more than one read, and its rows no more than one batch."""
        return 0 < file.size_bytes <= self._memory_bytes // _SMALL_IN_MEMORY and (
            file.rows <= self._batch_rows(self.row_bytes)
        )

    def may_be_copied(self, rule: CopyRule) -> bool:
        """Whether there is a file that is not small and long enough for a row group that is copied."""
        return any(not self.is_small(file) and rule.is_long(file.rows, self.row_bytes) for file in self.files)

    def small_file(self, file: SourceFile, working: pa.Schema) -> list[pa.RecordBatch] | None:
        """The rows of a small file; None if they take more memory than is due to it.

        Args:
            file: one of `files`.
            working: the working schema, in which some texts may be dictionaries.
        """
        with self._reading(file):
            source = pa.BufferReader(self._store.read_bytes(file.path))
            kept = self._kept(file, working)
            with pq.ParquetFile(
                source, metadata=file.footer, read_dictionary=kept, pre_buffer=False, page_checksum_verification=True
            ) as parquet:
                groups = range(parquet.metadata.num_row_groups)
                size = sum(_group_bytes(parquet.metadata, number) for number in groups)
                if size > self._memory_bytes // _BATCHES_IN_MEMORY:
                    return None
                rows = parquet.read(use_threads=False)
            self._check_rows(file, rows.num_rows)
            return [self._worked(file, batch, working) for batch in rows.to_batches()]

    def file_rows(
        self, file: SourceFile, working: pa.Schema, rule: CopyRule | None
    ) -> Iterator[pa.RecordBatch | CopiedGroup]:
        """The rows of a file, batch by batch; see `small_file`. Row groups that the rule allows are not decoded."""
        if rule is None or not self._is_plain(file):
            yield from self._batches(file, working)
            return
        with self._reading(file), self._filesystem.open_input_file(self._store.full_path(file.path)) as source:
            footer = rule.footer(source)
            groups = [] if footer is None else footer.groups
            worth = [rule.is_worth_it(group, self.row_bytes) for group in groups]
            if not any(worth) or sum(group.rows for group in groups) != file.rows:
                yield from self._batches(file, working)
                return
            for number, group in enumerate(groups):
                copied = self._copied(file, number, group, working, source=source, rule=rule) if worth[number] else None
                if copied is not None:
                    yield copied
                else:
                    yield from self._group_batches(file, number, working)

    def _copied(
        self, file: SourceFile, number: int, group: RawGroup, working: pa.Schema, *, source: Any, rule: CopyRule
    ) -> CopiedGroup | None:
        """The row group with its bytes; None if these have no checksums."""
        data = memoryview(source.read_at(group.stop - group.start, group.start))
        if not group.verify(data):
            return None
        nans: tuple[int, ...] = ()
        if rule.floats:
            with self._open(file, span_bytes=0) as parquet:
                nans = rule.nans(parquet.read_row_group(number, columns=rule.floats, use_threads=False))
        return CopiedGroup(group, data, nans, lambda: self._group_batches(file, number, working))

    def _group_batches(self, file: SourceFile, number: int, working: pa.Schema) -> Iterator[pa.RecordBatch]:
        with self._reading(file), self._open(file, span_bytes=0, kept=self._kept(file, working)) as parquet:
            size = self._batch_rows(self._row_width(file, parquet, working))
            for batch in self._read(parquet, size, [number], self._stored_names(file, working)):
                yield self._worked(file, batch, working)

    def batches(self, columns: Sequence[str] | None = None) -> Generator[pa.RecordBatch, None, None]:
        """All rows, or some of the columns, in working types; each batch of one file."""
        working = self.working if columns is None else pa.schema([self.working.field(name) for name in columns])
        for file in self.files:
            yield from self._batches(file, working)

    def rows_at(self, positions: npt.NDArray[np.int64], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows at these places, counted through all files; reads only row groups that hold some.

        Args:
            positions: ascending.
            columns: which columns to read.
        """
        working = pa.schema([self.working.field(name) for name in columns])
        start = 0
        for file in self.files:
            first, last = np.searchsorted(positions, [start, start + file.rows])
            if first < last:
                yield from self._picked(file, positions[first:last] - start, working)
            start += file.rows

    def _picked(
        self, file: SourceFile, positions: npt.NDArray[np.int64], working: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        with self._reading(file), self._open(file, span_bytes=0) as parquet:
            size = self._batch_rows(self._row_width(file, parquet, working))
            start = 0
            for group in range(parquet.metadata.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                first, last = np.searchsorted(positions, [start, start + rows])
                place = start
                if first < last:
                    for batch in self._read(parquet, size, [group], self._stored_names(file, working)):
                        one, end = np.searchsorted(positions, [place, place + batch.num_rows])
                        picked = pa.array(positions[one:end] - place)
                        place += batch.num_rows
                        if len(picked):
                            yield self._worked(file, batch, working).take(picked)
                start += rows

    def _batches(self, file: SourceFile, working: pa.Schema) -> Iterator[pa.RecordBatch]:
        if not file.rows:
            return
        span_bytes = self._memory_bytes // _SPANS_IN_MEMORY
        seen = 0
        names = self._stored_names(file, working)
        kept = self._kept(file, working)
        with self._reading(file), self._open(file, span_bytes=span_bytes, kept=kept) as parquet:
            size = self._batch_rows(self._row_width(file, parquet, working))
            for span in _spans(parquet.metadata, span_bytes):
                for batch in self._read(parquet, size, span, names):
                    seen += batch.num_rows
                    yield self._worked(file, batch, working)
        self._check_rows(file, seen)

    def _check_rows(self, file: SourceFile, seen: int) -> None:
        if seen != file.rows:
            raise DataCorruptionError(
                f'"{file.path}" holds {seen} rows, but {self._counted_by} says {file.rows}; restore it from a copy'
            )

    def _read(
        self, parquet: Any, size: int, row_groups: Sequence[int], columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        threads = self._threads and parquet.metadata.num_rows > _SHORT_ROWS  # short files are read faster without
        batches: Iterator[pa.RecordBatch] = parquet.iter_batches(
            size, row_groups=row_groups, columns=columns, use_threads=threads
        )
        return batches

    def _batch_rows(self, width: int) -> int:
        return max(1, min(BATCH_ROWS, self._memory_bytes // _BATCHES_IN_MEMORY // max(width, 1)))

    def _row_width(self, file: SourceFile, parquet: Any, working: pa.Schema) -> int:
        """Bytes of a row in memory; short files are taken to be like the longest, which saves a look at each."""
        return self.row_bytes if file.rows <= _SHORT_ROWS else self._probe(file, parquet, working)

    def _probe(self, file: SourceFile, parquet: Any, working: pa.Schema) -> int:
        """Bytes of a row in memory: what the types and the footer say, or more if the first rows take more.

        A footer counts encoded bytes, which for values that come again and again is next to nothing.
        """
        width = _fixed_width(working)
        groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        number, first = next(((n, group) for n, group in enumerate(groups) if group.num_rows), (0, None))
        if first is None or all(_is_fixed(field.type) for field in working):
            return width
        width = max(width, int(first.total_byte_size * len(working) // len(self.working) // first.num_rows))
        if file.rows <= _PROBE_ROWS:
            return width
        size = min(_PROBE_ROWS, self._batch_rows(width))
        rows = next(self._read(parquet, size, [number], self._stored_names(file, working)))
        return max(width, int(self._worked(file, rows, working).nbytes // rows.num_rows))

    def _check(self, path: str, found: pa.Schema) -> None:
        """Raises for a file that cannot be rewritten."""
        check_fits(path, found, self.schema)

    def _is_plain(self, file: SourceFile) -> bool:  # noqa: ARG002
        """Whether a column that is of the same name and type in the file and in the schema is the same column."""
        return True

    def _stored_names(self, file: SourceFile, working: pa.Schema) -> Sequence[str] | None:  # noqa: ARG002
        """The columns to read for those of the working schema, as the file calls them; None for all."""
        return None if len(working) == len(self.working) else working.names

    def _worked(self, file: SourceFile, batch: pa.RecordBatch, working: pa.Schema) -> pa.RecordBatch:
        """Rows as the file holds them in working types."""
        return to_working(batch, self.schema, working, file.path)

    def _read_footers(self, paths: Sequence[str]) -> list[SourceFile]:
        with ThreadPoolExecutor(_FOOTER_THREADS if not self._store.is_local else 1) as pool:
            found = []
            held = 0
            for file in pool.map(self._read_footer, paths):
                held += file.footer_bytes * _BYTES_PER_FOOTER_BYTE
                keep = held <= self._memory_bytes // _FOOTERS_IN_MEMORY
                found.append(file if keep else replace(file, footer=None))
            return found

    def _read_footer(self, path: str) -> SourceFile:
        file = SourceFile(path, 0, 0, None)
        with (
            self._reading(file),
            self._filesystem.open_input_file(self._store.full_path(path)) as source,
            pq.ParquetFile(source) as parquet,
        ):
            self._check(path, parquet.schema_arrow)
            footer = parquet.metadata
            return SourceFile(path, footer.num_rows, footer.serialized_size, footer, source.size())

    def _kept(self, file: SourceFile, working: pa.Schema) -> list[str] | None:
        """The columns that are read as dictionaries."""
        kept = [field.name for field in working if pa.types.is_dictionary(field.type)]
        return kept if kept and self._is_plain(file) else None

    @contextmanager
    def _open(self, file: SourceFile, *, span_bytes: int, kept: list[str] | None = None) -> Iterator[Any]:
        """Opens the file; row groups of up to `span_bytes` are fetched at once, larger ones piece by piece."""
        whole = span_bytes > 0 and file.footer is not None and _largest(file.footer) <= span_bytes
        long = self._threads and file.rows > _SHORT_ROWS
        whole = whole and (long or not self._store.is_local)  # threads do that; on a local disk it gains little
        columns = len(self.schema) if file.footer is None else file.footer.num_columns
        buffer = self._memory_bytes // _SPANS_IN_MEMORY // max(columns, 1)
        with pq.ParquetFile(
            self._store.full_path(file.path),
            filesystem=self._filesystem,
            metadata=file.footer,
            read_dictionary=kept,
            pre_buffer=whole,
            buffer_size=0 if whole else max(_LEAST_BUFFER, min(_MOST_BUFFER, buffer)),
            page_checksum_verification=True,
        ) as parquet:
            yield parquet

    @contextmanager
    def _reading(self, file: SourceFile) -> Iterator[None]:
        """Turns what goes wrong while a file is read into errors that name it."""
        try:
            yield
        except DataCorruptionError as error:
            raise (error if file.path in str(error) else _damaged(file.path, error)) from error
        except ParqlakeError:
            raise
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(file.path, error) from error
        except OSError as error:
            if type(error) is OSError and error.errno is None:  # Parquet's own complaints come as these
                raise _damaged(file.path, error) from error
            raise store_error(error, "read", file.path, writing=False) from error


def _damaged(path: str, error: Exception) -> DataCorruptionError:
    return DataCorruptionError(f'"{path}" is damaged, or no Parquet file ({error}); restore it from a copy')


def _largest(footer: Any) -> int:
    return max((_group_bytes(footer, number) for number in range(footer.num_row_groups)), default=0)


def _group_bytes(footer: Any, number: int) -> int:
    return int(footer.row_group(number).total_byte_size)


def _spans(footer: Any, span_bytes: int) -> Iterator[list[int]]:
    """Row groups that are read in one go: one after the other until they are worth a read."""
    span: list[int] = []
    size = 0
    for number in range(footer.num_row_groups):
        group = _group_bytes(footer, number)
        if span and size + group > span_bytes:
            yield span
            span, size = [], 0
        span.append(number)
        size += group
    if span:
        yield span


def _is_fixed(type_: pa.DataType) -> bool:
    try:
        return bool(type_.bit_width > 0)
    except ValueError:
        return False


def _fixed_width(schema: pa.Schema) -> int:
    bits = sum(field.type.bit_width if _is_fixed(field.type) else 32 for field in schema)
    return max(1, bits // 8)
