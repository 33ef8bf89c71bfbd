"""What a write may do to the schema: nothing, add columns, or also widen them and make them text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, SchemaMismatchError, TypeMismatchError, UnsupportedTypeError
from parqlake.core.evolution.by_name import plain_type
from parqlake.core.evolution.changes import Base, add_column, set_type
from parqlake.core.evolution.constraints import check_conditions_hold
from parqlake.core.evolution.marks import last_field_id, write_default
from parqlake.core.evolution.paths import Path, shown
from parqlake.core.evolution.types import becomes_text, common_type, keeps_keys
from parqlake.core.names import check_column_names
from parqlake.core.schema import children, same_kind


class SchemaMode(StrEnum):
    """How data whose columns are not the table's is written."""

    STRICT = "strict"
    MERGE = "merge"
    PROMOTE = "promote"


def schema_mode(value: Any) -> SchemaMode:
    """The mode that an option names."""
    try:
        return SchemaMode.STRICT if value is None else SchemaMode(value)
    except ValueError:
        known = ", ".join(f'"{mode}"' for mode in SchemaMode)
        raise InvalidOptionError(f"schema_mode={value!r} is unknown; use one of {known}") from None


@dataclass(frozen=True, slots=True)
class Merged:
    """The schema that holds the table's rows and the data's."""

    schema: pa.Schema
    is_new: bool
    texts: tuple[str, ...]
    """Columns that became text, since nothing else holds the old values and the new ones; with what they were."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What one field of the data asks of the schema."""

    path: Path
    add: pa.Field | None = None
    become: pa.DataType | None = None
    was: pa.DataType | None = None
    wrong: str | None = None
    is_type: bool = False


def merge_schemas(data: pa.Schema, base: Base, mode: SchemaMode) -> Merged:
    """The schema after a write of such data; raises, with every difference, if the mode does not allow it.

    New columns take NULLs whatever the data says, since old rows have no value. A column that the data lacks must
    have a default or take NULLs.
    """
    repeated = sorted({name for name in data.names if data.names.count(name) > 1})
    if repeated:
        raise SchemaMismatchError(f'Schema mismatch: the data has column "{repeated[0]}" twice; rename one of them')
    steps = list(_steps(list(data), list(base.schema), (), base, mode))
    _raise_wrong(steps, mode)
    now = base
    for step in steps:
        if step.add is not None:
            new = add_column(now, step.path, step.add.type)
        else:
            assert step.become is not None
            new = set_type(now, step.path, step.become)
        now = replace(now, schema=new, last_id=last_field_id(new))
    if steps:
        check_conditions_hold(now.schema)
    texts = tuple(
        f'"{shown(step.path)}" ({step.was})'
        for step in steps
        if step.become is not None and pa.types.is_string(step.become)
    )
    return Merged(now.schema, bool(steps), texts)


def _steps(data: list[pa.Field], table: list[pa.Field], above: Path, base: Base, mode: SchemaMode) -> Iterator[_Step]:
    by_name = {field.name: field for field in table}
    check_column_names([*by_name, *(field.name for field in data if field.name not in by_name)])
    given = {field.name for field in data}
    for field in table:
        if field.name not in given and not field.nullable and write_default(field) is None:
            path = (*above, field.name)
            yield _Step(path, wrong=f'"{shown(path)}": missing in the data, and NOT NULL without a default')
    for field in data:
        path = (*above, field.name)
        try:
            type_ = plain_type(field.type)
        except UnsupportedTypeError as error:
            yield _Step(path, wrong=str(error))
            continue
        if field.name in by_name:
            yield from _known(type_, by_name[field.name], path, base, mode)
        elif pa.types.is_null(type_):
            yield _Step(
                path, wrong=f'"{shown(path)}": not in the table, and without a value there is no telling its type'
            )
        else:
            yield _Step(path, add=pa.field(field.name, type_))


def _known(type_: pa.DataType, field: pa.Field, path: Path, base: Base, mode: SchemaMode) -> Iterator[_Step]:
    have, want = type_, field.type
    if same_kind(have, want):
        return
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        yield from _steps(list(have), list(want), path, base, mode)
    elif (pa.types.is_list(have) and pa.types.is_list(want)) or (pa.types.is_map(have) and pa.types.is_map(want)):
        for inner, child in zip(children(have), children(want), strict=True):
            yield from _known(inner.type, child, (*path, child.name), base, mode)
    else:
        yield from _promoted(have, field, path, base, mode)


def _promoted(have: pa.DataType, field: pa.Field, path: Path, base: Base, mode: SchemaMode) -> Iterator[_Step]:
    want = field.type
    wrong = _Step(
        path, wrong=f'"{shown(path)}": the table has {want}, the data has {have} (type mismatch)', is_type=True
    )
    if mode is not SchemaMode.PROMOTE:
        yield wrong
        return
    found = common_type(want, have)
    if found is None and becomes_text(want) and becomes_text(have):
        found = pa.string()
    if found is None or (path[0] in base.partition_by and not keeps_keys(want, found)):
        yield wrong
    elif found != want:
        yield _Step(path, become=found, was=want)


def _raise_wrong(steps: list[_Step], mode: SchemaMode) -> None:
    wrong = [step for step in steps if step.wrong is not None]
    if not wrong:
        return
    lines = "\n".join(f"  {step.wrong}" for step in wrong)
    hint = 'cast these columns, or let the table follow with schema_mode="promote"'
    if mode is SchemaMode.PROMOTE or not all(step.is_type for step in wrong):
        hint = "select, add or cast columns so that they can be merged"
    kind = TypeMismatchError if all(step.is_type for step in wrong) else SchemaMismatchError
    raise kind(f'Schema mismatch that schema_mode="{mode}" does not mend:\n{lines}\n{hint}, then write again')
