"""Changes of a schema, each a pure function from one schema to the next; unsound ones are refused by name.

`last_id` is the greatest field id that the table has ever used: ids are never given twice, so that a column which is
added under the name of one that was dropped is a column of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, TypeMismatchError, column_not_found
from parqlake.core.evolution import paths
from parqlake.core.evolution.marks import (
    evolved,
    retyped,
    with_initial_default,
    with_new_id,
    with_write_default,
)
from parqlake.core.evolution.paths import Path, edited, field_at, locate, locate_new, replaced, shown
from parqlake.core.evolution.types import keeps_keys, shown_wider_types, widens
from parqlake.core.names import check_column_names
from parqlake.core.schema import assign_field_ids, canonical_schema, max_field_id

Name = str | Sequence[str]
"""A column's name, or the path of a field: `"address.city"` or `["address", "city"]`."""


@dataclass(frozen=True, slots=True)
class Base:
    """The schema that a change begins with, and what the table says about its columns."""

    schema: pa.Schema
    last_id: int
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()


def add_column(
    base: Base, name: Name, type_: Any, *, nullable: bool = True, default: Any = None, after: str | None = None
) -> pa.Schema:
    """The schema with one more field, last or after another one; rows that are there hold the default, or NULL."""
    path = locate_new(base.schema, name)
    level = paths.siblings(base.schema, path)
    if any(field.name == path[-1] for field in level):
        raise InvalidOptionError(
            f'column "{shown(path)}" is there already; choose another name, or drop or rename the old one first'
        )
    check_column_names([*(field.name for field in level), path[-1]])
    plain = canonical_schema(pa.schema([pa.field(path[-1], parsed_type(type_), nullable=nullable)]))
    new = assign_field_ids(plain, start=base.last_id + 1)
    value = default_value(default, new.field(0).type, shown(path))
    field = with_write_default(with_initial_default(new.field(0), value), value)
    place = len(level) if after is None else _place(level, path, after) + 1

    def insert(fields: list[pa.Field], _index: int) -> list[pa.Field]:
        return [*fields[:place], field, *fields[place:]]

    return evolved(edited(list(base.schema), path, insert), base.schema, max_field_id(new))


def drop_column(base: Base, name: Name) -> pa.Schema:
    """The schema without one field; files keep it, and nobody reads it."""
    path = locate(base.schema, name)
    _check_is_named(base, path, "dropped")
    _check_no_role(base, path, "drop")
    if path[0] in base.cluster_by:
        raise InvalidOptionError(
            f'cannot drop "{path[0]}": the table is clustered by it; set the property cluster_by to other columns, or '
            "leave it out, with set_properties first"
        )
    level = paths.siblings(base.schema, path)
    if len(level) == 1:
        what = "the table" if len(path) == 1 else f'the struct "{shown(path[:-1])}"'
        raise InvalidOptionError(f'"{shown(path)}" is the only column of {what}; add another before you drop it')
    if len(path) == 1 and {field.name for field in level} - {path[0]} <= set(base.partition_by):
        raise InvalidOptionError(f'without "{path[0]}" only partition columns would be left; add another column first')
    fields = edited(list(base.schema), path, lambda fields, index: [*fields[:index], *fields[index + 1 :]])
    return evolved(fields, base.schema, base.last_id)


def rename_column(base: Base, old: Name, new: str) -> pa.Schema:
    """The schema with another name for one field, which stays the same column."""
    path = locate(base.schema, old)
    _check_is_named(base, path, "renamed")
    _check_no_role(base, path, "rename")
    if not isinstance(new, str):
        raise InvalidOptionError(f"new={new!r} is no name; give the last part of the path, as text")
    others = [field.name for field in paths.siblings(base.schema, path) if field.name != path[-1]]
    if new in others:
        raise InvalidOptionError(f'column "{shown((*path[:-1], new))}" is there already; choose another name')
    check_column_names([*others, new])
    return evolved(replaced(base.schema, path, lambda field: field.with_name(new)), base.schema, base.last_id)


def widen_column(base: Base, name: Name, type_: Any) -> pa.Schema:
    """The schema with a wider type for one field.

    It gets a new id if its old statistics would say something else of the new type.
    """
    path = locate(base.schema, name)
    field = field_at(base.schema, path)
    wide = canonical_schema(pa.schema([pa.field(path[-1], parsed_type(type_))])).field(0).type
    if wide != field.type and not widens(field.type, wide):
        raise TypeMismatchError(
            f'column "{shown(path)}" is {field.type} and cannot become {wide} without loss; it can become '
            f"{shown_wider_types(field.type)}"
        )
    if path[0] in base.partition_by and not keeps_keys(field.type, wide):
        raise InvalidOptionError(
            f'"{path[0]}" is a partition column; its values are spelt in folders and would be spelt differently as '
            f"{wide}: write the rows to a new table instead"
        )
    return set_type(base, path, wide)


def set_type(base: Base, path: Path, type_: pa.DataType) -> pa.Schema:
    """The schema with another type for one field; whether that is sound is for the caller to know."""
    last_id = base.last_id

    def change(field: pa.Field) -> pa.Field:
        nonlocal last_id
        new = retyped(field, type_)
        if keeps_keys(field.type, type_):
            return new
        last_id += 1
        return with_new_id(new, last_id)

    fields = replaced(base.schema, path, change)
    return evolved(fields, base.schema, last_id)


def reorder_columns(base: Base, names: Sequence[str], *, inside: Name | None = None) -> pa.Schema:
    """The schema with these fields first, in this order, and the others after them in theirs."""
    if isinstance(names, str):
        names = [names]
    wanted = list(names)
    if not wanted or len(set(wanted)) != len(wanted):
        raise InvalidOptionError(f"names={wanted!r} must name one column or several, none of them twice")
    above = () if inside is None else locate(base.schema, inside)
    if above and not pa.types.is_struct(field_at(base.schema, above).type):
        raise InvalidOptionError(f'inside="{shown(above)}" is no struct; only fields of structs have an order')
    path = (*above, wanted[0])
    level = paths.siblings(base.schema, path)
    places = [_place(level, path, name) for name in wanted]

    def order(fields: list[pa.Field], _index: int) -> list[pa.Field]:
        return [*(fields[i] for i in places), *(field for i, field in enumerate(fields) if i not in places)]

    return evolved(edited(list(base.schema), path, order), base.schema, base.last_id)


def set_nullable(base: Base, name: Name, nullable: bool) -> pa.Schema:
    """The schema with NULLs in one field allowed or not; that there are none is for the caller to prove."""
    path = locate(base.schema, name)
    if not isinstance(nullable, bool):
        raise InvalidOptionError(f"nullable={nullable!r} must be True or False")
    if len(path) > 1 and pa.types.is_map(field_at(base.schema, path[:-1]).type) and path[-1] == "key":
        raise InvalidOptionError(f'the keys of the map "{shown(path[:-1])}" are never NULL; there is nothing to set')
    return evolved(replaced(base.schema, path, lambda field: field.with_nullable(nullable)), base.schema, base.last_id)


def set_default(base: Base, name: Name, value: Any) -> pa.Schema:
    """The schema with another default for new rows; rows that are there keep what they hold."""
    path = locate(base.schema, name)
    _check_is_named(base, path, "given a default")
    default = default_value(value, field_at(base.schema, path).type, shown(path))
    fields = replaced(base.schema, path, lambda field: with_write_default(field, default))
    return evolved(fields, base.schema, base.last_id)


def default_value(value: Any, type_: pa.DataType, name: str) -> pa.Scalar | None:
    """The default as a scalar of the column's type; None for none."""
    if value is None:
        return None
    if pa.types.is_nested(type_):
        raise InvalidOptionError(
            f'column "{name}" is {type_}, and only plain columns have defaults; leave it out, and give defaults to the '
            "fields inside it"
        )
    try:
        found = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        scalar = found if found.type == type_ else _exactly(value, found, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeMismatchError(f'default={value!r} does not fit column "{name}" of type {type_}: {error}') from error
    return scalar if scalar.is_valid else None


def parsed_type(type_: Any) -> pa.DataType:
    """The type, given as one or by its name."""
    if isinstance(type_, pa.DataType):
        return type_
    try:
        return pa.type_for_alias(type_)
    except (ValueError, TypeError):
        raise InvalidOptionError(
            f'type={type_!r} is no type; give a pyarrow type such as pyarrow.int64(), or its name, such as "int64"'
        ) from None


def _exactly(value: Any, found: pa.Scalar, type_: pa.DataType) -> pa.Scalar:
    """A scalar of the type that stands for the same value; text is no number, nor is a truth value, nor time a date."""
    t = pa.types
    for kind in (t.is_string, t.is_boolean):
        if kind(found.type) != kind(type_):
            raise TypeError(f"{found.type} is no {type_}")
    if t.is_timestamp(found.type) and t.is_date(type_):
        raise TypeError("a date has no time of day")
    if t.is_timestamp(found.type) and t.is_timestamp(type_) and (found.type.tz is None) != (type_.tz is None):
        raise TypeError("one has a time zone and the other has not")
    if not isinstance(value, pa.Scalar) and t.is_decimal(type_):
        return pa.scalar(value, type_)
    return found.cast(type_)  # which loses nothing; pyarrow.scalar would cut 1.5 to 1


def _place(level: Sequence[pa.Field], path: Path, name: str) -> int:
    names = [field.name for field in level]
    if name not in names:
        raise column_not_found(shown((*path[:-1], name)), [shown((*path[:-1], other)) for other in names])
    return names.index(name)


def _check_is_named(base: Base, path: Path, verb: str) -> None:
    if not paths.is_field_of_struct(base.schema, path):
        raise InvalidOptionError(
            f'"{shown(path)}" stands for the elements of "{shown(path[:-1])}" and cannot be {verb}; change the whole '
            "column instead"
        )


def _check_no_role(base: Base, path: Path, verb: str) -> None:
    for role, names in (("a partition column", base.partition_by), ("a column that rows are sorted by", base.sort_by)):
        if path[0] in names:
            raise InvalidOptionError(
                f'cannot {verb} "{path[0]}": it is {role} of the table; write the rows to a new table that is laid '
                "out otherwise"
            )
