"""What SQL's MERGE says with WHEN clauses: bound to the schemas, and applied to rows that were brought together.

Pure: whoever has found which rows have the same keys can ask what becomes of them. Rows of the source travel as one
struct column beside their keys, so that their columns may have any names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parqlake.core.evolution.constraints import shown_rows
from parqlake.core.fitting import fit
from parqlake.core.predicates.evaluate import is_true
from parqlake.core.predicates.tree import TRUE, Expr, Predicate, columns_of
from parqlake.core.updating import RowChange

SOURCE, NUMBER = "parqlake_source", "parqlake_number"
"""Columns of a source's rows while they are matched: the row itself, and its place in the source."""
NO_CLAUSE = -1

Codes = npt.NDArray[np.int64]


class Action(StrEnum):
    """What a clause does with a row."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN … THEN: the rows for which the condition is TRUE, if no earlier clause took them."""

    condition: Predicate
    """Bound."""
    action: Action
    values: tuple[tuple[str, Expr], ...] = ()
    """Columns and what they are set to, bound; of an insert all columns."""


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """All that a MERGE says; made by `clause_binding`, which checks it."""

    keys: tuple[tuple[str, str], ...]
    """Columns of the table and of the source that must be equal."""
    on: Predicate
    """What else must be TRUE for two rows to match; bound."""
    matched: tuple[Clause, ...]
    not_matched: tuple[Clause, ...]
    by_source: tuple[Clause, ...]
    target: pa.Schema
    """The table's columns as they are while rows are merged, with its checks."""
    source: pa.Schema
    """The source's columns; all of them may be NULL."""
    names: tuple[str, str]
    """What rows of the table and of the source are called in bound trees."""

    @property
    def row_schema(self) -> pa.Schema:
        """Of rows of the source while they are matched: keys by the table's names, the row, and its number."""
        keys = [pa.field(name, self.target.field(name).type) for name, _ in self.keys]
        return pa.schema([*keys, pa.field(SOURCE, pa.struct(list(self.source))), pa.field(NUMBER, pa.int64())])

    @property
    def about_table(self) -> tuple[Clause, ...]:
        """The clauses that are about rows of the table, with a match or without."""
        return (*self.matched, *self.by_source)

    @property
    def changed_columns(self) -> tuple[str, ...]:
        """Columns of the table that an update may change."""
        return tuple(dict.fromkeys(name for clause in self.about_table for name, _ in clause.values))

    @property
    def deciding_columns(self) -> tuple[str, ...]:
        """Columns of the table by which it is decided what becomes of a row."""
        trees = [self.on, *(clause.condition for clause in self.about_table)]
        used = (column.path for tree in trees for column in columns_of(tree))
        return tuple(dict.fromkeys(path[1] for path in used if path[0] == self.names[0]))

    @property
    def used_columns(self) -> tuple[str, ...]:
        """Columns of the table that conditions, or the values of updates, ask for, and those that change."""
        values = [value for clause in self.about_table for _, value in clause.values]
        used = (column.path for value in values for column in columns_of(value))
        own = (path[1] for path in used if path[0] == self.names[0])
        return tuple(dict.fromkeys([*self.deciding_columns, *self.changed_columns, *own]))

    @property
    def only_deletes_others(self) -> bool:
        """Whether rows of the table without a match are deleted by every clause that is about them."""
        return all(clause.action is Action.DELETE for clause in self.by_source)

    def key_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The keys of a source's rows, by the table's names and of its types."""
        wanted = pa.schema([pa.field(name, self.target.field(name).type) for name, _ in self.keys])
        columns = [batch.column(batch.schema.get_field_index(name)) for _, name in self.keys]
        return fit(pa.RecordBatch.from_arrays(columns, names=wanted.names), wanted)

    def source_rows(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """A source's rows as they are matched, counted from `first`."""
        numbers = pa.array(np.arange(first, first + batch.num_rows))
        row = _struct(batch.columns, self.source)
        return pa.RecordBatch.from_arrays([*self.key_rows(batch).columns, row, numbers], schema=self.row_schema)

    def joined(self, rows: pa.RecordBatch | None, source: pa.StructArray | None) -> pa.RecordBatch:
        """Rows of the table and of the source side by side, as conditions see them; either may be left out."""
        sides = []
        if rows is not None:
            sides.append((self.names[0], _struct(rows.columns, rows.schema)))
        if source is not None:
            sides.append((self.names[1], source))
        return pa.RecordBatch.from_arrays([side for _, side in sides], names=[name for name, _ in sides])

    def matches(self, joined: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which of the rows with equal keys match."""
        return is_true(joined, self.on)

    def updated(self, clause: Clause, rows: pa.RecordBatch, source: pa.StructArray | None) -> pa.RecordBatch:
        """Rows of the table after an update, in the columns given; checks are enforced if those are all.

        Raises:
            TypeMismatchError: a value does not fit its column.
            ConstraintError: a NOT NULL column would be NULL, or a check would be broken.
        """
        sides = self.joined(rows, source)
        whole = rows.schema.names == self.target.names
        fields = [*(self.target.field(name) for name in rows.schema.names), *sides.schema]
        schema = pa.schema(fields, metadata=self.target.metadata if whole else None)
        batch = pa.RecordBatch.from_arrays([*rows.columns, *sides.columns], schema=schema)
        changed = RowChange(TRUE, clause.values, schema).apply(batch)
        return pa.RecordBatch.from_arrays(changed.columns[: rows.num_columns], schema=rows.schema)

    def inserted(self, clause: Clause, source: pa.StructArray) -> pa.RecordBatch:
        """The rows that are inserted for rows of the source; raises as `updated` does."""
        plain = self.target.with_metadata(None)
        empty = [pa.nulls(len(source), field.type) for field in plain]
        schema = pa.schema([*plain, pa.field(self.names[1], source.type)], metadata=self.target.metadata)
        changed = RowChange(TRUE, clause.values, schema).apply(
            pa.RecordBatch.from_arrays([*empty, source], schema=schema)
        )
        return pa.RecordBatch.from_arrays(changed.columns[: len(empty)], schema=plain)


def first_true(clauses: Sequence[Clause], joined: pa.RecordBatch) -> Codes:
    """For each row the number of the first clause whose condition is TRUE, `NO_CLAUSE` if none is."""
    found = np.full(joined.num_rows, NO_CLAUSE, dtype=np.int64)
    for number, clause in enumerate(clauses):
        found[(found == NO_CLAUSE) & is_true(joined, clause.condition)] = number
    return found


def of_action(clauses: Sequence[Clause], codes: Codes, *actions: Action) -> npt.NDArray[np.bool_]:
    """For each clause number whether that clause does one of these things."""
    does = np.array([clause.action in actions for clause in clauses] + [False])  # the last for NO_CLAUSE
    return np.asarray(does[codes])


def several_matches(keys: pa.Table) -> str:
    """What to tell somebody whose source has several rows for one of the table's; shows up to five keys."""
    distinct = keys.group_by(keys.column_names, use_threads=False).aggregate([])
    return (
        "several rows of the source match the same row of the table, and it is not said which of them counts; "
        "leave one row for each key, or narrow the on condition, then merge again\n" + shown_rows(distinct)
    )


def _struct(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, fields=list(schema))
