"""The schema that the files of a dataset have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from parqlake.core.clustering.marks import MARK_KEY
from parqlake.core.errors import TypeMismatchError
from parqlake.core.hive import inferred_type, partition_values
from parqlake.core.merging.validation import plain_type

_OF_FILES = frozenset({MARK_KEY, b"ARROW:schema"})
"""Metadata that is true of one file only."""


def common_schema(schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """One schema for all files: every column that some file has, of a type that holds the values of each.

    Args:
        schemas: schema by path; the first says the order of columns.

    Raises:
        TypeMismatchError: two files have types for a column that do not go together.

    Example:
        >>> common_schema({"a": pa.schema({"x": pa.int32()}), "b": pa.schema({"x": pa.int64(), "y": pa.string()})})
        x: int64
        y: string
    """
    fields: dict[str, pa.Field] = {}
    origin: dict[str, str] = {}
    for path, schema in schemas.items():
        for field in schema:
            if field.name not in fields:
                fields[field.name], origin[field.name] = field, path
            elif not fields[field.name].equals(field):
                fields[field.name] = _merged(fields[field.name], field, origin[field.name], path)
    first = next(iter(schemas.values()))
    for schema in schemas.values():  # a column that a file lacks is NULL there
        for name in set(fields) - set(schema.names):
            fields[name] = fields[name].with_nullable(True)
    return pa.schema(list(fields.values()), metadata=_kept(first.metadata))


def dataset_schema(
    schemas: Mapping[str, pa.Schema], types: Mapping[str, pa.DataType] | None = None
) -> tuple[pa.Schema, tuple[str, ...]]:
    """The schema of a dataset with its partition columns, and their names, outermost first.

    Args:
        schemas: the files' schemas by their paths in the dataset.
        types: types of partition columns that no file holds, where they are known; others are inferred.
    """
    schema = common_schema(schemas)
    texts: dict[str, list[str | None]] = {}
    for path in schemas:
        for name, text in partition_values(path).items():
            texts.setdefault(name, []).append(text)
    for name, found in texts.items():
        if name not in schema.names:
            known = (types or {}).get(name)
            schema = schema.append(pa.field(name, plain_type(known) if known is not None else inferred_type(found)))
    return schema, tuple(texts)


def comparable(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """What tells files apart that cannot be put together: columns and types, however they are encoded or ordered.

    Example:
        >>> comparable(pa.schema({"a": pa.large_string()})) == comparable(pa.schema({"a": pa.string()}))
        True
    """
    return tuple(sorted((field.name, _spelled(field.type)) for field in schema))


def _spelled(type_: pa.DataType) -> str:
    plain = plain_type(type_)
    if pa.types.is_large_string(plain) or pa.types.is_string_view(plain):
        return "string"
    if pa.types.is_large_binary(plain) or pa.types.is_binary_view(plain):
        return "binary"
    return str(plain)


def _merged(one: pa.Field, other: pa.Field, path: str, other_path: str) -> pa.Field:
    nullable = one.nullable or other.nullable
    if one.type == other.type:
        return one.with_nullable(nullable)
    types: Sequence[pa.DataType] = [plain_type(one.type), plain_type(other.type)]
    try:
        unified = pa.unify_schemas([pa.schema({"x": type_}) for type_ in types], promote_options="permissive")
        found = unified.field(0).type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        found = None
    # Whole numbers as floats would lose digits.
    if found is None or (pa.types.is_floating(found) and any(pa.types.is_integer(type_) for type_ in types)):
        raise TypeMismatchError(
            f'type mismatch: column "{one.name}" is {one.type} in "{path}" and {other.type} in "{other_path}"; '
            "write one of the files anew with the type of the other"
        )
    return pa.field(one.name, found, nullable, metadata=one.metadata)


def _kept(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    return {key: value for key, value in (metadata or {}).items() if key not in _OF_FILES} or None
