"""Rewriting files with PyArrow: the same rows in the same order, in files of other lengths or with another codec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.maintenance import FileInfo
from parqlake.core.ports import Store
from parqlake.engines.arrow.rewrite_ahead import rows_ahead
from parqlake.engines.arrow.rewrite_copying import CopyRule
from parqlake.engines.arrow.rewrite_output import CODECS, GROUP_ROWS, OutputFiles, row_group_bytes
from parqlake.engines.arrow.rewrite_schema import check_schema
from parqlake.engines.arrow.rewrite_source import SourceFiles

DEFAULT_MEMORY_BYTES = 512 * 1024 * 1024
_NOT_ROWS_BYTES = 32 * 1024 * 1024
"""What pages, dictionaries, levels and the allocators take beside the rows, however few of these are held."""


def rewrite_files(
    store: Store,
    sources: Sequence[str],
    new_path: Callable[[], str],
    *,
    schema: pa.Schema,
    rows: Sequence[int] | None,
    compression: str,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    metadata: Mapping[bytes, bytes] | None = None,
) -> list[FileInfo]:
    """Streams the rows of the sources, in order, into new files of exactly the rows given; deletes nothing else.

    The new files are durable when the call returns; if it raises, none of them is left.

    Args:
        store: where all files lie.
        sources: paths relative to the store's root.
        new_path: gives the path of the next new file, relative to the store's root.
        schema: of the new files: field order, types, nullability and metadata. Sources may differ from it in the
            order of columns and in how text, lists and dictionaries are encoded.
        rows: rows of each new file; together as many as the sources hold. None makes one file.
        compression: snappy, zstd, gzip, lz4, brotli or none.
        memory_bytes: how much memory to use. What a reader cannot do without comes on top where it is more than
            some megabytes: a page of each column, and a single row.
        metadata: entries for the new files' footers, beside those of the schema.

    Returns:
        The new files, in order.

    Raises:
        InvalidOptionError: an option makes no sense, or `rows` does not fit the sources.
        SchemaMismatchError: a source has other columns or types, or NULLs where the schema allows none.
        DataCorruptionError: a source is damaged.
        StoreError: a file cannot be read or written.
    """
    check_options(schema=schema, compression=compression, memory_bytes=memory_bytes)
    memory_bytes = bytes_for_rows(memory_bytes)
    found = SourceFiles(store, sources, schema, memory_bytes=memory_bytes)
    rule = CopyRule(
        store,
        schema,
        compression,
        group_rows=GROUP_ROWS,
        group_bytes=row_group_bytes(memory_bytes),
        memory_bytes=memory_bytes,
        looks_for_nans=False,
    )
    copies = found.may_be_copied(rule)
    output = OutputFiles(
        store,
        new_path,
        schema=schema,
        rows=planned_rows(rows, found.rows),
        compression=compression,
        memory_bytes=memory_bytes,
        metadata=metadata,
        taken=sources,
        copies=copies,
    )
    with closing(rows_ahead(found, memory_bytes=memory_bytes, rule=rule if copies else None)) as batches:
        return output.write_all(batches)


def check_options(*, schema: pa.Schema, compression: str, memory_bytes: int) -> None:
    """Raises `InvalidOptionError` for options that make no sense."""
    check_schema(schema)
    if compression.lower() not in CODECS:
        raise InvalidOptionError(f"compression {compression!r} is not known; use one of: {', '.join(CODECS)}")
    if memory_bytes <= 0:
        raise InvalidOptionError(f"memory_bytes is {memory_bytes}; it must be > 0")


def bytes_for_rows(memory_bytes: int) -> int:
    """The part of the memory that rows may take."""
    return max(memory_bytes - _NOT_ROWS_BYTES, memory_bytes // 2, 1)


def planned_rows(rows: Sequence[int] | None, total: int) -> list[int]:
    """The rows of each new file; `InvalidOptionError` unless they make up the total."""
    if rows is None:
        return [total]
    if any(count < 0 for count in rows):
        raise InvalidOptionError(f"rows holds {min(rows)}; give counts >= 0")
    if sum(rows) != total:
        raise InvalidOptionError(
            f"rows makes {sum(rows)} rows in {len(rows)} files, but the sources hold {total}; "
            "plan again from the files as they are"
        )
    return list(rows)
