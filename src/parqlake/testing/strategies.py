"""Hypothesis strategies: tables of every prunable type with awkward values, and predicates that come close to them.

Values are drawn from small ranges and from the ends of each type, so that row groups overlap, touch and miss one
another and predicates are neither always nor never TRUE. Constants are Arrow scalars: of the column's type, and now and
then of another that can be compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from parqlake.core.predicates.tree import (
    And,
    Column,
    Compare,
    CompareOp,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)
from parqlake.testing.data import ALIKE

Values = st.SearchStrategy[Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, how to draw values of it, and types of constants that may stand beside it."""

    type: pa.DataType
    values: Values
    others: tuple[tuple[pa.DataType, Values], ...] = ()


def array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """An array of exactly the type; times and dates are given as ticks."""
    t = pa.types
    if t.is_struct(type_):
        children = [
            array([None if value is None else value[field.name] for value in values], field.type) for field in type_
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    if t.is_timestamp(type_) or t.is_time(type_) or t.is_date(type_):
        storage = pa.int32() if type_.bit_width == 32 else pa.int64()
        return pa.array(values, storage).view(type_)
    return pa.array(values, type_)


def scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    """One value as a scalar of exactly the type."""
    return array([value], type_)[0]


def _integers(low: int, high: int) -> Values:
    ends = [low, low + 1, high - 1, high]
    return st.integers(max(low, -4), min(high, 9)) | st.sampled_from(ends) | st.integers(low, high)


def _floats(width: int) -> Values:
    known = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, 2.0, 5e-324 if width == 64 else 2.0**-149]
    return st.sampled_from(known) | st.floats(-4, 4, width=32) | st.floats(width=width)  # type: ignore[arg-type]


def _decimals(precision: int, scale: int) -> Values:
    top = 10**precision - 1
    edges = [0, 1, -1, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 2**64, top, -top]
    numbers = st.integers(-9, 9) | st.sampled_from([n for n in edges if abs(n) <= top]) | st.integers(-top, top)
    return numbers.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


_TICKS_US = _integers(-(2**55), 2**55) | st.integers(1_767_225_600_000_000, 1_767_225_600_000_009)
_TICKS_NS = _integers(-(2**62), 2**62) | st.integers(995, 3005)
_DAY_US, _DAY_NS = 86_400_000_000 - 1, 86_400_000_000_000 - 1
_WORDS = st.sampled_from(
    ["", "a", "b", "ab", "abc", "B", "ä", "漢字", "🦆", "a%", "a_b", "'", "\0", "\U0010ffff", "z" * 70]
)
_LETTERS = st.text("ab%_", max_size=4)
_ENDINGS = st.sampled_from(["", "a", "b", "ba", "\0", "ü", "\U0010ffff"])
_ALIKE = st.builds(lambda cut, end: ALIKE[:cut] + end, st.sampled_from([3, 20, 40, 60, 63, 64, 65, 80]), _ENDINGS)
_BYTES = st.sampled_from([b"", b"\0", b"\xff", b"\xff" * 8, b"\xff" * 64, b"\xff" * 70, b"a", b"a\0"]) | st.binary(
    max_size=3
)

FLAT: dict[str, Kind] = {
    "bool": Kind(pa.bool_(), st.booleans()),
    "int8": Kind(pa.int8(), _integers(-128, 127), ((pa.int64(), _integers(-300, 300)),)),
    "int32": Kind(pa.int32(), _integers(-(2**31), 2**31 - 1), ((pa.decimal128(12, 1), _decimals(12, 1)),)),
    "int64": Kind(pa.int64(), _integers(-(2**63), 2**63 - 1), ((pa.float64(), _floats(64)),)),
    "uint8": Kind(pa.uint8(), _integers(0, 255), ((pa.int64(), _integers(-5, 300)),)),
    "uint32": Kind(pa.uint32(), _integers(0, 2**32 - 1)),
    "uint64": Kind(pa.uint64(), _integers(0, 2**64 - 1), ((pa.int64(), _integers(-5, 5)),)),
    "float32": Kind(pa.float32(), _floats(32), ((pa.float64(), _floats(64)), (pa.int64(), _integers(-9, 2**53)))),
    "float64": Kind(pa.float64(), _floats(64), ((pa.int64(), _integers(-(2**63), 2**63 - 1)),)),
    "decimal9": Kind(pa.decimal128(9, 2), _decimals(9, 2), ((pa.decimal128(15, 4), _decimals(15, 4)),)),
    "decimal38": Kind(pa.decimal128(38, 0), _decimals(38, 0), ((pa.int64(), _integers(-9, 2**63 - 1)),)),
    "decimal25": Kind(pa.decimal128(25, 5), _decimals(25, 5)),
    "string": Kind(pa.string(), _WORDS | _LETTERS),
    "alike": Kind(pa.string(), _ALIKE),
    "binary": Kind(pa.binary(), _BYTES),
    "date": Kind(pa.date32(), _integers(-500_000, 500_000)),
    "time_us": Kind(pa.time64("us"), _integers(0, _DAY_US)),
    "time_ns": Kind(pa.time64("ns"), st.integers(0, 2500) | _integers(0, _DAY_NS)),
    "timestamp_us": Kind(pa.timestamp("us"), _TICKS_US, ((pa.timestamp("ns"), _TICKS_NS),)),
    "timestamp_ns": Kind(pa.timestamp("ns"), _TICKS_NS, ((pa.timestamp("us"), st.integers(-9, 9)),)),
    "timestamp_utc": Kind(pa.timestamp("us", "UTC"), _TICKS_US),
    "timestamp_berlin": Kind(pa.timestamp("ns", "Europe/Berlin"), _TICKS_NS),
}
"""Columns that are no structs, by name."""


def _struct(*names: str) -> Kind:
    type_ = pa.struct([(name, FLAT[name].type) for name in names])
    fields = st.fixed_dictionaries({name: st.none() | FLAT[name].values for name in names})
    return Kind(type_, fields)


KINDS: dict[str, Kind] = {**FLAT, "struct": _struct("float64", "string", "uint64"), "pair": _struct("timestamp_ns")}
"""All columns, by name."""


@st.composite
def tables(
    draw: st.DrawFn, *, names: Sequence[str] | None = None, max_rows: int = 24, max_parts: int = 3
) -> list[pa.Table]:
    """Several tables of one schema: a few of the columns named, NULLs, whole columns of NULL, no rows at all."""
    chosen = draw(st.lists(st.sampled_from(sorted(names or KINDS)), min_size=1, max_size=3, unique=True))
    parts = []
    for _ in range(draw(st.integers(1, max_parts))):
        count = draw(st.integers(0, max_rows))
        columns = {}
        for name in chosen:
            columns[name] = array(_column(draw, KINDS[name].values, count), KINDS[name].type)
        part = pa.table(columns)
        first = KINDS[chosen[0]].type
        if draw(st.booleans()) and not pa.types.is_nested(first):
            part = part.sort_by(chosen[0])
        parts.append(part)
    return parts


def _neighbour(found: pa.Scalar, *, up: bool) -> pa.Scalar:
    """The next value of the type above or below; the value itself where there is none."""
    type_, step = found.type, 1 if up else -1
    t = pa.types
    try:
        if t.is_time(type_):
            return scalar(min(max(found.value + step, 0), _DAY_US if type_.unit == "us" else _DAY_NS), type_)
        if t.is_temporal(type_):
            return scalar(found.value + step, type_)
        value = found.as_py()
        if t.is_floating(type_):
            start = np.float64(value) if t.is_float64(type_) else np.float32(value)
            with np.errstate(all="ignore"):
                return scalar(float(np.nextafter(start, step * np.inf)), type_)
        if t.is_decimal(type_):
            return scalar(value + Decimal((int(not up), (1,), -type_.scale)), type_)
        if isinstance(value, str | bytes):
            more = "\0" if isinstance(value, str) else b"\0"
            return scalar(value + more if up else value[:-1], type_)  # type: ignore[operator]
        return scalar(value + step, type_) if t.is_integer(type_) else found
    except (OverflowError, pa.ArrowInvalid):
        return found


_SPREADS = st.sampled_from(["any", "few", "few", "one", "null"])


def _column(draw: st.DrawFn, values: Values, count: int) -> list[Any]:
    """Values of any kind, only a few different ones, one alone, or NULLs; the first three with or without NULLs."""
    spread = draw(_SPREADS)
    if spread == "null":
        return [None] * count
    if spread == "any":
        pool = draw(st.lists(values, min_size=count, max_size=count))
    else:
        pool = draw(st.lists(values, min_size=1, max_size=1 if spread == "one" else 3))
    if draw(st.booleans()):
        pool.append(None)
    places = st.integers(0, max(0, len(pool) - 1))
    return [pool[place] for place in draw(st.lists(places, min_size=count, max_size=count))]


@st.composite
def predicates(draw: st.DrawFn, parts: Sequence[pa.Table], *, depth: int = 2) -> Predicate:
    """A predicate over the columns of the tables, at most so deep; many of its constants occur in the data."""
    return _predicate(draw, _subjects(parts), depth=depth)


@dataclass(frozen=True, slots=True)
class _Subject:
    """A column to ask about: its kind (None for a struct as a whole), and the values that it has."""

    column: Column
    kind: Kind | None
    present: list[pa.Scalar]


def _subjects(parts: Sequence[pa.Table]) -> list[_Subject]:
    found = []
    for field in parts[0].schema:
        columns = [part.column(field.name).combine_chunks() for part in parts]
        if not pa.types.is_struct(field.type):
            found.append(_Subject(Column((field.name,)), FLAT[field.name], _valid(columns)))
            continue
        found.append(_Subject(Column((field.name,)), None, []))
        for child in field.type:
            inside = [column.field(child.name) for column in columns]
            found.append(_Subject(Column((field.name, child.name)), FLAT[child.name], _valid(inside)))
    return found


def _valid(arrays: Sequence[Any]) -> list[pa.Scalar]:
    return [value for array_ in arrays for value in array_ if value.is_valid]


# Drawn step by step: strategies that are built from the data, as st.recursive is, would print all of it each time.
_SHAPES = st.sampled_from(["leaf", "leaf", "leaf", "not", "and", "or"])
_FORMS = ("compare", "compare", "compare", "in", "null")
_PATTERNS = st.text("ab%_ä", max_size=5) | _ALIKE.map(lambda text: text[:70] + "%")


def _predicate(draw: st.DrawFn, subjects: list[_Subject], *, depth: int) -> Predicate:
    shape = draw(_SHAPES) if depth else "leaf"
    if shape == "leaf":
        return _leaf(draw, subjects[draw(st.integers(0, len(subjects) - 1))])
    if shape == "not":
        return Not(_predicate(draw, subjects, depth=depth - 1))
    items = tuple(_predicate(draw, subjects, depth=depth - 1) for _ in range(draw(st.integers(2, 3))))
    return And(items) if shape == "and" else Or(items)


def _leaf(draw: st.DrawFn, subject: _Subject) -> Predicate:
    column, kind = subject.column, subject.kind
    if kind is None:
        return IsNull(column, draw(st.booleans()))
    floating, text = pa.types.is_floating(kind.type), pa.types.is_string(kind.type)
    form = draw(st.sampled_from((*_FORMS, *(("nan",) if floating else ()), *(("like", "like") if text else ()))))
    match form:
        case "null":
            return IsNull(column, draw(st.booleans()))
        case "nan":
            return IsNaN(column, draw(st.booleans()))
        case "like":
            return Like(column, _pattern(draw, subject.present), draw(st.booleans()), draw(st.booleans()))
        case "in":
            values = tuple(_constant(draw, kind, subject.present) for _ in range(draw(st.integers(1, 4))))
            return In(column, values, draw(st.booleans()))
    return Compare(draw(st.sampled_from(CompareOp)), column, _constant(draw, kind, subject.present))


def _pattern(draw: st.DrawFn, present: list[pa.Scalar]) -> str:
    if not present or draw(st.integers(0, 3)) == 0:
        return draw(_PATTERNS)
    text: str = present[draw(st.integers(0, len(present) - 1))].as_py()
    return text[: draw(st.integers(0, len(text)))] + draw(st.sampled_from(["%", "_", "_%", "", "%a"]))


def _constant(draw: st.DrawFn, kind: Kind, present: list[pa.Scalar]) -> Literal:
    choice = draw(st.integers(0, 19))
    if choice == 19:
        return Literal(None)
    if choice < 13 and present:
        found = present[draw(st.integers(0, len(present) - 1))]
        return Literal(found if choice < 7 else _neighbour(found, up=draw(st.booleans())))
    if choice > 15 and kind.others:
        type_, values = kind.others[draw(st.integers(0, len(kind.others) - 1))]
        return Literal(scalar(draw(values), type_))
    return Literal(scalar(draw(kind.values), kind.type))
