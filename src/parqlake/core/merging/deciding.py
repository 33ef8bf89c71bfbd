"""What clauses make of rows that were brought together: who takes each row, and what it becomes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from parqlake.core.errors import ConstraintError
from parqlake.core.merging.clauses import (
    NO_CLAUSE,
    Action,
    Codes,
    MergeClauses,
    first_true,
    of_action,
    several_matches,
)
from parqlake.core.predicates.tree import TRUE


def matching_pairs(clauses: MergeClauses, rows: pa.RecordBatch, places: Codes, source: pa.StructArray) -> Codes:
    """Of pairs of rows with the same keys those that match; for the arguments see `decide`."""
    if clauses.on == TRUE or not len(places):
        return np.arange(len(places))
    return np.flatnonzero(clauses.matches(clauses.joined(rows.take(pa.array(places)), source)))


def decide(
    clauses: MergeClauses, rows: pa.RecordBatch, places: Codes, source: pa.StructArray, keys: pa.Table
) -> tuple[Codes, Codes]:
    """The clause that takes each row of the table, counted through `clauses.about_table`, and the pairs that match.

    Args:
        clauses: of the merge.
        rows: of the table; at least the columns by which is decided.
        places: for each pair of rows with the same keys, which of the rows it is.
        source: for each pair the row of the source.
        keys: for each pair the keys.

    Raises:
        ConstraintError: a row that would change has several matches.
    """
    pairs = matching_pairs(clauses, rows, places, source)
    own = places[pairs]
    found = np.full(rows.num_rows, NO_CLAUSE, dtype=np.int64)
    if len(pairs):
        joined = clauses.joined(rows.take(pa.array(own)), source.take(pa.array(pairs)))
        codes = first_true(clauses.matched, joined)
        changes = of_action(clauses.matched, codes, Action.UPDATE, Action.DELETE)
        several = changes & (np.bincount(own, minlength=rows.num_rows)[own] > 1)
        if several.any():
            raise ConstraintError(several_matches(keys.take(pa.array(pairs[several]))))
        found[own[changes]] = codes[changes]
    if clauses.by_source:
        alone = np.ones(rows.num_rows, dtype=np.bool_)
        alone[own] = False
        others = np.flatnonzero(alone)
        codes = first_true(clauses.by_source, clauses.joined(rows.take(pa.array(others)), None))
        found[others] = np.where(codes == NO_CLAUSE, NO_CLAUSE, codes + len(clauses.matched))
    return found, pairs


def updates(
    clauses: MergeClauses, rows: pa.RecordBatch, codes: Codes, places: Codes, source: pa.StructArray
) -> Iterator[tuple[Codes, pa.RecordBatch]]:
    """For each update that takes rows, which of them, and what they become.

    Args:
        clauses: of the merge.
        rows: of the table; at least the columns that change or that values are computed from.
        codes: from `decide`.
        places: for each pair that matches, which of the rows it is.
        source: for each such pair the row of the source.
    """
    about_table = clauses.about_table
    for number in np.unique(codes[of_action(about_table, codes, Action.UPDATE)]).tolist():
        own, given = np.flatnonzero(codes == number), None
        if number < len(clauses.matched):
            pairs = np.flatnonzero(codes[places] == number)
            own, given = places[pairs], source.take(pa.array(pairs))
        yield own, clauses.updated(about_table[number], rows.take(pa.array(own)), given)


def inserts(clauses: MergeClauses, source: pa.StructArray) -> Iterator[pa.RecordBatch]:
    """The rows that are inserted for rows of the source that match nothing."""
    if not clauses.not_matched or not len(source):
        return
    codes = first_true(clauses.not_matched, clauses.joined(None, source))
    for number, clause in enumerate(clauses.not_matched):
        own = np.flatnonzero(codes == number)
        if clause.action is Action.INSERT and len(own):
            yield clauses.inserted(clause, source.take(pa.array(own)))
