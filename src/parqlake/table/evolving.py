"""The calls of a table that change its columns, all metadata only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from parqlake.core.evolution import changes, constraints
from parqlake.core.evolution.changes import Name
from parqlake.core.evolution.diff import SchemaDiff, diff
from parqlake.core.model import TableInfo
from parqlake.table.context import LakeContext
from parqlake.table.result import WriteResult
from parqlake.table.schema_changes import Change, Proof, evolve, no_breach, no_nulls, no_rows
from parqlake.table.versions import resolve


class Evolving:
    """What `Table` offers to change its schema.

    Every call is one commit that touches no file: old files are read by field id. A field inside a struct is named by
    its path, `address.city`; the elements of a list are `…element`, those of a map `…key` and `…value`. If another
    commit comes between, the change is worked out again on the newest version, and refused if it is not sound there.
    """

    _context: LakeContext
    _info: TableInfo

    def add_column(
        self,
        name: Name,
        type: Any,
        *,
        nullable: bool = True,
        default: Any = None,
        after: str | None = None,
        message: str | None = None,
    ) -> WriteResult:
        """Adds a column, last or after another one.

        Args:
            name: the new column; a path adds a field to a struct. A name that holds a dot itself: `["a.b"]`.
            type: a pyarrow type, or its name.
            nullable: False needs a default, unless the table has no rows.
            default: what the rows that are there hold, and new rows for which nothing is said; NULL if left out. Only
                plain columns have one.
            after: the column that it comes after.
            message: shown in `history`.

        Example:
            >>> orders.add_column("currency", "string", nullable=False, default="EUR")   # doctest: +SKIP
        """
        change = partial(_add, name=name, type_=type, nullable=nullable, default=default, after=after)
        return self._evolve(change, no_rows(name) if not nullable and default is None else None, message)

    def drop_column(self, name: Name, *, message: str | None = None) -> WriteResult:
        """Drops a column. Earlier versions still show it; a new column of the same name will be another one."""
        return self._evolve(lambda base: changes.drop_column(base, name), None, message)

    def rename_column(self, old: Name, new: str, *, message: str | None = None) -> WriteResult:
        """Gives a column another name; of a field inside a struct, the last part of its path."""
        return self._evolve(lambda base: changes.rename_column(base, old, new), None, message)

    def widen_column(self, name: Name, type: Any, *, message: str | None = None) -> WriteResult:
        """Makes a column hold more values than before: int32 to int64, float32 to float64, dates to timestamps.

        Example:
            >>> orders.widen_column("amount", pa.decimal128(18, 2))   # doctest: +SKIP
        """
        return self._evolve(lambda base: changes.widen_column(base, name, type), None, message)

    def reorder_columns(
        self, names: Sequence[str], *, inside: Name | None = None, message: str | None = None
    ) -> WriteResult:
        """Puts these columns first, in this order; the others follow in theirs. `inside` names a struct."""
        return self._evolve(lambda base: changes.reorder_columns(base, names, inside=inside), None, message)

    def set_nullable(self, name: Name, nullable: bool, *, message: str | None = None) -> WriteResult:
        """Allows NULLs in a column, or forbids them, if no row of the newest version holds one.

        Raises:
            ConstraintError: there are NULLs; the message shows some of the rows.
        """
        change: Change = lambda base: changes.set_nullable(base, name, nullable)  # noqa: E731
        return self._evolve(change, None if nullable else no_nulls(name), message)

    def set_default(self, name: Name, value: Any, *, message: str | None = None) -> WriteResult:
        """Sets what new rows hold for which nothing is said; None takes the default away.

        Rows that are there keep what they hold.
        """
        return self._evolve(lambda base: changes.set_default(base, name, value), None, message)

    def add_check(self, name: str, predicate: str, *, message: str | None = None) -> WriteResult:
        """Adds a condition that every row has to meet, now and in every later write.

        As in SQL, a row for which the condition is unknown meets it.

        Raises:
            ConstraintError: rows that are there break it; the message shows some of them.

        Example:
            >>> orders.add_check("positive", "amount >= 0")   # doctest: +SKIP
        """
        change: Change = lambda base: constraints.add_check(base.schema, name, predicate)  # noqa: E731
        proof = no_breach(lambda schema: constraints.bound_check(name, predicate, schema))
        return self._evolve(change, proof, message)

    def drop_check(self, name: str, *, message: str | None = None) -> WriteResult:
        """Takes a check away."""
        return self._evolve(lambda base: constraints.drop_check(base.schema, name), None, message)

    def checks(self, version: int | str | None = None) -> dict[str, str]:
        """The checks of the newest or of an earlier version, by name."""
        return constraints.checks_of(self._schema_with_ids(version))

    def schema_diff(self, before: int | str, after: int | str | None = None) -> SchemaDiff:
        """What changed in the schema from one version to another, the newest if left out.

        Example:
            >>> print(orders.schema_diff(3, 7))   # doctest: +SKIP
            + currency: string
            ~ amount: widened float -> double
        """
        return diff(self._schema_with_ids(before), self._schema_with_ids(after))

    def _schema_with_ids(self, version: int | str | None) -> pa.Schema:
        with self._context.catalog.read() as reader:
            _, schema_id = resolve(reader, self._info, version=version, as_of=None)
            return reader.schema(self._info.table_id, schema_id)

    def _evolve(self, change: Change, proof: Proof | None, message: str | None) -> WriteResult:
        return evolve(self._context, self._info, change, proof=proof, message=message)


def _add(base: changes.Base, *, name: Name, type_: Any, nullable: bool, default: Any, after: str | None) -> pa.Schema:
    return changes.add_column(base, name, type_, nullable=nullable, default=default, after=after)
