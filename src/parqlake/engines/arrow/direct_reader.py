"""Files read one after the other, without Arrow's datasets: small plans anywhere, and all plans on far stores.

On a far store, what is needed of the next files is fetched while rows of the last ones are made: one request for the
column chunks of a row group, or of several that lie together; footers come with the plan, or by one request more.
Nothing is listed, and no size is asked for. On a disk, small plans come sooner this way, since `pyarrow.dataset` need
not be loaded, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.footers import unpack_footer
from parqlake.core.ports import PlannedFile, Store
from parqlake.core.schema import leaves
from parqlake.engines.arrow.ranges import FetchedFile, FetchFailed, Range, fetch, joined

_SMALL_PLAN_FILES = 16
_SMALL_PLAN_BYTES = 16 * 1024 * 1024
_FILES_AT_ONCE = 32
_FIRST_WINDOW_BYTES = 4 * 1024 * 1024
_WINDOW_BYTES = 32 * 1024 * 1024
_TAIL_BYTES = 64 * 1024
"""What is read of a file whose footer the catalog has not: most footers are smaller."""
_THREADS_ABOVE_BYTES = 1024 * 1024
"""Columns of less are decoded sooner than other threads wake up."""
_END_BYTES = 8
"""After the footer: its length, and the magic bytes."""


def reads_directly(files: Sequence[PlannedFile], columns: Sequence[str], store: Store) -> bool:
    """Whether these files are better read one after the other than as a dataset."""
    if any("." in name for name in columns):  # Parquet's reader takes it for a way into a nested column
        return False
    if not store.is_local:
        return hasattr(store.filesystem, "cat_ranges")
    return len(files) <= _SMALL_PLAN_FILES and sum(file.read_bytes for file in files) <= _SMALL_PLAN_BYTES


@dataclass(frozen=True, slots=True)
class Opened:
    """Row groups of one file, ready to be read."""

    file: PlannedFile
    parquet: Any
    row_groups: Sequence[int]

    def fits(self, schema: pa.Schema, columns: Sequence[str]) -> bool:
        """Whether the file holds these columns just as the schema says."""
        own = self.parquet.schema_arrow
        return all(own.names.count(name) == 1 and own.field(name).type == schema.field(name).type for name in columns)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The columns, so many rows at a time."""
        batches = self.parquet.iter_batches(
            batch_size=rows,
            row_groups=list(self.row_groups),
            columns=columns,
            use_threads=self.file.read_bytes > _THREADS_ABOVE_BYTES,
        )
        for batch in batches:
            yield batch.select(list(columns))


def opened(files: Sequence[PlannedFile], columns: Sequence[str], store: Store) -> Iterator[Opened]:
    """The files in their order, in pieces of some row groups each; each is to be read before the next is asked for.

    Raises:
        FetchFailed: bytes of a file cannot be had, or its footer makes no sense.
    """
    if store.is_local:
        return _opened_here(files, store)
    return _ahead(_fetched(files, columns, store))


def _opened_here(files: Sequence[PlannedFile], store: Store) -> Iterator[Opened]:
    for file in files:
        try:
            path, filesystem = store.full_path(file.path), store.arrow_filesystem()
            parquet = pq.ParquetFile(path, filesystem=filesystem, page_checksum_verification=True, pre_buffer=False)
        except (OSError, pa.ArrowException) as error:
            raise FetchFailed(file, error) from error
        with parquet:
            groups = range(parquet.metadata.num_row_groups) if file.row_groups is None else file.row_groups
            yield Opened(file, parquet, groups)


@dataclass(frozen=True, slots=True)
class _Window:
    pieces: list[Opened]
    is_last: bool


def _ahead(windows: Iterator[_Window]) -> Iterator[Opened]:
    """One window after the other, the next being fetched meanwhile."""
    window = next(windows, None)
    pool = ThreadPoolExecutor(1, thread_name_prefix="parqlake-fetch")  # starts no thread before it has work
    try:
        while window is not None:
            coming = None if window.is_last else pool.submit(next, windows, None)
            for piece in window.pieces:
                with piece.parquet:
                    yield piece
            window = None if coming is None else coming.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever has enough rows need not wait for more


@dataclass(frozen=True, slots=True)
class _Piece:
    file: PlannedFile
    footer: Any
    row_groups: tuple[int, ...]
    ranges: tuple[Range, ...]
    """Still to be fetched."""
    end: tuple[Range, bytes] | None
    """What was read with the footer."""

    @property
    def size_bytes(self) -> int:
        return sum(wanted.end - wanted.start for wanted in self.ranges)


def _fetched(files: Sequence[PlannedFile], columns: Sequence[str], store: Store) -> Iterator[_Window]:
    """The pieces in windows of so many bytes, small at first, for whoever wants few rows."""
    budget = _FIRST_WINDOW_BYTES
    waiting: list[_Piece] = []
    for piece in _pieces(files, columns, store):
        if waiting and sum(item.size_bytes for item in waiting) + piece.size_bytes > budget:
            yield _Window(_load(waiting, store), is_last=False)
            waiting, budget = [], min(_WINDOW_BYTES, 2 * budget)
        waiting.append(piece)
    if waiting:
        yield _Window(_load(waiting, store), is_last=True)


def _load(pieces: Sequence[_Piece], store: Store) -> list[Opened]:
    wanted = [range_ for piece in pieces for range_ in piece.ranges]
    data = iter(zip(wanted, fetch(wanted, store), strict=True))
    found = []
    for piece in pieces:
        held = [*islice(data, len(piece.ranges)), *([piece.end] if piece.end is not None else ())]
        source = FetchedFile(piece.file, store, held)
        parquet = pq.ParquetFile(
            pa.PythonFile(source, mode="r"),
            metadata=piece.footer,
            page_checksum_verification=True,
            pre_buffer=False,
        )
        found.append(Opened(piece.file, parquet, piece.row_groups))
    return found


def _pieces(files: Sequence[PlannedFile], columns: Sequence[str], store: Store) -> Iterator[_Piece]:
    for start in range(0, len(files), _FILES_AT_ONCE):
        some = files[start : start + _FILES_AT_ONCE]
        ends = _ends(some, store)
        for number, file in enumerate(some):
            end = ends.get(number)
            yield from _split(file, _footer(file, end, store), columns, end)


def _split(file: PlannedFile, footer: Any, columns: Sequence[str], end: tuple[Range, bytes] | None) -> Iterator[_Piece]:
    """As many row groups together as fit into a window."""
    wanted = set(columns)
    indices = [number for number, leaf in enumerate(leaves(footer.schema.to_arrow_schema())) if leaf.path[0] in wanted]
    groups: list[int] = []
    spans: list[tuple[int, int]] = []
    size = 0
    for number in range(footer.num_row_groups) if file.row_groups is None else file.row_groups:
        own = [_span(footer.row_group(number).column(index)) for index in indices]
        bytes_ = sum(end - start for start, end in own)
        if groups and size + bytes_ > _WINDOW_BYTES:
            yield _piece(file, footer, groups, spans, end)
            groups, spans, size = [], [], 0
        groups.append(number)
        spans += own
        size += bytes_
    if groups:
        yield _piece(file, footer, groups, spans, end)


def _piece(
    file: PlannedFile,
    footer: Any,
    groups: Sequence[int],
    spans: Sequence[tuple[int, int]],
    end: tuple[Range, bytes] | None,
) -> _Piece:
    start = file.size_bytes if end is None else end[0].start
    missing = [(first, min(last, start)) for first, last in spans if first < start]
    held = end if any(last > start for _, last in spans) else None
    return _Piece(file, footer, tuple(groups), tuple(joined(file, missing)), held)


def _span(chunk: Any) -> tuple[int, int]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size


def _ends(files: Sequence[PlannedFile], store: Store) -> dict[int, tuple[Range, bytes]]:
    """The ends of those files whose footers did not come with the plan, by their number here."""
    bare = {number: file for number, file in enumerate(files) if file.footer is None}
    ends = [Range(file, max(0, file.size_bytes - _TAIL_BYTES), file.size_bytes) for file in bare.values()]
    data = fetch(ends, store) if ends else []
    return dict(zip(bare, zip(ends, data, strict=True), strict=True))


def _footer(file: PlannedFile, end: tuple[Range, bytes] | None, store: Store) -> Any:
    try:
        if file.footer is not None:
            return unpack_footer(file.footer)
        assert end is not None
        return _parsed(end[1], file, store)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FetchFailed(file, error) from error


def _parsed(tail: bytes, file: PlannedFile, store: Store) -> Any:
    length = int.from_bytes(tail[-_END_BYTES : -_END_BYTES // 2], "little") + _END_BYTES
    if len(tail) < length <= file.size_bytes:
        (tail,) = fetch([Range(file, file.size_bytes - length, file.size_bytes)], store)
    with closing(pa.BufferReader(tail)) as source:
        return pq.read_metadata(source)
