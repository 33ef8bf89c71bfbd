"""Scans as relations and views of a DuckDB connection."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from parqlake.connectors.duckdb_files import duckdb_address
from parqlake.connectors.duckdb_text import NotByDuckDB, scan_text
from parqlake.core.errors import InvalidOptionError, MissingExtraError
from parqlake.core.predicates.sql_text import identifier
from parqlake.table.scan import Scan


def to_duckdb(scan: Scan, con: Any = None, name: str | None = None) -> Any:
    """A relation of the connection over the files that the scan reads; with a name, also a temporary view."""
    check_installed()
    if con is None:
        import duckdb

        con = duckdb.connect()
    elif not is_connection(con):
        raise InvalidOptionError(f"con={con!r} is no DuckDB connection; give one made by duckdb.connect()")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidOptionError(f"name={name!r} is no name for a view; give text, or leave it out")
    text = view_text(scan, con)
    if name is None:
        return con.sql(text)
    con.execute(f"CREATE OR REPLACE TEMPORARY VIEW {identifier(name)} AS {text}")
    return con.sql(f"SELECT * FROM {identifier(name)}")  # noqa: S608  quoted


def view_text(scan: Scan, con: Any, *, filtered: bool = True) -> str:
    """The SELECT that reads the scan on this connection, which learns what it has to know for that.

    Unless `filtered`, rows of the planned files are left for the query to filter. Rows that DuckDB cannot bring to the
    table's schema as the table does (numbers that became text) come as an Arrow stream, opened anew for each query.
    """
    plan = scan.plan if filtered else replace(scan.plan, predicate=None)
    try:
        return scan_text(plan, duckdb_address(con, scan.store, scan.lake_id), nan_ids=scan.nan_ids)
    except NotByDuckDB:
        con.register(stream_name(scan), scan)
        return f"SELECT * FROM {identifier(stream_name(scan))}"  # noqa: S608  quoted


def stream_name(scan: Scan) -> str:
    """Under which name the scan is registered, where it comes as a stream."""
    return f"parqlake_stream_{id(scan)}"


def is_connection(thing: Any) -> bool:
    """Whether it is a connection of DuckDB; loads nothing to find out."""
    return type(thing).__name__ == "DuckDBPyConnection"


def check_installed() -> None:
    """Raises `MissingExtraError` if there is no DuckDB."""
    if find_spec("duckdb") is None:
        raise MissingExtraError("duckdb", "duckdb")
