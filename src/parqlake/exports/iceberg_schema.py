"""Schemas and values in Iceberg's words; what format version 2 cannot hold is refused by name."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, UnsupportedTypeError
from parqlake.core.evolution.marks import initial_default
from parqlake.core.evolution.projection import Projection
from parqlake.core.keys import scaled_integer
from parqlake.core.model import to_micros
from parqlake.core.partitioning import parse_partition_text
from parqlake.core.schema import children, field_id
from parqlake.exports.values import high_value, low_value
from parqlake.table.exporting import Exportable, ExportFile

_PLAIN = {
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
}
_WIDENED = {("int", "long"), ("float", "double")}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_AVRO: Mapping[str, Any] = {
    "int": "int",
    "long": "long",
    "boolean": "boolean",
    "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}


def iceberg_fields(schema: pa.Schema) -> list[dict[str, Any]]:
    """The columns as Iceberg's JSON; `UnsupportedTypeError` names the one that it cannot hold."""
    return [_field(field, field.name) for field in schema]


def name_mapping(fields: Any) -> list[dict[str, Any]]:
    """By which names columns are found in files without field ids, such as imported ones."""
    found = []
    for field in fields:
        entry: dict[str, Any] = {"field-id": field_id(field), "names": [field.name]}
        inner = children(field.type)
        if inner:
            entry["fields"] = name_mapping(inner)
        found.append(entry)
    return found


def check_reads_by_id(asked: Exportable) -> None:
    """Raises unless Iceberg reads every file right by field ids: it knows few wider types and no first values."""
    seen: set[int] = set()
    for file in asked.files:
        if file.stored is None or id(file.stored) in seen:
            continue
        seen.add(id(file.stored))
        for field in asked.schema:
            if not _reads(Projection(file.stored, asked.schema).source(field.name), field):
                raise InvalidOptionError(
                    f'the type or first value of column "{field.name}" was changed since "{file.path}" was written, '
                    "in a way that Iceberg does not follow; rewrite such files first: "
                    f'lake.table("{asked.info.name}").compact(old_schemas=True), then export the new version'
                )


def _reads(stored: pa.Field | None, wanted: pa.Field) -> bool:
    if stored is None:
        return wanted.nullable and initial_default(wanted) is None
    if field_id(stored) != field_id(wanted):
        return False
    have, want = children(stored.type), children(wanted.type)
    if want:
        by_id = {field_id(child): child for child in have}
        return all(_reads(by_id.get(field_id(child)), child) for child in want)
    if pa.types.is_decimal(stored.type) and pa.types.is_decimal(wanted.type):
        return bool(stored.type.scale == wanted.type.scale and stored.type.precision <= wanted.type.precision)
    if stored.type == wanted.type:
        return True
    return (_PLAIN.get(stored.type, ""), _PLAIN.get(wanted.type, "")) in _WIDENED


def partition_record(file: ExportFile, asked: Exportable) -> dict[str, Any]:
    """The partition values as Avro stores them."""
    record: dict[str, Any] = {}
    for name in asked.info.partition_by:
        scalar = parse_partition_text(file.partition[name], asked.schema.field(name).type)
        if not scalar.is_valid or pa.types.is_decimal(scalar.type) or not pa.types.is_temporal(scalar.type):
            record[name] = scalar.as_py()
        else:
            record[name] = scalar.value
    return record


def partition_schema(asked: Exportable) -> list[dict[str, Any]]:
    """The fields of the partition record in Avro, numbered from 1000 as the specification has it."""
    found = []
    for number, name in enumerate(asked.info.partition_by):
        type_ = asked.schema.field(name).type
        if pa.types.is_decimal(type_):
            size = _decimal_bytes(type_.precision)
            kind: Any = {"type": "fixed", "name": f"decimal_{number}", "size": size, "logicalType": "decimal"}
            kind |= {"precision": type_.precision, "scale": type_.scale}
        else:
            kind = _AVRO[str(_type(type_, name))]
        found.append({"name": f"p{number}", "type": ["null", kind], "default": None, "field-id": 1000 + number})
    return found


def bounds(file: ExportFile, leaf_types: Mapping[int, pa.DataType]) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """Lower and upper bounds by field id, in Iceberg's single-value form."""
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for number, known in file.bounds.items():
        type_ = leaf_types.get(number)
        if type_ is None:
            continue
        for key, found, value_of in ((known.low, lower, low_value), (known.high, upper, high_value)):
            value = value_of(key, type_)
            if value is not None:
                found[number] = _single_value(value, type_)
    return lower, upper


def _single_value(value: Any, type_: pa.DataType) -> bytes:
    if isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        number = scaled_integer(value, type_.scale)
        return number.to_bytes(
            (number.bit_length() if number >= 0 else (number + 1).bit_length()) // 8 + 1, "big", signed=True
        )
    if isinstance(value, float):
        return struct.pack("<f" if pa.types.is_float32(type_) else "<d", value)
    if isinstance(value, datetime):
        return struct.pack("<q", to_micros(value if value.tzinfo else value.replace(tzinfo=UTC)))
    if isinstance(value, date):
        return struct.pack("<i", value.toordinal() - _EPOCH_DAY)
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return struct.pack("<q", seconds * 1_000_000 + value.microsecond)
    return struct.pack("<q" if pa.types.is_int64(type_) else "<i", value)


def _decimal_bytes(precision: int) -> int:
    return (int(10**precision - 1).bit_length() + 8) // 8


def _field(field: pa.Field, where: str) -> dict[str, Any]:
    return {
        "id": field_id(field),
        "name": field.name,
        "required": not field.nullable,
        "type": _type(field.type, where),
    }


def _type(type_: pa.DataType, where: str) -> Any:
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return "timestamp" if type_.tz is None else "timestamptz"
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [_field(child, f"{where}.{child.name}") for child in type_]}
    if pa.types.is_list(type_):
        item = type_.value_field
        return {
            "type": "list",
            "element-id": field_id(item),
            "element": _type(item.type, f"{where}.element"),
            "element-required": not item.nullable,
        }
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return {
            "type": "map",
            "key-id": field_id(key),
            "key": _type(key.type, f"{where}.key"),
            "value-id": field_id(item),
            "value": _type(item.type, f"{where}.value"),
            "value-required": not item.nullable,
        }
    raise UnsupportedTypeError(
        f'column "{where}": Iceberg (format version 2) has no type for {type_}; nothing was exported. Change or drop '
        "the column, or export another format"
    )
