"""Predicates as Spark columns, so that Spark filters the rows that statistics could not rule out."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.predicates.tree import (
    And,
    Arithmetic,
    Case,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expr,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Or,
    Predicate,
)


def to_column(predicate: Predicate) -> Any:
    """The bound predicate as a `pyspark.sql.Column`; NULL and NaN mean the same there."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark users know it by this name)

    match predicate:
        case And(items=items):
            return reduce(lambda a, b: a & b, [to_column(item) for item in items])
        case Or(items=items):
            return reduce(lambda a, b: a | b, [to_column(item) for item in items])
        case Constant(value=value):
            return F.lit(value).cast("boolean")
        case Compare(op=op, left=left, right=right):
            return _compare(op, *_kept_from_parquet(left, right))
        case In(expr=expr, values=values, negated=negated):
            column, *literals = _kept_from_parquet(expr, *values)
            found = column.isin(literals)
        case IsNull(expr=expr, negated=negated):
            found = _expression(expr).isNull()
        case IsNaN(expr=expr, negated=negated):
            # Spark's isnan is FALSE for NULL, where ours is unknown; under a negation that makes a difference.
            column = _expression(expr)
            found = F.when(column.isNotNull(), F.isnan(column))
        case Like(expr=expr, pattern=pattern, negated=negated, ignore_case=ignore_case):
            escaped = pattern.replace("\\", "\\\\")
            column = _expression(expr)
            found = column.ilike(escaped) if ignore_case else column.like(escaped)
        case other:
            raise InvalidPredicateError(f"Spark is not given {other}; bind the predicate first")
    return ~found if negated else found


def quoted(path: tuple[str, ...]) -> str:
    """A column's path as Spark reads it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def _expression(expr: Expr) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    match expr:
        case Column(path=path):
            return F.col(quoted(path))
        case Literal(value=value, scalar=scalar):
            return F.lit(value) if scalar is None else literal(scalar)
        case Arithmetic(op=op, left=left, right=right):
            a, b = _expression(left), _expression(right)
            if op == "/":
                return F.try_divide(a.cast("double"), b.cast("double"))  # a zero divisor gives NULL, as everywhere
            if op == "%":
                return F.try_mod(a, b)
            return {"+": a + b, "-": a - b, "*": a * b}[op]
        case Case():
            raise InvalidPredicateError("Spark is not given CASE; filter the result instead")
        case other:
            function = {"length": F.length, "lower": F.lower, "upper": F.upper, "abs": F.abs}.get(other.name)
            args = [_expression(arg) for arg in other.args]
            if other.name == "coalesce":
                return F.coalesce(*args)
            if other.name == "starts_with":
                return F.startswith(*args)
            if function is None:
                raise InvalidPredicateError(f"Spark is not given the function {other.name}; filter the result instead")
            return function(*args)


def _kept_from_parquet(*exprs: Expr) -> list[Any]:
    """The expressions; floats in a form that Spark does not hand to its Parquet reader.

    That reader goes by the files' bounds, which leave NaN out, and by dictionaries, which tell -0.0 from 0.0: it would
    skip row groups that hold matching rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    floats = any(isinstance(e, Literal) and e.scalar is not None and pa.types.is_floating(e.scalar.type) for e in exprs)
    return [_expression(e) + F.lit(0.0) if floats and not isinstance(e, Literal) else _expression(e) for e in exprs]


def _compare(op: CompareOp, left: Any, right: Any) -> Any:
    match op:
        case CompareOp.EQ:
            return left == right
        case CompareOp.NE:
            return left != right
        case CompareOp.LT:
            return left < right
        case CompareOp.LE:
            return left <= right
        case CompareOp.GT:
            return left > right
        case CompareOp.GE:
            return left >= right


def literal(scalar: pa.Scalar) -> Any:
    """The value as a column of Spark."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_type

    type_, value = scalar.type, scalar.as_py()
    if value is None:
        return F.lit(None)
    if pa.types.is_timestamp(type_):
        kind = "timestamp_ntz" if type_.tz is None else "timestamp"
        return F.lit(value.isoformat(sep=" ")).cast(kind)
    if pa.types.is_binary(type_):
        return F.lit(bytearray(value))
    return F.lit(value).cast(from_arrow_type(type_))
