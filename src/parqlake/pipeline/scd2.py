"""Histories (SCD2): the states of a key one after the other, each with the time from which and until which it held."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

from parqlake.core.errors import ConstraintError, InvalidOptionError, column_not_found
from parqlake.pipeline.dedupe import deduplicated
from parqlake.pipeline.spark_columns import column, moment
from parqlake.pipeline.steps import Step
from parqlake.table.transaction_table import TransactionTable

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
_OLD, _BEGAN, _BEFORE, _NEXT = "__parqlake_old", "__parqlake_began", "__parqlake_before", "__parqlake_next"


def effective_column(step: Step) -> str | None:
    """The column that says since when a row holds; None for the time of the run."""
    if step.effective is not None:
        return step.effective
    return None if step.incremental is None or step.incremental.counts else step.incremental.column


def dated(frame: Any, step: Step, at: datetime) -> Any:
    """The rows with the columns of a history, one for each key and beginning.

    Raises:
        ConstraintError: a key has several states that begin at the same time, so that none of them is the last.
    """
    from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

    taken = [name for name in (VALID_FROM, VALID_TO, IS_CURRENT) if name in frame.columns]
    if taken:
        raise InvalidOptionError(
            f'step "{step.name}": mode="scd2" makes the column "{taken[0]}" itself; rename that of the step'
        )
    since = effective_column(step)
    if since is not None and since not in frame.columns:
        raise column_not_found(since, frame.columns)
    held = moment(at) if since is None else F.coalesce(column(since).cast("timestamp"), moment(at))
    rows = frame.withColumns({VALID_FROM: held, VALID_TO: F.lit(None).cast("timestamp"), IS_CURRENT: F.lit(True)})
    if step.dedupe:
        return rows  # one for each key already
    told = [column(field.name) for field in frame.schema.fields if "map<" not in field.dataType.simpleString()]
    keyed = rows.where(reduce(and_, (column(key).isNotNull() for key in step.keys)))
    states = keyed.groupBy(*(column(name) for name in (*step.keys, VALID_FROM))).agg(
        F.countDistinct(F.xxhash64(*told)).alias(_NEXT)
    )
    unclear = states.where(f"{_NEXT} > 1").count()
    if unclear:
        raise ConstraintError(
            f'step "{step.name}": {unclear:,} keys have several states that begin at the same time, and nothing says '
            'which of them is the last; name the column that does, as in effective="updated_at", or take one row for '
            'each key by dedupe="updated_at desc"'
        )
    return deduplicated(rows, (*step.keys, VALID_FROM), ())


def history(table: TransactionTable, rows: Any, step: Step) -> Any:
    """New states of keys, and the states that end by them: what is merged by key and beginning.

    Several new states of a key follow one another. A row that says nothing new is left out, and so is one that is older
    than the state that is known.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    names = rows.columns
    untracked = {*step.keys, VALID_FROM, VALID_TO, IS_CURRENT, effective_column(step)}
    tracked = [column(name) for name in names if name not in untracked]
    state = F.struct(*tracked) if tracked else F.lit(0)
    known = table.scan(f"{IS_CURRENT} = true").to_spark(rows.sparkSession)
    same_key = reduce(and_, (column(key, of="old").eqNullSafe(column(key, of="new")) for key in step.keys))
    met = known.alias("old").join(rows.alias("new"), same_key, "left_semi").select(*(column(name) for name in names))

    of_key = Window.partitionBy(*(column(key) for key in step.keys))
    in_time = of_key.orderBy(column(VALID_FROM), F.col(_OLD).desc())
    both = met.withColumn(_OLD, F.lit(True)).unionByName(rows.withColumn(_OLD, F.lit(False)))
    both = both.withColumn(_BEGAN, F.max(F.when(F.col(_OLD), column(VALID_FROM))).over(of_key))
    both = both.where(F.col(_OLD) | F.col(_BEGAN).isNull() | (column(VALID_FROM) >= F.col(_BEGAN)))
    both = both.withColumn(_BEFORE, F.lag(state).over(in_time))
    changed = both.where(F.col(_OLD) | ~state.eqNullSafe(F.col(_BEFORE)))
    changed = changed.withColumn(_NEXT, F.lead(column(VALID_FROM)).over(in_time))
    # A state that is known is told only if it ends; one that begins anew at the same time takes its place.
    told = changed.where(~F.col(_OLD) | (F.col(_NEXT) > column(VALID_FROM)))
    ends = {VALID_TO: F.col(_NEXT), IS_CURRENT: F.col(_NEXT).isNull()}
    return told.select(*(ends[name].alias(name) if name in ends else column(name) for name in names))
