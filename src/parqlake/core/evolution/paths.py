"""Fields by path, such as `address.city` or `lines.element.price`: found, and changed with all around them kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from parqlake.core.errors import InputError, InvalidOptionError, column_not_found
from parqlake.core.evolution.marks import with_children
from parqlake.core.schema import children

Path = tuple[str, ...]
Edit = Callable[[list[pa.Field], int], list[pa.Field]]
"""Gets the fields of one level and the place of the one that is meant; returns the level as it is to be."""


def locate(schema: pa.Schema, name: str | Sequence[str]) -> Path:
    """The path of a column or of a field inside one; raises, with the closest name, if there is none.

    A name with dots that is no column by itself is taken apart at the dots. The elements of a list are called
    `element`, those of a map `key` and `value`.
    """
    error: Exception | None = None
    for path in _readings(name):
        if path[0] in schema.names:
            try:
                return _descended(schema, path)
            except InputError as found:
                error = error or found
    raise error or column_not_found(shown(_parts(name)), schema.names)


def locate_new(schema: pa.Schema, name: str | Sequence[str]) -> Path:
    """The path of a field that is to be added: all but its last part must be there, and be a struct."""
    path = _parts(name)
    if isinstance(name, str) and len(path) > 1:
        above = locate(schema, ".".join(path[:-1]))
        path = (*above, path[-1])
    if len(path) > 1 and not pa.types.is_struct(field_at(schema, path[:-1]).type):
        parent = field_at(schema, path[:-1])
        raise InvalidOptionError(
            f'"{".".join(path[:-1])}" is {parent.type}, which has no fields to add to; only structs have, '
            "those of a list are at …element, those of a map at …value"
        )
    return path


def field_at(schema: pa.Schema, path: Path) -> pa.Field:
    """The field at a path that was located."""
    level = list(schema)
    for part in path[:-1]:
        level = children(_named(level, part).type)
    return _named(level, path[-1])


def siblings(schema: pa.Schema, path: Path) -> list[pa.Field]:
    """The fields of the level that the path leads to."""
    return children(field_at(schema, path[:-1]).type) if len(path) > 1 else list(schema)


def edited(fields: Sequence[pa.Field], path: Path, edit: Edit) -> list[pa.Field]:
    """The fields with one level changed, and everything around it as it was."""
    level = list(fields)
    if len(path) == 1:
        index = next((i for i, field in enumerate(level) if field.name == path[0]), len(level))
        return edit(level, index)
    index = next(i for i, field in enumerate(level) if field.name == path[0])
    level[index] = with_children(level[index], edited(children(level[index].type), path[1:], edit))
    return level


def replaced(schema: pa.Schema, path: Path, change: Callable[[pa.Field], pa.Field]) -> list[pa.Field]:
    """The schema's fields with one field changed."""

    def edit(level: list[pa.Field], index: int) -> list[pa.Field]:
        return [*level[:index], change(level[index]), *level[index + 1 :]]

    return edited(list(schema), path, edit)


def is_field_of_struct(schema: pa.Schema, path: Path) -> bool:
    """Whether the path leads to a column or to a field of a struct, and not to the elements of a list or map."""
    return len(path) == 1 or pa.types.is_struct(field_at(schema, path[:-1]).type)


def shown(path: Sequence[str]) -> str:
    """A path as people write it."""
    return ".".join(path)


def _parts(name: str | Sequence[str]) -> Path:
    path = tuple(name.split(".")) if isinstance(name, str) else tuple(name)
    if not path or not all(isinstance(part, str) for part in path):
        raise InvalidOptionError(f"{name!r} names no column; give its name, or a path like address.city")
    return path


def _readings(name: str | Sequence[str]) -> Iterator[Path]:
    parts = _parts(name)
    if not isinstance(name, str):
        yield parts
        return
    for cut in range(len(parts), 0, -1):
        yield ".".join(parts[:cut]), *parts[cut:]


def _descended(schema: pa.Schema, path: Path) -> Path:
    level = list(schema)
    for number, part in enumerate(path):
        names = [field.name for field in level]
        above = "".join(f"{name}." for name in path[:number])
        if part not in names:
            if not names:
                raise InvalidOptionError(f'"{above[:-1]}" has no fields inside it, so there is no "{above}{part}"')
            raise column_not_found(f"{above}{part}", [f"{above}{name}" for name in names])
        level = children(_named(level, part).type)
    return path


def _named(level: Sequence[pa.Field], name: str) -> pa.Field:
    return next(field for field in level if field.name == name)
