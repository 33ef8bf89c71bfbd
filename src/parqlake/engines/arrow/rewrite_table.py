"""Rewriting files of a table with PyArrow: the same rows under the newest schema, in files of planned lengths."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.evolution.projection import Projection, loosened
from parqlake.core.maintenance.rewriting import RewriteGroup, RowOrder
from parqlake.core.merging.conforming import conform, partition_constants
from parqlake.core.model import DataFile
from parqlake.core.ports import PlannedFile, ReadPlan, Store, WriteSpec
from parqlake.core.schema import without_ids
from parqlake.engines.arrow.clustering import rows_in_order
from parqlake.engines.arrow.described_file import DescribedFile
from parqlake.engines.arrow.rewrite_ahead import Rows, rows_ahead
from parqlake.engines.arrow.rewrite_copying import CopyRule
from parqlake.engines.arrow.rewrite_output import row_group_bytes
from parqlake.engines.arrow.rewrite_parts import PartFiles, stored_paths
from parqlake.engines.arrow.rewrite_schema import as_type
from parqlake.engines.arrow.rewrite_source import SourceFile, SourceFiles
from parqlake.engines.arrow.rewriting import bytes_for_rows

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
    rule = None if order is not None or spec.sort_by else _copy_rule(found, spec, store, for_rows)
    output = PartFiles(group, spec, store, memory_bytes=for_rows, copies=rule is not None)
    try:
        batches: Generator[Rows, None, None]
        if order is not None and found.rows:
            batches = (arrange or _arranged)(found, order, memory_bytes)
        else:
            batches = rows_ahead(found, memory_bytes=for_rows, plain=spec.sort_by, rule=rule)
        with closing(batches):
            for batch in batches:
                output.write(batch)
                if spec.rows_visitor is not None:
                    spec.rows_visitor(batch.num_rows)
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
    plain: bool
    """Whether there is nothing to be done."""


class TableFiles(SourceFiles):
    """The rows of files of a table, in order, under its newest schema; memory is bounded by batches."""

    _counted_by = "the catalog"

    def __init__(self, plan: ReadPlan, store: Store, *, memory_bytes: int) -> None:
        """Opens no file: the catalog knows how long they are."""
        self._planned: dict[str, PlannedFile] = {file.path: file for file in plan.files}
        self._own = _stored(plan.schema, plan.schema)
        self._older = {number: _stored(schema, plan.schema) for number, schema in plan.file_schemas.items()}
        super().__init__(store, [file.path for file in plan.files], without_ids(plan.schema), memory_bytes=memory_bytes)

    def _read_footers(self, paths: Sequence[str]) -> list[SourceFile]:
        planned = map(self._planned.__getitem__, paths)
        return [SourceFile(file.path, file.row_count, 0, None, file.size_bytes) for file in planned]

    def _is_plain(self, file: SourceFile) -> bool:
        return self._stored(file).plain

    def _stored_names(self, file: SourceFile, working: pa.Schema) -> Sequence[str] | None:
        if len(working) == len(self.working):
            return None
        return list(dict.fromkeys(self._stored(file).projection.stored_columns(working.names)))

    def _worked(self, file: SourceFile, batch: pa.RecordBatch, working: pa.Schema) -> pa.RecordBatch:
        stored = self._stored(file)
        if stored.plain and batch.schema.names == working.names and batch.schema.types == working.types:
            return pa.RecordBatch.from_arrays(batch.columns, schema=working)
        names = dict.fromkeys(stored.projection.stored_columns(working.names))
        schema = pa.schema([stored.schema.field(name) for name in names])
        constants = partition_constants(self._planned[file.path].partition, schema)
        rows = stored.projection.apply(conform(batch, schema, constants), working.names)
        columns = [as_type(column, type_) for column, type_ in zip(rows.columns, working.types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=working)

    def _stored(self, file: SourceFile) -> _Stored:
        return self._older.get(self._planned[file.path].schema_id, self._own)


def _stored(schema: pa.Schema, wanted: pa.Schema) -> _Stored:
    loose = loosened(schema)
    plain = without_ids(loose)
    projection = Projection(loose, wanted)
    return _Stored(projection, pa.schema([field.with_nullable(True) for field in plain]), projection.is_identity)


def _copy_rule(found: TableFiles, spec: WriteSpec, store: Store, memory_bytes: int) -> CopyRule | None:
    """Which row groups may be copied; None where files are so small that none will."""
    rule = CopyRule(
        store,
        spec.schema,
        spec.compression,
        group_rows=spec.row_group_rows,
        group_bytes=row_group_bytes(memory_bytes, spec.row_group_bytes),
        memory_bytes=memory_bytes,
    )
    return rule if found.may_be_copied(rule) else None


def _arranged(files: TableFiles, order: RowOrder, memory_bytes: int) -> Generator[pa.RecordBatch, None, None]:
    return rows_in_order(files, order.columns, order.curve, bytes_for_rows(memory_bytes))
