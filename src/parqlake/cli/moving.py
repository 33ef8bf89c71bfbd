"""Commands that take tables over and hand them on: import, export."""

from __future__ import annotations

from typing import Annotated

import typer

from parqlake.cli.commanding import command
from parqlake.cli.parameters import At, DryRun, Key, Message, TableName
from parqlake.cli.report import Kind, Listing, columns, record
from parqlake.cli.session import Session, names
from parqlake.cli.versions import pinned

PANEL = "Take over, hand on"


def register(app: typer.Typer) -> None:
    """Adds the commands to the app."""
    command(app, "import", panel=PANEL)(import_files)
    command(app, "export", panel=PANEL)(export)


def import_files(
    session: Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The new table, as namespace.name.")],
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Folders, globs or files below the lake's root.")
    ],
    *,
    partition_by: Annotated[
        list[str] | None,
        typer.Option("--partition-by", metavar="NAMES", help="Which columns of folders to take; all if left out."),
    ] = None,
    dry_run: DryRun = False,
    message: Message = None,
    key: Key = None,
) -> None:
    """Make a table of Parquet files that are there. They stay where and as they are; only footers are read."""
    result = session.lake.import_parquet(
        table, source, partition_by=names(partition_by), dry_run=dry_run, message=message, idempotency_key=key
    )
    facts = record(
        table=result.table,
        version=result.version,
        row_count=result.row_count,
        file_count=result.files,
        size_bytes=result.size_bytes,
        partition_by=result.partition_by,
        schema_count=result.schemas,
        ignored_files=len(result.ignored),
        transaction_id=result.transaction_id or None,
        dry_run=result.dry_run,
    )
    rows = [(field.name, str(field.type), field.nullable) for field in result.schema]
    session.out.report([facts, Listing("columns", columns("column", "type", "nullable", nullable=Kind.FLAG), rows)])


def export(
    session: Session,
    table: TableName,
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="delta or iceberg.")],
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="FOLDER", help="A folder below the lake's root; the table's own if left out."),
    ] = None,
    at_version: At = None,
    no_tag: Annotated[
        bool, typer.Option("--no-tag", help="Do not tag the version, so that vacuum may delete its files some day.")
    ] = False,
) -> None:
    """Describe a version as a Delta or Iceberg table over the same files, for other engines; nothing is copied."""
    t = session.table(table)
    result = t.export(format_, to, version=pinned(t, at_version), tag=not no_tag)
    session.out.report(
        [
            record(
                table=table,
                format=result.format,
                url=result.url,
                metadata=result.metadata,
                version=result.version,
                export_version=result.export_version,
                file_count=result.files,
                row_count=result.row_count,
                changed=result.changed,
                tag=result.tag,
            )
        ]
    )
