"""All tables of a lake, made known to an engine that the user has open."""

from __future__ import annotations

from typing import Any

from parqlake.connectors.datafusion_tables import attach_datafusion, is_context
from parqlake.connectors.duckdb_views import is_connection, view_text
from parqlake.core.errors import InvalidOptionError
from parqlake.core.names import TableName
from parqlake.core.predicates.sql_text import identifier
from parqlake.table.context import LakeContext
from parqlake.table.lake_reading import all_scans
from parqlake.table.scan import Scan


def attach(context: LakeContext, target: Any, namespace: str | None) -> list[str]:
    """Makes the tables known to the target, and returns their names."""
    if not is_connection(target) and not is_context(target):
        raise InvalidOptionError(
            f"a lake cannot be attached to a {type(target).__name__}; give a connection of duckdb.connect() or a "
            "datafusion.SessionContext()"
        )
    scans = all_scans(context, namespace)
    if is_connection(target):
        _check_distinct(scans)
        _attach_duckdb(scans, target)
    else:
        attach_datafusion(scans, target)
    return [str(name) for name in scans]


def _attach_duckdb(scans: dict[TableName, Scan], con: Any) -> None:
    texts = {name: view_text(scan, con) for name, scan in scans.items()}
    for namespace in dict.fromkeys(name.namespace for name in scans):
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(namespace)}")
    for name, text in texts.items():
        con.execute(f"CREATE OR REPLACE VIEW {identifier(name.namespace)}.{identifier(name.name)} AS {text}")
    for scan in scans.values():
        scan.hand_off()


def _check_distinct(scans: dict[TableName, Scan]) -> None:
    """Raises for names that differ only in case: DuckDB takes them for one."""
    seen: dict[str, TableName] = {}
    for name in scans:
        other = seen.setdefault(str(name).casefold(), name)
        if other != name:
            raise InvalidOptionError(
                f"tables {other} and {name} differ only in case, and DuckDB cannot tell them apart; rename one, or use "
                f'lake.table("{name}").scan().to_duckdb(con, name)'
            )
