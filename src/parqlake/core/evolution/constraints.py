"""Constraints: NOT NULL and CHECK, which every row of every write has to meet.

Checks are kept in the schema's own metadata, so that a version has the checks it was written under. As in SQL, a row
breaks a check for which the condition is FALSE; unknown is no breach.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import ConstraintError, InputError, InvalidOptionError, suggestion
from parqlake.core.evolution.marks import evolved, last_field_id
from parqlake.core.evolution.projection import mask, offsets
from parqlake.core.names import check_column_names
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import Constant, Not, Predicate
from parqlake.core.schema import children

SHOWN_ROWS = 5
_CHECKS = b"parqlake:checks"
_SHOWN_TEXT = 200


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that rows have to meet."""

    name: str
    text: str
    breach: Predicate
    """Bound; TRUE for the rows that break the check."""


def checks_of(schema: pa.Schema) -> dict[str, str]:
    """The checks of a schema, by name, as SQL."""
    found: dict[str, str] = json.loads((schema.metadata or {}).get(_CHECKS, b"{}"))
    return found


def with_checks(schema: pa.Schema, checks: Mapping[str, str]) -> pa.Schema:
    """The schema with exactly these checks."""
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != _CHECKS}
    if checks:
        metadata[_CHECKS] = json.dumps(dict(checks)).encode()
    return schema.with_metadata(metadata or None)


def checked_schema(schema: pa.Schema, checks: Mapping[str, Any]) -> pa.Schema:
    """The schema of a new table with its checks; raises for those that cannot be."""
    if not isinstance(checks, Mapping):
        raise InvalidOptionError(f'checks={checks!r} is no mapping; give for instance {{"positive": "amount >= 0"}}')
    for name, condition in checks.items():
        _check_name(name)
        bound_check(name, condition, schema)
    return with_checks(schema, checks)


def add_check(schema: pa.Schema, name: str, condition: Any) -> pa.Schema:
    """The schema with one more check; whether rows that are there meet it is for the caller to find out."""
    known = checks_of(schema)
    _check_name(name)
    if name in known:
        raise InvalidOptionError(f'check "{name}" is there already ({known[name]}); drop it first, or choose a name')
    bound_check(name, condition, schema)
    return with_checks(evolved(list(schema), schema, last_field_id(schema)), {**known, name: condition})


def drop_check(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema without one check."""
    known = checks_of(schema)
    if name not in known:
        shown = ", ".join(known) or "none"
        raise InvalidOptionError(f'no check "{name}";{suggestion(str(name), known)} checks: {shown}')
    left = {other: text for other, text in known.items() if other != name}
    return with_checks(evolved(list(schema), schema, last_field_id(schema)), left)


def bound_check(name: str, condition: Any, schema: pa.Schema) -> Check:
    """The check for rows of this schema; raises if the condition cannot be read or does not fit the columns."""
    if not isinstance(condition, str):
        raise InvalidOptionError(
            f'check "{name}" is a {type(condition).__name__}; give the condition as SQL text, such as "amount >= 0"'
        )
    breach = bind(Not(parse(condition)), schema)
    if isinstance(breach, Constant):
        raise InvalidOptionError(f'check "{name}": {condition!r} is the same for every row; name a column in it')
    return Check(name, condition, breach)


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidOptionError(f"check name {name!r} is a {type(name).__name__}; give a short text")
    check_column_names([name])


def check_conditions_hold(schema: pa.Schema) -> None:
    """Raises if a check of the schema speaks of a column that it has not, or that is of a type it cannot be about."""
    for name, text in checks_of(schema).items():
        try:
            bound_check(name, text, schema)
        except InputError as error:
            raise InvalidOptionError(
                f'the check "{name}" ({text}) uses this column: {error}; drop_check("{name}") first, and add it again'
            ) from error


def check_rows(rows: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raises `ConstraintError`, with up to five of the rows, if some break NOT NULL or a check of the schema.

    The rows have the columns of the schema, in its order and of its types.
    """
    for index, field in enumerate(schema):
        if holds_not_null(field):
            for path, missing in _missing(rows.column(index), field, (field.name,)):
                count = pc.sum(missing).as_py()
                raise ConstraintError(
                    f'column "{".".join(path)}" is NOT NULL, and {count} row(s) of the data have no value; '
                    f"fill or filter them, then write again\n{shown_rows(rows.filter(missing))}"
                )
    for name, text, expression in _expressions(schema):
        broken = pa.Table.from_batches([rows]).filter(expression)
        if broken.num_rows:
            raise ConstraintError(
                f'{broken.num_rows} row(s) of the data break the check "{name}" ({text}); '
                f"mend or filter them, then write again\n{shown_rows(broken)}"
            )


def shown_rows(rows: pa.RecordBatch | pa.Table) -> str:
    """Up to five rows, one a line, cut to a readable length."""
    lines = []
    for row in rows.slice(0, SHOWN_ROWS).to_pylist():
        text = ", ".join(f"{name}={value!r}" for name, value in row.items())
        lines.append("  " + (text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "…"))
    more = rows.num_rows - len(lines)
    return "\n".join([*lines, f"  … and {more} more"] if more > 0 else lines)


def _expressions(schema: pa.Schema) -> list[tuple[str, str, Any]]:
    text = (schema.metadata or {}).get(_CHECKS)
    return [] if text is None else _bound_expressions(schema, text)


@functools.lru_cache(maxsize=64)
def _bound_expressions(schema: pa.Schema, text: bytes) -> list[tuple[str, str, Any]]:
    found = [bound_check(name, condition, schema) for name, condition in json.loads(text).items()]
    return [(check.name, check.text, to_arrow(check.breach)) for check in found]


def holds_not_null(field: pa.Field) -> bool:
    """Whether NULLs are forbidden in the field or inside it; the keys of maps need no look."""
    inner = children(field.type)
    return not field.nullable or any(
        holds_not_null(child) for child in (inner[1:] if pa.types.is_map(field.type) else inner)
    )


def _missing(array: pa.Array, field: pa.Field, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    """Paths of NOT NULL fields that hold NULLs, each with a mask of the rows that do."""
    if not field.nullable and array.null_count:
        yield path, array.is_null()
    type_ = field.type
    if not any(holds_not_null(child) for child in children(type_)):
        return
    if pa.types.is_struct(type_):
        for number, child in enumerate(type_):
            for found, missing in _missing(array.field(number), child, (*path, child.name)):
                inside = pc.and_(missing, array.is_valid())
                if pc.any(inside).as_py():
                    yield found, inside
    else:
        lists, child = (_entries(array), type_.item_field) if pa.types.is_map(type_) else (array, type_.value_field)
        values = lists.flatten()
        inner = values.field(1) if pa.types.is_map(type_) else values
        for found, missing in _missing(inner, child, (*path, child.name)):
            rows = set(pc.list_parent_indices(lists).filter(missing).to_pylist())
            yield found, pa.array([row in rows for row in range(len(array))])


def _entries(array: pa.MapArray) -> pa.ListArray:
    """A map as the list of its entries."""
    pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return pa.ListArray.from_arrays(offsets(array), pairs, mask=mask(array))
