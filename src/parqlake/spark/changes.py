"""Changes between two versions as a Spark data frame: both sides read by Spark, compared by one grouping.

Each row of the old side counts -1 and each of the new one +1: what sums up to 0 is the same on both. Spark takes NULLs
as equal when it groups, and NaNs too.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from parqlake.core.changes import CHANGE, DELETE, INSERT, UPDATE, UPDATE_BEFORE, VERSION, ChangePlan
from parqlake.core.ports import Store
from parqlake.spark.columns import quoted
from parqlake.spark.grouping import group_key, is_changed_by_grouping
from parqlake.spark.reading import spark_schema, to_spark

# Columns of our own beside the table's, until the answer is put together.
_SIDE, _AT, _NUMBER, _ROW = "__side", "__at", "__number", "__row"
_OLD, _NEW, _TOLD = "__old", "__new", "__told"


def to_spark_changes(plan: ChangePlan, store: Store, spark: Any) -> Any:
    """A Spark data frame of what the plan asks for."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark users know it by this name)

    frames = []
    for step in plan.steps:
        for side, rows in ((-1, step.before), (1, step.after)):
            if rows.files:
                marks = [F.lit(side).alias(_SIDE), F.lit(step.version).cast("long").alias(_AT)]
                frames.append(to_spark(rows, store, spark).select("*", *marks))
    if not frames:
        return spark.createDataFrame([], spark_schema(plan.result))
    found = reduce(lambda one, other: one.union(other), frames)
    asked = [quoted((name,)) for name in plan.names]
    if not all(step.is_one_sided for step in plan.steps):
        found = _differing(plan, found)
        if plan.keys:
            told = _paired(plan, found).select(F.explode(_TOLD).alias(_TOLD)).select(f"{_TOLD}.*")
            values = [F.col(_ROW).getField(name).alias(name) for name in plan.names]
            return told.select(*values, F.col(CHANGE), F.col(_AT).alias(VERSION))
    word = F.when(F.col(_SIDE) > 0, INSERT).otherwise(DELETE)
    return found.select(*asked, word.alias(CHANGE), F.col(_AT).alias(VERSION))


def _differing(plan: ChangePlan, found: Any) -> Any:
    """The rows that one side has more often than the other, as often as that."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {name: found.schema[name].dataType for name in plan.schema.names}
    keys = {name: f"__group{number}" for number, name in enumerate(types)}
    taken = {name for name, type_ in types.items() if is_changed_by_grouping(type_)}
    columns = {name: F.col(quoted((name,))) for name in types}
    by = [group_key(columns[name], type_).alias(keys[name]) for name, type_ in types.items()]
    rows = [F.first(columns[name]).alias(name) for name in types if name in taken]
    counted = found.groupBy(*by, _AT).agg(F.sum(_SIDE).alias(_SIDE), *rows).where(F.col(_SIDE) != 0)
    every = F.explode(F.sequence(F.lit(1).cast("long"), F.abs(_SIDE)))
    told = [columns[name] if name in taken else F.col(keys[name]).alias(name) for name in types]
    return counted.select(*told, _AT, _SIDE, every.alias(_NUMBER))


def _paired(plan: ChangePlan, found: Any) -> Any:
    """One row for each old row, new row or pair of both, with the list of what is told of it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    keys = [group_key(F.col(quoted((name,))), found.schema[name].dataType) for name in plan.keys]
    side = F.signum(_SIDE)
    alike = Window.partitionBy(_AT, *keys, side).orderBy(F.lit(1))
    row = F.struct(*(quoted((name,)) for name in plan.names))
    own = [f"__key{number}" for number in range(len(keys))]
    numbered = found.select(
        _AT,
        *(key.alias(name) for key, name in zip(keys, own, strict=True)),
        F.row_number().over(alike).alias(_NUMBER),
        F.when(side < 0, row).alias(_OLD),
        F.when(side > 0, row).alias(_NEW),
    )
    pairs = numbered.groupBy(_AT, *own, _NUMBER).agg(
        F.first(_OLD, ignorenulls=True).alias(_OLD), F.first(_NEW, ignorenulls=True).alias(_NEW)
    )

    def told(word: str, column: str) -> Any:
        return F.struct(F.col(column).alias(_ROW), F.lit(word).alias(CHANGE), F.col(_AT).alias(_AT))

    update = [told(UPDATE_BEFORE, _OLD), told(UPDATE, _NEW)] if plan.tells_before else [told(UPDATE, _NEW)]
    words = (
        F.when(F.col(_OLD).isNull(), F.array(told(INSERT, _NEW)))
        .when(F.col(_NEW).isNull(), F.array(told(DELETE, _OLD)))
        .otherwise(F.array(*update))
    )
    return pairs.select(words.alias(_TOLD))
