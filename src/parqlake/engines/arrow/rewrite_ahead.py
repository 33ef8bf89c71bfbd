"""All rows of a rewrite's sources, read while others are written, and as little decoded as the writer can do with.

Small files are read whole, each in one go, by as many threads as there are cores; long ones are streamed by one. Texts
of which there are few stay dictionaries on their way from file to file: their letters are neither copied nor hashed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from typing import TypeAlias, TypeVar

import pyarrow as pa

from parqlake.engines.arrow.read_ahead import read_ahead
from parqlake.engines.arrow.rewrite_copying import CopiedGroup, CopyRule
from parqlake.engines.arrow.rewrite_source import SourceFile, SourceFiles

_AHEAD_SHARE = 6
"""Somewhat more than a row group is read while one is written."""
_MOST_THREADS = 8
_FEW_BYTES = 2
"""A column of so many bytes a value, dictionary included, is of few values."""
_LEAST_ROWS = 2048
"""In shorter files a dictionary of its own for each costs more than it saves."""

Rows: TypeAlias = pa.RecordBatch | CopiedGroup
"""What a rewrite hands from reader to writer."""
_T = TypeVar("_T")
_R = TypeVar("_R")


def rows_ahead(
    sources: SourceFiles, *, memory_bytes: int, plain: Collection[str] = (), rule: CopyRule | None = None
) -> Generator[Rows, None, None]:
    """All rows of the sources, in order, in working types; texts may be dictionaries instead, if in all batches.

    Args:
        sources: what to read.
        memory_bytes: for rows, of which those that wait take a share.
        plain: columns that are no dictionaries in any case.
        rule: which row groups come as bytes; None for none.
    """
    if sources.can_read_ahead:
        return _ahead(sources, _encoded(sources, plain), rule, memory_bytes // _AHEAD_SHARE)
    return _streamed(sources, sources.files, sources.working, rule)


def _ahead(
    sources: SourceFiles, working: pa.Schema, rule: CopyRule | None, max_bytes: int
) -> Generator[Rows, None, None]:
    for small, run in groupby(sources.files, sources.is_small):
        if small:
            rows: Generator[Rows, None, None] = _small(sources, list(run), working, max_bytes)
        else:
            rows = read_ahead(_streamed(sources, run, working, rule), max_bytes=max_bytes)
        with closing(rows):
            yield from rows


def _streamed(
    sources: SourceFiles, files: Iterable[SourceFile], working: pa.Schema, rule: CopyRule | None
) -> Generator[Rows, None, None]:
    for file in files:
        yield from sources.file_rows(file, working, rule)


def _small(
    sources: SourceFiles, files: Sequence[SourceFile], working: pa.Schema, max_bytes: int
) -> Generator[Rows, None, None]:
    width = sources.row_bytes
    found = in_order(
        files,
        lambda file: sources.small_file(file, working),
        weight=lambda file: file.size_bytes + file.rows * width,
        most=max_bytes,
        threads=min(os.cpu_count() or 1, _MOST_THREADS) if sources.is_local else _MOST_THREADS,
    )
    with closing(found):
        for file, batches in zip(files, found, strict=True):
            yield from sources.file_rows(file, working, None) if batches is None else batches


def in_order(
    tasks: Sequence[_T], run: Callable[[_T], _R], *, weight: Callable[[_T], int], most: int, threads: int
) -> Generator[_R, None, None]:
    """The results of all tasks, in their order; those under way or done weigh no more than given, but for the last.

    Whoever stops early closes the generator, which waits for the tasks that have begun.
    """
    waiting: deque[tuple[Future[_R], int]] = deque()
    held = 0
    with ThreadPoolExecutor(threads, "parqlake-read") as pool:
        try:
            for task in tasks:
                while held >= most:
                    future, size = waiting.popleft()
                    yield future.result()
                    held -= size
                size = weight(task)
                waiting.append((pool.submit(run, task), size))
                held += size
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _encoded(sources: SourceFiles, plain: Collection[str]) -> pa.Schema:
    """The working schema with dictionaries for texts of few values, as the longest file shows them."""
    footer = sources.footer
    if footer is None or not footer.num_row_groups or footer.num_rows < _LEAST_ROWS:
        return sources.working
    group = footer.row_group(0)
    few = set()
    for column in map(group.column, range(group.num_columns)):
        is_dictionary = "RLE_DICTIONARY" in column.encodings or "PLAIN_DICTIONARY" in column.encodings
        if is_dictionary and column.total_uncompressed_size <= _FEW_BYTES * column.num_values:
            few.add(column.path_in_schema)
    few.difference_update(plain)
    dictionary = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            field.with_type(dictionary) if field.name in few and field.type == pa.string() else field
            for field in sources.working
        ]
    )
