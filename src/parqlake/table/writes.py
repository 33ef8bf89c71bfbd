"""The writing calls of a table, each a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from parqlake.core.errors import ConcurrentSchemaChangeError, InvalidOptionError
from parqlake.core.model import DataFile, Operation, TableInfo, TransactionRecord
from parqlake.core.ports import BatchCheck, CatalogReader, IdempotencyKeyUsed
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.table.commit import TableChange
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.progress import ProgressChoice, check_progress, reporting
from parqlake.table.rebasing import rows_now
from parqlake.table.removal import remove_rows
from parqlake.table.rerunning import ROW_CONFLICTS, commit_rerunning
from parqlake.table.result import WriteResult, result_of
from parqlake.table.sources import matching_only
from parqlake.table.target import Target, newest_target
from parqlake.table.unit import Unit
from parqlake.table.versions import Moment, resolve
from parqlake.table.write_schemas import Fitted, fitted

MAX_KEY_LENGTH = 1000
_R_co = TypeVar("_R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call:
    """What every writing call says about itself."""

    operation: Operation
    engine: EngineChoice
    message: str | None
    idempotency_key: str | None
    progress: ProgressChoice = None
    """Who is told of the work; if None, whoever the options name, or the lake."""


Work = Callable[[Unit], object]
"""Writes files and commits them."""


class Told(Protocol[_R_co]):
    """Says what a committed transaction came to for one table: with no version, if it made none."""

    def __call__(self, reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> _R_co:
        """The result, from the catalog."""


def append(context: LakeContext, info: TableInfo, data: Any, *, call: Call, options: WriteOptions) -> WriteResult:
    """Adds rows as one new version."""

    def prepare(target: Target) -> Work:
        fit = fitted(context, target, data, options)
        source = fit.open()

        def work(unit: Unit) -> None:
            spec = write_spec(target.info, fit.target.schema, options, txn_id=unit.txn_id, evolves=True)
            files = tuple(unit.write(source, spec, target.engine))

            def attempt(now: Target) -> TableChange:
                add = rows_now(context, unit, now, fit, files, options=options)
                return TableChange(now.info, now.head, Operation.APPEND, add=add, schema=fit.new_schema)

            commit_rerunning(context, unit, target, attempt, conflicts=(ConcurrentSchemaChangeError,), kept=files)

        return work

    return run(context, info, prepare, data=data, call=call, options=options)


def overwrite(
    context: LakeContext, info: TableInfo, data: Any, where: Any, *, call: Call, options: WriteOptions
) -> WriteResult:
    """Replaces all rows, or those that `where` selects."""

    def prepare(target: Target) -> Work:
        fit = fitted(context, target, data, options)
        predicate = parse(where)
        source = fit.open(checks=_fitting(predicate, fit.target.schema))

        def work(unit: Unit) -> None:
            spec = write_spec(target.info, fit.target.schema, options, txn_id=unit.txn_id, evolves=True)
            new = tuple(unit.write(source, spec, target.engine))
            _replace(context, unit, fit, predicate, new=new, options=options)

        return work

    return run(context, info, prepare, data=data, call=call, options=options)


def restore(
    context: LakeContext, info: TableInfo, *, version: int | str | None, as_of: Moment | None, call: Call
) -> WriteResult:
    """Makes an earlier version the newest one again; metadata only."""

    def prepare(target: Target) -> Work:
        with context.catalog.read() as reader:
            number, schema_id = resolve(reader, info, version=version, as_of=as_of)
            first = reader.schema(info.table_id, schema_id)
        empty = number == 0
        change = TableChange(
            target.info,
            target.head,
            Operation.RESTORE,
            replace_all=empty,
            restore_version=None if empty else number,
            schema=first if empty and schema_id != target.head.schema_id else None,
            summary={"restored_version": number},
        )
        return lambda unit: unit.commit([change])

    return run(context, info, prepare, call=call, options={})


def run(
    context: LakeContext,
    info: TableInfo,
    prepare: Callable[[Target], Work],
    *,
    data: Any = None,
    call: Call,
    options: WriteOptions,
) -> WriteResult:
    """Runs one writing call as a transaction of its own, and returns the version that it made."""
    return execute(context, info, prepare, data=data, call=call, options=options, told=_write_result)


def execute(
    context: LakeContext,
    info: TableInfo,
    prepare: Callable[[Target], Work],
    *,
    data: Any = None,
    call: Call,
    options: WriteOptions,
    told: Told[_R_co],
) -> _R_co:
    """Runs one writing call as a transaction of its own, and returns what it came to.

    Bad options, data that does not fit and a used idempotency key are found before anything is written: `prepare`
    checks the input and returns the work that writes.
    """
    key = call.idempotency_key
    check_key(key)
    progress = check_progress(options.get("progress") if call.progress is None else call.progress)
    engine = context.engine(call.engine, data)
    with context.catalog.read() as reader:
        target = newest_target(reader, info, engine)
        record = None if key is None else reader.transaction_by_key(key)
        if record is not None:
            return _replayed(reader, info.table_id, record, told)
    engine.check_schema(target.schema)
    write_spec(target.info, target.schema, options, evolves=True)
    work = prepare(target)
    try:
        with reporting(progress, context.progress, operation=call.operation, table=target.info) as report:
            unit = Unit(
                context,
                operation=call.operation,
                engine=engine.name,
                table_ids=[info.table_id],
                message=call.message,
                idempotency_key=key,
                report=report,
            )
            with unit:
                work(unit)
    except IdempotencyKeyUsed as used:
        with context.catalog.read() as reader:
            record = reader.transaction(used.txn_id)
            assert record is not None
            return _replayed(reader, info.table_id, record, told)
    with context.catalog.read() as reader:
        record = reader.transaction(unit.txn_id)
        assert record is not None
        return told(reader, info.table_id, record.versions.get(info.table_id), replayed=False)


def earlier_result(context: LakeContext, table_id: int, key: str | None) -> WriteResult | None:
    """What a call with this idempotency key made before, if there was one."""
    check_key(key)
    if key is None:
        return None
    with context.catalog.read() as reader:
        record = reader.transaction_by_key(key)
        return None if record is None else _replayed(reader, table_id, record, _write_result)


def check_key(key: str | None) -> None:
    """Raises for an idempotency key that cannot be stored."""
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH):
        raise InvalidOptionError(f"idempotency_key={key!r} must be a string of 1 to {MAX_KEY_LENGTH} characters")


def _fitting(predicate: Predicate, schema: pa.Schema) -> tuple[BatchCheck, ...]:
    """Checks that new rows are among those that are replaced."""
    bound = bind(predicate, schema)
    return () if bound == TRUE else (matching_only(to_arrow(bound), describe(bound)),)


def _replace(
    context: LakeContext,
    unit: Unit,
    fit: Fitted,
    predicate: Predicate,
    *,
    new: tuple[DataFile, ...],
    options: WriteOptions,
) -> None:
    target = fit.target

    def attempt(now: Target) -> TableChange:
        schema = now.schema if now.head.schema_id != target.head.schema_id else target.schema
        checks = _fitting(predicate, schema)
        add = rows_now(context, unit, now, fit, new, options=options, checks=checks)
        change = TableChange(now.info, now.head, Operation.OVERWRITE, add=add, schema=fit.new_schema)
        if not checks:
            return replace(change, replace_all=True)
        removal = remove_rows(
            context,
            unit,
            now.info,
            head=now.head,
            schema=schema,
            predicate=bind(predicate, schema),
            spec=write_spec(now.info, schema, options, txn_id=unit.txn_id, evolves=True),
            engine=now.engine,
        )
        return replace(
            change,
            add=(*removal.add, *add),
            remove=removal.remove,
            carried_rows=removal.carried_rows,
            reads=removal.reads,
        )

    conflicts = (*ROW_CONFLICTS, ConcurrentSchemaChangeError)
    commit_rerunning(context, unit, target, attempt, conflicts=conflicts, kept=new)


def _write_result(reader: CatalogReader, table_id: int, version: int | None, *, replayed: bool) -> WriteResult:
    if version is None:
        raise InvalidOptionError("the idempotency_key was used by a call that changed nothing; use a key of its own")
    return result_of(reader, table_id, version, replayed=replayed)


def _replayed(reader: CatalogReader, table_id: int, record: TransactionRecord, told: Told[_R_co]) -> _R_co:
    version = record.versions.get(table_id)
    if version is None and record.versions:
        raise InvalidOptionError(
            f'idempotency_key="{record.idempotency_key}" was used by transaction {record.txn_id} on other tables; '
            "use a key of its own"
        )
    return told(reader, table_id, version, replayed=True)
