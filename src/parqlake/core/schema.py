"""Schemas: field ids, the types that tables hold, and whether data fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.errors import (
    InvalidOptionError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsupportedTypeError,
    column_not_found,
)
from parqlake.core.names import check_column_names

FIELD_ID = b"PARQUET:field_id"
_MAX_PRECISION = 38


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column, at the top or inside nested ones."""

    path: tuple[str, ...]
    field_id: int
    type: pa.DataType
    repeated: bool
    """Whether it stands inside a list or map."""


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema a table gets: one spelling for each type, so that all engines agree.

    Large and view strings become strings, dictionaries their values, seconds and milliseconds microseconds,
    and so on, always without loss. What tables cannot hold is refused with the column's name.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidOptionError(
            f"the schema is a {type(schema).__name__}; give a pyarrow.Schema, for instance table.schema"
        )
    if not len(schema):
        raise InvalidOptionError("the schema has no columns; give at least one")
    check_column_names(schema.names)
    return pa.schema([_canonical_field(field, field.name) for field in schema])


def assign_field_ids(schema: pa.Schema, *, start: int = 1) -> pa.Schema:
    """Numbers every field, nested ones too, in depth-first order; ids that are there already are replaced."""
    counter = iter(range(start, 2**31))
    return pa.schema([_numbered(field, counter) for field in schema])


def field_id(field: pa.Field) -> int:
    """The field's id; -1 if it has none."""
    return int((field.metadata or {}).get(FIELD_ID, b"-1"))


def max_field_id(schema: pa.Schema) -> int:
    """The greatest id in use."""
    return max((field_id(field) for field in _walk(schema)), default=0)


def leaves(schema: pa.Schema) -> list[Leaf]:
    """All primitive columns in the order in which Parquet stores them."""
    return [leaf for field in schema for leaf in _leaves(field, (), repeated=False)]


def without_ids(schema: pa.Schema) -> pa.Schema:
    """The schema as users see it: no metadata."""
    return pa.schema([_stripped(field) for field in schema])


def check_columns_exist(names: Sequence[str], schema: pa.Schema) -> None:
    """Raises for the first name that is no column, with the closest one as a hint."""
    for name in names:
        if name not in schema.names:
            raise column_not_found(str(name), schema.names)


def check_partition_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuses partition columns that are missing, repeated, nested, or all there is."""
    check_columns_exist(names, schema)
    if len(set(names)) != len(names):
        raise InvalidOptionError(f"partition_by names a column twice: {', '.join(names)}")
    for name in names:
        type_ = schema.field(name).type
        if pa.types.is_nested(type_) or pa.types.is_floating(type_) or pa.types.is_binary(type_):
            raise InvalidOptionError(
                f'cannot partition by "{name}" of type {type_}; '
                "use a string, integer, date, time, decimal or boolean column"
            )
    if names and len(names) == len(schema):
        raise InvalidOptionError("partition_by names every column; leave at least one for the files")


def check_sort_columns(names: Sequence[str], schema: pa.Schema) -> None:
    """Refuses sort columns that are missing, repeated or nested."""
    check_columns_exist(names, schema)
    if len(set(names)) != len(names):
        raise InvalidOptionError(f"sort_by names a column twice: {', '.join(names)}")
    for name in names:
        if pa.types.is_nested(schema.field(name).type):
            raise InvalidOptionError(f'cannot sort by "{name}" of type {schema.field(name).type}; use a plain column')


def reconcile(data: pa.Schema, table: pa.Schema) -> None:
    """Raises unless data of this schema can be written to the table, naming every difference.

    Order does not matter, nor does how a logical type is laid out (large strings, dictionaries, units of time):
    those are cast, and checked while casting. Column of type null fits any column that takes NULLs.
    """
    missing = [name for name in table.names if name not in data.names]
    extra = [name for name in data.names if name not in table.names]
    wrong = []
    for name in table.names:
        if name in missing:
            continue
        have, want = data.field(data.get_field_index(name)).type, table.field(name).type
        if not same_kind(have, want):
            wrong.append((name, have, want))
    repeated = sorted({name for name in data.names if data.names.count(name) > 1})
    if repeated:
        raise SchemaMismatchError(f"Schema mismatch: the data has column {_quoted(repeated)} twice; rename one of them")
    if not (missing or extra or wrong):
        return
    lines = [f'  "{name}": the table has {want}, the data has {have} (type mismatch)' for name, have, want in wrong]
    lines += [f'  "{name}": missing in the data (the table has {table.field(name).type})' for name in missing]
    lines += [f'  "{name}": not in the table (the data has {data.field(name).type})' for name in extra]
    text = "Schema mismatch between the data and the table:\n" + "\n".join(lines)
    if wrong and not (missing or extra):
        raise TypeMismatchError(text + "\ncast these columns to the table's types, then write again")
    raise SchemaMismatchError(text + "\nselect, add or cast columns so that they match, then write again")


def _canonical_field(field: pa.Field, where: str) -> pa.Field:
    return pa.field(field.name, _canonical_type(field.type, where), nullable=field.nullable)


def _canonical_type(type_: pa.DataType, where: str) -> pa.DataType:
    t = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _canonical_type(type_.storage_type, where)
    if t.is_dictionary(type_):
        return _canonical_type(type_.value_type, where)
    if t.is_run_end_encoded(type_):
        return _canonical_type(type_.value_type, where)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_) or t.is_fixed_size_binary(type_):
        return pa.binary()
    if t.is_timestamp(type_):
        return pa.timestamp("ns" if type_.unit == "ns" else "us", type_.tz)
    if t.is_date(type_):
        return pa.date32()
    if t.is_time(type_):
        return pa.time64("ns" if type_.unit == "ns" else "us")
    if t.is_float16(type_):
        return pa.float32()
    if t.is_decimal(type_):
        if type_.precision > _MAX_PRECISION or type_.scale < 0 or type_.scale > type_.precision:
            raise UnsupportedTypeError(f'column "{where}": {type_} is not supported; use at most decimal128(38, scale)')
        return pa.decimal128(type_.precision, type_.scale)
    if t.is_map(type_):
        key = _canonical_type(type_.key_type, f"{where}.key")
        item = pa.field("value", _canonical_type(type_.item_type, f"{where}.value"), nullable=type_.item_field.nullable)
        return pa.map_(pa.field("key", key, nullable=False), item)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_) or _is_list_view(type_):
        item_type = _canonical_type(type_.value_type, f"{where}.element")
        return pa.list_(pa.field("element", item_type, nullable=type_.value_field.nullable))
    if t.is_struct(type_):
        if not type_.num_fields:
            raise UnsupportedTypeError(
                f'column "{where}": a struct without fields cannot be stored; leave the column out'
            )
        children = [type_.field(i) for i in range(type_.num_fields)]
        check_column_names([child.name for child in children])
        return pa.struct([_canonical_field(child, f"{where}.{child.name}") for child in children])
    if t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_string(type_) or t.is_binary(type_):
        return type_
    hint = "give it a type" if t.is_null(type_) else "cast it to a number, string or timestamp"
    raise UnsupportedTypeError(f'column "{where}": type {type_} cannot be stored in a table; {hint}')


def _is_list_view(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_))


def same_kind(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether the types mean the same values, apart from layout."""
    if have == want or pa.types.is_null(have):
        return True
    try:
        have = _canonical_type(have, "")
    except UnsupportedTypeError:
        return False
    t = pa.types
    if t.is_timestamp(have) and t.is_timestamp(want):
        return (have.tz is None) == (want.tz is None)
    if t.is_time(have) and t.is_time(want):
        return True
    if t.is_struct(have) and t.is_struct(want):
        return [f.name for f in have] == [f.name for f in want] and all(
            same_kind(a.type, b.type) for a, b in zip(have, want, strict=True)
        )
    if t.is_map(have) and t.is_map(want):
        return same_kind(have.key_type, want.key_type) and same_kind(have.item_type, want.item_type)
    if t.is_list(have) and t.is_list(want):
        return same_kind(have.value_type, want.value_type)
    return bool(have == want)


def _numbered(field: pa.Field, counter: Iterator[int]) -> pa.Field:
    number = next(counter)
    return pa.field(field.name, _numbered_type(field.type, counter), field.nullable, {FIELD_ID: str(number).encode()})


def _numbered_type(type_: pa.DataType, counter: Iterator[int]) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([_numbered(child, counter) for child in type_])
    if pa.types.is_map(type_):
        key = _numbered(type_.key_field, counter)
        return pa.map_(key, _numbered(type_.item_field, counter))
    if pa.types.is_list(type_):
        return pa.list_(_numbered(type_.value_field, counter))
    return type_


def _stripped(field: pa.Field) -> pa.Field:
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_stripped(child) for child in type_])
    elif pa.types.is_map(type_):
        type_ = pa.map_(_stripped(type_.key_field), _stripped(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_stripped(type_.value_field))
    return pa.field(field.name, type_, field.nullable)


def children(type_: pa.DataType) -> list[pa.Field]:
    """The fields inside a nested type, in order; none for others."""
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_nested(type_):
        return [type_.value_field]
    return []


def _walk(fields: Sequence[pa.Field] | pa.Schema) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        yield from _walk(children(field.type))


def _leaves(field: pa.Field, above: tuple[str, ...], *, repeated: bool) -> Iterator[Leaf]:
    path = (*above, field.name)
    inner = children(field.type)
    if not inner:
        yield Leaf(path, field_id(field), field.type, repeated)
    inside = repeated or not pa.types.is_struct(field.type)
    for child in inner:
        yield from _leaves(child, path, repeated=inside)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
