"""How the rows of a step become rows of its target, inside the run's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError, TableNotFoundError, column_not_found
from parqlake.core.evolution.write_modes import SchemaMode
from parqlake.core.merging import MergeStrategy
from parqlake.engines.spark.types import arrow_schema
from parqlake.pipeline.scd2 import VALID_FROM, dated, history
from parqlake.pipeline.spark_columns import column
from parqlake.pipeline.steps import Mode, Step
from parqlake.table.transaction import Transaction
from parqlake.table.transaction_table import TransactionTable

ABOUT_REJECTED = ("_rules", "_run_id", "_quarantined_at")
"""Columns that a quarantine has besides those of the rows."""
Keep = Callable[[Any], Any]
"""Persists a frame until the run ends."""


def checked_columns(frame: Any, step: Step) -> Any:
    """The frame, if it has the columns that the step's keys and order name."""
    for name in (*step.keys, *(order.column for order in step.dedupe)):
        if name not in frame.columns:
            raise column_not_found(name, frame.columns)
    return frame


def write_rows(tx: Transaction, frame: Any, step: Step, *, at: datetime, keep: Keep, none: bool) -> dict[str, int]:
    """Writes the rows to the step's target, which is made if it is not there, and returns what changed.

    `none` says that there are no rows, and that nothing is to be done about that.
    """
    if step.mode is Mode.SCD2:
        frame = dated(frame, step, at)
    table, schema = target_table(
        tx,
        step.target,
        frame,
        step.schema_mode,
        partition_by=step.partition_by,
        cluster_by=_clustering(step),
        properties=step.properties,
    )
    if none:
        return {}
    whole = list(frame.columns)
    same = step.schema_mode is SchemaMode.STRICT and step.mode is not Mode.SCD2
    rows = frame if same else conformed(frame, schema)
    match step.mode:
        case Mode.APPEND:
            table.append(rows)
            return {}
        case Mode.OVERWRITE:
            table.overwrite(rows, step.where)
            return {}
        case Mode.SCD2:
            source = keep(history(table, rows, step))
            counts = table.merge(source, on=[*step.keys, VALID_FROM], strategy="upsert")
        case _:
            strategy = MergeStrategy.FULL_MERGE if step.mode is Mode.SNAPSHOT else step.strategy
            # Columns that the rows lack keep their values where a row is updated, and are NULL where one is new. Rows
            # that are all key change nothing where there is one.
            changed = [name for name in whole if name not in step.keys]
            lacking = set(rows.columns) - set(whole) and strategy.updates
            counts = table.merge(
                rows, on=list(step.keys), strategy=strategy, update_columns=changed if lacking else None
            )
    return {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}


def write_rejected(tx: Transaction, frame: Any, table: str, *, seen_again: bool, keep: Keep) -> bool:
    """Adds rejected rows to a quarantine, which follows the columns that rows come with; says whether there were any.

    `seen_again` says that rows of earlier runs may be among them, as they are with a cursor: those that are in the
    quarantine already are left out.
    """
    known = _is_there(tx, table)
    try:
        place, schema = target_table(tx, table, frame, SchemaMode.PROMOTE)
    except InvalidOptionError as error:
        if not known:
            raise
        raise InvalidOptionError(
            f"the rows that this step puts into {table} have other columns than those of a step before it in the same "
            "run; give each step a quarantine of its own, or rows of the same columns"
        ) from error
    rows = conformed(frame, schema)
    if seen_again and known:
        rows = keep(_unknown(rows, place, [name for name in frame.columns if name not in ABOUT_REJECTED]))
        if rows.isEmpty():
            return False
    place.append(rows)
    return True


def _is_there(tx: Transaction, name: str) -> bool:
    try:
        tx.table(name)
    except TableNotFoundError:
        return False
    return True


def _unknown(rows: Any, place: TransactionTable, names: Sequence[str]) -> Any:
    """The rows that the table does not hold, as far as these columns say."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    compared = [name for name in names if "map<" not in types[name]]  # which Spark does not compare
    there = place.scan(columns=compared).to_spark(rows.sparkSession).alias("old")
    same = _all(column(name, of="new").eqNullSafe(column(name, of="old")) for name in compared)
    return rows.alias("new").join(there, same, "left_anti")


def target_table(
    tx: Transaction, name: str, frame: Any, mode: SchemaMode, **layout: Any
) -> tuple[TransactionTable, pa.Schema]:
    """The table inside the transaction, made from the frame's columns or, as the mode allows, brought to hold them.

    With it come its columns as the commit will leave them. New tables take NULLs everywhere: what rows have to be like
    is said by expectations.
    """
    try:
        table = tx.table(name)
    except TableNotFoundError:
        columns = pa.schema([field.with_nullable(True) for field in arrow_schema(frame.schema)])
        table = tx.create_table(name, columns, **layout)
    return table, table.adopt_columns(frame, str(mode))


def conformed(frame: Any, schema: pa.Schema) -> Any:
    """The rows with the table's columns, in their order and of their types; missing ones are NULL."""
    from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)
    from pyspark.sql.pandas.types import from_arrow_schema

    given = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for field in from_arrow_schema(schema).fields:
        if field.name not in given:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
        elif given[field.name] == field.dataType:
            columns.append(column(field.name))
        else:
            columns.append(column(field.name).cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _clustering(step: Step) -> list[str] | None:
    wanted = step.maintain.cluster_by if step.maintain is not None else ()
    return list(wanted) or None


def _all(conditions: Sequence[Any] | Any) -> Any:
    return reduce(lambda one, other: one & other, conditions)
