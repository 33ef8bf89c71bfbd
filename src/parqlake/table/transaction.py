"""Transactions: changes to one or several tables that become visible together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Unpack

import pyarrow as pa

from parqlake.core.conflicts import ReadSet
from parqlake.core.errors import InputError, TableNotFoundError
from parqlake.core.merging import MergeCounts
from parqlake.core.model import DataFile, FileEntry, Head, Operation, TableInfo
from parqlake.core.names import parse_table_name
from parqlake.core.ports import BatchCheck, Engine, IdempotencyKeyUsed, WriteSpec
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.core.updating import row_change
from parqlake.table.commit import TableChange
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.deleting import parsed_where
from parqlake.table.holding import VersionGuard
from parqlake.table.merge_target import View
from parqlake.table.merging import merge_call, merge_rows, opened
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.planning import Staged
from parqlake.table.removal import Removal, change_rows, change_staged_rows, remove_rows, remove_staged_rows
from parqlake.table.scan import Scan, ScanRequest, check_columns, check_limit
from parqlake.table.sources import matching_only, open_source
from parqlake.table.unit import Unit


@dataclass(slots=True)
class _Changes:
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

    def staged(self) -> Staged:
        removed = frozenset(entry.file_id for entry in self.remove)
        return Staged(tuple(self.add), removed, self.replace_all)

    def change(self) -> TableChange:
        return TableChange(
            info=self.info,
            base=self.base,
            operation=self.operation or Operation.APPEND,
            add=tuple(self.add),
            remove=() if self.replace_all else tuple(self.remove),
            replace_all=self.replace_all,
            carried_rows=0 if self.replace_all else self._carried(),
            reads=self.reads,
            writes=self.operation is not None,
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


class Transaction:
    """Several changes, all or nothing. Reads inside see its own changes on one moment of the whole lake.

    Leaving the `with` block commits; an exception leaves nothing behind. If another commit changed what this one read
    or replaces, the commit raises a `ConflictError` and changes nothing: run the block again. With an idempotency
    key, a block that was committed before does nothing, and `replayed` is True.

    Example:
        >>> with lake.transaction(message="daily load") as tx:      # doctest: +SKIP
        ...     tx.table("sales.orders").append(orders)
        ...     tx.table("sales.lines").append(lines)
        >>> tx.versions                                             # doctest: +SKIP
        {'sales.orders': 7, 'sales.lines': 12}
    """

    def __init__(self, context: LakeContext, *, message: str | None = None, idempotency_key: str | None = None) -> None:
        """Made by `Lake.transaction`."""
        self._context = context
        self._key = idempotency_key
        self._message = message
        self._unit: Unit | None = None
        self._tables: dict[int, _Changes] = {}
        self._heads: dict[int, Head] = {}
        self._finished = False
        self.replayed = False
        self.versions: dict[str, int] = {}

    def __enter__(self) -> Transaction:
        with self._context.catalog.read() as reader:
            self._heads = reader.heads()
            record = reader.transaction_by_key(self._key) if self._key is not None else None
            if record is not None:
                self._replay(dict(record.versions))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._finished:
            return
        self._finished = True
        if self.replayed:
            return
        unit = self._unit
        if error is not None:
            if unit is not None:
                unit.__exit__(kind, error, tb)
            return
        if unit is None and not any(state.operation for state in self._tables.values()):
            return  # read-only: one moment of the lake was read, there is nothing to commit
        assert unit is not None
        try:
            self._publish(unit)
        except BaseException as failed:
            unit.__exit__(type(failed), failed, None)
            raise
        unit.__exit__(None, None, None)

    def table(self, name: str) -> TransactionTable:
        """The table as this transaction sees it."""
        self._check_open()
        parsed = parse_table_name(name)
        with self._context.catalog.read() as reader:
            info = reader.table(parsed)
            head = None if info is None else self._heads.get(info.table_id)
            if info is None or head is None:
                when = "" if info is None else " when this transaction began"
                raise TableNotFoundError(f'no table "{parsed}"{when}; lake.tables() lists what there is')
            if info.table_id not in self._tables:
                schema = reader.schema(info.table_id, head.schema_id)
                self._tables[info.table_id] = _Changes(info, head, schema)
                guard = VersionGuard(self._context, info, head.version, head.version, known=True)
                guard.hold_while_alive(self)
        return TransactionTable(self, self._context, self._tables[info.table_id])

    def __repr__(self) -> str:
        state = "replayed" if self.replayed else "finished" if self._finished else "open"
        return f"<Transaction, {state}, {len(self._tables)} tables>"

    def _open_unit(self, engine: str) -> Unit:
        self._check_open()
        if self._unit is None:
            unit = Unit(
                self._context,
                operation="transaction",
                engine=engine,
                table_ids=sorted(self._tables),
                message=self._message,
                idempotency_key=self._key,
            )
            self._unit = unit.__enter__()
        return self._unit

    def _publish(self, unit: Unit) -> None:
        try:
            snapshots = unit.commit([state.change() for state in self._tables.values()])
        except IdempotencyKeyUsed as used:
            with self._context.catalog.read() as reader:
                record = reader.transaction(used.txn_id)
                self._replay(dict(record.versions) if record else {})
            return
        self.versions = self._named({table_id: snapshot.version for table_id, snapshot in snapshots.items()})

    def _replay(self, versions: dict[int, int]) -> None:
        self.replayed = True
        self.versions = self._named(versions)

    def _named(self, versions: dict[int, int]) -> dict[str, int]:
        with self._context.catalog.read() as reader:
            found = {table_id: reader.table_by_id(table_id) for table_id in versions}
        return {str(info.name): versions[table_id] for table_id, info in found.items() if info is not None}

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this transaction has ended; begin another with lake.transaction()")


class TransactionTable:
    """A table inside a transaction: the same calls, visible to others only after the commit."""

    def __init__(self, transaction: Transaction, context: LakeContext, state: _Changes) -> None:
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
    ) -> MergeCounts:
        """Brings rows of a source together with the table's by key, and returns the counts; see `Table.merge`."""
        if self._tx.replayed:
            return MergeCounts(0, 0, 0, 0)
        asked = merge_call(
            on=on,
            strategy=strategy,
            dedup_order_by=dedup_order_by,
            update_columns=update_columns,
            where=where,
            memory_limit=memory_limit,
        )
        state = self._state
        rows = opened(source, asked, state.schema, self._context.engine(engine, source))
        try:
            chosen, unit, spec = self._ready(engine, options, source)
            gone = frozenset(entry.file_id for entry in state.remove)
            view = View(state.info, state.base, state.schema, tuple(state.add), gone, state.replace_all)
            made = merge_rows(self._context, unit, view, rows, asked, engine=chosen, spec=spec, stacklevel=2)
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
