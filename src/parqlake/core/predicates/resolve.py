"""Names in predicates are looked up in a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError, column_not_found
from parqlake.core.predicates.tree import Column
from parqlake.core.schema import field_id

_SHOWN = 200


def resolve(column: Column, schema: pa.Schema) -> Column:
    """The column with its exact path, its id and its type.

    A name is looked for as it is written, then in any case if that fits one column only. A name with dots that is no
    column by itself is taken apart: `a.b` is then the field b of the struct a.

    Raises:
        ColumnNotFoundError: there is no such column or field; the message names the closest.
        InvalidPredicateError: the path leads into something that is no struct.
    """
    for path in _readings(column.path):
        found = _field(path[0], list(schema))
        if found is not None:
            return _descend(found, path)
    name = column.name
    raise column_not_found(name if len(name) <= _SHOWN else name[:_SHOWN] + "…", schema.names)


def _readings(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The path as given; if that is one dotted name, also cut at its dots, the longest first name first."""
    yield path
    if len(path) == 1:
        parts = path[0].split(".")
        for cut in range(len(parts) - 1, 0, -1):
            yield ".".join(parts[:cut]), *parts[cut:]


def _descend(field: pa.Field, path: tuple[str, ...]) -> Column:
    exact = [field.name]
    for name in path[1:]:
        above = ".".join(exact)
        if not pa.types.is_struct(field.type):
            elements = "; conditions on the elements of lists and maps are not possible"
            hint = elements if pa.types.is_nested(field.type) else ""
            raise InvalidPredicateError(f'column "{above}" is {field.type} and has no field "{name}"{hint}')
        children = list(field.type)
        found = _field(name, children)
        if found is None:
            raise column_not_found(f"{above}.{name}", [f"{above}.{child.name}" for child in children])
        field = found
        exact.append(field.name)
    number = field_id(field)
    return Column(tuple(exact), None if number < 0 else number, field.type)


def _field(name: str, fields: Sequence[pa.Field]) -> pa.Field | None:
    for field in fields:
        if field.name == name:
            return field
    folded = name.casefold()
    similar = [field for field in fields if field.name.casefold() == folded]
    return similar[0] if len(similar) == 1 else None
