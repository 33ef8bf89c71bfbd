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
from parqlake.pipeline.dedupe import Order, deduplicated
from parqlake.pipeline.spark_columns import column, moment
from parqlake.pipeline.steps import Mode, Step
from parqlake.table.transaction import Transaction
from parqlake.table.transaction_table import TransactionTable

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
Keep = Callable[[Any], Any]
"""Persists a frame until the run ends."""


def prepared(frame: Any, step: Step) -> Any:
    """One row for each key where that is asked for, or where the mode needs it."""
    for name in (*step.keys, *(order.column for order in step.dedupe)):
        if name not in frame.columns:
            raise column_not_found(name, frame.columns)
    if step.dedupe:
        return deduplicated(frame, step.keys, step.dedupe)
    if step.mode is Mode.SCD2:
        since = effective_column(step)
        return deduplicated(frame, step.keys, () if since is None else (Order(since, descending=True),))
    return frame


def write_rows(tx: Transaction, frame: Any, step: Step, *, at: datetime, keep: Keep, none: bool) -> dict[str, int]:
    """Writes the rows to the step's target, which is made if it is not there, and returns what changed.

    `none` says that there are no rows, and that nothing is to be done about that.
    """
    if step.mode is Mode.SCD2:
        frame = _dated(frame, step, at)
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
    rows = frame if step.schema_mode is SchemaMode.STRICT else conformed(frame, schema)
    match step.mode:
        case Mode.APPEND:
            table.append(rows)
            return {}
        case Mode.OVERWRITE:
            table.overwrite(rows, step.where)
            return {}
        case Mode.SCD2:
            source = keep(_history(table, rows, step))
            counts = table.merge(source, on=[*step.keys, VALID_FROM], strategy="upsert")
        case _:
            strategy = MergeStrategy.FULL_MERGE if step.mode is Mode.SNAPSHOT else step.strategy
            # Columns that the rows lack keep their values where a row is updated, and are NULL where one is new.
            changed = [name for name in whole if name not in step.keys]
            lacking = set(rows.columns) - set(whole) and strategy.updates and changed
            counts = table.merge(
                rows, on=list(step.keys), strategy=strategy, update_columns=changed if lacking else None
            )
    return {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}


def write_rejected(tx: Transaction, frame: Any, table: str) -> None:
    """Adds rejected rows to a quarantine, which follows the columns that rows come with."""
    place, schema = target_table(tx, table, frame, SchemaMode.PROMOTE)
    place.append(conformed(frame, schema))


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


def effective_column(step: Step) -> str | None:
    """The column that says since when a row of SCD2 holds; None for the time of the run."""
    if step.effective is not None:
        return step.effective
    return None if step.incremental is None or step.incremental.counts else step.incremental.column


def _dated(frame: Any, step: Step, at: datetime) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    taken = [name for name in (VALID_FROM, VALID_TO, IS_CURRENT) if name in frame.columns]
    if taken:
        raise InvalidOptionError(
            f'step "{step.name}": mode="scd2" makes the column "{taken[0]}" itself; rename that of the step'
        )
    since = effective_column(step)
    if since is not None and since not in frame.columns:
        raise column_not_found(since, frame.columns)
    held = moment(at) if since is None else F.coalesce(column(since).cast("timestamp"), moment(at))
    return frame.withColumns({VALID_FROM: held, VALID_TO: F.lit(None).cast("timestamp"), IS_CURRENT: F.lit(True)})


def _history(table: TransactionTable, rows: Any, step: Step) -> Any:
    """New states of keys, and the states that end by them: what is merged by key and beginning.

    A row that says nothing new is left out, and so is one that is older than the state that is known.
    """
    from pyspark.sql import functions as F  # noqa: N812

    current = table.scan(f"{IS_CURRENT} = true").to_spark(rows.sparkSession)
    new, old = rows.alias("new"), current.alias("old")
    same_key = _all(column(key, of="new").eqNullSafe(column(key, of="old")) for key in step.keys)
    told = {*step.keys, VALID_FROM, VALID_TO, IS_CURRENT, effective_column(step)}
    tracked = [name for name in rows.columns if name not in told]
    differs = (
        ~_all(column(name, of="new").eqNullSafe(column(name, of="old")) for name in tracked)
        if tracked
        else F.lit(False)
    )
    met = new.join(old, same_key, "left")
    begins, began = column(VALID_FROM, of="new"), column(VALID_FROM, of="old")
    opened = met.where(began.isNull() | (differs & (begins >= began))).select("new.*")
    ended = met.where(differs & (begins > began)).select(
        *(
            begins.alias(name)
            if name == VALID_TO
            else F.lit(False).alias(name)
            if name == IS_CURRENT
            else column(name, of="old")
            for name in rows.columns
        )
    )
    return opened.unionByName(ended)


def _clustering(step: Step) -> list[str] | None:
    wanted = step.maintain.cluster_by if step.maintain is not None else ()
    return list(wanted) or None


def _all(conditions: Sequence[Any] | Any) -> Any:
    return reduce(lambda one, other: one & other, conditions)
