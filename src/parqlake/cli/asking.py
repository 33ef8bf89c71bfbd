"""The command that asks in SQL."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from parqlake.cli.commanding import command
from parqlake.cli.parameters import Limit, Transpose, Wide
from parqlake.cli.rows import show_rows
from parqlake.cli.session import Session
from parqlake.cli.versions import is_moment, number_or_tag

PANEL = "Look"


def register(app: typer.Typer) -> None:
    """Adds the command to the app."""
    command(app, "sql", panel=PANEL)(sql)


def sql(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT; - reads it from stdin.")],
    *,
    limit: Limit = None,
    at_version: Annotated[
        str | None,
        typer.Option("--at", metavar="VERSION", help="For all tables: a version, a tag, or a moment."),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", metavar="NAME", help="duckdb or datafusion.")] = "duckdb",
    wide: Wide = False,
    transpose: Transpose = False,
) -> None:
    """Ask in SQL. Tables are namespace.name, or namespace.name@7 for a version; nothing can be written."""
    text = sys.stdin.read() if query == "-" else query
    when: dict[str, Any] = {}
    if at_version is not None:
        is_time = ":" in at_version or is_moment(at_version)
        when = {"as_of": at_version} if is_time else {"version": number_or_tag(at_version)}
    result = session.lake.sql(text, engine=engine, **when)
    show_rows(session.out, result.to_batches(), limit=limit, wide=wide, transposed=transpose)
