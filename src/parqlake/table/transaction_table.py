"""A table inside a transaction: what was done to it so far, and the calls that do more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Unpack, overload

import pyarrow as pa

from parqlake.core.conflicts import ReadSet
from parqlake.core.errors import InvalidOptionError
from parqlake.core.evolution.write_modes import schema_mode as evolution_mode
from parqlake.core.merging import MergeCounts
from parqlake.core.model import DataFile, FileEntry, Head, Operation, TableInfo
from parqlake.core.ports import BatchCheck, Engine, WriteSpec
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.core.schema import without_ids
from parqlake.core.updating import row_change
from parqlake.table.commit import TableChange
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.deleting import parsed_where
from parqlake.table.merge_builder import MergeBuilder, asked_merge
from parqlake.table.merge_target import View
from parqlake.table.merging import MergeCall, merge_rows, opened
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.planning import Staged
from parqlake.table.removal import Removal, change_rows, change_staged_rows, remove_rows, remove_staged_rows
from parqlake.table.scan import Scan, ScanRequest, check_columns, check_limit
from parqlake.table.sources import matching_only, open_source, schema_of
from parqlake.table.unit import Unit
from parqlake.table.write_schemas import merged_schema


@dataclass(slots=True)
class Changes:
    """What the transaction has done to one table so far."""

    info: TableInfo
    base: Head
    schema: pa.Schema
    operation: Operation | None = None
    add: list[DataFile] = field(default_factory=list)
    remove: list[FileEntry] = field(default_factory=list)
    replace_all: bool = False
    carried_rows: int = 0
    reads: ReadSet = field(default_factory=ReadSet)
    new_schema: pa.Schema | None = None
    """The schema, if the transaction changes it."""
    is_new: bool = False
    """Whether the transaction makes the table."""

    def staged(self) -> Staged:
        """For the transaction's own reads."""
        removed = frozenset(entry.file_id for entry in self.remove)
        return Staged(tuple(self.add), removed, self.replace_all)

    def change(self) -> TableChange:
        """For the commit."""
        return TableChange(
            info=self.info,
            base=self.base,
            operation=self.operation or Operation.APPEND,
            add=tuple(self.add),
            remove=() if self.replace_all else tuple(self.remove),
            replace_all=self.replace_all,
            carried_rows=0 if self.replace_all else self._carried(),
            reads=self.reads,
            schema=self.new_schema,
            writes=self.operation is not None,
            is_new=self.is_new,
        )

    def note(self, removal: Removal, staged: list[DataFile], operation: Operation | None) -> None:
        """Takes down what was removed or changed of the base version, and what became of files staged before."""
        self.remove += removal.remove
        self.add = [*staged, *removal.add]
        self.carried_rows += removal.carried_rows
        self.reads = ReadSet(
            (*self.reads.predicates, *removal.reads.predicates), self.reads.file_ids | removal.reads.file_ids
        )
        self.operation = operation

    def _carried(self) -> int:
        """Rows that were copied; some of the copies may have been changed or removed since, so that it is a bound."""
        before, after = (sum(file.row_count for file in files) for files in (self.remove, self.add))
        return min(self.carried_rows, before, after)


class OpenTransaction(Protocol):
    """What a table needs of the transaction that it is in."""

    replayed: bool

    def _check_open(self) -> None:
        """Raises if the transaction has ended."""

    def _open_unit(self, engine: str) -> Unit:
        """The unit under which files are written, registered by the first call."""


class TransactionTable:
    """A table inside a transaction: the same calls, visible to others only after the commit."""

    def __init__(self, transaction: OpenTransaction, context: LakeContext, state: Changes) -> None:
        """Made by `Transaction.table`."""
        self._tx = transaction
        self._context = context
        self._state = state

    def scan(
        self,
        where: Any = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Reads the table with this transaction's own changes; the commit will check that it still holds."""
        self._tx._check_open()
        state = self._state
        predicate = bind(parse(where), state.schema)
        state.reads = state.reads.with_predicate(predicate)
        request = ScanRequest(
            info=state.info,
            version=state.base.version,
            schema=state.schema,
            predicate=predicate,
            columns=check_columns(columns, state.schema),
            limit=check_limit(limit),
            staged=state.staged(),
        )
        return Scan(self._context, request)

    def adopt_columns(self, data: Any, schema_mode: str = "merge") -> pa.Schema:
        """Makes the table's columns hold such data, as `schema_mode` of `Table.append` does, from the commit on.

        It has to be said before rows are written to the table in this transaction, and becomes visible only with a
        write of rows. Returns the schema that the table will have.

        Args:
            data: a `pyarrow.Schema`, or the data.
            schema_mode: `"strict"`, `"merge"` or `"promote"`.

        Raises:
            SchemaMismatchError: the mode does not allow what the data asks for.
        """
        self._tx._check_open()
        state = self._state
        own = self._context.frame_engine(data)
        wanted = schema_of(data) if own is None else own.frame_schema(data)
        with self._context.catalog.read() as reader:
            mode = evolution_mode(schema_mode)
            merged = merged_schema(reader, state.info, state.base, state.schema, data=wanted, mode=mode)
        if merged.is_new and (state.add or state.remove or state.replace_all):
            raise InvalidOptionError(
                f"columns of {state.info.name} cannot change after rows were written in the same transaction; write "
                "the data with the new columns first, or in a transaction of its own"
            )
        if merged.is_new:
            state.schema = state.new_schema = merged.schema
        return without_ids(state.schema)

    def append(self, data: Any, *, engine: EngineChoice = None, **options: Unpack[WriteOptions]) -> None:
        """Adds rows; takes the options of `Table.append` that say how files are written."""
        if self._tx.replayed:
            return
        self._state.add += self._written(data, engine, options)
        self._state.operation = self._state.operation or Operation.APPEND

    def overwrite(
        self, data: Any, where: Any = None, *, engine: EngineChoice = None, **options: Unpack[WriteOptions]
    ) -> None:
        """Replaces all rows, or those that `where` selects."""
        if self._tx.replayed:
            return
        state = self._state
        predicate = bind(parse(where), state.schema)
        checks = () if predicate == TRUE else (matching_only(to_arrow(predicate), describe(predicate)),)
        new = self._written(data, engine, options, checks)
        if predicate == TRUE:
            state.add, state.remove, state.replace_all = [], [], True
        else:
            self._remove(predicate, engine, {**options, "file_visitor": None}, Operation.OVERWRITE)
        state.add += new
        state.operation = Operation.OVERWRITE

    def delete(self, where: Any, *, engine: EngineChoice = None, **options: Unpack[WriteOptions]) -> int:
        """Removes the rows for which `where` is TRUE, and returns how many there were; see `Table.delete`."""
        if self._tx.replayed:
            return 0
        predicate = bind(parsed_where(where, "delete"), self._state.schema)
        return self._remove(predicate, engine, options, Operation.DELETE)

    def update(
        self, where: Any, set: Mapping[str, Any], *, engine: EngineChoice = None, **options: Unpack[WriteOptions]
    ) -> int:
        """Sets columns of the rows for which `where` is TRUE, and returns how many there were; see `Table.update`."""
        if self._tx.replayed:
            return 0
        state = self._state
        change = row_change(set, bind(parsed_where(where, "update"), state.schema), state.schema)
        chosen, unit, spec = self._ready(engine, options)
        with_spec = {"schema": state.schema, "change": change, "spec": spec, "engine": chosen}
        staged, rows = change_staged_rows(self._context, unit, state.info, state.add, **with_spec)
        changed = _nothing_of(change.predicate)
        if not state.replace_all:
            gone = frozenset(entry.file_id for entry in state.remove)
            changed = change_rows(self._context, unit, state.info, head=state.base, without=gone, **with_spec)
        return self._noted(changed, staged, rows, Operation.UPDATE)

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
        **options: Unpack[WriteOptions],
    ) -> MergeCounts: ...

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
        **options: Unpack[WriteOptions],
    ) -> MergeCounts: ...

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
        **options: Unpack[WriteOptions],
    ) -> MergeCounts | MergeBuilder[MergeCounts]:
        """Brings rows of a source together with the table's by key, and returns the counts; see `Table.merge`.

        Where `on` is a condition, clauses follow, and nothing is done before their `run`, inside the transaction.

        Example:
            >>> merge = tx.table("sales.orders").merge(changes, on="t.id = s.id")   # doctest: +SKIP
            >>> merge.when_matched().update().when_not_matched().insert().run()     # doctest: +SKIP
            MergeCounts(inserted=1, updated=2, deleted=0, total=3)
        """
        return asked_merge(
            on=on,
            strategy=strategy,
            dedup_order_by=dedup_order_by,
            update_columns=update_columns,
            where=where,
            memory_limit=memory_limit,
            run=lambda asked: self._merged(source, asked, engine, options),
        )

    def _merged(self, source: Any, asked: MergeCall, engine: EngineChoice, options: WriteOptions) -> MergeCounts:
        if self._tx.replayed:
            return MergeCounts(0, 0, 0, 0)
        self._tx._check_open()
        state = self._state
        rows = opened(source, asked, state.schema, self._context.engine(engine, source))
        try:
            chosen, unit, spec = self._ready(engine, options, source)
            gone = frozenset(entry.file_id for entry in state.remove)
            view = View(state.info, state.base, state.schema, tuple(state.add), gone, state.replace_all)
            made = merge_rows(self._context, unit, view, rows, asked, engine=chosen, spec=spec, stacklevel=5)
        finally:
            rows.close()
        counts = made.counts
        changed = Removal(made.remove, made.add, made.reads, counts.updated + counts.deleted, made.carried_rows)
        self._noted(changed, list(made.staged), counts.inserted, Operation.MERGE)
        total = counts.total - sum(entry.row_count for entry in state.remove if entry.file_id in gone)
        return replace(counts, total=total)

    def _ready(self, engine: EngineChoice, options: WriteOptions, data: Any = None) -> tuple[Engine, Unit, WriteSpec]:
        state = self._state
        chosen = self._context.engine(engine, data)
        chosen.check_schema(state.schema)
        write_spec(state.info, state.schema, options)
        unit = self._tx._open_unit(chosen.name)
        return chosen, unit, write_spec(state.info, state.schema, options, txn_id=unit.txn_id)

    def _noted(self, changed: Removal, staged: list[DataFile], rows: int, operation: Operation) -> int:
        """Takes down what was done; what changed no row makes no version of the table, but counts as read."""
        state = self._state
        total = rows + changed.rows
        state.note(changed, staged, operation if total else state.operation)
        return total

    def _written(
        self, data: Any, engine: EngineChoice, options: WriteOptions, checks: Sequence[BatchCheck] = ()
    ) -> list[DataFile]:
        chosen = self._context.engine(engine, data)
        state = self._state
        chosen.check_schema(state.schema)
        source = open_source(data, state.schema, chosen, checks=checks)
        unit = self._tx._open_unit(chosen.name)
        spec = write_spec(state.info, state.schema, options, txn_id=unit.txn_id)
        return unit.write(source, spec, chosen)

    def _remove(self, predicate: Predicate, engine: EngineChoice, options: WriteOptions, operation: Operation) -> int:
        state = self._state
        chosen, unit, spec = self._ready(engine, options)
        arguments = {"schema": state.schema, "predicate": predicate, "spec": spec, "engine": chosen}
        staged, rows = remove_staged_rows(self._context, unit, state.info, state.add, **arguments)
        removal = _nothing_of(predicate)
        if not state.replace_all:
            gone = frozenset(entry.file_id for entry in state.remove)
            removal = remove_rows(self._context, unit, state.info, head=state.base, without=gone, **arguments)
        return self._noted(removal, staged, rows, operation)


def _nothing_of(predicate: Predicate) -> Removal:
    """What is removed of a base version that nothing is left of."""
    return Removal((), (), ReadSet((predicate,)), 0, 0)
