"""Pruning: which row groups a predicate can rule out, from statistics pages alone.

Two questions are asked of each row group, both answered on the safe side: may some row make the predicate TRUE
(if not, skip it), and may some row make it anything else (if not, every row matches and nothing need be read)?
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from parqlake.core.keys import NAN_KEY, Round, has_bytes_keys, is_exact, is_prunable, scalar_key
from parqlake.core.model import BoolArray, IntArray
from parqlake.core.pages import KEY_BYTES, MAX_BYTES, MAX_KEY, Key, KeyRange, Page
from parqlake.core.predicates.tree import (
    And,
    Column,
    Compare,
    CompareOp,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Or,
    Predicate,
    columns_of,
    conjuncts,
)

_MAX_RANGES = 4
Interval = tuple[Key, Key]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The row groups of one segment, as pruning sees them."""

    rows: IntArray
    """Rows of each row group."""
    page: Callable[[int], Page | None]
    """The statistics page of a column id; None if nothing is known."""

    def all(self) -> BoolArray:
        """A mask of every row group."""
        return np.ones(len(self.rows), dtype=np.bool_)

    def none(self) -> BoolArray:
        """A mask of no row group."""
        return np.zeros(len(self.rows), dtype=np.bool_)


def prunable_columns(predicate: Predicate) -> set[int]:
    """Ids of the columns whose pages `may_be_true` would look at."""
    return {column.field_id for column in columns_of(predicate) if column.field_id is not None}


def key_ranges(predicate: Predicate) -> list[KeyRange]:
    """Ranges that every matching row lies in, for the catalog to pick pages by; at most a few."""
    return [found for item in conjuncts(predicate) for found in _ranges(item)][:_MAX_RANGES]


def may_be_true(predicate: Predicate, groups: RowGroups) -> BoolArray:
    """Which row groups may hold a row for which the bound predicate is TRUE."""
    match predicate:
        case And(items=items):
            mask = groups.all()
            for item in items:
                mask &= may_be_true(item, groups)
            return mask
        case Or(items=items):
            mask = groups.none()
            for item in items:
                mask |= may_be_true(item, groups)
            return mask
        case Constant(value=value):
            return groups.all() if value else groups.none()
        case IsNull(expr=Column() as column, negated=negated):
            nulls = _nulls(column, groups)
            if nulls is None:
                return groups.all()
            return np.not_equal(nulls, groups.rows if negated else 0)
        case _:
            return _leaf_may_be_true(predicate, groups)


def may_be_untrue(predicate: Predicate, groups: RowGroups) -> BoolArray:
    """Which row groups may hold a row for which the bound predicate is FALSE or unknown."""
    match predicate:
        case And(items=items):
            mask = groups.none()
            for item in items:
                mask |= may_be_untrue(item, groups)
            return mask
        case Or(items=items):
            mask = groups.all()
            for item in items:
                mask &= may_be_untrue(item, groups)
            return mask
        case Constant(value=value):
            return groups.none() if value else groups.all()
        case IsNull(expr=Column() as column, negated=negated):
            nulls = _nulls(column, groups)
            if nulls is None:
                return groups.all()
            return np.not_equal(nulls, 0 if negated else groups.rows)
        case _:
            return _leaf_may_be_untrue(predicate, groups)


@functools.lru_cache(maxsize=4096)
def interval(op: CompareOp, literal: Literal) -> Interval | None:
    """The keys for which `column op literal` may be TRUE; None if statistics cannot tell (never for `!=`).

    An empty interval comes back inverted, and so overlaps nothing.
    """
    scalar = literal.scalar
    if scalar is None or not scalar.is_valid or op is CompareOp.NE or not is_prunable(scalar.type):
        return None
    low, high = scalar_key(scalar, Round.DOWN), scalar_key(scalar, Round.UP)
    if isinstance(low, bytes) or isinstance(high, bytes):
        return {
            CompareOp.EQ: (low, high),
            CompareOp.LT: (b"", high),
            CompareOp.LE: (b"", high),
            CompareOp.GT: (low, MAX_BYTES),
            CompareOp.GE: (low, MAX_BYTES),
        }[op]
    exact = is_exact(scalar.type) and 0 < low < MAX_KEY
    if low == NAN_KEY:
        high = MAX_KEY  # a row group with NaNs has the greatest key of all as its upper bound
    match op:
        case CompareOp.EQ:
            return low, high
        case CompareOp.LT:
            return 0, (low - 1 if exact else high)
        case CompareOp.LE:
            return 0, high
        case CompareOp.GT:
            return (high + 1 if exact and high < MAX_KEY else low), MAX_KEY
    return low, MAX_KEY


def _ranges(predicate: Predicate) -> Iterator[KeyRange]:
    match predicate:
        case Compare(op=op, left=Column(field_id=int(column_id)), right=Literal() as literal):
            found = interval(op, literal)
        case Like(expr=Column(field_id=int(column_id)), pattern=pattern, negated=False, ignore_case=False):
            found = _like_interval(pattern)
        case In(expr=Column(field_id=int(column_id)), values=values, negated=False) if values:
            keys = _keys(values)
            found = (min(keys), max(keys)) if keys else None
        case _:
            return
    if found is not None:
        yield KeyRange(column_id, found[0], found[1])


def _leaf_may_be_true(predicate: Predicate, groups: RowGroups) -> BoolArray:
    match predicate:
        case Compare(op=op, left=Column() as column, right=Literal() as literal):
            mask = _overlap(column, interval(op, literal), groups)
        case In(expr=Column() as column, values=values, negated=False):
            page, keys = _page(column, groups), _keys(values)
            mask = groups.all() if page is None or keys is None else page.holds_any(keys)
        case IsNaN(expr=Column() as column, negated=False):
            mask = _overlap(column, (NAN_KEY, MAX_KEY), groups)
        case Like(expr=Column() as column, pattern=pattern, negated=False, ignore_case=False):
            mask = _overlap(column, _like_interval(pattern), groups)
        case Compare(left=Column() as column) | In(expr=Column() as column) | IsNaN(expr=Column() as column):
            mask = groups.all()
        case Like(expr=Column() as column):
            mask = groups.all()
        case _:
            return groups.all()
    nulls = _nulls(column, groups)
    return mask if nulls is None else mask & (nulls != groups.rows)


def _leaf_may_be_untrue(predicate: Predicate, groups: RowGroups) -> BoolArray:
    match predicate:
        case Compare(op=CompareOp.EQ, left=Column() as column, right=Literal() as literal):
            found = interval(CompareOp.EQ, literal)
            if found is None or has_bytes_keys(literal.scalar.type) or not is_exact(literal.scalar.type):  # type: ignore[union-attr]
                return groups.all()
            low, high = found
            assert isinstance(low, int) and isinstance(high, int)
            if low == 0 or high == MAX_KEY:
                return groups.all()  # keys are clamped at the ends: equal keys may be different values
            mask = _overlap(column, (0, low - 1), groups) | _overlap(column, (high + 1, MAX_KEY), groups)
        case Compare(op=op, left=Column() as column, right=Literal() as literal):
            mask = _overlap(column, interval(op.negated, literal), groups)
        case IsNaN(expr=Column() as column, negated=True):
            mask = _overlap(column, (NAN_KEY, MAX_KEY), groups)
        case _:
            return groups.all()
    nulls = _nulls(column, groups)
    return groups.all() if nulls is None else mask | (nulls != 0)


def _page(column: Column, groups: RowGroups) -> Page | None:
    return None if column.field_id is None else groups.page(column.field_id)


def _nulls(column: Column, groups: RowGroups) -> IntArray | None:
    page = _page(column, groups)
    if page is None:
        return None
    return page.nulls if page.nulls is not None else np.zeros(len(groups.rows), dtype=np.int64)


def _overlap(column: Column, wanted: Interval | None, groups: RowGroups) -> BoolArray:
    page = _page(column, groups)
    if page is None or wanted is None:
        return groups.all()
    low, high = wanted
    return groups.none() if low > high else page.overlaps(low, high)  # type: ignore[operator]


def _keys(values: tuple[Literal, ...]) -> list[Key] | None:
    keys: list[Key] = []
    for value in values:
        found = interval(CompareOp.EQ, value)
        if found is None:
            if value.scalar is not None and not value.scalar.is_valid:
                continue
            return None
        keys.extend(found)
    return keys or None


def _like_interval(pattern: str) -> Interval | None:
    cut = min((pattern.find(c) for c in "%_" if c in pattern), default=len(pattern))
    prefix = pattern[:cut].encode()
    if not prefix:
        return None
    if cut == len(pattern):
        return prefix[:KEY_BYTES], prefix[:KEY_BYTES]
    return prefix[:KEY_BYTES], (prefix + b"\xff" * KEY_BYTES)[:KEY_BYTES]
