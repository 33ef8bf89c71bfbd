"""Changing rows: which rows, which columns, and what they are set to. Pure; whoever has a batch can apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import (
    ConstraintError,
    InvalidOptionError,
    InvalidPredicateError,
    TypeMismatchError,
    column_not_found,
)
from parqlake.core.evolution.constraints import check_rows
from parqlake.core.model import DataFile
from parqlake.core.ports import Engine, ReadPlan, Store, WriteSpec
from parqlake.core.predicates.evaluate import is_true, value_of
from parqlake.core.predicates.expressions import bind_expression
from parqlake.core.predicates.literals import shown
from parqlake.core.predicates.tree import Expr, Literal, Predicate
from parqlake.core.predicates.value_types import common_type, is_float, is_number, type_of


class ChangingEngine(Engine, Protocol):
    """An engine that changes rows on the way from old files to new ones."""

    def rewrite_changed(self, plan: ReadPlan, change: RowChange, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Reads what the plan names, applies the change, and writes the rows by the spec, streaming."""


_MISFITS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True, slots=True)
class RowChange:
    """Sets columns of the rows for which the predicate is TRUE; all values are computed from the row as it was."""

    predicate: Predicate
    """Bound."""
    values: tuple[tuple[str, Expr], ...]
    """Columns and what they are set to, bound."""
    schema: pa.Schema
    """Of the table, with its constraints."""

    def reader(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """The rows after the change, as a stream."""
        return pa.RecordBatchReader.from_batches(rows.schema, self._changed(rows))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch after the change.

        Raises:
            TypeMismatchError: a value does not fit its column.
            ConstraintError: a NOT NULL column would be NULL, or a check would be broken.
            InvalidPredicateError: a value cannot be computed, an overflow for instance.
        """
        places = np.flatnonzero(is_true(batch, self.predicate))
        if not len(places):
            return batch
        whole = len(places) == batch.num_rows
        chosen = batch if whole else batch.take(pa.array(places))
        taken = np.arange(batch.num_rows)
        taken[places] = batch.num_rows + np.arange(len(places))
        columns, changed = list(batch.columns), list(chosen.columns)
        for name, value in self.values:
            index = batch.schema.get_field_index(name)
            new = _fitted(_computed(chosen, name, value), batch.schema.field(index))
            changed[index] = new
            columns[index] = new if whole else pa.concat_arrays([columns[index], new]).take(pa.array(taken))
        check_rows(pa.RecordBatch.from_arrays(changed, names=batch.schema.names), self.schema)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _changed(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield self.apply(batch)


def row_change(assignments: Any, predicate: Predicate, schema: pa.Schema) -> RowChange:
    """Makes a change of the rows that the bound predicate selects, or raises for one that cannot be made.

    Args:
        assignments: column names to SQL values such as `"price * 1.1"`, or to Python or Arrow values.
        predicate: bound.
        schema: of the table.

    Raises:
        ColumnNotFoundError: a column is not there.
        InvalidPredicateError: a value is not understood, or its column cannot hold the constant.
        TypeMismatchError: a column cannot hold values of that type.
        ConstraintError: NULL for a NOT NULL column.
    """
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidOptionError(
            f'set={assignments!r} names no column; give for instance set={{"price": "price * 1.1", "note": None}}'
        )
    values = []
    for name, value in assignments.items():
        if name not in schema.names:
            raise column_not_found(str(name), schema.names)
        values.append((name, _bound_value(value, schema.field(name), schema)))
    return RowChange(predicate, tuple(values), schema)


def _bound_value(value: Any, field: pa.Field, schema: pa.Schema) -> Expr:
    if isinstance(value, str):
        from parqlake.core.predicates.sql import parse_value  # here, so that sqlglot is loaded only for SQL text

        bound = bind_expression(parse_value(value), schema, target=field)
    elif pa.types.is_nested(field.type):
        bound = _nested_constant(value, field)
    else:
        bound = bind_expression(Literal(value), schema, target=field)
    if isinstance(bound, Literal) and bound.scalar is not None and not bound.scalar.is_valid and not field.nullable:
        raise ConstraintError(f'column "{field.name}" is NOT NULL and cannot be set to NULL; give a value')
    have = type_of(bound)
    if not _assignable(have, field.type):
        raise TypeMismatchError(
            f'column "{field.name}" is {field.type} and cannot be set to {shown(value)}, which is {have}; '
            "use a value of the column's kind"
        )
    return bound


def _nested_constant(value: Any, field: pa.Field) -> Literal:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        return Literal(plain, pa.scalar(plain, field.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeMismatchError(
            f'column "{field.name}" is {field.type} and cannot be set to {shown(value)}: {error}'
        ) from error


def _assignable(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values of one type can go to a column of the other, if they fit."""
    if have == want or pa.types.is_null(have):
        return True
    if is_number(have) and is_number(want):
        return True
    if pa.types.is_timestamp(have) and not pa.types.is_timestamp(want):
        return False  # to a date: the time of day would go without a word
    return common_type(have, want) is not None


def _computed(rows: pa.RecordBatch, name: str, value: Expr) -> pa.Array:
    if isinstance(value, Literal):
        return pa.repeat(value.scalar, rows.num_rows)
    try:
        return value_of(rows, value)
    except pa.ArrowException as error:
        raise InvalidPredicateError(f'column "{name}": its new value cannot be computed: {error}') from error


def _fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    """The values as the column holds them: decimals and floats rounded as SQL does, all else exact."""
    if column.type != field.type:
        cast = _cast_to(column.type, field.type)
        try:
            column = cast(column)
        except _MISFITS as error:
            raise TypeMismatchError(
                f'column "{field.name}": the value {shown(_first_misfit(column, cast))} does not fit {field.type}; '
                "use an expression whose values fit, or widen the column"
            ) from error
    return column


def _cast_to(have: pa.DataType, want: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_decimal(want) and pa.types.is_decimal(have):
        return lambda column: pc.cast(pc.round(column, want.scale, "half_towards_infinity"), want)
    if is_float(want) and pa.types.is_decimal(have):  # Arrow's direct cast is often off in the last bit
        return lambda column: column.cast(pa.string()).cast(want)
    if is_float(want):
        return lambda column: _finite(column, pc.cast(column, want, safe=False))
    return lambda column: pc.cast(column, want, safe=True)


def _finite(before: pa.Array, after: pa.Array) -> pa.Array:
    """Raises if a number was too great for the narrower float."""
    lost = pc.is_inf(after) if not is_float(before.type) else pc.and_not(pc.is_inf(after), pc.is_inf(before))
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid("a number beyond the range of the type")
    return after


def _first_misfit(column: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> Any:
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(column.slice(low, middle - low))
            low = middle
        except _MISFITS:
            high = middle
    return column[low].as_py()
