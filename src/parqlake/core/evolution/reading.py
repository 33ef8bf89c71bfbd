"""Who can read old files by itself, and where rows have to go through a projection."""

from __future__ import annotations

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.evolution.marks import initial_default, values_in_paths
from parqlake.core.evolution.projection import Projection
from parqlake.core.ports import ReadPlan
from parqlake.core.schema import children


def check_arrow_reads(plan: ReadPlan) -> None:
    """Raises unless a pyarrow dataset reads all files of the plan right by itself.

    It finds columns by name, gives NULL for those that a file lacks, and widens plain types.
    """
    beyond: dict[str, None] = {}
    for stored in plan.file_schemas.values():
        projection = Projection(stored, plan.schema)
        for field in plan.schema:
            if not _arrow_reads(field, projection):
                beyond[field.name] = None
    if beyond:
        names = ", ".join(f'"{name}"' for name in beyond)
        raise InvalidOptionError(
            f"a pyarrow dataset cannot read column {names} of files that were written before the schema changed; use "
            "to_batches() or to_arrow(), which can, or compact() the table, which writes the files anew"
        )


def spark_reads(plan: ReadPlan) -> bool:
    """Whether Spark's own expressions give the same values as the projections of the plan.

    They do for names, order, missing columns and wider numbers; text made of numbers or times is spelt differently.
    What only the folders of imported files say, they do not know.
    """
    return not any(values_in_paths(stored) for stored in plan.file_schemas.values()) and all(
        _plain_changes(projection.source(field.name), field)
        for stored in plan.file_schemas.values()
        for projection in (Projection(stored, plan.schema),)
        for field in plan.schema
    )


def _arrow_reads(field: pa.Field, projection: Projection) -> bool:
    source = projection.source(field.name)
    if source is None:
        return field.nullable and initial_default(field) is None and field.name not in projection.stored.names
    if source.name != field.name:
        return False
    if pa.types.is_nested(field.type):
        return Projection(pa.schema([source]), pa.schema([field])).is_identity
    return source.type == field.type or not pa.types.is_string(field.type)


def _plain_changes(source: pa.Field | None, field: pa.Field) -> bool:
    if source is None:
        return True
    have, want = source.type, field.type
    if pa.types.is_unsigned_integer(have) or pa.types.is_time(have) or have == pa.timestamp("ns"):
        return False
    if pa.types.is_nested(want):
        if pa.types.is_struct(want):
            inner = Projection(pa.schema(list(have)), pa.schema(list(want)))
            return all(_plain_changes(inner.source(child.name), child) for child in want)
        return all(_plain_changes(a, b) for a, b in zip(children(have), children(want), strict=True))
    return bool(have == want) or not pa.types.is_string(want)
