"""Runs `COPY` and tells which files it made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import uuid_utils

from parqlake.core.errors import StoreError
from parqlake.core.ports import Store, WriteSpec
from parqlake.engines.duck.copy_statement import copy_statement
from parqlake.engines.duck.errors import mapped_error
from parqlake.engines.duck.feed import Feed
from parqlake.engines.duck.footers import CopiedFile

_SOURCE = "parqlake_source"


class Copier:
    """DuckDB, ready to write streams to files."""

    def __init__(self, config: Mapping[str, Any], temp_directory: str | None) -> None:
        """Starts an instance that all plain local writes share."""
        self._settings = dict(config)
        self._temp_directory = temp_directory or tempfile.gettempdir()
        self._shared = self._start()
        self._process = os.getpid()

    def copy(self, feed: Feed, spec: WriteSpec, store: Store) -> Iterator[list[CopiedFile]]:
        """Writes all rows of the feed; yields the files of each `COPY`, with paths relative to `spec.location`."""
        with self._connection(spec, store) as connection:
            if spec.max_rows_per_file is None:
                target = store.full_url(spec.location)
                statement = copy_statement(_SOURCE, target, spec, one_file=False)
                made = _run(connection, statement, feed, None, spec.location)
                yield [replace(file, filename=_relative(file.filename, target)) for file in made]
                return
            # DuckDB has no bound on the rows of a file; the input cut into slices is one.
            while feed.has_more():
                name = f"part-{uuid_utils.uuid7()}.parquet"
                target = store.full_url(f"{spec.location}/{name}")
                statement = copy_statement(_SOURCE, target, spec, one_file=True)
                made = _run(connection, statement, feed, spec.max_rows_per_file, spec.location)
                yield [replace(file, filename=name) for file in made]

    @contextmanager
    def _connection(self, spec: WriteSpec, store: Store) -> Iterator[Any]:
        """A connection for one write.

        Order survives `COPY` only with a single thread, and a file system is registered with a whole
        instance: sorted writes and remote stores get an instance of their own. So does a forked process.
        """
        if spec.sort_by:
            connection = self._start(threads=1)
        elif not store.is_local or os.getpid() != self._process:
            connection = self._start()
        else:
            connection = self._shared.cursor()
        try:
            if not store.is_local:
                connection.register_filesystem(store.filesystem)
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        finally:
            connection.close()

    def _start(self, **more: Any) -> Any:
        import duckdb

        # Instances must not share a folder: each names its temporary files alike.
        folder = Path(self._temp_directory) / f"parqlake-duckdb-{uuid_utils.uuid7()}"
        return duckdb.connect(config=self._settings | {"temp_directory": str(folder)} | more)


def _run(connection: Any, statement: str, feed: Feed, max_rows: int | None, location: str) -> list[CopiedFile]:
    import duckdb

    before = feed.rows
    connection.register(_SOURCE, feed.reader(max_rows))
    try:
        rows = connection.execute(statement).fetchall()
    except duckdb.Error as error:
        if feed.error is not None:
            raise feed.error from None
        raise mapped_error(error, location) from error
    finally:
        with suppress(duckdb.Error):
            connection.unregister(_SOURCE)
    files = [CopiedFile(*row[:6]) for row in rows]
    written, given = sum(file.row_count for file in files), feed.rows - before
    if written != given:
        raise StoreError(
            f'DuckDB wrote {written} of {given} rows to "{location}"; run it again, or use engine="pyarrow"'
        )
    return files


def _relative(filename: str, target: str) -> str:
    path, folder = filename.replace("\\", "/"), target.replace("\\", "/").rstrip("/")
    if not path.startswith(folder + "/"):
        raise StoreError(f'DuckDB wrote "{path}", which does not lie in "{folder}"; use engine="pyarrow"')
    return path[len(folder) + 1 :]
