"""The calls of a table that change rows: merge, delete, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from parqlake.core.model import Operation, TableInfo
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.options import WriteOptions
from parqlake.table.result import DeleteResult, MergeResult, UpdateResult
from parqlake.table.writes import Call

if TYPE_CHECKING:
    from parqlake.table.merge_builder import MergeBuilder


class Changing:
    """What `Table` offers to change its rows."""

    _context: LakeContext
    _info: TableInfo

    def delete(
        self,
        where: Any,
        *,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> DeleteResult:
        """Removes the rows for which `where` is TRUE, as one new version; rows for which it is unknown stay.

        Files and partitions in which every row goes are not read: the catalog's statistics tell. Of other files the
        rows that stay are copied to new ones, and files without such a row are left as they are. If another commit
        adds or removes matching rows meanwhile, the delete is worked out again on the newest version. Where there is
        nothing to delete, no version is made.

        Args:
            where: a SQL predicate, a `pyarrow.compute` expression, or tuples; `"true"` for all rows.
            engine: who writes the files: `"pyarrow"`, `"duckdb"`, `"spark"`; the lake's engine if left out.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: how new files are made; see `append`.

        Raises:
            InvalidPredicateError: the predicate cannot be read or does not fit the columns.
            ConflictError: others changed the same rows again and again.

        Example:
            >>> orders.delete("day < '2020-01-01'").deleted   # doctest: +SKIP
            1024
        """
        from parqlake.table import deleting

        call = Call(Operation.DELETE, engine, message, idempotency_key)
        return deleting.delete(self._context, self._info, where, call=call, options=options)

    def update(
        self,
        where: Any,
        set: Mapping[str, Any],
        *,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> UpdateResult:
        """Sets columns of the rows for which `where` is TRUE, as one new version.

        Only files that hold such rows are written again. All values are computed from the row as it was, alike on
        every engine. Partition columns may be set: rows move. Where no row is selected, no version is made.

        Args:
            where: a SQL predicate, a `pyarrow.compute` expression, or tuples; `"true"` for all rows.
            set: column names to values. A string is a SQL expression over columns: `"price * 1.1"`, `"'text'"`,
                `"first || ' ' || last"`, `"case when … then … else … end"`, `"coalesce(a, 0)"`, `"null"`. Anything
                else is taken as it is: numbers, dates, None, Arrow scalars, lists and dicts for nested columns.
                Decimals are rounded to the column's scale, as SQL does; any other value that its column cannot hold
                raises an error.
            engine: who writes the files; see `delete`.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: how new files are made; see `append`.

        Raises:
            ColumnNotFoundError: a column does not exist; the message suggests the closest.
            InvalidPredicateError: an expression cannot be read, or cannot be computed for a row.
            TypeMismatchError: a value does not fit its column; the message shows it.
            ConstraintError: NULL for a NOT NULL column, or a row that breaks a check.
            ConflictError: others changed the same rows again and again.

        Example:
            >>> orders.update("region = 'eu'", set={"price": "price * 1.1", "note": None}).updated   # doctest: +SKIP
            17
        """
        from parqlake.table import updating

        call = Call(Operation.UPDATE, engine, message, idempotency_key)
        return updating.update(self._context, self._info, where, set, call=call, options=options)

    # A type cannot tell `"id"` from `"t.id = s.id"`: one string without a strategy may be either.
    @overload
    def merge(
        self,
        source: Any,
        on: str,
        strategy: str,
        *,
        dedup_order_by: Sequence[str] | str | None = None,
        update_columns: Sequence[str] | None = None,
        where: Any = None,
        memory_limit: int | str | None = None,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MergeResult: ...

    @overload
    def merge(
        self,
        source: Any,
        on: str,
        *,
        dedup_order_by: Sequence[str] | str | None = None,
        update_columns: Sequence[str] | None = None,
        where: Any = None,
        memory_limit: int | str | None = None,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> Any: ...

    @overload
    def merge(
        self,
        source: Any,
        on: Sequence[str],
        strategy: str = "upsert",
        *,
        dedup_order_by: Sequence[str] | str | None = None,
        update_columns: Sequence[str] | None = None,
        where: Any = None,
        memory_limit: int | str | None = None,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MergeResult: ...

    def merge(
        self,
        source: Any,
        on: Sequence[str] | str,
        strategy: str = "upsert",
        *,
        dedup_order_by: Sequence[str] | str | None = None,
        update_columns: Sequence[str] | None = None,
        where: Any = None,
        memory_limit: int | str | None = None,
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> MergeResult | MergeBuilder[MergeResult]:
        """Brings rows of a source together with the table's by key, as one new version.

        Only files that hold a match are written again: those that may are found by the catalog's statistics, those
        that do by reading their keys. If another commit changes the same keys meanwhile, the merge is worked out again
        on the newest version, so that the result is that of some serial order and no key comes twice. Where there is
        nothing to change, no version is made.

        Args:
            source: anything that `append` takes; a scan of another table, for instance. A stream that can be read
                once is put aside while it is read.
            on: the key: one column or several, without NULLs on either side. Or a condition, a string with `=` in it
                such as `"t.id = s.id"`: then nothing is done yet, and a `MergeBuilder` is returned that takes clauses,
                as SQL's MERGE has them, and has a `run`. The condition is one or more equalities of a column of the
                table and one of the source, whose names may differ and whose NULLs match nothing, and whatever else
                must be TRUE. The options below that shape strategies are not for it.
            strategy: `"upsert"` updates matches and inserts the rest; `"insert"` only inserts; `"update"` only
                updates; `"full_merge"` also deletes the table's rows that the source does not have; `"deduplicate"` is
                an upsert of a source that may hold keys more than once.
            dedup_order_by: of source rows with the same key the one with the highest values here is taken; else the
                last one, with a warning unless the strategy is `"deduplicate"`.
            update_columns: columns that a match changes; all if left out.
            where: only rows of the table for which this is TRUE are changed or deleted. Others stay as they are, and
                a source row with the key of such a row is not inserted either: no key comes twice.
            memory_limit: how much to hold in memory, in bytes or as text such as `"512MB"`; more goes to local disk.
            engine: who joins and writes: `"pyarrow"`, `"duckdb"`, `"spark"`; the lake's engine if left out, and Spark
                for a Spark frame.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            options: how new files are made; see `append`.

        Raises:
            InvalidOptionError: a strategy or option that makes no sense.
            ColumnNotFoundError: a key column is missing.
            SchemaMismatchError: columns are missing on either side, or have other types; each is named.
            ConstraintError: NULLs in a key column, or rows that break a constraint.
            ConflictError: others changed the same keys again and again.

        Example:
            >>> result = orders.merge(changes, on="id")                            # doctest: +SKIP
            >>> result.inserted, result.updated                                    # doctest: +SKIP
            (3, 17)
            >>> orders.merge(today, on=["id"], strategy="full_merge", where="day = '2026-11-16'")   # doctest: +SKIP
            >>> stream = orders.merge(changes, on="t.id = s.order_id")             # doctest: +SKIP
            >>> stream = stream.when_matched("s.op = 'D'").delete().when_matched().update()         # doctest: +SKIP
            >>> stream.when_not_matched("s.op <> 'D'").insert().run().deleted      # doctest: +SKIP
            2
        """
        from parqlake.table import merging
        from parqlake.table.merge_builder import asked_merge

        call = Call(Operation.MERGE, engine, message, idempotency_key)
        return asked_merge(
            on=on,
            strategy=strategy,
            dedup_order_by=dedup_order_by,
            update_columns=update_columns,
            where=where,
            memory_limit=memory_limit,
            run=lambda asked: merging.merge(self._context, self._info, source, asked, call=call, options=options),
        )
