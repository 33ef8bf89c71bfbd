"""Upkeep of a target after each run: sizes, layout, and what may be deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from parqlake.core.errors import InvalidOptionError
from parqlake.core.merging.memory import memory_bytes
from parqlake.core.retention import parse_age
from parqlake.table.clustering import CLUSTER_BY
from parqlake.table.context import EngineChoice
from parqlake.table.policy import NEVER, PREFIX
from parqlake.table.table import Table
from parqlake.table.vacuuming import vacuum_age

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Maintain:
    """What is done about a table after a run. Made by `maintain`."""

    target_mb: float | None
    cluster_by: tuple[str, ...]
    expire: timedelta | None
    vacuum: timedelta | None


def maintain(
    *,
    compact: str | int | None = None,
    cluster_by: Sequence[str] | str | None = None,
    expire: str | timedelta | None = None,
    vacuum: str | timedelta | None = None,
) -> Maintain:
    """Says how a target is kept in shape after each run: by `Table.maintain`, where that is worth it.

    Args:
        compact: about how large files shall be, `"128MB"` for instance; small ones are put together.
        cluster_by: columns that rows are laid out by, so that reads by any of them skip most files.
        expire: versions that were replaced so long ago are given up: `"30d"`.
        vacuum: files that nobody has needed for so long are deleted: `"7d"`; 15 minutes at least.

    Example:
        >>> maintain(compact="128MB", cluster_by=["customer_id", "day"], vacuum="7d").target_mb
        122.0703125
    """
    if all(option is None for option in (compact, cluster_by, expire, vacuum)):
        raise InvalidOptionError('maintain() does nothing; say for instance maintain(compact="128MB")')
    names = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by or ())
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidOptionError(f"cluster_by={cluster_by!r} must be a list of column names")
    return Maintain(
        target_mb=None if compact is None else memory_bytes(compact) / _MIB,
        cluster_by=names,
        expire=None if expire is None else parse_age(expire, "expire"),
        vacuum=None if vacuum is None else vacuum_age(vacuum, force=False),
    )


def policy_of(asked: Maintain) -> dict[str, str]:
    """What is asked for as properties of the table, which `Table.maintain` and `lake.maintain` go by."""
    rewrites = asked.target_mb is not None or bool(asked.cluster_by)
    policy = {"rewrite": str(rewrites).lower(), "vacuum_older_than": NEVER}
    if asked.target_mb is not None:
        policy["target_mb_per_file"] = str(asked.target_mb)
    if asked.expire is not None:
        policy["expire_older_than"] = f"{int(asked.expire.total_seconds())}s"
    if asked.vacuum is not None:
        policy["vacuum_older_than"] = f"{int(asked.vacuum.total_seconds())}s"
    named = {f"{PREFIX}{name}": value for name, value in policy.items()}
    return {**named, CLUSTER_BY: json.dumps(list(asked.cluster_by))} if asked.cluster_by else named


def carry_out(table: Table, asked: Maintain, *, engine: EngineChoice) -> dict[str, str]:
    """Does what is asked where it is worth it, and returns what was done, in words.

    What is asked becomes the table's own policy. The rows of the run are committed already: what goes wrong here is
    told under `error`, and the next run tries again.
    """
    try:
        wanted, properties = policy_of(asked), table.properties
        if not wanted.items() <= properties.items():
            table.set_properties({**properties, **wanted})
        return {step.name: step.reason for step in table.maintain(engine=engine).done}
    except Exception as error:  # of Spark, of the store, of the catalog: the run itself has succeeded
        return {"error": f"{type(error).__name__}: {error}"}
