"""Normal form keeps the rows for which a predicate is TRUE."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from parqlake.core.predicates.normalise import normalise
from parqlake.core.predicates.tree import (
    And,
    Arithmetic,
    Column,
    Compare,
    CompareOp,
    Constant,
    Function,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
)

X, Y = Column(("x",)), Column(("y",))
X1 = Compare(CompareOp.EQ, X, Literal(1))
Y2 = Compare(CompareOp.GT, Y, Literal(2))
TRUTHS = [True, False, None]


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def conjunction(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def truth(predicate: Predicate) -> bool | None:
    """Three-valued logic, by the book, for trees of constants."""
    match predicate:
        case Constant(value=value):
            return value
        case Not(item=item):
            return negated(truth(item))
        case And(items=items):
            return conjunction([truth(item) for item in items])
        case Or(items=items):
            return negated(conjunction([negated(truth(item)) for item in items]))
    raise AssertionError(predicate)


@pytest.mark.parametrize(("a", "b", "c"), list(itertools.product(TRUTHS, repeat=3)))
def test_truth_tables(a: bool | None, b: bool | None, c: bool | None) -> None:
    p, q, r = Constant(a), Constant(b), Constant(c)
    for tree in (
        p,
        Not(p),
        Not(Not(p)),
        And((p, q)),
        Or((p, q)),
        Not(And((p, q))),
        Not(Or((p, q))),
        Or((And((p, Not(q))), r)),
        Not(And((Or((p, q)), Not(Or((Not(r), p)))))),
    ):
        result = normalise(tree)
        assert isinstance(result, Constant)
        assert (result.value is True) == (truth(tree) is True), tree


def test_not_of_unknown_stays_unknown() -> None:
    assert normalise(Not(Constant(None))) == Constant(None)


@pytest.mark.parametrize(
    ("leaf", "opposite"),
    [
        (X1, Compare(CompareOp.NE, X, Literal(1))),
        (Compare(CompareOp.LT, X, Literal(1)), Compare(CompareOp.GE, X, Literal(1))),
        (Compare(CompareOp.LE, X, Y), Compare(CompareOp.GT, X, Y)),
        (In(X, (Literal(1), Literal(2))), In(X, (Literal(1), Literal(2)), negated=True)),
        (IsNull(X), IsNull(X, negated=True)),
        (IsNaN(X), IsNaN(X, negated=True)),
        (Like(X, "a%"), Like(X, "a%", negated=True)),
        (Like(X, "a%", ignore_case=True), Like(X, "a%", negated=True, ignore_case=True)),
    ],
)
def test_not_goes_into_leaves(leaf: Predicate, opposite: Predicate) -> None:
    assert normalise(Not(leaf)) == opposite
    assert normalise(Not(opposite)) == leaf
    assert normalise(Not(Not(leaf))) == leaf


def test_de_morgan_and_flattening() -> None:
    tree = Not(Or((X1, And((Y2, Not(And((IsNull(X), Or((IsNull(Y),))))))))))
    assert normalise(tree) == And(
        (
            Compare(CompareOp.NE, X, Literal(1)),
            Or((Compare(CompareOp.LE, Y, Literal(2)), And((IsNull(X), IsNull(Y))))),
        )
    )
    assert normalise(And((X1, And((Y2, And((IsNull(X),))))))) == And((X1, Y2, IsNull(X)))
    assert normalise(Or((Or((X1,)), Or((Y2, IsNull(X)))))) == Or((X1, Y2, IsNull(X)))


def test_single_and_empty_junctions() -> None:
    assert normalise(And((X1,))) == X1
    assert normalise(Or((X1,))) == X1
    assert normalise(And(())) == Constant(True)
    assert normalise(Or(())) == Constant(False)


def test_constants_fold() -> None:
    assert normalise(And((X1, Constant(True)))) == X1
    assert normalise(And((X1, Constant(False)))) == Constant(False)
    assert normalise(And((X1, Constant(None)))) == Constant(None)
    assert normalise(Or((X1, Constant(None), Constant(False)))) == X1
    assert normalise(Or((X1, Constant(True)))) == Constant(True)


@pytest.mark.parametrize("null", [None, pa.scalar(None, pa.int64()), np.datetime64("NaT")])
@pytest.mark.parametrize("op", CompareOp)
def test_comparison_with_null_is_unknown(op: CompareOp, null: object) -> None:
    assert normalise(Compare(op, X, Literal(null))) == Constant(None)
    assert normalise(Not(Compare(op, Literal(null), X))) == Constant(None)
    assert normalise(Compare(op, Arithmetic("+", X, Literal(null)), Literal(1))) == Constant(None)
    assert normalise(Compare(op, Function("lower", (Literal(null),)), Literal("a"))) == Constant(None)


def test_in_with_nulls() -> None:
    one, two, null = Literal(1), Literal(2), Literal(None)
    assert normalise(In(X, ())) == Constant(False)
    assert normalise(In(X, (), negated=True)) == Constant(True)
    assert normalise(In(X, (null,))) == Constant(None)
    assert normalise(In(X, (one, null))) == X1
    assert normalise(In(X, (one, null, two))) == In(X, (one, two))
    assert normalise(In(X, (one, null), negated=True)) == Constant(None)
    assert normalise(Not(In(X, (one, two, null)))) == Constant(None)
    assert normalise(In(X, (one,), negated=True)) == Compare(CompareOp.NE, X, one)
    assert normalise(In(null, (one, two))) == Constant(None)


def test_null_tests_of_constants() -> None:
    assert normalise(IsNull(Literal(None))) == Constant(True)
    assert normalise(IsNull(Literal(1))) == Constant(False)
    assert normalise(IsNull(Literal(float("nan")))) == Constant(False)
    assert normalise(IsNaN(Literal(float("nan")))) == Constant(True)
    assert normalise(IsNaN(Literal(1), negated=True)) == Constant(True)
    assert normalise(IsNaN(Literal(None))) == Constant(None)
    assert normalise(Like(Literal(None), "%")) == Constant(None)


def test_needless_null_checks_go() -> None:
    not_null = IsNull(X, negated=True)
    assert normalise(And((not_null, X1))) == X1
    assert normalise(And((X1, not_null, Y2))) == And((X1, Y2))
    assert normalise(And((not_null, not_null))) == not_null
    assert normalise(And((not_null, Y2))) == And((not_null, Y2))
    assert normalise(Or((not_null, X1))) == Or((not_null, X1))
    assert normalise(And((not_null, Or((X1, Y2))))) == And((not_null, Or((X1, Y2))))


def test_equalities_become_a_list() -> None:
    def equal(column: Column, value: object, op: CompareOp = CompareOp.EQ) -> Compare:
        return Compare(op, column, Literal(value))

    listed = In(X, (Literal(1), Literal(2), Literal(3)))
    assert normalise(Or((equal(X, 1), Y2, equal(X, 2), In(X, (Literal(3), Literal(1)))))) == Or((listed, Y2))
    assert normalise(Or((equal(X, 1), equal(X, 1)))) == X1
    assert normalise(Or((equal(X, 1), equal(Y, 1)))) == Or((equal(X, 1), equal(Y, 1)))
    assert normalise(And((equal(X, 1), equal(X, 2)))) == And((equal(X, 1), equal(X, 2)))
    unequal = And((equal(X, 1, CompareOp.NE), Not(In(X, (Literal(2), Literal(3))))))
    assert normalise(unequal) == In(X, listed.values, negated=True)
    booleans = Or((equal(X, True), equal(X, False)))
    assert normalise(booleans) == booleans


def test_arithmetic_on_constants_folds() -> None:
    def value(op: str, a: object, b: object) -> object:
        folded = normalise(Compare(CompareOp.EQ, X, Arithmetic(op, Literal(a), Literal(b))))
        assert isinstance(folded, Compare)
        assert isinstance(folded.right, Literal)
        return folded.right.value

    assert value("+", 2**63, 1) == 2**63 + 1
    assert value("/", 1, 2) == 0.5
    assert value("%", -7, 3) == -1
    assert value("%", 7, -3) == 1
    assert str(value("*", 2, Decimal("1.10"))) == "2.20"
    assert value("-", 1.5, 1) == 0.5
    assert normalise(Compare(CompareOp.EQ, X, Arithmetic("/", Literal(1), Literal(0)))) == Constant(None)
    assert normalise(Compare(CompareOp.EQ, X, Arithmetic("%", Y, Literal(0)))) == Constant(None)


def test_coalesce_folds() -> None:
    coalesce = Function("coalesce", (Literal(None), X, Literal(None)))
    assert normalise(Compare(CompareOp.EQ, coalesce, Literal(1))) == X1
    assert normalise(IsNull(Function("coalesce", (Literal(None),)))) == Constant(True)


def test_result_is_its_own_normal_form() -> None:
    tree = Not(And((Or((X1, Constant(None))), Not(In(Y, (Literal(1), Literal(2)))), Not(Like(X, "a_")))))
    once = normalise(tree)
    assert normalise(once) == once
