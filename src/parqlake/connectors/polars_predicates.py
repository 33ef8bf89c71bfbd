"""Polars' conditions as predicates of ours, as far as both are sure to mean the same.

What is not understood is left to Polars, which filters the rows anyhow: a condition that is left out prunes less, and
never changes the result. Conditions are read from the form that Polars itself writes them to.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parqlake.core.errors import ParqlakeError
from parqlake.core.predicates import bind, builders
from parqlake.core.predicates.resolve import resolve
from parqlake.core.predicates.tree import (
    TRUE,
    Column,
    CompareOp,
    Expr,
    In,
    IsNaN,
    IsNull,
    Literal,
    Not,
    Predicate,
)

_COMPARISONS = {
    "Eq": CompareOp.EQ,
    "NotEq": CompareOp.NE,
    "Lt": CompareOp.LT,
    "LtEq": CompareOp.LE,
    "Gt": CompareOp.GT,
    "GtEq": CompareOp.GE,
}
_ENDS = {
    "Both": (CompareOp.GE, CompareOp.LE),
    "Left": (CompareOp.GE, CompareOp.LT),
    "Right": (CompareOp.GT, CompareOp.LE),
    "None": (CompareOp.GT, CompareOp.LT),
}
_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}


class _Unknown(Exception):  # noqa: N818 (not an error: Polars does it)
    """A part that is left to Polars."""


def pushed_predicate(expression: Any, schema: pa.Schema) -> Predicate:
    """What can be said of the expression in our language: TRUE wherever the expression is.

    Args:
        expression: a `polars.Expr`, such as an IO source is given.
        schema: the columns that it is about.
    """
    try:
        form = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # whatever Polars cannot write down, such as Python functions, it has to compute itself
        return TRUE
    return _Reader(schema).part(form)


class _Reader:
    """Reads forms of expressions over one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def part(self, form: Any) -> Predicate:
        """The conditions that are all required, as many of them as are understood."""
        match form:
            case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
                return builders.all_of((self.part(left), self.part(right)))
        try:
            found = self.whole(form)
            bind(found, self._schema)
        except (_Unknown, ParqlakeError, pa.ArrowException, ValueError, TypeError, KeyError, IndexError):
            return TRUE
        return found

    def whole(self, form: Any) -> Predicate:
        """The condition, all of it; `_Unknown` if a part is not understood."""
        match form:
            case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
                return builders.all_of((self.whole(left), self.whole(right)))
            case {"BinaryExpr": {"op": "Or", "left": left, "right": right}}:
                return builders.any_of((self.whole(left), self.whole(right)))
            case {"BinaryExpr": {"op": str(op), "left": left, "right": right}} if op in _COMPARISONS:
                return self._comparison(_COMPARISONS[op], left, right)
            case {"Function": {"input": list(inputs), "function": {"Boolean": function} | {"Sql": function}}}:
                return self._boolean(function, inputs)
            case {"Function": {"input": [value, prefix], "function": {"StringExpr": "StartsWith"}}}:
                column = self._column(value)
                return builders.starts_with(column, self._literal(prefix, column))
        column = self._column(form)
        if not pa.types.is_boolean(self._type(column)):
            raise _Unknown
        return builders.as_predicate(column)

    def _comparison(self, op: CompareOp, left: Any, right: Any) -> Predicate:
        if "Literal" in left:
            op, left, right = op.mirrored, right, left
        column = self._column(left)
        return builders.comparison(op, column, self._literal(right, column))

    def _boolean(self, function: Any, inputs: list[Any]) -> Predicate:
        if function == "Not":
            return Not(self.whole(inputs[0]))
        column = self._column(inputs[0])
        match function:
            case "IsNull" | "IsNotNull":
                return IsNull(column, negated=function == "IsNotNull")
            case "IsNan" | "IsNotNan" if pa.types.is_floating(self._type(column)):
                return IsNaN(column, negated=function == "IsNotNan")
            case {"IsBetween": {"closed": str(closed)}} if closed in _ENDS:
                ends = zip(_ENDS[closed], inputs[1:], strict=True)
                return builders.all_of(builders.comparison(op, column, self._literal(end, column)) for op, end in ends)
            case {"IsIn": {"nulls_equal": False}}:
                return In(column, self._members(inputs[1], column))
        raise _Unknown

    def _column(self, form: Any) -> Column:
        match form:
            case {"Column": str(name)}:
                return Column((name,))
            case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": str(name)}}}}:
                return Column((*self._column(inner).path, name))
        raise _Unknown

    def _type(self, column: Expr) -> pa.DataType:
        assert isinstance(column, Column)
        try:
            return resolve(column, self._schema).type
        except ParqlakeError:
            raise _Unknown from None

    def _literal(self, form: Any, column: Column) -> Literal:
        match form:
            case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
                kind, value = next(iter(scalar.items()))
                return Literal(_value(kind, value, self._type(column)))
            case {"Literal": {"Dyn": {"Int": int(value)}}} if pa.types.is_integer(self._type(column)):
                return Literal(value)
            case {"Literal": {"Dyn": {"Str": str(value)}}} if pa.types.is_string(self._type(column)):
                return Literal(value)
        raise _Unknown

    def _members(self, form: Any, column: Column) -> tuple[Literal, ...]:
        """The values of a list, which Polars writes as an Arrow stream of one column."""
        match form:
            case {"Literal": {"Scalar": {"List": list(content)}}} | {"Literal": {"Series": list(content)}}:
                values = pa.ipc.open_stream(bytes(content)).read_all().column(0).combine_chunks()
            case _:
                raise _Unknown
        if pa.types.is_large_list(values.type) and len(values) == 1:
            values = values[0].values
        if values.null_count or not _same_kind(values.type, self._type(column)):
            raise _Unknown
        return tuple(Literal(value) for value in values.cast(self._type(column)))


def _value(kind: str, value: Any, type_: pa.DataType) -> Any:
    """A constant beside a column of this type; only where neither side would be converted with loss."""
    t = pa.types
    match kind, value:
        case ("Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64", int()):
            if t.is_integer(type_):
                return value
        case ("Float64", float()) | ("Float32", float()):
            if (t.is_float64(type_) and kind == "Float64") or (t.is_float32(type_) and kind == "Float32"):
                return value
        case "String", str() if t.is_string(type_):
            return value
        case "Boolean", bool() if t.is_boolean(type_):
            return value
        case "Binary", list() if t.is_binary(type_):
            return bytes(value)
        case "Date", int() if t.is_date(type_):
            return pa.scalar(value, pa.int32()).cast(pa.date32())
        case "Time", int() if t.is_time(type_):
            return pa.scalar(value, pa.time64("ns"))
        case "Datetime", [int(ticks), str(unit), zone] if t.is_timestamp(type_) and _UNITS.get(unit) == type_.unit:
            if (zone is None) == (type_.tz is None):
                return pa.scalar(ticks, type_)
        case "Decimal", [int(digits), int(), int(scale)] if t.is_decimal(type_) and scale == type_.scale:
            return Decimal(digits).scaleb(-scale)
    raise _Unknown


def _same_kind(have: pa.DataType, want: pa.DataType) -> bool:
    t = pa.types
    if t.is_integer(want):
        return bool(t.is_integer(have))
    if t.is_string(want):
        return bool(t.is_string(have) or t.is_large_string(have) or t.is_string_view(have))
    return bool(have == want)
