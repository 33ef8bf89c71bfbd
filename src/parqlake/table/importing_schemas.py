"""One schema for files of several, and how each kind of file is stored under it.

Files come without field ids: names say which columns are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from parqlake.core.errors import (
    ConstraintError,
    InputError,
    InvalidOptionError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsupportedTypeError,
)
from parqlake.core.evolution.by_name import matched, plain_type
from parqlake.core.evolution.changes import Base
from parqlake.core.evolution.marks import evolved, last_field_id, with_value_in_path
from parqlake.core.evolution.projection import Projection
from parqlake.core.evolution.types import keeps_keys
from parqlake.core.evolution.write_modes import SchemaMode, merge_schemas
from parqlake.core.hive import inferred_type
from parqlake.core.keys import Round, has_bytes_keys, scalar_key
from parqlake.core.model import ColumnStatistics, DataFile
from parqlake.core.pages import KEY_BYTES, MAX_BYTES, MAX_KEY, unknown_statistics
from parqlake.core.partitioning import parse_partition_text, partition_text
from parqlake.core.schema import (
    assign_field_ids,
    canonical_schema,
    check_partition_columns,
    children,
    leaves,
    max_field_id,
    without_ids,
)
from parqlake.table.importing_footers import Footer

_SHORTEST_TIME = len("12:30:00")


@dataclass(frozen=True, slots=True)
class Adopted:
    """The table that the files make up."""

    schema: pa.Schema
    """With field ids."""
    partition_by: tuple[str, ...]
    files: tuple[DataFile, ...]


def adopt(footers: Sequence[Footer], schema: pa.Schema | None, partition_by: Sequence[str] | None) -> Adopted:
    """Makes one table of the files, or raises with the file that does not fit; pure.

    Args:
        footers: of all files, at least one.
        schema: the table's columns, if the caller says; else what holds all files' values.
        partition_by: which folder names are columns; all if left out.
    """
    folders = _partition_columns(footers, partition_by)
    kinds: dict[int, Footer] = {}
    for footer in footers:
        kinds.setdefault(id(footer.schema), footer)
    first = list(kinds.values())
    plain = _merged(first) if schema is None else _given(schema, first, folders)
    types = {name: _partition_type(name, footers, plain, schema) for name in folders}
    fields = [field for field in plain if field.name not in types]
    if schema is None:  # partition columns come last, as folders have them
        fields += [pa.field(name, type_) for name, type_ in types.items()]
    else:
        fields = list(plain)
    table = assign_field_ids(canonical_schema(pa.schema(fields)))
    check_partition_columns(tuple(types), table)
    known = {number: _kind(footer, table, types) for number, footer in kinds.items()}
    if any(kind.stored_as is not None for kind in known.values()):
        table = evolved(list(table), table, max_field_id(table))
    files = [_file(footer, known[id(footer.schema)]) for footer in footers if footer.file.row_count]
    _check_not_null(files, table)
    return Adopted(table, tuple(types), tuple(files))


# ------------------------------------------------------------------------------------------------ partitions


def _partition_columns(footers: Sequence[Footer], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that folders name, the same for all files."""
    if isinstance(wanted, str):
        wanted = [wanted]
    first = footers[0]
    for footer in footers:
        if wanted is None and list(footer.folders) != list(first.folders):
            raise SchemaMismatchError(
                f'the folders of "{first.path}" name {_names(first.folders)}, those of "{footer.path}" name '
                f"{_names(footer.folders)}; import one layout at a time, or say which are columns with partition_by=[…]"
            )
        missing = [name for name in wanted or () if name not in footer.folders]
        if missing:
            raise InvalidOptionError(
                f'partition_by names "{missing[0]}", but no folder of "{footer.path}" says "{missing[0]}=…"; its '
                f"folders name {_names(footer.folders)}"
            )
    return tuple(first.folders if wanted is None else wanted)


def _partition_type(name: str, footers: Sequence[Footer], plain: pa.Schema, given: pa.Schema | None) -> pa.DataType:
    if name in plain.names:
        return plain.field(name).type
    assert given is None, name
    return inferred_type((footer.folders[name] for footer in footers), dates=True)


def _same_in_all(footer: Footer, column_id: int, value: pa.Scalar | None, *, as_bytes: bool) -> ColumnStatistics:
    """A column that no file holds: every row has the value of the folder, or NULL."""
    rows = footer.file.row_group_rows
    valid = value is not None and value.is_valid
    low: Any = MAX_BYTES if as_bytes else MAX_KEY
    high: Any = b"" if as_bytes else 0
    if valid:
        low, high = scalar_key(value, Round.DOWN), scalar_key(value, Round.UP)
    nulls = np.zeros_like(rows) if valid else rows.copy()
    if as_bytes:
        return ColumnStatistics(column_id, [low] * len(rows), [high] * len(rows), nulls)
    mins, maxs = (np.full(len(rows), key, dtype=np.uint64) for key in (low, high))
    return ColumnStatistics(column_id, mins, maxs, nulls)


def _check_partition(footer: Footer, name: str, value: pa.Scalar, found: ColumnStatistics) -> None:
    """A column that stands in the folder and in the file must be the same, as statistics show; else nobody knows."""
    wanted = _same_in_all(footer, 0, value, as_bytes=isinstance(found.mins, list))
    same = list(found.mins) == list(wanted.mins) and list(found.maxs) == list(wanted.maxs)
    same = same and bool(np.array_equal(found.nulls, wanted.nulls))
    exact = not (value.is_valid and isinstance(found.mins, list)) or len(wanted.mins[0]) < KEY_BYTES
    if len(found.mins) and not (same and exact):
        raise SchemaMismatchError(
            f'"{footer.path}" has a column "{name}" of its own, and its statistics do not show that all its values are '
            f"{footer.folders[name]!r}, as its folder says; leave it out of partition_by=[…] to take the file's values"
        )


# ------------------------------------------------------------------------------------------------ schemas


def _merged(kinds: Sequence[Footer]) -> pa.Schema:
    """The schema that holds the values of all files: columns are added, and widened where that loses nothing."""
    base: Base | None = None
    sources: dict[str, str] = {}
    for footer in kinds:
        sources |= {name: footer.path for name in footer.schema.names if name not in sources}
        known = pa.schema([field for field in footer.schema if not _is_unknown(field.type)])
        base = _with(base, known, footer, sources)
    for footer in kinds:  # columns of NULLs take the type that other files give them
        base = _with(base, footer.schema, footer, sources)
    assert base is not None
    made = without_ids(base.schema)
    return pa.schema([made.field(name) for name in sources])


def _with(base: Base | None, data: pa.Schema, footer: Footer, sources: dict[str, str]) -> Base | None:
    if not len(data):
        return base
    try:
        if base is None:
            numbered = assign_field_ids(canonical_schema(data))
            made = Base(numbered, max_field_id(numbered))
        else:
            merged = merge_schemas(data, base, SchemaMode.PROMOTE)
            if merged.texts:
                raise TypeMismatchError(
                    f"no type but text holds the values of column {', '.join(merged.texts)} and these"
                )
            made = Base(merged.schema, max(base.last_id, last_field_id(merged.schema)))
    except (InputError, UnsupportedTypeError) as error:
        clash = next((sources[name] for name in sources if name in data.names and f'"{name}"' in str(error)), None)
        beside = f' and "{clash}"' if clash else ""
        raise type(error)(
            f'the columns of "{footer.path}"{beside} do not make one table: {error}\nnothing was imported; give the '
            "types with schema=…, or import files of one kind at a time"
        ) from error
    return made


def _given(schema: pa.Schema, kinds: Sequence[Footer], folders: Sequence[str]) -> pa.Schema:
    """The caller's schema, found to hold the values of all files."""
    wanted = canonical_schema(schema)
    numbered = assign_field_ids(pa.schema([field.with_nullable(True) for field in wanted]))
    unknown = [name for name in folders if name not in wanted.names]
    if unknown:
        raise SchemaMismatchError(
            f'the folders of "{kinds[0].path}" name a column "{unknown[0]}" that schema=… lacks; add it, or leave it '
            "out with partition_by=[…]"
        )
    for footer in kinds:
        extra = [name for name in footer.schema.names if name not in wanted.names]
        if extra:
            raise SchemaMismatchError(f'"{footer.path}" has a column "{extra[0]}" that schema=… lacks; add it')
        try:
            merged = merge_schemas(footer.schema, Base(numbered, max_field_id(numbered)), SchemaMode.PROMOTE)
        except InputError as error:
            raise type(error)(f'"{footer.path}" does not fit schema=…: {error}') from error
        for before, after in zip(numbered, merged.schema, strict=True):
            if before.type != after.type:
                have = footer.schema.field(before.name).type
                raise TypeMismatchError(
                    f'column "{before.name}" of "{footer.path}" is {have}, which {before.type} does not hold (type '
                    "mismatch); give a wider type in schema=…"
                )
    return wanted


def _stored(footer: Footer, table: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """The schema of files of one kind, with the table's field ids; and which columns only their folders hold."""
    fields = [matched(field, table.field(field.name)) for field in footer.schema]
    for mine, own in zip(leaves(pa.schema(fields)), leaves(footer.schema), strict=True):
        wanted = next(leaf for leaf in leaves(table) if leaf.field_id == mine.field_id)
        if None not in (units := (_unit(wanted.type), _unit(own.type))) and units[0] != units[1]:
            raise TypeMismatchError(
                f'column "{".".join(own.path)}" of "{footer.path}" is {own.type}, and elsewhere {wanted.type}: neither '
                "holds all values of the other (type mismatch); import files of one unit, or append() the path"
            )
    held = set(footer.schema.names)
    fields += [with_value_in_path(table.field(name)) for name in partition_by if name not in held]
    return pa.schema(fields)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is worked out once for all files that have the same columns."""

    stored_as: pa.Schema | None
    """None: as the table's schema says."""
    leaves: tuple[tuple[int, bool, bool, bool], ...]
    """Of each leaf of the file: its id, whether its keys are the table's, if those are bytes, and if all is NULL."""
    absent: tuple[tuple[int, pa.DataType, bool], ...]
    """Of each leaf that the file lacks: its id, its type, and whether it is NULL in every row, or just unknown."""
    partitions: tuple[tuple[str, pa.DataType, int, bool], ...]
    """Of each partition column: its type, its id, and whether the file holds it too."""
    values: dict[tuple[str, str | None], pa.Scalar]
    """Partition values that were read already."""


def _kind(footer: Footer, table: pa.Schema, partitions: Mapping[str, pa.DataType]) -> _Kind:
    stored = _stored(footer, table, tuple(partitions))
    own, columns = leaves(footer.schema), leaves(table)
    types = {leaf.field_id: leaf.type for leaf in columns}
    held = []
    for leaf, column_id in zip(own, (leaf.field_id for leaf in leaves(stored)), strict=False):
        type_ = types[column_id]
        all_null = bool(pa.types.is_null(leaf.type)) and len(leaf.path) == 1
        keeps = not pa.types.is_null(leaf.type) and keeps_keys(plain_type(leaf.type), type_)
        held.append((column_id, keeps, has_bytes_keys(type_), all_null))
    ids = {name: leaves(pa.schema([table.field(name)]))[0].field_id for name in partitions}
    known = {column_id for column_id, *_ in held} | set(ids.values())
    return _Kind(
        stored_as=None if Projection(stored, table).is_identity else stored,
        leaves=tuple(held),
        absent=tuple((leaf.field_id, leaf.type, len(leaf.path) == 1) for leaf in columns if leaf.field_id not in known),
        partitions=tuple((name, type_, ids[name], name in footer.schema.names) for name, type_ in partitions.items()),
        values={},
    )


def _file(footer: Footer, kind: _Kind) -> DataFile:
    """The file as the catalog describes it: statistics under the table's ids, in the table's keys."""
    groups = len(footer.file.row_group_rows)
    statistics: dict[int, ColumnStatistics] = {}
    for (column_id, keeps, as_bytes, all_null), found in zip(kind.leaves, footer.file.statistics, strict=True):
        if all_null:
            statistics[column_id] = _same_in_all(footer, column_id, None, as_bytes=as_bytes)
        elif keeps and as_bytes == isinstance(found.mins, list):
            statistics[column_id] = ColumnStatistics(column_id, found.mins, found.maxs, found.nulls)
        else:
            unknown = unknown_statistics(column_id, groups, as_bytes=as_bytes)
            statistics[column_id] = replace(unknown, nulls=found.nulls)
    partition = {}
    for name, type_, column_id, is_held in kind.partitions:
        key = (name, footer.folders[name])
        value = kind.values.get(key)
        if value is None:
            value = kind.values[key] = _parsed(footer, name, type_)
        partition[name] = partition_text(value)
        if is_held:
            _check_partition(footer, name, value, statistics[column_id])
        else:
            statistics[column_id] = _same_in_all(footer, column_id, value, as_bytes=has_bytes_keys(type_))
    for column_id, type_, all_null in kind.absent:
        as_bytes = has_bytes_keys(type_)
        if all_null:
            statistics[column_id] = _same_in_all(footer, column_id, None, as_bytes=as_bytes)
        else:
            statistics[column_id] = unknown_statistics(column_id, groups, as_bytes=as_bytes)
    return replace(footer.file, statistics=tuple(statistics.values()), partition=partition, schema=kind.stored_as)


def _check_not_null(files: Sequence[DataFile], table: pa.Schema) -> None:
    for field in table:
        if field.nullable:
            continue
        column_id = leaves(pa.schema([field]))[0].field_id
        for file in files:
            nulls = next((s.nulls for s in file.statistics if s.column_id == column_id), np.array([-1]))
            if nulls.any():
                raise ConstraintError(
                    f'schema=… says that column "{field.name}" is NOT NULL, and the statistics of "{file.path[1:]}" do '
                    "not show that; let it take NULLs"
                )


def _parsed(footer: Footer, name: str, type_: pa.DataType) -> pa.Scalar:
    text = footer.folders[name]
    try:
        if text is not None and pa.types.is_temporal(type_) and len(text) < _SHORTEST_TIME:
            raise InputError(text)  # numpy takes "01" for a year
        return parse_partition_text(text, type_)
    except InputError:
        raise TypeMismatchError(
            f'the folder of "{footer.path}" says {name}={footer.folders[name]!r}, which is no {type_} (type mismatch); '
            "give another type with schema=…, or leave the column out of partition_by=[…]"
        ) from None


def _unit(type_: pa.DataType) -> str | None:
    return str(type_.unit) if pa.types.is_timestamp(type_) or pa.types.is_time(type_) else None


def _is_unknown(type_: pa.DataType) -> bool:
    """Whether a type, or one inside it, is that of a column without any value."""
    return bool(pa.types.is_null(type_)) or any(_is_unknown(child.type) for child in children(type_))


def _names(folders: Mapping[str, str | None]) -> str:
    return ", ".join(f'"{name}"' for name in folders) or "no column"
