"""Arguments and options that several commands take, each described once."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from parqlake.cli.finding import find_lake, here
from parqlake.cli.session import Shared


def tables_like(context: typer.Context, incomplete: str) -> list[str]:
    """The names of tables that begin so, for the shell; none if the lake cannot be reached."""
    try:
        from parqlake.wiring import connect

        given = context.params
        before = context.obj if isinstance(context.obj, Shared) else Shared()
        address = find_lake(
            given.get("lake") or before.lake or (context.parent.params.get("lake") if context.parent else None),
            given.get("catalog") or before.catalog,
            environ=os.environ,
            folder=here(),
        )
        options: dict[str, Any] = dict(address.storage_options)
        with connect(address.root, catalog=address.catalog, storage_options=options or None, create=False) as lake:
            return [name for name in lake.tables() if name.startswith(incomplete)]
    except Exception:  # a shell that completes a word is no place for errors
        return []


TableName = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table, as namespace.name.", autocompletion=tables_like)
]
Where = Annotated[str | None, typer.Option("--where", "-w", metavar="SQL", help="Only rows for which this is true.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="VERSION", help="A version number, a tag, or a moment such as 2026-01-31T12:00:00Z."),
]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", "-c", metavar="NAMES", help="Only these columns, in this order.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", metavar="ROWS", min=0, help="At most so many; 0 for all.")]
Wide = Annotated[bool, typer.Option("--wide", help="On a terminal, all columns in full width.")]
Transpose = Annotated[bool, typer.Option("--transpose", "-x", help="On a terminal, one row below the other.")]
Engine = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="Who does the work: pyarrow, duckdb or spark.")
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="Shown in the log.")]
Key = Annotated[str | None, typer.Option("--key", metavar="TEXT", help="A repeat with the same key changes nothing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="How much to hold in memory, such as 512MB.")
]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="Parquet (a file or a folder), CSV, JSON lines or Arrow; - for stdin.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="parquet, csv, json or arrow, if the file's name does not tell."),
]
SchemaMode = Annotated[
    str | None,
    typer.Option("--schema-mode", metavar="MODE", help="strict, merge (adds columns) or promote (also widens types)."),
]
