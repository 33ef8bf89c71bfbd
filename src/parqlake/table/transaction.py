"""Transactions: changes to one or several tables that become visible together, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from parqlake.core.errors import ConflictError, InputError, TableExistsError, TableNotFoundError
from parqlake.core.model import Head
from parqlake.core.names import TableName, parse_table_name
from parqlake.core.ports import IdempotencyKeyUsed
from parqlake.core.records_port import ABSENT, ANY, Expectation
from parqlake.core.runs import RunRecord
from parqlake.table.context import LakeContext
from parqlake.table.creation import described, first_head
from parqlake.table.holding import VersionGuard
from parqlake.table.records import StagedRecords
from parqlake.table.runs import stage_run
from parqlake.table.transaction_table import Changes, TransactionTable
from parqlake.table.unit import Unit


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
        self._tables: dict[int, Changes] = {}
        self._heads: dict[int, Head] = {}
        self._created: dict[TableName, int] = {}
        self._records = StagedRecords()
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
        if unit is None and not self._created and not len(self._records):
            return  # read-only: one moment of the lake was read, there is nothing to commit
        unit = unit or self._begun(self._context.default_engine.name)
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
        if parsed in self._created:
            return TransactionTable(self, self._context, self._tables[self._created[parsed]])
        with self._context.catalog.read() as reader:
            info = reader.table(parsed)
            head = None if info is None else self._heads.get(info.table_id)
            if info is None or head is None:
                when = "" if info is None else " when this transaction began"
                raise TableNotFoundError(f'no table "{parsed}"{when}; lake.tables() lists what there is')
            if info.table_id not in self._tables:
                schema = reader.schema(info.table_id, head.schema_id)
                self._tables[info.table_id] = Changes(info, head, schema)
                guard = VersionGuard(self._context, info, head.version, head.version, known=True)
                guard.hold_while_alive(self)
        return TransactionTable(self, self._context, self._tables[info.table_id])

    def create_table(self, name: str, schema: Any, **options: Any) -> TransactionTable:
        """Makes a table that becomes visible with the commit, and never if there is none.

        Args:
            name: `namespace.name`.
            schema: a `pyarrow.Schema`, or data to take the schema from.
            options: as for `Lake.create_table`, but for `if_exists`.

        Raises:
            TableExistsError: the name is taken; if another takes it before the commit, that is a `ConflictError`.

        Example:
            >>> with lake.transaction() as tx:                                      # doctest: +SKIP
            ...     tx.create_table("sales.daily", frame).append(frame)
        """
        self._check_open()
        creation = described(self._context, parse_table_name(name), schema, **options)
        if self.replayed:
            return self.table(name)
        with self._context.catalog.write() as writer:
            if creation.name in self._created or writer.table(creation.name) is not None:
                raise TableExistsError(f"table {creation.name} is there already; use tx.table({name!r})")
            info = creation.make_unseen(writer)
        self._created[creation.name] = info.table_id
        self._tables[info.table_id] = Changes(info, first_head(info.table_id), creation.schema, is_new=True)
        return TransactionTable(self, self._context, self._tables[info.table_id])

    def record(self, scope: str, key: str, value: Any, *, expect: Expectation = ANY) -> None:
        """Puts a small value on record, in the same commit as the changes; `Lake.record` reads it.

        A transaction of records alone makes no version. A second value for the same key replaces the first one.

        Args:
            scope: what kind of record it is, for instance `"watermarks/orders"`.
            key: its name within the scope.
            value: what JSON can hold.
            expect: `ANY`; `ABSENT` if the record must not be there yet; or the `revision` of the one that was read.
                If that does not hold at the commit, it raises `RecordConflictError`, and nothing is committed.

        Raises:
            InvalidOptionError: a scope, key or expectation that makes no sense.
            InputError: the value cannot be kept as JSON.

        Example:
            >>> seen = lake.record("watermarks", "orders")                                 # doctest: +SKIP
            >>> with lake.transaction() as tx:                                             # doctest: +SKIP
            ...     tx.table("sales.orders").append(rows)
            ...     tx.record("watermarks", "orders", until.isoformat(), expect=seen.revision if seen else ABSENT)
        """
        self.record_many(scope, {key: value}, expect=expect)

    def record_many(self, scope: str, values: Mapping[str, Any], *, expect: Expectation = ABSENT) -> None:
        """Puts many values on record, by key; that none is there yet is expected, if nothing else is said.

        Example:
            >>> tx.record_many("files/orders", {path: {"size": size} for path, size in taken})   # doctest: +SKIP
        """
        self._check_open()
        if not self.replayed:
            self._records.put(scope, values, expect)

    def record_run(self, run: RunRecord) -> None:
        """Puts the run of a pipeline on record with what it commits; `Lake.runs` and `Table.lineage` tell of it.

        The versions that the commit makes are filled in, and tables that the run does not name are added; so is
        `finished_at`, if it is not set.

        Example:
            >>> tx.record_run(RunRecord(run_id="2026-11-15", pipeline="orders", status=RunStatus.SUCCEEDED,
            ...                         started_at=began, inputs=(RunInput("landing/orders"),)))   # doctest: +SKIP
        """
        self._check_open()
        if not self.replayed:
            stage_run(self._records, run, lambda table_id: str(self._tables[table_id].info.name))

    def __repr__(self) -> str:
        state = "replayed" if self.replayed else "finished" if self._finished else "open"
        return f"<Transaction, {state}, {len(self._tables)} tables>"

    def _open_unit(self, engine: str) -> Unit:
        """The unit under which files are written; the registry hears of it by the first call."""
        self._check_open()
        if self._unit is None:
            self._unit = self._begun(engine)
        return self._unit

    def _begun(self, engine: str) -> Unit:
        unit = Unit(
            self._context,
            operation="transaction",
            engine=engine,
            table_ids=sorted(self._tables),
            message=self._message,
            idempotency_key=self._key,
        )
        return unit.__enter__()

    def _publish(self, unit: Unit) -> None:
        try:
            changes = [state.change() for state in self._tables.values()]
            snapshots = unit.commit(changes, self._records.settled)
        except IdempotencyKeyUsed as used:
            with self._context.catalog.read() as reader:
                record = reader.transaction(used.txn_id)
                self._replay(dict(record.versions) if record else {})
            return
        except ConflictError:
            # Who was in the way may have been this very block, run by somebody else: then all is done.
            with self._context.catalog.read() as reader:
                record = reader.transaction_by_key(self._key) if self._key is not None else None
            if record is None:
                raise
            self._replay(dict(record.versions))
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
        """Raises `InputError` if the transaction has ended."""
        if self._finished:
            raise InputError("this transaction has ended; begin another with lake.transaction()")
