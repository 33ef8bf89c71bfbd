"""Types of Spark and of Arrow: what they share, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from parqlake.core.errors import UnsupportedTypeError


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of a Spark `StructType`; raises `UnsupportedTypeError` by column."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema.fields:
        try:
            if _holds_variant(field.dataType):  # Arrow would carry it as a struct, and so it would come back
                raise TypeError("variant")
            type_ = to_arrow_type(field.dataType, timezone="UTC")
        except (TypeError, ValueError, AssertionError, PySparkException) as error:
            raise UnsupportedTypeError(
                f'column "{field.name}": {field.dataType.simpleString()} cannot be stored in a table; '
                "cast it to a number, string, date or timestamp"
            ) from error
        fields.append(pa.field(field.name, type_, field.nullable))
    return pa.schema(fields)


def _holds_variant(type_: Any) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    match type_:
        case VariantType():
            return True
        case ArrayType():
            return _holds_variant(type_.elementType)
        case MapType():
            return _holds_variant(type_.keyType) or _holds_variant(type_.valueType)
        case StructType():
            return any(_holds_variant(field.dataType) for field in type_.fields)
    return False


def check_spark_types(schema: pa.Schema) -> None:
    """Raises `UnsupportedTypeError`, naming the column, for Arrow types that Spark has no type for."""
    for field in schema:
        _check(field.type, field.name)


def _check(type_: pa.DataType, where: str) -> None:
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        raise _refusal(where, type_, "use microseconds: timestamp('us')")
    if pa.types.is_time(type_):
        raise _refusal(where, type_, "store it as an integer or a string")
    if pa.types.is_unsigned_integer(type_):
        raise _refusal(where, type_, "use a signed type that is wide enough, or decimal(20, 0)")
    for index in range(type_.num_fields):
        child = type_.field(index)
        _check(child.type, f"{where}.{child.name}")


def _refusal(where: str, type_: pa.DataType, hint: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(f'column "{where}": Spark cannot hold {type_}; {hint}, or use engine="pyarrow"')
