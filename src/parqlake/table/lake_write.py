"""Writing to a table by its name: the table is made if it is not there, as Spark's writers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parqlake.core.errors import InvalidOptionError, TableExistsError, TableNotFoundError
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.options import WriteOptions
from parqlake.table.result import WriteResult
from parqlake.table.sources import is_spark_frame, to_reader
from parqlake.table.table import Table
from parqlake.table.writes import earlier_result

if TYPE_CHECKING:
    from parqlake.table.lake import Lake

MODES = ("append", "overwrite", "error", "ignore")


def write(
    lake: Lake,
    context: LakeContext,
    data: Any,
    name: str,
    *,
    mode: str,
    layout: Mapping[str, Any],
    engine: EngineChoice,
    message: str | None,
    idempotency_key: str | None,
    options: WriteOptions,
) -> WriteResult | None:
    """See `Lake.write`."""
    if mode not in MODES:
        raise InvalidOptionError(f"mode={mode!r} is unknown; use one of {', '.join(MODES)}")
    try:
        table, is_new = lake.table(name), False
    except TableNotFoundError:
        if not is_spark_frame(data):
            data = to_reader(data)  # opened once, for its schema and its rows
        table, is_new = _create(lake, data, name, layout)
    if not is_new:
        _check_layout(table, layout)
        if mode == "ignore":
            return None
        if mode == "error":
            earlier = earlier_result(context, table.info.table_id, idempotency_key)
            if earlier is None:
                raise TableExistsError(
                    f'table "{name}" is there already; use mode="append", "overwrite" or "ignore", or another name'
                )
            return earlier
    put = table.overwrite if mode == "overwrite" else table.append
    try:
        return put(data, engine=engine, message=message, idempotency_key=idempotency_key, **options)
    except BaseException:
        if is_new and table.version == 0:
            lake.drop_table(name, if_missing="ignore")
        raise


def _create(lake: Lake, data: Any, name: str, layout: Mapping[str, Any]) -> tuple[Table, bool]:
    try:
        return lake.create_table(name, data, **layout), True
    except TableExistsError:  # another writer was faster
        return lake.table(name), False


def _check_layout(table: Table, layout: Mapping[str, Any]) -> None:
    for option in ("partition_by", "sort_by"):
        wanted: Sequence[str] | str | None = layout.get(option)
        if not wanted:
            continue
        names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        there = getattr(table, option)
        if names != there:
            shown = ", ".join(there) or "nothing"
            raise InvalidOptionError(
                f"{option}={list(names)} does not fit: {table.name} is there already, {option} {shown}; leave it out"
            )
