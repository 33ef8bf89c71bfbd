"""The planned row groups as a pyarrow dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from parqlake.core.evolution.reading import check_arrow_reads
from parqlake.core.partitioning import parse_partition_text
from parqlake.core.ports import PlannedFile, ReadPlan, Store
from parqlake.core.schema import without_ids

_SMALL_FILE_BYTES = 1024 * 1024
"""A file of less, on average, is read in one go: a call for each column would take longer."""


class PlannedDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """A `FileSystemDataset` of planned row groups that counts them right.

    Arrow's own `count_rows()` without a filter takes the row count of whole files even where a fragment has
    only some of their row groups; the plan knows better. `scanner().count_rows()` without a filter still
    does so; count with `to_table(columns=[]).num_rows` there.

    Arrow's own filters miss a NaN in row groups whose other values are all the same number; the engine's
    `batches` does not.
    """

    _planned_rows: int | None = None

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """The rows that match the filter; without one, the planned rows, at no cost."""
        if filter is None and self._planned_rows is not None:
            return self._planned_rows
        return int(super().count_rows(filter=filter, **options))

    def replace_schema(self, schema: pa.Schema) -> PlannedDataset:
        """The same row groups read by another schema."""
        return _dataset(list(self.get_fragments()), schema, self.format, self.filesystem, self._planned_rows)


def plan_dataset(plan: ReadPlan, store: Store) -> PlannedDataset:
    """A dataset of exactly the planned row groups, unfiltered within them. Opens no file.

    Raises:
        InvalidOptionError: the schema changed in a way that Arrow's own reader does not follow.
    """
    check_arrow_reads(plan)
    format_ = parquet_format(plan.files, store)
    filesystem = store.arrow_filesystem()
    schema = without_ids(plan.schema)
    fragments = [_fragment(file, schema, format_, filesystem, store) for file in plan.files]
    return _dataset(fragments, schema, format_, filesystem, sum(file.row_count for file in plan.files))


def parquet_format(files: Sequence[PlannedFile], store: Store) -> ds.ParquetFileFormat:
    """How files are read: checksums verified; remote and small ones in few requests."""
    small = sum(file.read_bytes for file in files) <= _SMALL_FILE_BYTES * len(files)
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True, pre_buffer=small or not store.is_local)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _dataset(
    fragments: list[Any], schema: pa.Schema, format_: Any, filesystem: Any, planned_rows: int | None
) -> PlannedDataset:
    dataset = PlannedDataset(fragments, schema, format_, filesystem)
    dataset._planned_rows = planned_rows
    return dataset


def _fragment(file: PlannedFile, schema: pa.Schema, format_: Any, filesystem: Any, store: Store) -> Any:
    return format_.make_fragment(
        store.full_path(file.path),
        filesystem=filesystem,
        partition_expression=_partition_expression(file, schema),
        row_groups=None if file.row_groups is None else list(file.row_groups),
        file_size=file.size_bytes,
    )


def _partition_expression(file: PlannedFile, schema: pa.Schema) -> Any:
    expression = None
    for name, text in file.partition.items():
        if name not in schema.names:
            continue
        field = pc.field(name)
        term = field.is_null() if text is None else field == parse_partition_text(text, schema.field(name).type)
        expression = term if expression is None else expression & term
    return expression
