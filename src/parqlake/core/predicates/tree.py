"""The predicate tree: one small language that all spellings of `where` become.

SQL's three-valued logic holds. NaN equals itself and is greater than every number, as in PostgreSQL, DuckDB
and Spark. Trees are values: compare, hash and print them freely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa


class CompareOp(StrEnum):
    """A comparison."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> CompareOp:
        """The comparison that is TRUE where this one is FALSE."""
        return _NEGATED[self]

    @property
    def mirrored(self) -> CompareOp:
        """The comparison with its sides exchanged."""
        return _MIRRORED[self]


_NEGATED = {
    CompareOp.EQ: CompareOp.NE,
    CompareOp.NE: CompareOp.EQ,
    CompareOp.LT: CompareOp.GE,
    CompareOp.GE: CompareOp.LT,
    CompareOp.GT: CompareOp.LE,
    CompareOp.LE: CompareOp.GT,
}
_MIRRORED = {
    CompareOp.EQ: CompareOp.EQ,
    CompareOp.NE: CompareOp.NE,
    CompareOp.LT: CompareOp.GT,
    CompareOp.GT: CompareOp.LT,
    CompareOp.LE: CompareOp.GE,
    CompareOp.GE: CompareOp.LE,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside a struct column, by its path. Binding fills in id and type."""

    path: tuple[str, ...]
    field_id: int | None = None
    type: pa.DataType | None = None

    @property
    def name(self) -> str:
        """The path as people write it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: a Python value, and after binding a scalar of exactly the column's type."""

    value: Any
    scalar: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` with op one of + - * / %."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the small set that every engine computes alike (see `value_types.py`)."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN … THEN … ELSE … END`: the value beside the first condition that is TRUE."""

    whens: tuple[tuple[Predicate, Expr], ...]
    otherwise: Expr


Expr = Column | Literal | Arithmetic | Function | Case


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`; after binding a column stands left of a literal."""

    op: CompareOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class In:
    """`expr IN (values)`; a NULL among the values makes non-matches unknown."""

    expr: Expr
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`expr IS [NOT] NULL`; never unknown."""

    expr: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNaN:
    """Whether a float is NaN; unknown for NULL."""

    expr: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`expr [NOT] LIKE pattern`, with % and _, no escape character, case-sensitive unless said."""

    expr: Expr
    pattern: str
    negated: bool = False
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """TRUE if all items are."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE if one item is."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE where the item is FALSE. `normalise` pushes it into the leaves; bound trees have none."""

    item: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or unknown (None), whatever the row."""

    value: bool | None


Predicate = Compare | In | IsNull | IsNaN | Like | And | Or | Not | Constant

TRUE = Constant(True)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The items that are all required, `(predicate,)` if it is not an AND."""
    return predicate.items if isinstance(predicate, And) else (predicate,)


def columns_of(node: Predicate | Expr) -> Iterator[Column]:
    """All columns that a tree mentions, in order, repeats included."""
    match node:
        case Column():
            yield node
        case Literal() | Constant():
            return
        case Arithmetic(left=left, right=right) | Compare(left=left, right=right):
            yield from columns_of(left)
            yield from columns_of(right)
        case Function(args=args):
            for arg in args:
                yield from columns_of(arg)
        case Case(whens=whens, otherwise=otherwise):
            for condition, value in whens:
                yield from columns_of(condition)
                yield from columns_of(value)
            yield from columns_of(otherwise)
        case And(items=items) | Or(items=items):
            for item in items:
                yield from columns_of(item)
        case Not(item=item):
            yield from columns_of(item)
        case In(expr=expr) | IsNull(expr=expr) | IsNaN(expr=expr) | Like(expr=expr):
            yield from columns_of(expr)
