"""Frames of old files seen through a newer schema, by Spark's own expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from parqlake.core.evolution.marks import initial_default
from parqlake.core.evolution.projection import same_column, source_of
from parqlake.core.schema import without_ids
from parqlake.spark.columns import literal, quoted


def projected(frame: Any, stored: pa.Schema, wanted: pa.Schema) -> Any:
    """The frame, which has the columns of `stored`, with exactly those of `wanted`."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark users know it by this name)

    columns = []
    for field in wanted:
        source = source_of(field, stored)
        value = None if source is None else F.col(quoted((source.name,)))
        columns.append(_converted(value, source, field).alias(field.name))
    return frame.select(*columns)


def _converted(value: Any, stored: pa.Field | None, wanted: pa.Field) -> Any:
    """The column `value`, of the field `stored`, as the field `wanted`."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = _spark_type(wanted)
    if stored is None:
        default = initial_default(wanted)
        return F.lit(None).cast(kind) if default is None else literal(default).cast(kind)
    have, want = stored.type, wanted.type
    if same_column(stored, wanted):
        return value
    if pa.types.is_struct(want):
        fields = []
        for child in want:
            source = source_of(child, list(have))
            inner = None if source is None else value.getField(source.name)
            fields.append(_converted(inner, source, child).alias(child.name))
        return F.when(value.isNotNull(), F.struct(*fields)).cast(kind)
    if pa.types.is_map(want):
        keys = F.transform(F.map_keys(value), lambda key: _converted(key, have.key_field, want.key_field))
        items = F.transform(F.map_values(value), lambda item: _converted(item, have.item_field, want.item_field))
        return F.map_from_arrays(keys, items).cast(kind)
    if pa.types.is_list(want):
        return F.transform(value, lambda item: _converted(item, have.value_field, want.value_field)).cast(kind)
    return value.cast(kind)


def _spark_type(field: pa.Field) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    plain = without_ids(pa.schema([field])).field(0)
    return _nullable(from_arrow_type(plain.type))


def _nullable(type_: Any) -> Any:
    """The type with NULLs allowed everywhere, as in all that Spark reads from files."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    match type_:
        case StructType():
            return StructType([StructField(f.name, _nullable(f.dataType)) for f in type_.fields])
        case ArrayType():
            return ArrayType(_nullable(type_.elementType))
        case MapType():
            return MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_
