"""Values to group by: Spark 4.3 spoils floats inside maps when it groups by them (a NULL takes the value before it).

So maps are grouped by as the lists of their entries, and floats inside nested columns as texts. What is told of a group
comes from one of its rows, where Spark would change it: maps, and floats, of which it makes -0.0 a 0.0.
"""

from __future__ import annotations

from typing import Any


def group_key(column: Any, type_: Any) -> Any:
    """The column in a form that Spark groups by without harm."""
    from pyspark.sql.types import DoubleType, FloatType

    plain = isinstance(type_, DoubleType | FloatType) or not is_changed_by_grouping(type_)
    return column if plain else _inside(column, type_)


def is_changed_by_grouping(type_: Any) -> bool:
    """Whether a value may come out of a grouping as another one."""
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    match type_:
        case MapType() | DoubleType() | FloatType():
            return True
        case ArrayType():
            return is_changed_by_grouping(type_.elementType)
        case StructType():
            return any(is_changed_by_grouping(field.dataType) for field in type_.fields)
    return False


def _inside(column: Any, type_: Any) -> Any:
    """A nested column, or a part of one, without maps and floats; different values stay different."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark users know it by this name)
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    if not is_changed_by_grouping(type_):
        return column
    match type_:
        case DoubleType() | FloatType():
            return F.when(column == 0, "0.0").otherwise(column.cast("string"))
        case ArrayType():
            return F.transform(column, lambda value: _inside(value, type_.elementType))
        case MapType():
            keys = F.transform(F.map_keys(column), lambda value: _inside(value, type_.keyType))
            values = F.transform(F.map_values(column), lambda value: _inside(value, type_.valueType))
            return F.when(column.isNotNull(), F.struct(keys.alias("keys"), values.alias("values")))
        case StructType():
            fields = [_inside(column.getField(field.name), field.dataType) for field in type_.fields]
            named = [value.alias(f"_{number}") for number, value in enumerate(fields)]
            return F.when(column.isNotNull(), F.struct(*named))
    raise AssertionError(type_)
