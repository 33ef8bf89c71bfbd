"""Transactions: changes to one or several tables that become visible together, or not at all."""

from __future__ import annotations

from types import TracebackType

from parqlake.core.errors import InputError, TableNotFoundError
from parqlake.core.model import Head
from parqlake.core.names import parse_table_name
from parqlake.core.ports import IdempotencyKeyUsed
from parqlake.table.context import LakeContext
from parqlake.table.holding import VersionGuard
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
                self._tables[info.table_id] = Changes(info, head, schema)
                guard = VersionGuard(self._context, info, head.version, head.version, known=True)
                guard.hold_while_alive(self)
        return TransactionTable(self, self._context, self._tables[info.table_id])

    def __repr__(self) -> str:
        state = "replayed" if self.replayed else "finished" if self._finished else "open"
        return f"<Transaction, {state}, {len(self._tables)} tables>"

    def _open_unit(self, engine: str) -> Unit:
        """The unit under which files are written; the registry hears of it by the first call."""
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
        """Raises `InputError` if the transaction has ended."""
        if self._finished:
            raise InputError("this transaction has ended; begin another with lake.transaction()")
