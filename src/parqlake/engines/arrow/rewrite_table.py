"""Rewriting files of a table with PyArrow: the same rows under the newest schema, in files of planned lengths."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.errors import DataCorruptionError
from parqlake.core.evolution.projection import Projection, loosened
from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.merging.conforming import conform, partition_constants
from parqlake.core.model import DataFile
from parqlake.core.ports import PlannedFile, ReadPlan, Store, WriteSpec
from parqlake.core.schema import without_ids
from parqlake.engines.arrow.clustering import rows_in_order
from parqlake.engines.arrow.described_file import DescribedFile
from parqlake.engines.arrow.read_ahead import read_ahead
from parqlake.engines.arrow.rewrite_parts import PartFiles, stored_paths
from parqlake.engines.arrow.rewrite_source import SourceFile, SourceFiles
from parqlake.engines.arrow.rewriting import bytes_for_rows

_AHEAD_SHARE = 6
"""Somewhat more than a row group is read while one is written."""
Arrange = Callable[["TableFiles", RowOrder, int], Generator[pa.RecordBatch, None, None]]
"""All rows of the files in an order, within so many bytes of memory."""


def rewrite_groups(
    groups: Sequence[RewriteGroup],
    spec: WriteSpec,
    store: Store,
    *,
    order: RowOrder | None,
    memory_bytes: int,
    arrange: Arrange | None = None,
) -> list[list[DataFile]]:
    """Rewrites one group after the other, in this process; see `RewritingEngine.rewrite_groups`.

    `arrange` brings rows in order; PyArrow does if it is left out.
    """
    found = []
    for group in groups:
        files = rewrite_group(group, spec, store, order=order, memory_bytes=memory_bytes, arrange=arrange)
        tell(files, spec, store)
        found.append(files)
    return found


def rewrite_group(
    group: RewriteGroup,
    spec: WriteSpec,
    store: Store,
    *,
    order: RowOrder | None,
    memory_bytes: int,
    arrange: Arrange | None = None,
) -> list[DataFile]:
    """Writes the rows of a group to new files; durable on return. If it raises, none of them is left."""
    for_rows = bytes_for_rows(memory_bytes)
    found = TableFiles(group.plan, store, memory_bytes=for_rows)
    planned = sum(group.rows)
    if found.rows != planned:
        raise DataCorruptionError(
            f"{len(group.plan.files)} file(s), the first of them {group.plan.files[0].path}, hold {found.rows} rows by "
            f"their footers, and {planned} by the catalog; restore them from a copy"
        )
    output = PartFiles(group, spec, store, memory_bytes=for_rows)
    try:
        if order is not None and found.rows:
            batches = (arrange or _arranged)(found, order, memory_bytes)
        elif found.can_read_ahead:
            batches = read_ahead(found.batches(), max_bytes=for_rows // _AHEAD_SHARE)
        else:
            batches = found.batches()
        with closing(batches):
            for batch in batches:
                output.write(batch)
        return output.finish()
    except BaseException:
        output.abandon()
        raise


def tell(files: Sequence[DataFile], spec: WriteSpec, store: Store) -> None:
    """Tells the visitor of finished files; if it raises, takes away those that it was not told of."""
    if spec.file_visitor is None:
        return
    for number, file in enumerate(files):
        try:
            spec.file_visitor(DescribedFile(file, spec.location, store))
        except BaseException:
            with suppress(Exception):
                store.delete(stored_paths(files[number + 1 :], spec))
            raise


@dataclass(frozen=True, slots=True)
class _Stored:
    """How files of one schema of the table's history become rows of the newest."""

    projection: Projection
    schema: pa.Schema
    """The stored columns, as they are to be before they are projected."""


class TableFiles(SourceFiles):
    """The rows of files of a table, in order, under its newest schema; memory is bounded by batches."""

    def __init__(self, plan: ReadPlan, store: Store, *, memory_bytes: int) -> None:
        """Reads all footers; raises if a file is damaged."""
        self._planned: dict[str, PlannedFile] = {file.path: file for file in plan.files}
        self._own = _stored(plan.schema, plan.schema)
        self._older = {number: _stored(schema, plan.schema) for number, schema in plan.file_schemas.items()}
        super().__init__(store, [file.path for file in plan.files], without_ids(plan.schema), memory_bytes=memory_bytes)

    def _check(self, path: str, found: pa.Schema) -> None:
        """The catalog says what the file holds."""

    def _stored_names(self, file: SourceFile, working: pa.Schema) -> Sequence[str] | None:
        if working is self.working:
            return None
        return list(dict.fromkeys(self._stored(file).projection.stored_columns(working.names)))

    def _worked(self, file: SourceFile, batch: pa.RecordBatch, working: pa.Schema) -> pa.RecordBatch:
        stored = self._stored(file)
        names = dict.fromkeys(stored.projection.stored_columns(working.names))
        schema = pa.schema([stored.schema.field(name) for name in names])
        constants = partition_constants(self._planned[file.path].partition, schema)
        rows = stored.projection.apply(conform(batch, schema, constants), working.names)
        return pa.RecordBatch.from_arrays(rows.columns, schema=working)

    def _stored(self, file: SourceFile) -> _Stored:
        return self._older.get(self._planned[file.path].schema_id, self._own)


def _stored(schema: pa.Schema, wanted: pa.Schema) -> _Stored:
    loose = loosened(schema)
    plain = without_ids(loose)
    return _Stored(Projection(loose, wanted), pa.schema([field.with_nullable(True) for field in plain]))


def _arranged(files: TableFiles, order: RowOrder, memory_bytes: int) -> Generator[pa.RecordBatch, None, None]:
    return rows_in_order(files, order.columns, order.curve, bytes_for_rows(memory_bytes))
