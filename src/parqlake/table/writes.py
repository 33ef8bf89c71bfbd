"""The writing calls of a table, each a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parqlake.core.errors import ConcurrentAppendError, ConcurrentRemoveError, InvalidOptionError
from parqlake.core.model import DataFile, Head, Operation, TableInfo
from parqlake.core.ports import CatalogReader, Engine, IdempotencyKeyUsed, WriteSpec
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.to_arrow import to_arrow
from parqlake.core.predicates.tree import TRUE, Predicate
from parqlake.table.commit import TableChange
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.options import WriteOptions, write_spec
from parqlake.table.removal import remove_rows
from parqlake.table.result import WriteResult, result_of
from parqlake.table.sources import matching_only, open_source
from parqlake.table.unit import Unit
from parqlake.table.versions import Moment, live_head, resolve

MAX_RERUNS = 20
"""How often an operation that met another commit on the same rows is worked out again."""

MAX_KEY_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Call:
    """What every writing call says about itself."""

    operation: Operation
    engine: EngineChoice
    message: str | None
    idempotency_key: str | None


Work = Callable[[Unit], object]
"""Writes files and commits them."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table as it was when the call began."""

    info: TableInfo
    head: Head
    schema: pa.Schema
    engine: Engine


def append(context: LakeContext, info: TableInfo, data: Any, *, call: Call, options: WriteOptions) -> WriteResult:
    """Adds rows as one new version."""

    def prepare(target: Target) -> Work:
        source = open_source(data, target.schema, target.engine)

        def work(unit: Unit) -> None:
            spec = write_spec(target.info, target.schema, options, txn_id=unit.txn_id)
            files = unit.write(source, spec, target.engine)
            unit.commit([TableChange(target.info, target.head, Operation.APPEND, add=tuple(files))])

        return work

    return run(context, info, prepare, data=data, call=call, options=options)


def overwrite(
    context: LakeContext, info: TableInfo, data: Any, where: Any, *, call: Call, options: WriteOptions
) -> WriteResult:
    """Replaces all rows, or those that `where` selects."""

    def prepare(target: Target) -> Work:
        predicate = bind(parse(where), target.schema)
        checks = () if predicate == TRUE else (matching_only(to_arrow(predicate), describe(predicate)),)
        source = open_source(data, target.schema, target.engine, checks=checks)

        def work(unit: Unit) -> None:
            spec = write_spec(target.info, target.schema, options, txn_id=unit.txn_id)
            new = tuple(unit.write(source, spec, target.engine))
            if predicate == TRUE:
                unit.commit([TableChange(target.info, target.head, Operation.OVERWRITE, add=new, replace_all=True)])
            else:
                _replace(context, unit, target, predicate, new=new, spec=spec)

        return work

    return run(context, info, prepare, data=data, call=call, options=options)


def restore(
    context: LakeContext, info: TableInfo, *, version: int | str | None, as_of: Moment | None, call: Call
) -> WriteResult:
    """Makes an earlier version the newest one again; metadata only."""

    def prepare(target: Target) -> Work:
        with context.catalog.read() as reader:
            number, _ = resolve(reader, info, version=version, as_of=as_of)
        empty = number == 0
        change = TableChange(
            target.info,
            target.head,
            Operation.RESTORE,
            replace_all=empty,
            restore_version=None if empty else number,
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
    """Runs one writing call as a transaction of its own, and returns what it made.

    Bad options, data that does not fit and a used idempotency key are found before anything is written: `prepare`
    checks the input and returns the work that writes.
    """
    key = call.idempotency_key
    check_key(key)
    engine = context.engine(call.engine, data)
    with context.catalog.read() as reader:
        head = live_head(reader, info)
        current = reader.table_by_id(info.table_id) or info
        schema = reader.schema(info.table_id, head.schema_id)
        if key is not None and (earlier := _replayed(reader, info.table_id, key)) is not None:
            return earlier
    engine.check_schema(schema)
    write_spec(current, schema, options)
    work = prepare(Target(current, head, schema, engine))
    unit = Unit(
        context,
        operation=call.operation,
        engine=engine.name,
        table_ids=[info.table_id],
        message=call.message,
        idempotency_key=key,
    )
    try:
        with unit:
            work(unit)
    except IdempotencyKeyUsed:
        assert key is not None
        with context.catalog.read() as reader:
            found = _replayed(reader, info.table_id, key)
        assert found is not None
        return found
    with context.catalog.read() as reader:
        record = reader.transaction(unit.txn_id)
        assert record is not None
        return result_of(reader, info.table_id, record.versions[info.table_id])


def earlier_result(context: LakeContext, table_id: int, key: str | None) -> WriteResult | None:
    """What a call with this idempotency key made before, if there was one."""
    check_key(key)
    if key is None:
        return None
    with context.catalog.read() as reader:
        return _replayed(reader, table_id, key)


def check_key(key: str | None) -> None:
    """Raises for an idempotency key that cannot be stored."""
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_LENGTH):
        raise InvalidOptionError(f"idempotency_key={key!r} must be a string of 1 to {MAX_KEY_LENGTH} characters")


def _replace(
    context: LakeContext,
    unit: Unit,
    target: Target,
    predicate: Predicate,
    *,
    new: tuple[DataFile, ...],
    spec: WriteSpec,
) -> None:
    head = target.head
    for attempt in range(1, MAX_RERUNS + 1):
        removal = remove_rows(
            context,
            unit,
            target.info,
            head=head,
            schema=target.schema,
            predicate=predicate,
            spec=spec,
            engine=target.engine,
        )
        change = TableChange(
            target.info,
            head,
            Operation.OVERWRITE,
            add=(*removal.add, *new),
            remove=removal.remove,
            carried_rows=removal.carried_rows,
            reads=removal.reads,
        )
        try:
            unit.commit([change])
            return
        except (ConcurrentAppendError, ConcurrentRemoveError):
            if attempt == MAX_RERUNS:
                raise
            unit.discard(target.info.location, removal.add)
        with context.catalog.read() as reader:
            head = live_head(reader, target.info)


def _replayed(reader: CatalogReader, table_id: int, key: str) -> WriteResult | None:
    record = reader.transaction_by_key(key)
    if record is None:
        return None
    version = record.versions.get(table_id)
    if version is None:
        raise InvalidOptionError(
            f'idempotency_key="{key}" was used by transaction {record.txn_id} on other tables; use a key of its own'
        )
    return result_of(reader, table_id, version, replayed=True)
