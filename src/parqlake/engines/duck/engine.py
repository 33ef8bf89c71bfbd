"""The DuckDB engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from parqlake.core.errors import MissingExtraError, UnsupportedTypeError
from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.merging import MergeOutcome, MergeRule, MergeTarget
from parqlake.core.model import DataFile
from parqlake.core.ports import ReadPlan, Store, WriteSpec
from parqlake.core.schema import canonical_schema
from parqlake.core.updating import RowChange
from parqlake.engines.arrow import PyArrowEngine
from parqlake.engines.arrow.nans import NanFinder
from parqlake.engines.arrow.part_writer import WriteJob
from parqlake.engines.arrow.partition_writer import PartitionedWriter
from parqlake.engines.duck.copy_statement import FIELD_ID_NAME
from parqlake.engines.duck.copying import Copier
from parqlake.engines.duck.feed import VECTOR_ROWS, Feed
from parqlake.engines.duck.footers import CopiedFile, describe
from parqlake.engines.duck.long_values import LongValues

_FOOTER_THREADS = 8
_BASE_MEMORY_MB = 1024
_THREAD_MEMORY_MB = 256


class DuckDBEngine:
    """Writes with DuckDB, in this process.

    The rows and their statistics are those of the PyArrow engine; file boundaries differ, folder names of odd
    partition values too, and upper bounds of floats are unknown for a whole file if it holds a NaN. DuckDB 2.0
    writes no page checksums, so damage to its files is found only where it breaks the format. It verifies none
    either, which is why deletes and updates are left to PyArrow: DuckDB would copy damaged values into new files
    without a word, and hold ten times as much in memory.

    Row groups hold whole vectors of 2,048 rows. What DuckDB has no bound for is left to the PyArrow writer:
    smaller row groups, and `max_rows_per_file` in a partitioned write.
    """

    def __init__(
        self, *, memory_limit: str | None = None, threads: int | None = None, temp_directory: str | None = None
    ) -> None:
        """Starts DuckDB.

        Args:
            memory_limit: as DuckDB spells it, "4GB" for instance; by default a gigabyte and 256 MB a thread.
            threads: how many; by default one for each core.
            temp_directory: where rows are put aside; by default the system's temporary folder.

        Raises:
            MissingExtraError: duckdb is not installed.
        """
        if find_spec("duckdb") is None:
            raise MissingExtraError("duckdb", "duckdb")
        count = threads or os.cpu_count() or 1
        config: dict[str, Any] = {
            "threads": count,
            "memory_limit": memory_limit or f"{_BASE_MEMORY_MB + _THREAD_MEMORY_MB * count}MB",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self._temp_directory = temp_directory
        self._arrow = PyArrowEngine(spill_folder=temp_directory)
        self._copier = Copier(config, temp_directory)

    def __repr__(self) -> str:
        return "DuckDBEngine()"

    @property
    def name(self) -> str:
        """How users choose it."""
        return "duckdb"

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises `UnsupportedTypeError`, naming the column, for what tables or DuckDB cannot hold."""
        canonical_schema(schema)
        for field in schema:
            _check_names(field, field.name)

    def write(self, data: pa.RecordBatchReader, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Writes the rows to final files and describes them; durable on return.

        Without rows there are no files. On an exception files that the visitor was told of stay where they
        are, for the caller to decide about; others are deleted.
        """
        if spec.row_group_rows < VECTOR_ROWS or (spec.partition_by and spec.max_rows_per_file is not None):
            return self._arrow.write(data, spec, store)
        files: list[DataFile] = []
        paths: list[str] = []

        def finished(path: str, file: DataFile) -> None:
            paths.append(path)
            files.append(file)

        job = WriteJob(spec, store, NanFinder(spec.schema), finished)
        long_writer = PartitionedWriter(job, spill_folder=self._temp_directory)
        divert = LongValues(spec, long_writer).divert if spec.partition_by else None
        store.make_folders([spec.location])
        try:
            for copied in self._copier.copy(Feed(data, spec.schema, divert), spec, store):
                _report(copied, job)
            long_writer.finish()
        except BaseException:
            long_writer.abandon()
            raise
        store.sync(paths)
        return files

    def rewrite(self, plan: ReadPlan, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names, with checksums verified, and writes it again by the spec, both with PyArrow.

        DuckDB would do nothing but encode what PyArrow has read and filtered, and hold all of it meanwhile.
        """
        return self._arrow.rewrite(plan, spec, store)

    def rewrite_changed(self, plan: ReadPlan, change: RowChange, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names, applies the change, and writes the rows by the spec, all with PyArrow.

        So new values are the same whichever engine is chosen.
        """
        return self._arrow.rewrite_changed(plan, change, spec, store)

    def rewrite_groups(
        self,
        groups: Sequence[RewriteGroup],
        spec: WriteSpec,
        store: Store,
        *,
        order: RowOrder | None,
        memory_bytes: int,
    ) -> list[list[DataFile]]:
        """Rewrites groups of files; DuckDB brings rows in order, PyArrow reads and writes.

        See `parqlake.engines.duck.rewriting` for why.
        """
        from parqlake.engines.duck.rewriting import rewrite_groups  # who does no maintenance need not load it

        return rewrite_groups(groups, spec, store, order=order, memory_bytes=memory_bytes)

    def merge(
        self,
        source: pa.RecordBatchReader | pa.Table,
        target: MergeTarget,
        rule: MergeRule,
        *,
        memory_bytes: int,
        stacklevel: int = 1,
    ) -> MergeOutcome:
        """Merges the source into the target; see `parqlake.engines.duck.merging.merge`.

        What DuckDB has no way for is left to PyArrow, with the same result: rows that a predicate keeps out, and files
        that are older than the schema.
        """
        if rule.where is not None or any(file.stored_schema is not None for file in target.files):
            return self._arrow.merge(source, target, rule, memory_bytes=memory_bytes, stacklevel=stacklevel + 1)
        from parqlake.engines.duck.merging import merge  # who does not merge need not load it

        return merge(
            source,
            target,
            rule,
            memory_bytes=memory_bytes,
            spill_folder=self._temp_directory,
            stacklevel=stacklevel + 1,
        )


def _report(copied: list[CopiedFile], job: WriteJob) -> None:
    """Describes finished files and tells of them; if that fails, deletes those that nobody was told of."""
    spec, store = job.spec, job.store
    untold = {f"{spec.location}/{file.filename}" for file in copied}
    try:
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            described = list(pool.map(lambda file: describe(file, spec, store), copied))
        for written, data_file in described:
            path = f"{spec.location}/{data_file.path}"
            untold.discard(path)
            job.finished(path, data_file)
            if spec.file_visitor is not None:
                spec.file_visitor(written)
    except BaseException:
        with suppress(Exception):
            store.delete(sorted(untold))
        raise


def _check_names(field: pa.Field, where: str) -> None:
    if field.name.casefold() == FIELD_ID_NAME:
        raise UnsupportedTypeError(
            f'column "{where}": DuckDB keeps the name {FIELD_ID_NAME} for itself; rename it, or use engine="pyarrow"'
        )
    for index in range(field.type.num_fields):
        child = field.type.field(index)
        _check_names(child, f"{where}.{child.name}")
