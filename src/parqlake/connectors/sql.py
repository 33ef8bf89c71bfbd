"""`lake.sql`: read the query, pin the versions of its tables, hand both to an engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parqlake.connectors.sql_pruning import Parameters
from parqlake.connectors.sql_reading import Query, Reference, read_query
from parqlake.connectors.sql_result import SqlResult
from parqlake.core.errors import InvalidOptionError, InvalidQueryError
from parqlake.table.context import LakeContext
from parqlake.table.lake_reading import Pin, pinned_scans
from parqlake.table.versions import Moment

ENGINES = ("duckdb", "datafusion")
Versions = int | str | Mapping[str, int | str] | None


def run_sql(
    context: LakeContext,
    text: str,
    *,
    engine: str,
    parameters: Parameters,
    version: Versions,
    as_of: Moment | None,
) -> SqlResult:
    """Understands the query and plans its tables; see `Lake.sql`."""
    if engine not in ENGINES:
        raise InvalidOptionError(f"engine={engine!r} cannot run queries; use one of {', '.join(ENGINES)}")
    if version is not None and as_of is not None:
        raise InvalidOptionError("give version or as_of, not both")
    query = read_query(text, folds_case=engine == "datafusion")
    _check_parameters(query, parameters)
    scans = pinned_scans(context, _pins(query.references, version, as_of))
    return SqlResult(_running(engine)(query, scans, parameters))


def _running(engine: str) -> Any:
    if engine == "duckdb":
        from parqlake.connectors.sql_duckdb import DuckDBQuery

        return DuckDBQuery
    from parqlake.connectors.sql_datafusion import DataFusionQuery

    return DataFusionQuery


def _pins(references: Sequence[Reference], version: Versions, as_of: Moment | None) -> list[Pin]:
    named = dict(version) if isinstance(version, Mapping) else {}
    unknown = set(named) - {str(reference.table) for reference in references}
    if unknown:
        raise InvalidOptionError(
            f"version names {', '.join(sorted(map(repr, unknown)))}, which the query does not; tables of the query: "
            f"{', '.join(str(reference.table) for reference in references) or 'none'}"
        )
    pins = []
    for reference in references:
        if reference.version is not None:
            pins.append(Pin(reference.table, reference.version))
        elif isinstance(version, Mapping):
            pins.append(Pin(reference.table, named.get(str(reference.table))))
        else:
            pins.append(Pin(reference.table, version, as_of))
    return pins


def _check_parameters(query: Query, parameters: Any) -> None:
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping | None):
        raise InvalidOptionError(
            f"parameters={parameters!r} must be a list for ? and $1, or a mapping for $name, of the values"
        )
    if isinstance(parameters, Mapping):
        given = {str(name) for name in parameters}
    else:
        given = {str(number) for number in range(1, len(parameters or ()) + 1)}
    if given != query.parameters:
        raise InvalidQueryError(
            f"the query has the parameters {_listed(query.parameters)}, and parameters gives {_listed(given)}; give "
            "a list for ? and $1, a mapping for $name, with a value for each"
        )


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names)) or "none"
