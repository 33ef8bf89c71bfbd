"""Writes that may change the schema: which schema the rows are written by, decided before anything is written."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa

from parqlake.core.errors import ColumnBecameTextWarning
from parqlake.core.evolution.changes import Base
from parqlake.core.evolution.marks import last_field_id
from parqlake.core.evolution.write_modes import Merged, SchemaMode, merge_schemas, schema_mode
from parqlake.core.model import Head, TableInfo
from parqlake.core.ports import CatalogReader, FrameEngine
from parqlake.core.schema import reconcile
from parqlake.table.cluster_policy import known_cluster_by
from parqlake.table.context import LakeContext
from parqlake.table.options import WriteOptions
from parqlake.table.sources import Source, is_spark_frame, open_source, to_reader
from parqlake.table.target import Target


@dataclass(frozen=True, slots=True)
class Fitted:
    """Data that is to be written, and the table as the write will leave it."""

    target: Target
    """With the schema that the rows are written by."""
    data: Any
    """Opened, if that had to be."""
    strict: bool
    new_schema: pa.Schema | None
    """For the commit; None if the schema stays as it is."""

    def open(self, **options: Any) -> Source:
        """The rows, found to fit."""
        return open_source(self.data, self.target.schema, self.target.engine, strict=self.strict, **options)


def fitted(context: LakeContext, target: Target, data: Any, options: WriteOptions) -> Fitted:
    """Works out the schema of a write by its `schema_mode`; raises if the data cannot be had in."""
    mode = schema_mode(options.get("schema_mode"))
    if mode is SchemaMode.STRICT:
        return Fitted(target, data, strict=True, new_schema=None)
    if is_spark_frame(data) and hasattr(target.engine, "frame_schema"):
        schema = cast("FrameEngine", target.engine).frame_schema(data)
    elif is_spark_frame(data):
        return Fitted(target, data, strict=True, new_schema=None)  # refused when it is opened
    else:
        data = to_reader(data)
        schema = data.schema
    with context.catalog.read() as reader:
        merged = merged_schema(reader, target.info, target.head, target.schema, data=schema, mode=mode)
    target.engine.check_schema(merged.schema)
    return Fitted(replace(target, schema=merged.schema), data, False, merged.schema if merged.is_new else None)


def merged_schema(
    reader: CatalogReader, info: TableInfo, head: Head, schema: pa.Schema, *, data: pa.Schema, mode: SchemaMode
) -> Merged:
    """The schema that a write of such data leaves; warns of columns that become text."""
    if mode is SchemaMode.STRICT:
        reconcile(data, schema)
        return Merged(schema, is_new=False, texts=())
    merged = merge_schemas(data, base_of(reader, info, head, schema), mode)
    if merged.texts:
        warnings.warn(
            f"column {', '.join(merged.texts)} of {info.name} becomes a string, since no other type holds both its "
            "values and the new ones",
            ColumnBecameTextWarning,
            stacklevel=2,
        )
    return merged


def base_of(reader: CatalogReader, info: TableInfo, head: Head, schema: pa.Schema) -> Base:
    """What a change begins with. Ids of columns that were dropped, or restored away, are not given again."""
    known = (reader.schema(info.table_id, number) for number in range(1, head.schema_id + 1))
    last_id = max(last_field_id(each) for each in known)
    return Base(schema, last_id, info.partition_by, info.sort_by, known_cluster_by(info))
