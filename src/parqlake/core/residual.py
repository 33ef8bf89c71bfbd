"""What is left of a predicate once some columns are known to be constant, as partition columns are in a file."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from parqlake.core.predicates.normalise import normalise
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import And, Constant, Or, Predicate, columns_of


def residual(predicate: Predicate, known: Mapping[str, pa.Scalar]) -> Predicate:
    """Replaces every leaf that only mentions known columns by its truth value, and folds the rest.

    The result is TRUE for the same rows of the file as the bound predicate.
    """
    return normalise(_replaced(predicate, known)) if known else predicate


def _replaced(predicate: Predicate, known: Mapping[str, pa.Scalar]) -> Predicate:
    match predicate:
        case And(items=items):
            return And(tuple(_replaced(item, known) for item in items))
        case Or(items=items):
            return Or(tuple(_replaced(item, known) for item in items))
    columns = list(columns_of(predicate))
    if not columns or not all(len(column.path) == 1 and column.path[0] in known for column in columns):
        return predicate
    row = pa.table({name: pa.array([scalar.as_py()], scalar.type) for name, scalar in known.items()})
    return Constant(row.filter(to_arrow(predicate)).num_rows == 1)
