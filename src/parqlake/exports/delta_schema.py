"""Schemas and values in Delta's words; what it cannot hold is refused by name."""

from __future__ import annotations

import re
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, UnsupportedTypeError
from parqlake.core.evolution.marks import initial_default, values_in_paths
from parqlake.core.evolution.projection import Projection
from parqlake.core.schema import leaves
from parqlake.exports.values import high_value, low_value
from parqlake.table.exporting import Exportable, ExportFile

_NOT_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
_PLAIN = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}
_MILLISECOND = timedelta(milliseconds=1)


def delta_schema(schema: pa.Schema) -> dict[str, Any]:
    """The schema as Delta's JSON; `UnsupportedTypeError` names the column that it cannot hold."""
    return {"type": "struct", "fields": [_field(field, field.name) for field in schema]}


def has_plain_times(schema: pa.Schema) -> bool:
    """Whether a timestamp has no zone: a feature of its own in Delta."""
    return any(pa.types.is_timestamp(leaf.type) and leaf.type.tz is None for leaf in leaves(schema))


def check_reads_by_name(asked: Exportable) -> None:
    """Raises unless every file is read right by the names of its columns, NULL standing for those it lacks."""
    seen: set[int] = set()
    for file in asked.files:
        if file.stored is None or id(file.stored) in seen:
            continue
        seen.add(id(file.stored))
        projection = Projection(file.stored, asked.schema)
        in_paths = values_in_paths(file.stored)
        for field in asked.schema:
            source = projection.source(field.name)
            if source is None:
                fits = field.nullable and initial_default(field) is None and field.name not in file.stored.names
            else:
                one = Projection(pa.schema([source]), pa.schema([field]))
                fits = field.name in in_paths or (source.name == field.name and one.reads_by_name)
            if not fits:
                raise InvalidOptionError(
                    f'column "{field.name}" was renamed, or its type was changed, since "{file.path}" was written, and '
                    "Delta reads columns by their names; rewrite such files first: "
                    f'lake.table("{asked.info.name}").compact(old_schemas=True), then export the new version'
                )


def partition_values(file: ExportFile, schema: pa.Schema) -> dict[str, str | None]:
    """The partition values as Delta spells them."""
    values: dict[str, str | None] = {}
    for name, text in file.partition.items():
        type_ = schema.field(name).type
        if text == "":
            raise InvalidOptionError(
                f'partition column "{name}" of "{file.path}" holds the empty string, which Delta takes for NULL; '
                "replace it with a word of your own, then export"
            )
        plain_time = text is not None and pa.types.is_timestamp(type_) and type_.tz is None
        values[name] = text.replace("T", " ") if plain_time else text
    return values


def statistics(file: ExportFile, schema: pa.Schema) -> dict[str, Any]:
    """Rows, bounds and NULL counts, as Delta's JSON has them.

    Bounds are given for all columns or for none: some readers (the datasets of deltalake 1.6) take a bound that is
    missing beside others for one that rules every row out.
    """
    mins: dict[str, Any] = {}
    maxs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    complete = True
    for leaf in leaves(schema):
        if leaf.repeated or leaf.path[0] in file.partition:
            continue
        bounds = file.bounds.get(leaf.field_id)
        low = high = None
        if bounds is not None:
            low = _json_value(low_value(bounds.low, leaf.type), up=False)
            high = _json_value(high_value(bounds.high, leaf.type), up=True)
        all_null = bounds is not None and bounds.nulls == file.row_count
        complete &= pa.types.is_binary(leaf.type) or all_null or (low is not None and high is not None)
        _put(mins, leaf.path, low)
        _put(maxs, leaf.path, high)
        if len(leaf.path) == 1 and bounds is not None:
            _put(nulls, leaf.path, bounds.nulls)
    known = {"minValues": mins, "maxValues": maxs} if complete else {}
    return {"numRecords": file.row_count, **known, "nullCount": nulls}


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _json_value(value: Any, *, up: bool) -> Any:
    """Numbers, text, days and moments, as they stand in JSON; None for what does not."""
    if isinstance(value, Decimal):  # a number of so many digits is itself again when it is read
        return float(value) if len(value.as_tuple().digits) <= sys.float_info.dig else None
    if isinstance(value, datetime):
        rest = timedelta(microseconds=value.microsecond % 1000)
        try:
            value = value - rest + (_MILLISECOND if up and rest else timedelta(0))
        except OverflowError:
            return None
        if value.tzinfo is not None:
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}"
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, int | float | str) else None


def _field(field: pa.Field, where: str) -> dict[str, Any]:
    if _NOT_IN_NAMES.search(field.name):
        raise InvalidOptionError(
            f'column "{where}": Delta allows no blank and none of ,;{{}}()= in names; rename_column() it, then '
            "compact() and export"
        )
    return {"name": field.name, "type": _type(field.type, where), "nullable": field.nullable, "metadata": {}}


def _type(type_: pa.DataType, where: str) -> Any:
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [_field(child, f"{where}.{child.name}") for child in type_]}
    if pa.types.is_list(type_):
        item = type_.value_field
        return {"type": "array", "elementType": _type(item.type, f"{where}.element"), "containsNull": item.nullable}
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": _type(type_.key_type, f"{where}.key"),
            "valueType": _type(type_.item_type, f"{where}.value"),
            "valueContainsNull": type_.item_field.nullable,
        }
    raise UnsupportedTypeError(
        f'column "{where}": Delta has no type for {type_}; nothing was exported. Change or drop the column, or export '
        "another format"
    )
